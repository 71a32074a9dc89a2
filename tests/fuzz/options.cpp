#include "base/options.h"

#include "app/nccl_log.h"
#include "schemes/scheme.h"
#include "tests/fuzz/target.h"

namespace tandem::fuzz {

/// What stands behind --scheme, and the log behind --against.
void options(std::string_view bytes) {
  try {
    if (bytes.find('/') == std::string_view::npos) resolve_scheme(bytes, Place{});
  } catch (const InputError&) {
  }
  try {
    read_nccl_log(bytes, "fuzz");
  } catch (const InputError&) {
  }
}

}  // namespace tandem::fuzz
TANDEM_FUZZ_TARGET(options)
