// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/kineto.h"

#include "base/error.h"
#include "calibration/traces/trace_summary.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A trace of the PyTorch profiler: what is accepted can be summed up, and no more runs than there is time.
void kineto(std::string_view bytes) {
  try {
    calibration::looks_like_kineto(bytes);
    const calibration::TraceSummary s = summary_of(read_kineto(calibration::bytes_of(bytes), "fuzz"));
    if (s.steps < 1 || s.busy > s.step_mean * (1 + 1e-6) + 1e-9) __builtin_trap();
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(kineto)
