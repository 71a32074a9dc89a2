// SPDX-License-Identifier: Apache-2.0
#include "topologies/system.h"

#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A system file: whatever is accepted can be routed, drawn and written.
void system(std::string_view bytes) {
  try {
    const System system = System::from_json(Json::parse(bytes, "fuzz"));
    const int64_t last = system.accelerator_count() - 1;
    for (const int64_t to : {last, last / 2}) {
      for (const LinkId link : system.route(system.accelerator(0), system.accelerator(to)).links)
        system.link(link);
    }
    system.dot();
    system.to_json_text();
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(system)
