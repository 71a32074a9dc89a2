// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "calibration/traces/kineto.h"

namespace tandem::calibration {

ByteSource open_bytes(const std::string& path) {
  errno = 0;
  const std::shared_ptr<gzFile_s> file(gzopen(path.c_str(), "rb"), [](gzFile f) {
    if (f != nullptr) gzclose(f);
  });
  if (!file) throw InputError(fmt::format("{}: {}", path, std::strerror(errno == 0 ? ENOMEM : errno)));
  gzbuffer(file.get(), 1 << 18);
  return [file, path](char* to, std::size_t size) {
    const int n = gzread(file.get(), to, static_cast<unsigned>(size));
    int error = Z_OK;
    const char* why = gzerror(file.get(), &error);
    if (n < 0 || (n == 0 && error != Z_OK && error != Z_STREAM_END))
      throw InputError(fmt::format("{}: {}", path, error == Z_ERRNO ? std::strerror(errno) : why));
    return static_cast<std::size_t>(n);
  };
}

std::string beginning_of(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return "";
  std::string out(1 << 16, '\0');
  out.resize(open_bytes(path)(out.data(), out.size()));
  return out;
}

}  // namespace tandem::calibration
