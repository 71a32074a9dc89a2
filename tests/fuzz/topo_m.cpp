// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/imported.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

void topo_m(std::string_view bytes) { imported("topo-m", bytes); }

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(topo_m)
