// SPDX-License-Identifier: Apache-2.0
#pragma once
// A key for texts, the same on every machine.
#include <cstdint>
#include <string_view>

#include "base/rooms.h"

namespace tandem::base {

/// FNV-1a, 64 bits, of one text after another: "ab" and "c" differ from "a" and "bc". For one thread at a
/// time. No protection against texts that are made to collide.
class Hash {
 public:
  void add(std::string_view text) {
    for (const unsigned char c : text) value_ = (value_ ^ c) * 0x100000001b3;
    value_ = (value_ ^ 0xff) * 0x100000001b3;  // a byte that no text holds: keeps parts apart
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace tandem::base
