// SPDX-License-Identifier: Apache-2.0
#include "plan/estimate.h"

namespace tandem::plan {

Estimate read_estimate(const Json& json, double least, double most) {
  if (!json.is_array()) return json.as_real(least, most);
  const auto& bounds = json.items();
  if (bounds.size() != 3) json.fail("needs one number, or three: low, value and high");
  const Estimate out{bounds[0].as_real(least, most), bounds[1].as_real(least, most),
                     bounds[2].as_real(least, most)};
  if (out.low > out.value || out.value > out.high) json.fail("low, value and high must rise");
  return out;
}

}  // namespace tandem::plan
