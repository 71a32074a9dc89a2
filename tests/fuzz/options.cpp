// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include "schemes/setup/scheme.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// What stands behind --scheme.
void options(std::string_view bytes) {
  try {
    if (bytes.find('/') == std::string_view::npos) resolve_scheme(bytes, Place{});
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(options)
