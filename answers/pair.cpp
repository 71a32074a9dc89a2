// SPDX-License-Identifier: Apache-2.0
#include "answers/pair.h"

#include <algorithm>

namespace tandem::answers {

std::vector<ReportPair> matched(const std::vector<Report>& a, const std::vector<Report>& b) {
  std::vector<ReportPair> out;
  for (const Report& x : a) {
    const auto y =
        std::find_if(b.begin(), b.end(), [&](const Report& r) { return r.setup.devices == x.setup.devices; });
    if (y != b.end()) out.push_back({x, *y});
  }
  return out;
}

}  // namespace tandem::answers
