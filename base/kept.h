// SPDX-License-Identifier: Apache-2.0
#pragma once
// What was made of files, kept for as long as they stay as they are.
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/only_names.h"

namespace tandem::base {

/// Which file a path stands for, and when it was last written.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t size = 0;
  int64_t changed[4] = {};  ///< its contents, then its entry: seconds and nanoseconds
  bool operator==(const FileIdentity&) const = default;

  /// Nothing where there is no file, and of one that was written so lately that a further change might leave
  /// its times as they are.
  static std::optional<FileIdentity> of(const std::string& path);
};

/// Values made of files or folders, by path. One whose file was replaced or written is not used. Any thread
/// may call; OnlyNames holds for it as for reading.
template <typename T>
class Kept {
 public:
  /// make(path), or what it returned before. Throws what `make` throws; that is not kept.
  template <typename Make>
  std::shared_ptr<const T> get(const std::string& path, Make make) {
    OnlyNames::check(path);
    const auto identity = FileIdentity::of(path);  // before it is read: a change meanwhile is seen next time
    if (identity) {
      const std::lock_guard lock(lock_);
      const auto at = kept_.find(path);
      if (at != kept_.end() && at->second.first == *identity) return at->second.second;
    }
    auto made = std::make_shared<const T>(make(path));
    if (identity) {
      const std::lock_guard lock(lock_);
      if (kept_.size() >= kMost) kept_.clear();
      kept_[path] = {*identity, made};
    }
    return made;
  }

 private:
  static constexpr std::size_t kMost = 256;
  std::mutex lock_;
  std::map<std::string, std::pair<FileIdentity, std::shared_ptr<const T>>> kept_;
};

}  // namespace tandem::base
