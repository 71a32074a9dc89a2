// SPDX-License-Identifier: Apache-2.0
#include "topologies/devices/device_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/data.h"

namespace tandem::topologies {

namespace {

constexpr double kNormal90 = 1.645;  // half of a 90 % interval in standard deviations

/// The document, read once per process and path.
const Json& power_data() {
  static std::mutex mutex;
  static std::map<std::string, Json> known;
  const std::lock_guard lock(mutex);
  const std::string path = data_root() + "/topologies/power/devices.json";
  const auto found = known.find(path);
  if (found != known.end()) return found->second;
  const Json document = Json::load(path);
  document.only({"summary", "levels", "scale", "base", "demand", "clock", "least_limit", "errors"});
  return known.emplace(path, document).first->second;
}

double figure(const Json& entry, double least, double most) {
  entry.only({"value", "date", "source", "rows"});
  entry.at("source").as_text();
  return entry.at("value").as_real(least, most);
}

/// That of the name, else of "others".
double figure_of(const Json& entries, const std::string& name, double least, double most) {
  const Json* own = entries.find(name);
  return figure(own != nullptr ? *own : entries.at("others"), least, most);
}

double least_limit() { return figure(power_data().at("least_limit"), 0.01, 1); }

/// "175 W", "187.5 W".
std::string watts_text(double watts) { return fmt::format("{:.7g} W", watts); }

}  // namespace

PowerModel::PowerModel(const Device& device) : rated_(device.watts), limit_(device.power_share) {
  const Json& data = power_data();
  const Json& levels = data.at("levels");
  levels.only({"products", "streams", "communicating", "spinning", "standing"});
  products_ = figure(levels.at("products"), 0.01, 1.2);
  streams_ = figure(levels.at("streams"), 0.01, 1.2);
  communicating_ = figure(levels.at("communicating"), 0.01, 1.2);
  spinning_ = figure(levels.at("spinning"), 0.01, 1.2);
  standing_ = figure(levels.at("standing"), 0.01, 1.2);
  scale_ = figure_of(data.at("scale"), device.architecture, 0.1, 1.2);
  base_ = figure_of(data.at("base"), device.name, 0, 0.9);
  const Json& clock = data.at("clock");
  clock.only({"of", "least_voltage", "slope", "held", "date", "source", "rows"});
  clock_of_ = clock.at("of").as_text();
  if (const Json* demand = data.at("demand").find(device.architecture)) {
    demand_ = figure(*demand, 1, 10);
    clock_of_ += ", " + data.at("demand").at("of").as_text();
  }
  least_voltage_ = clock.at("least_voltage").as_real(0.1, 1);
  slope_ = clock.at("slope").as_real(0, 10);
  held_ = clock.at("held").as_real(0.5, 1);
  const Json& errors = data.at("errors");
  errors.only({"watts", "limit"});
  relative_error_ = figure_of(errors.at("watts"), device.architecture, 0, 10);
  limit_error_ = figure(errors.at("limit"), 0, 10);
}

double PowerModel::watts(const Activity& a) const {
  const double most = limit_ < 1 ? held_ * limit_ : 1;
  const double kernels =
      a.kernels() > 0 ? std::min(most, scale_ * (products_ * a.products + streams_ * a.streams) / a.kernels())
                      : 0;
  const double drawn = kernels * a.kernels() + std::min(most, communicating_) * a.communicating +
                       std::min(most, spinning_) * a.spinning + std::min(most, standing_) * a.standing;
  return rated_ * drawn / a.sum();
}

std::pair<double, double> PowerModel::interval(const Activity& activity) const {
  const double drawn = watts(activity), factor = std::exp(kNormal90 * relative_error_);
  return {drawn / factor, std::max(drawn, std::min(rated_ * limit_, drawn * factor))};
}

/// Of a step whose products take 1 at the highest clock and draw so much then.
double PowerModel::clock_at(double limit, double streams, double demand) const {
  const double kernels = (demand + scale_ * streams_ * streams) / (1 + streams), most = held_ * limit;
  const auto drawn = [&](double f) {
    const double voltage = std::max(least_voltage_, 1 - slope_ * (1 - f));
    return base_ + (kernels - base_) * voltage * voltage * (1 + streams) / (1 / f + streams);
  };
  constexpr double kSlowest = 0.05;
  if (drawn(1) <= most) return 1;
  double low = kSlowest, high = 1;  // drawn() rises with the clock
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (drawn(middle) > most ? high : low) = middle;
  }
  return low;
}

double PowerModel::clock(double products, double streams, double reach) const {
  if (limit_ >= 1 || products <= 0) return 1;
  const double level = scale_ * products_;
  // What watts() says is under the limit is not slowed by it.
  if ((level * products + scale_ * streams_ * streams) / (products + streams) <= held_ * limit_) return 1;
  const double demand =
      std::max(level, demand_ > 0 ? base_ + (demand_ - base_) * std::clamp(reach, 0.0, 1.0) : 0);
  // At the rated power products take `at_rated` times as long as the clock is lower then.
  double at_rated = 1;
  for (int round = 0; round < 50 && demand_ > 0; ++round)
    at_rated = clock_at(1, streams / (products * at_rated), demand);
  return clock_at(limit_, streams / (products * at_rated), demand) / at_rated;
}

double PowerModel::speed_error(double speed) const { return limit_error_ * std::abs(std::log(speed)); }

Device with_power_limit(Device device, const Json& watts) {
  const double limit = watts.as_watts();
  if (device.kind != Device::Kind::gpu)
    watts.fail(fmt::format("{} takes no power limit: only those of GPUs were measured", device.name));
  if (!(device.watts > 0))
    watts.fail(fmt::format("{} takes no power limit: its file does not say its \"watts\"", device.name));
  const double least = least_limit() * device.watts;
  if (limit < least || limit > device.watts)
    watts.fail(fmt::format(
        "{} takes a power limit from {} (below that share of the rated power nobody has measured "
        "any device) to {} (its rated power), not {}",
        device.name, watts_text(std::ceil(least * 10) / 10), watts_text(device.watts), watts_text(limit)));
  device.power_share = limit / device.watts;
  return device;
}

std::string limited_name(const Device& device) {
  const double share = device.power_share;
  return share < 1 ? fmt::format("{} at {}", device.name, watts_text(share * device.watts)) : device.name;
}

std::string describe_power_limit(const Device& device, double speed) {
  const PowerModel model(device);
  const double error = std::exp(kNormal90 * model.speed_error(speed));
  return fmt::format(
      "power limit of {} ({:.3g} % of {}) on {}: kernels at {:.1f} % of their speed ({:.1f} to {:.1f} %), by "
      "clocks and voltages of {}",
      watts_text(device.power_share * device.watts), 100 * device.power_share, watts_text(device.watts),
      device.name, 100 * speed, 100 * speed / error, std::min(100.0, 100 * speed * error), model.clock_of());
}

}  // namespace tandem::topologies
