// SPDX-License-Identifier: Apache-2.0
#include "sweep/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tandem::sweep {

namespace {

/// Whether the name still stands for the open file, which another process may have removed meanwhile.
bool is_same(const std::string& name, int descriptor) {
  struct stat named {
  }, open{};
  return stat(name.c_str(), &named) == 0 && fstat(descriptor, &open) == 0 && named.st_ino == open.st_ino &&
         named.st_dev == open.st_dev;
}

}  // namespace

std::optional<WriterLock> WriterLock::take(const std::string& file) {
  const std::string name = file + "-lock";
  while (true) {
    const int descriptor = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
      throw InputError(fmt::format("{}: cannot write: {}", printable(file), std::strerror(errno)));
    const bool locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) {
      close(descriptor);
      return {};
    }
    WriterLock out(name, descriptor, locked);
    if (is_same(name, descriptor)) return out;
    out.name_.clear();
  }
}

WriterLock::WriterLock(WriterLock&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      alone_(other.alone_) {}

WriterLock::~WriterLock() {
  if (descriptor_ < 0) return;
  if (!name_.empty()) unlink(name_.c_str());
  close(descriptor_);
}

}  // namespace tandem::sweep
