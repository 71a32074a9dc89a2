// SPDX-License-Identifier: Apache-2.0
#include "exec/run/meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "exec/comm/sync.h"

namespace tandem::exec {

namespace {

/// Readings of a device that are kept; of more every second goes, and later ones are half as frequent.
constexpr std::size_t kMostReadings = 65536;

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

double seconds_between(int64_t from, int64_t to) { return 1e-9 * static_cast<double>(to - from); }

/// Sums of a device's readings.
struct PowerSums {
  double watts = 0, joules = 0, seconds = 0;
  int64_t told = 0;   ///< readings with watts
  bool grows = true;  ///< the counter

  void between(const TimedReading& a, const TimedReading& b) {
    if (!a.said.joules || !b.said.joules) return;
    grows = grows && *b.said.joules >= *a.said.joules;
    joules += *b.said.joules - *a.said.joules;
    seconds += seconds_between(a.at, b.at);
  }
};

void add_reading(const TimedReading& r, MeteredDevice& d, PowerSums& sums) {
  if (r.said.watts) {
    sums.watts += *r.said.watts;
    d.least = sums.told == 0 ? *r.said.watts : std::min(d.least, *r.said.watts);
    d.most = std::max(d.most, *r.said.watts);
    ++sums.told;
  }
  d.clock_mhz += r.said.clock_mhz;
  d.memory_mhz += r.said.memory_mhz;
  d.celsius = std::max(d.celsius, r.said.celsius);
  d.by_power += r.said.by_power ? 1 : 0;
  d.by_heat += r.said.by_heat ? 1 : 0;
  ++d.readings;
}

}  // namespace

MeteredDevice metered(const std::vector<TimedReading>& readings, const std::vector<TimeSpan>& stretches) {
  MeteredDevice out;
  PowerSums sums;
  for (const auto& [from, to] : stretches) {
    auto r = std::lower_bound(readings.begin(), readings.end(), from,
                              [](const TimedReading& x, int64_t at) { return x.at < at; });
    for (const TimedReading* last = nullptr; r != readings.end() && r->at < to; last = &*r++) {
      add_reading(*r, out, sums);
      if (last != nullptr) sums.between(*last, *r);
    }
  }
  const auto n = static_cast<double>(std::max<int64_t>(1, out.readings));
  sums.watts /= static_cast<double>(std::max<int64_t>(1, sums.told));
  for (double* mean : {&out.clock_mhz, &out.memory_mhz, &out.by_power, &out.by_heat}) *mean /= n;
  out.counter = sums.grows && sums.joules > 0 && sums.seconds > 0;
  out.watts = out.counter ? sums.joules / sums.seconds : sums.watts;
  return out;
}

Meter::Meter(PowerGauges gauges, std::chrono::milliseconds every)
    : gauges_(std::move(gauges)), every_(every), records_(gauges_.devices.size()) {
  if (gauges_.devices.empty()) {
    if (gauges_.missing.empty()) gauges_.missing = "there is no device to be read";
    return;
  }
  try {
    thread_ = std::thread([this] { read_on(); });
  } catch (const std::system_error& why) {
    gauges_.devices.clear();
    gauges_.missing = fmt::format("no thread for the readings: {}", why.what());
  }
}

Meter::~Meter() { stop(); }

void Meter::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    over_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Meter::read_on() {
  std::unique_lock lock(mutex_);
  auto next = std::chrono::steady_clock::now() + every_;
  while (!ends_.wait_until(lock, next, [this] { return over_; })) {
    lock.unlock();
    read_all();
    if (records_[0].readings.size() > kMostReadings) thin();
    next = std::max(next + every_, std::chrono::steady_clock::now());  // slow devices are read less often
    lock.lock();
  }
}

void Meter::read_all() {
  for (std::size_t i = 0; i < records_.size(); ++i) {
    Record& record = records_[i];
    if (record.lost()) continue;
    const int64_t before = now_ns();
    try {
      TimedReading reading{0, gauges_.devices[i]->read()};
      const int64_t after = now_ns();
      reading.at = before + (after - before) / 2;
      if (!reading.said.watts && !record.readings.empty() && reading.said.joules) {
        const TimedReading& last = record.readings.back();
        reading.said.watts =
            (*reading.said.joules - last.said.joules.value_or(0)) / seconds_between(last.at, reading.at);
      }
      ++record.taken;
      record.seconds += seconds_between(before, after);
      record.failed = 0;
      record.readings.push_back(reading);
    } catch (const std::exception& why) {
      ++record.failed;
      record.problem = why.what();
    }
  }
}

void Meter::thin() {
  for (Record& record : records_) {
    std::vector<TimedReading> kept;
    for (std::size_t i = 0; i < record.readings.size(); i += 2) kept.push_back(record.readings[i]);
    record.readings = std::move(kept);
  }
  every_ *= 2;
}

std::string Meter::too_little(const MeteredDevice& device, const Record& record,
                              const std::vector<TimeSpan>& stretches) {
  if (record.lost()) return fmt::format("{} (after {} readings)", record.problem, record.taken);
  double seconds = 0;
  for (const auto& [from, to] : stretches) seconds += seconds_between(from, to);
  if (device.readings < kLeast)
    return fmt::format(
        "{} readings in the {:.3g} s of the steps that count, and {} are needed: more iterations",
        device.readings, seconds, kLeast);
  return "";
}

Metered Meter::over(const std::vector<TimeSpan>& stretches) const {
  Metered out{gauges_.source, {}, gauges_.missing};
  const std::string host = host_name();
  for (std::size_t i = 0; i < gauges_.devices.size() && out.missing.empty(); ++i) {
    const Record& record = records_[i];
    MeteredDevice& device = out.devices.emplace_back(metered(record.readings, stretches));
    device.name = fmt::format("{} {}", host, gauges_.devices[i]->name());
    device.seconds = record.seconds / static_cast<double>(std::max<int64_t>(1, record.taken));
    out.missing = too_little(device, record, stretches);
    if (out.missing.empty() && device.watts <= 0)
      out.missing = fmt::format("{} says that it draws nothing", device.name);
  }
  if (!out.missing.empty()) out.devices.clear();
  return out;
}

}  // namespace tandem::exec
