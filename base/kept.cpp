// SPDX-License-Identifier: Apache-2.0
#include "base/kept.h"

#include <sys/stat.h>

#include <algorithm>

namespace tandem::base {

namespace {

/// Two changes closer to each other than this may have the same times on some file systems.
constexpr int64_t kCoarsest = 2;  // seconds

}  // namespace

std::optional<FileIdentity> FileIdentity::of(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  if (std::time(nullptr) - std::max(info.st_mtim.tv_sec, info.st_ctim.tv_sec) <= kCoarsest) return {};
  return FileIdentity{info.st_dev,
                      info.st_ino,
                      info.st_size,
                      {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec}};
}

}  // namespace tandem::base
