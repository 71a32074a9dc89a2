#include "app/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/table.h"
#include "base/data.h"

namespace tandem {

namespace {

/// Links beyond this are not searched for the bottleneck's name: the line must stay instant.
constexpr std::size_t kMostLinks = 200'000;

std::optional<Report> try_simulate(Prediction p) {
  p.check_memory = false;
  try {
    return simulate(p);
  } catch (const InputError&) {
    return std::nullopt;  // the change is not possible on this machine: nothing to tell
  }
}

std::string gain(double after, double before) { return fmt::format("{:+.0f} %", 100 * (after / before - 1)); }

/// "Twice the pcie links would give +38 %."
std::string twice_the_link(const Question& q, const Report& last) {
  constexpr std::string_view prefix = "link ";
  const std::string& resource = last.bottleneck.resource;
  if (resource.rfind(prefix, 0) != 0 || q.system.link_count() > kMostLinks) return "";
  const std::string name = resource.substr(prefix.size());
  for (LinkId id = 0; id < q.system.link_count(); ++id) {
    const LinkInfo link = q.system.link(id);
    if (link.name != name) continue;
    auto sets = q.sets;
    sets.emplace_back(fmt::format("links.{}.bandwidth", link.kind),
                      fmt::format("{:.0f}B/s", 2 * link.bandwidth.bytes_per_second));
    try {
      const System faster = System::load(q.system_text, sets);
      Prediction p = q.prediction(last.devices);
      p.system = &faster;
      const auto report = try_simulate(p);
      if (!report) return "";
      return fmt::format("Twice the {} bandwidth would give {}. ", link.kind,
                         gain(report->samples_per_second, last.samples_per_second));
    } catch (const InputError&) {
      return "";  // this kind of link is not a key of the file
    }
  }
  return "";
}

/// The fastest other stock system with the same accelerator and enough of them, when it is at least 5 %
/// faster.
std::string other_system(const Question& q, const Report& last) {
  const std::string& device = q.system.device(q.system.accelerator(0)).name;
  std::string best;
  double rate = 1.05 * last.samples_per_second;
  for (const std::string& name : list_data("topologies/systems")) {
    if (name == q.system.name()) continue;
    const std::string path = find_data("topologies/systems", "system", name);
    if (read_file(path).find("\"" + device + "\"") == std::string::npos) continue;  // cheap before a load
    const System system = System::load(path);
    if (system.device(system.accelerator(0)).name != device || system.accelerator_count() < last.devices)
      continue;
    Prediction p = q.prediction(last.devices);
    p.system = &system;
    const auto report = try_simulate(p);
    if (report && report->samples_per_second > rate) {
      rate = report->samples_per_second;
      best = name;
    }
  }
  if (best.empty()) return "";
  return fmt::format("The same {} cards in {}: {} samples/s (x{:.2f}). ", device, best, grouped(rate),
                     rate / last.samples_per_second);
}

std::string smaller_format(const Question& q, const Report& last) {
  const Device& device = q.system.device(q.system.accelerator(0));
  if (q.anchor || q.precision != Precision::fp32) return "";
  for (const Precision to : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    if (device.peak_at(to).flops_per_second <= 1.2 * device.peak_at(Precision::fp32).flops_per_second)
      continue;
    Prediction p = q.prediction(last.devices);
    p.precision = to;
    if (const auto report = try_simulate(p)) {
      return fmt::format("--precision {} would give {}. ", name(to),
                         gain(report->samples_per_second, last.samples_per_second));
    }
  }
  return "";
}

std::string without_input(const Question& q, const Report& last) {
  Prediction p = q.prediction(last.devices);
  p.input = false;
  const auto report = try_simulate(p);
  if (!report) return "";
  return fmt::format("Input that is never late would give {}. ",
                     gain(report->samples_per_second, last.samples_per_second));
}

}  // namespace

std::string closing_line(const Question& q, const std::vector<Report>& reports) {
  const Report& last = reports.back();
  std::string out;
  if (last.bottleneck.resource.rfind("compute", 0) == 0) {
    out += smaller_format(q, last);
  } else if (last.bottleneck.resource == "input") {
    out += without_input(q, last);
  } else {
    out += twice_the_link(q, last);
    if (!q.anchor && q.sets.empty()) out += other_system(q, last);
  }
  if (last.calibrated) {
    out += fmt::format("Anchored at {} samples/s on {} device{}.", grouped(q.anchor->rate), q.anchor->devices,
                       q.anchor->devices == 1 ? "" : "s");
  } else {
    out += "Uncalibrated: from datasheet and stock curves; give --anchor with a measured rate.";
  }
  return out;
}

}  // namespace tandem
