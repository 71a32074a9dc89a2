// SPDX-License-Identifier: Apache-2.0
#include "calibration/logs/link_fit.h"

#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// Output of link benchmarks: what is accepted can be written and set against a system.
void link_tests(std::string_view bytes) {
  try {
    looks_like_link_tests(bytes);
    const LinkTests tests = read_link_tests(bytes, "fuzz");
    link_tests_json(tests);
    static const Json document = System::document("dgx1-v100", {});
    std::vector<std::string> notes;
    fit_links(tests, document, notes);
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(link_tests)
