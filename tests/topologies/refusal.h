// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a system is refused.
#include <string>

#include "topologies/system.h"

namespace tandem::tests {

/// The message; "" where it is not.
inline std::string refusal(const std::string& system, const System::Sets& sets) {
  try {
    System::load(system, sets);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace tandem::tests
