// SPDX-License-Identifier: Apache-2.0
// How much slower devices get under a lower power limit.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/data.h"
#include "plan/power.h"

namespace tandem::plan {

namespace {

struct CurvePoint {
  double limit = 1;
  Estimate speed = 1;
};
using Curve = std::vector<CurvePoint>;  // by rising limit; the last is (1, 1)

Curve read_curve(const Json& json) {
  Curve out;
  for (const Json& point : json.items()) {
    const auto& n = point.items();
    if (n.size() != 4) point.fail("needs four numbers: limit, low, value and high");
    out.push_back(
        {n[0].as_real(0.01, 1), {n[1].as_real(0.001, 1), n[2].as_real(0.001, 1), n[3].as_real(0.001, 1)}});
    if (out.size() > 1 && out[out.size() - 2].limit >= out.back().limit) point.fail("limits must rise");
  }
  out.emplace_back();
  return out;
}

/// Of the device, or all there are.
std::vector<Curve> curves_of(const Device& device) {
  const Json document = Json::load(data_root() + "/plan/power/limits.json");
  document.only({"summary", "curves", "note"});
  std::vector<Curve> all;
  for (const auto& [name, entry] : document.at("curves").members()) {
    entry.only({"devices", "points", "date", "source"});
    entry.at("source").as_text();
    all.push_back(read_curve(entry.at("points")));
    const auto& devices = entry.at("devices").items();
    if (std::any_of(devices.begin(), devices.end(),
                    [&](const Json& d) { return d.as_text() == device.name; }))
      return {all.back()};
  }
  return all;
}

/// Between the two points next to it; requires the curve to reach down to `limit`.
Estimate on_curve(const Curve& curve, double limit) {
  const auto above =
      std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& p) { return p.limit >= limit; });
  if (above == curve.begin() || above->limit == limit) return above->speed;
  const CurvePoint& a = *(above - 1);
  const double t = (limit - a.limit) / (above->limit - a.limit);
  return a.speed * (1 - t) + above->speed * t;
}

double least_of(const std::vector<Curve>& curves) {
  double out = 0;
  for (const Curve& curve : curves) out = std::max(out, curve.front().limit);
  return out;
}

}  // namespace

double least_limit(const Device& device) { return least_of(curves_of(device)); }

Estimate speed_at(const Device& device, double limit) {
  TANDEM_CHECK(limit > 0 && limit <= 1);
  const std::vector<Curve> curves = curves_of(device);
  const double least = least_of(curves);
  if (limit < least)
    throw InputError(fmt::format("nobody has measured {} or its like below {:.1f} % of its power limit",
                                 device.name, 100 * least));
  Estimate out{1, 0, 0};
  for (const Curve& curve : curves) {
    const Estimate speed = on_curve(curve, limit);
    out = {std::min(out.low, speed.low), out.value + speed.value / static_cast<double>(curves.size()),
           std::max(out.high, speed.high)};
  }
  return out;
}

}  // namespace tandem::plan
