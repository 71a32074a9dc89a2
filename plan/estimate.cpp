// SPDX-License-Identifier: Apache-2.0
#include "plan/estimate.h"

#include <cmath>

namespace tandem::plan {

Estimate independent_sum(std::initializer_list<Estimate> terms) {
  double value = 0, below = 0, above = 0;
  for (const Estimate& term : terms) {
    value += term.value;
    below += (term.value - term.low) * (term.value - term.low);
    above += (term.high - term.value) * (term.high - term.value);
  }
  return {value - std::sqrt(below), value, value + std::sqrt(above)};
}

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
