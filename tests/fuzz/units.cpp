// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include "app/console/cli.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

namespace {

template <typename Read>
void attempt(Read read) {
  try {
    read();
  } catch (const InputError&) {
  } catch (const UsageError&) {
  }
}

}  // namespace

/// Every reader of a quantity or number; what is accepted can be written.
void units(std::string_view bytes) {
  attempt([&] { to_text(parse_time(bytes)); });
  attempt([&] { to_text(parse_bytes(bytes)); });
  attempt([&] { to_text(parse_bandwidth(bytes)); });
  attempt([&] { to_text(parse_flop_rate(bytes)); });
  attempt([&] { to_text(parse_flops(bytes)); });
  attempt([&] { parse_integer(bytes, 0, 1000, Place{}); });
  attempt([&] { parse_real(bytes, 0, 1000, Place{}); });
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(units)
