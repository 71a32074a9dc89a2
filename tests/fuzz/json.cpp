// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// Reads a document, then walks it and sets a path in it.
void json(std::string_view bytes) {
  try {
    Json document = Json::parse(bytes, "fuzz");
    if (document.is_object()) {
      for (const auto& [key, value] : document.members()) document.at(key).place().text();
      document.set_path("a.b", "1", Place{}, true);
    }
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(json)
