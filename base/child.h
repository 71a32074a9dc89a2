// SPDX-License-Identifier: Apache-2.0
#pragma once
// Child processes without a shell.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::base {

struct ChildResult {
  int status = 0;  ///< exit code; 128 + signal if killed
  bool timed_out = false;
  std::string out, err;  ///< what it wrote, at most 64 MiB each
};

/// For children that draw: generous, since a busy machine slows them many times.
inline constexpr std::chrono::seconds kMostSeconds{600};

/// Starts argv[0] (found on PATH) with `input` on its stdin, and waits. Kills it after `limit`. Throws
/// DeviceError if the system refuses a process, or the program is not installed; the message says to install
/// `package`.
ChildResult run_child(const std::vector<std::string>& argv, std::string_view input, std::string_view package,
                      std::chrono::seconds limit = kMostSeconds);

}  // namespace tandem::base
