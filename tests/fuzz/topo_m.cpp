#include "tests/fuzz/imported.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

void topo_m(std::string_view bytes) { imported("topo-m", bytes); }

}  // namespace tandem::fuzz
TANDEM_FUZZ_TARGET(topo_m)
