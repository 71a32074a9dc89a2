#include "tests/fuzz/imported.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

void hwloc_xml(std::string_view bytes) { imported("hwloc-xml", bytes); }

}  // namespace tandem::fuzz
TANDEM_FUZZ_TARGET(hwloc_xml)
