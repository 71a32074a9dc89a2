// SPDX-License-Identifier: Apache-2.0
#pragma once
// One writer for a file.
#include <optional>
#include <string>

#include "base/rooms.h"

namespace tandem::sweep {

/// Held until it is destroyed or the process ends, however it ends: a lock on "FILE-lock", which is removed
/// with it. Where the file system knows no locks, everybody gets it. For one thread at a time.
class WriterLock {
 public:
  /// Nothing if another process or thread has it. Throws InputError if the folder cannot be written.
  static std::optional<WriterLock> take(const std::string& file);
  WriterLock(WriterLock&& other) noexcept;
  WriterLock& operator=(WriterLock&&) = delete;
  ~WriterLock();
  /// False where the file system knows no locks: others may have it too.
  bool alone() const { return alone_; }

 private:
  WriterLock(std::string name, int descriptor, bool alone)
      : name_(std::move(name)), descriptor_(descriptor), alone_(alone) {}
  std::string name_;
  int descriptor_;
  bool alone_;
};

}  // namespace tandem::sweep
