#pragma once
// The CUDA plugin's kernels compiled as C++, as a backend: where no GPU is, the conformance suite runs on it.
// Floor 6.
#include "exec/backend.h"

namespace tandem {

const Backend& emulated_backend();

}  // namespace tandem
