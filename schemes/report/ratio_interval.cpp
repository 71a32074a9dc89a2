// SPDX-License-Identifier: Apache-2.0
// How sure the ratio of two rates is.
#include <algorithm>
#include <cmath>

#include "schemes/report/report.h"

namespace tandem::schemes {

namespace {

constexpr double kNormal90 = 1.645;

std::vector<ErrorSource> errors_of(const Report& r) {
  if (!r.rate.errors.empty()) return r.rate.errors;
  if (r.rate.interval.low <= 0) return {};
  return {{std::string(kRunToRun), std::log(r.rate.interval.high / r.rate.interval.low) / (2 * kNormal90)}};
}

}  // namespace

Report::Interval ratio_interval(const Report& a, const Report& b) {
  if (!(a.rate.samples_per_second > 0) || !(b.rate.samples_per_second > 0)) return {};
  std::vector<ErrorSource> left = errors_of(a);
  double below = 0, above = 0;  // squares
  const auto add = [&](double lower, double higher) {
    below += lower * lower;
    above += higher * higher;
  };
  for (const ErrorSource& e : errors_of(b)) {
    const auto same = std::find_if(left.begin(), left.end(), [&](const ErrorSource& other) {
      return e.source == other.source && e.source != kRunToRun;
    });
    if (same == left.end()) {
      add(e.sigma, e.sigma_above());
      continue;
    }
    // Whichever way the source errs, it takes both rates along.
    const double down = e.sigma - same->sigma, up = e.sigma_above() - same->sigma_above();
    add(std::max({0.0, down, -up}), std::max({0.0, -down, up}));
    left.erase(same);
  }
  for (const ErrorSource& e : left) add(e.sigma_above(), e.sigma);
  const double ratio = b.rate.samples_per_second / a.rate.samples_per_second;
  return {ratio * std::exp(-kNormal90 * std::sqrt(below)), ratio * std::exp(kNormal90 * std::sqrt(above)),
          0.9};
}

}  // namespace tandem::schemes
