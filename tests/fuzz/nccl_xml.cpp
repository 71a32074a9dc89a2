#include "tests/fuzz/imported.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

void nccl_xml(std::string_view bytes) { imported("nccl-xml", bytes); }

}  // namespace tandem::fuzz
TANDEM_FUZZ_TARGET(nccl_xml)
