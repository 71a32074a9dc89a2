// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/imported.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

void nccl_xml(std::string_view bytes) { imported("nccl-xml", bytes); }

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(nccl_xml)
