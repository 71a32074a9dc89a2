// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/imported.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

void hwloc_xml(std::string_view bytes) { imported("hwloc-xml", bytes); }

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(hwloc_xml)
