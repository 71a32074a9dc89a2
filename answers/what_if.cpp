// SPDX-License-Identifier: Apache-2.0
#include "answers/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "answers/elasticity.h"
#include "answers/labels.h"
#include "base/data.h"
#include "sim/bound/placement.h"
#include "sim/capacity.h"
#include "topologies/edits.h"

namespace tandem::answers {

namespace {

/// Samples/s.
std::optional<double> try_rate(const Request& p) {
  try {
    if (!memory_on(p, p.devices).fits()) return std::nullopt;
    return throughput(p);
  } catch (const InputError&) {
    return std::nullopt;  // this machine cannot be changed so
  }
}

std::string gain(double after, double before) { return fmt::format("{:+.0f} %", 100 * (after / before - 1)); }

/// "Twice the pcie bandwidth would give +38 %.": of what the report is bound by.
std::string twice(const Question& q, const Report& last) {
  const std::string& bound = last.bottleneck.resource;
  for (const Resource& resource : resources_of(q)) {
    if (resource.path != bound) continue;
    const double rate = rate_with(q, resource, 2, last.setup.devices);
    const double now =
        q.measured ? rate_with(q, resource, 1, last.setup.devices) : last.rate.samples_per_second;
    const std::string words = bound == "latency"                     ? "Half the latency of messages"
                              : bound == "timers"                    ? "Half the least timeout"
                              : bound == "launch"                    ? "Launches in half the time"
                              : bound == "server" && q.offload.any() ? "Host's processors twice as fast"
                              : bound == "server"                    ? "A server's processor twice as fast"
                              : bound == "threads" ? "Twice as many of them, or cores twice as fast,"
                              : bound == "library" ? "A collective library that moves twice as much"
                                                   : "Twice the " + resource_words(last);
    return fmt::format("{} would give {}. ", words, gain(rate, now));
  }
  return "";
}

/// What relieves the threads that feed sockets.
std::string without_sockets(const Question& q, const Report& last) {
  if (last.bottleneck.resource != "threads") return "";
  auto sets = q.sets;
  sets.emplace_back("network.transport.name", "rdma");
  try {
    const System system = q.system.with(sets);
    Request p = request_on(q, system, last.setup.devices);
    const auto rate = try_rate(p);
    if (!rate || *rate < 1.01 * last.rate.samples_per_second) return "";
    return fmt::format("RDMA instead of sockets would give {} (--set network.transport.name=rdma). ",
                       gain(*rate, last.rate.samples_per_second));
  } catch (const InputError&) {
    return "";  // this network knows no such transport
  }
}

/// "v100" of "v100-pcie-16gb": the chip, on whatever board. A family ("rtx-4090") is not a chip.
std::string chip(const Device& device) {
  const std::string first = device.name.substr(0, device.name.find('-'));
  return first.find_first_of("0123456789") == std::string::npos ? device.name : first;
}

/// The fastest other stock system of the same shape with the same chip, when it is at least 5 % faster.
std::string other_system(const Question& q, const Report& last) {
  if (q.system.kinds().size() > 1) return "";  // no one chip
  const std::string wanted = chip(q.system.device(q.system.accelerator(0)));
  std::string best;
  double rate = 1.05 * last.rate.samples_per_second;
  for (const std::string& name : list_data("topologies/systems")) {
    if (name == q.system.name()) continue;
    const std::string path = find_data("topologies/systems", "system", name);
    if (read_file(path).find("\"" + wanted) == std::string::npos) continue;  // cheaper than a load
    const System system = System::load(path);
    if (system.accelerators().size() != q.system.accelerators().size() || system.kinds().size() > 1) continue;
    if (chip(system.device(system.accelerator(0))) != wanted ||
        system.accelerator_count() < last.setup.devices)
      continue;
    Request p = q.request(last.setup.devices);
    p.system = &system;
    p.measured = nullptr;  // on another machine
    const auto other = try_rate(p);
    if (other && *other > rate) {
      rate = *other;
      best = name;
    }
  }
  if (best.empty()) return "";
  return fmt::format("{} would give {} samples/s (x{:.2f}). ", best, grouped(rate),
                     rate / last.rate.samples_per_second);
}

std::string smaller_format(const Question& q, const Report& last) {
  if (q.anchor || q.precision != Precision::fp32) return "";
  const auto sorts = used_devices(q.system, last.setup.devices).sorts;
  for (const Precision to : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    const bool faster = std::all_of(sorts.begin(), sorts.end(), [&](const DeviceSort& sort) {
      const Device& device = q.system.device(sort.first);
      return device.peak_at(to).flops_per_second >
             1.2 * device.product_peak(Precision::fp32).flops_per_second;
    });
    if (!faster) continue;
    Request p = q.request(last.setup.devices);
    p.job.precision = to;
    if (const auto rate = try_rate(p))
      return fmt::format("--precision {} would give {}. ", name(to),
                         gain(*rate, last.rate.samples_per_second));
  }
  return "";
}

std::string without_input(const Question& q, const Report& last) {
  Request p = q.request(last.setup.devices);
  p.job.input = false;
  const auto rate = try_rate(p);
  if (!rate) return "";
  return fmt::format("Input that is never late would give {}. ", gain(*rate, last.rate.samples_per_second));
}

}  // namespace

void note_idle_settings(const Question& q, Report& report) {
  if (!quick_to_vary(q, report)) return;
  for (const auto& setting : q.sets) {
    auto others = q.sets;
    std::erase(others, setting);
    try {
      const System system = q.system.with(others);
      Request p = q.request(report.setup.devices);
      p.system = &system;
      p.measured = nullptr;
      const Report without = simulate(p);
      const bool same = without.rate.samples_per_second == report.rate.samples_per_second &&
                        without.memory.capacity == report.memory.capacity &&
                        without.rate.interval.low == report.rate.interval.low;
      if (same) report.notes.push_back(set_option(setting.first, setting.second) + " changes nothing");
    } catch (const InputError&) {
      // Without it the question has no answer, so it matters.
    }
  }
}

std::string format_hint(const Question& q, const Report& report) {
  const bool asks = report.fits && report.bottleneck.resource == "compute" && quick_to_vary(q, report);
  std::string out = asks ? smaller_format(q, report) : "";
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

std::string closing_line(const Question& q, const std::vector<Report>& reports) {
  const auto fits = std::find_if(reports.rbegin(), reports.rend(), [](const Report& r) { return r.fits; });
  if (fits == reports.rend()) return "";
  const Report& last = *fits;
  std::string out;
  if (!quick_to_vary(q, last)) {
    // Too slow to repeat; only say where the figures come from.
  } else if (last.bottleneck.resource == "compute") {
    out += smaller_format(q, last);
  } else if (last.bottleneck.resource.rfind("host.", 0) == 0) {
    out += without_input(q, last);
  } else {
    out += twice(q, last) + without_sockets(q, last);
    if (!q.anchor && q.sets.empty()) out += other_system(q, last);
  }
  if (last.basis.calibrated && !q.anchor) {
    out += fmt::format("Calibrated by {}.", q.profile);
  } else if (q.anchor && !last.basis.calibrated) {
    out += "Uncalibrated: the anchor cannot be met.";
  } else if (q.anchor) {
    out += fmt::format("Anchored at {} samples/s on {} device{}.", grouped(q.anchor->rate), q.anchor->devices,
                       q.anchor->devices == 1 ? "" : "s");
  } else {
    out += "Uncalibrated: from datasheet and stock curves";
    out += q.then.empty() ? "; give --anchor with a measured rate." : ".";
  }
  return out;
}

}  // namespace tandem::answers
