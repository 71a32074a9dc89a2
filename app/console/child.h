// SPDX-License-Identifier: Apache-2.0
#pragma once
// Child processes without a shell.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::app {

struct ChildResult {
  int status = 0;  ///< exit code; 128 + signal when killed
  bool timed_out = false;
  std::string out, err;  ///< what it wrote, each cut at 64 MiB
};

/// Of a child that draws: a busy machine makes it many times slower.
inline constexpr std::chrono::seconds kMostSeconds{600};

/// Starts argv[0] (found on PATH) with `input` on its stdin and waits. Killed after `limit`.
/// Throws DeviceError when the system refuses a process, InputError when the program is not installed;
/// `package` is what the message tells to install.
ChildResult run_child(const std::vector<std::string>& argv, std::string_view input, std::string_view package,
                      std::chrono::seconds limit = kMostSeconds);

}  // namespace tandem::app
