// SPDX-License-Identifier: Apache-2.0
#include "calibration/traces/chakra.h"

#include "base/error.h"
#include "calibration/traces/trace_summary.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A Chakra trace: what is accepted can be summed up, and no more runs than there is time.
void chakra(std::string_view bytes) {
  try {
    calibration::looks_like_chakra(bytes);
    const calibration::TraceSummary s = summary_of(read_chakra(calibration::bytes_of(bytes), "fuzz"));
    if (s.steps < 1 || s.busy > s.step_mean * (1 + 1e-6) + 1e-9) __builtin_trap();
  } catch (const InputError&) {
  } catch (const DeviceError&) {  // built without protobuf
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(chakra)
