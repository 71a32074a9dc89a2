// SPDX-License-Identifier: Apache-2.0
#include "topologies/devices/power_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/data.h"

namespace tandem::topologies {

namespace {

struct CurvePoint {
  double limit = 1;
  double low = 1, speed = 1, high = 1;
};
struct PowerCurve {
  std::string of;
  std::vector<CurvePoint> points;  ///< by rising limit; the last is (1, 1)
};
/// Those that say something of a device.
struct PowerCurves {
  std::vector<PowerCurve> curves;
  bool own = false;  ///< the only one is the device's own
  double least() const {
    double out = 0;
    for (const PowerCurve& curve : curves) out = std::max(out, curve.points.front().limit);
    return out;
  }
};

PowerCurve read_power_curve(const Json& entry) {
  PowerCurve out;
  out.of = entry.at("of").as_text();
  for (const Json& point : entry.at("points").items()) {
    const auto& n = point.items();
    if (n.size() != 4) point.fail("needs four numbers: limit, low, value and high");
    const CurvePoint p{n[0].as_real(0.01, 1), n[1].as_real(0.001, 1), n[2].as_real(0.001, 1),
                       n[3].as_real(0.001, 1)};
    if (!out.points.empty() && out.points.back().limit >= p.limit) point.fail("limits must rise");
    if (p.low > p.speed || p.speed > p.high) point.fail("low, value and high must rise");
    out.points.push_back(p);
  }
  out.points.emplace_back();
  return out;
}

PowerCurves curves_of(const Device& device) {
  const Json document = Json::load(data_root() + "/topologies/power_limits.json");
  document.only({"summary", "curves", "note"});
  PowerCurves all;
  for (const auto& [name, entry] : document.at("curves").members()) {
    entry.only({"of", "devices", "points", "date", "source"});
    entry.at("source").as_text();
    PowerCurve curve = read_power_curve(entry);
    const auto& devices = entry.at("devices").items();
    if (std::any_of(devices.begin(), devices.end(),
                    [&](const Json& d) { return d.as_text() == device.name; }))
      return {{std::move(curve)}, true};
    all.curves.push_back(std::move(curve));
  }
  return all;
}

/// Between the two points next to it; requires the curve to reach down to `limit`.
CurvePoint on_curve(const PowerCurve& curve, double limit) {
  const auto above = std::find_if(curve.points.begin(), curve.points.end(),
                                  [&](const CurvePoint& p) { return p.limit >= limit; });
  if (above == curve.points.begin() || above->limit == limit) return *above;
  const CurvePoint& below = *(above - 1);
  const double t = (limit - below.limit) / (above->limit - below.limit);
  const auto between = [&](double a, double b) { return a * (1 - t) + b * t; };
  return {limit, between(below.low, above->low), between(below.speed, above->speed),
          between(below.high, above->high)};
}

/// "175 W", "187.5 W".
std::string watts_text(double watts) { return fmt::format("{:.4g} W", watts); }

}  // namespace

double least_power_limit(const Device& device) { return curves_of(device).least(); }

PowerLimit power_limit(const Device& device, double share) {
  TANDEM_CHECK(share > 0 && share <= 1);
  const PowerCurves found = curves_of(device);
  const double least = found.least();
  if (share < least)
    throw InputError(fmt::format("nobody has measured {} or its like below {:.1f} % of its rated power",
                                 device.name, 100 * least));
  PowerLimit out{share, 1, 0, 0, "", found.own};
  std::vector<std::string> names;
  for (const PowerCurve& curve : found.curves) {
    const CurvePoint p = on_curve(curve, share);
    out.low = std::min(out.low, p.low);
    out.speed += p.speed / static_cast<double>(found.curves.size());
    out.high = std::max(out.high, p.high);
    names.push_back(curve.of);
  }
  out.measured_on = fmt::format("{}", fmt::join(names, ", "));
  return out;
}

Device with_power_limit(Device device, const Json& watts) {
  const double limit = watts.as_watts();
  if (device.kind != Device::Kind::gpu)
    watts.fail(fmt::format("{} takes no power limit: only those of GPUs were measured", device.name));
  if (!(device.watts > 0))
    watts.fail(fmt::format("{} takes no power limit: its file does not say its \"watts\"", device.name));
  const double least = least_power_limit(device) * device.watts;
  if (limit < least || limit > device.watts)
    watts.fail(fmt::format(
        "{} takes a power limit from {} (below that, nobody has measured it or its like) to "
        "{} (its rated power), not {}",
        device.name, watts_text(std::ceil(least * 10) / 10), watts_text(device.watts), watts_text(limit)));
  device.limit = power_limit(device, limit / device.watts);
  return device;
}

std::string limited_name(const Device& device) {
  const double share = device.limit.share;
  return share < 1 ? fmt::format("{} at {}", device.name, watts_text(share * device.watts)) : device.name;
}

std::string describe_power_limit(const Device& device) {
  const PowerLimit& l = device.limit;
  return fmt::format(
      "power limit of {} ({:.3g} % of {}) on {}: kernels at {:.1f} % of their speed ({:.1f} to "
      "{:.1f} %), {}{}",
      watts_text(l.share * device.watts), 100 * l.share, watts_text(device.watts), device.name, 100 * l.speed,
      100 * l.low, 100 * l.high,
      l.own ? "as measured on " : "a mean of what was measured on other devices: ", l.measured_on);
}

}  // namespace tandem::topologies
