// SPDX-License-Identifier: Apache-2.0
#include "app/console/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/console/goodput_text.h"
#include "base/error.h"
#include "models/graph.h"

namespace tandem::app {

namespace {

double gib(Bytes b) { return static_cast<double>(b.n) / (1 << 30); }

bool any_staleness(const std::vector<Report>& reports) {
  return std::any_of(reports.begin(), reports.end(),
                     [](const Report& r) { return r.staleness.all.max() > 0; });
}

std::string staleness_text(const Histogram& h) {
  return h.count() == 0 ? "-"
                        : fmt::format("{:.2f} (95 %: {}, most {})", h.mean(), h.quantile(0.95), h.max());
}

}  // namespace

std::string memory_text(const MemoryUse& m) {
  const double total = gib(m.needed()), mib = total * 1024;
  const std::string used = total >= 0.995 ? fmt::format("{:.1f}", total)
                           : mib >= 0.995 ? fmt::format("{:.0f} MiB", mib)
                                          : fmt::format("{:.0f} KiB", mib * 1024);
  return m.capacity.n == 0 ? used + (total < 0.995 ? "" : " GiB")
                           : fmt::format("{} of {:.3g} GiB", used, gib(m.capacity));
}

std::string batch_text(const Graph& graph, int64_t batch, int64_t micro_batches) {
  std::string unit = graph.sample().unit;
  if (batch == 1 && unit.ends_with('s')) unit.pop_back();
  const int64_t tokens = graph.tokens_per_sample();
  const std::string samples =
      fmt::format("{} {}{}", batch, unit, tokens > 0 ? fmt::format(" of {} tokens", whole(tokens)) : "");
  if (micro_batches == 0) return samples + " per device";
  return fmt::format("{} per micro-batch, {} micro-batch{} a step", samples, micro_batches,
                     micro_batches == 1 ? "" : "es");
}

std::string base_text(const std::vector<Report>& reports) {
  for (const Report& r : reports) {
    if (r.fits && r.scaling.base_devices > 1)
      return fmt::format(
          "Speed-up and efficiency count from {} devices, the fewest (or fewest whole nodes) that hold the "
          "model.",
          r.scaling.base_devices);
  }
  return "";
}

std::string beyond_perfect_text(const std::vector<Report>& reports) {
  const Report& r = reports.back();
  const auto base = std::find_if(reports.begin(), reports.end(), [&](const Report& x) {
    return x.fits && x.setup.devices == r.scaling.base_devices && x.setup.devices < r.setup.devices;
  });
  if (base == reports.end() || !r.fits || r.scaling.efficiency < 1.01) return "";
  const auto update = [](const Report& x) {
    const auto at = std::find_if(x.time.kernels.begin(), x.time.kernels.end(),
                                 [](const KernelShare& k) { return k.kind == "optimizer"; });
    return at == x.time.kernels.end() ? 0.0 : at->share;
  };
  if (update(r) * r.iteration.median > 0.7 * update(*base) * base->iteration.median) return "";
  const double launches =
      base->time.share.launch - r.time.share.launch * r.iteration.median / base->iteration.median;
  const bool served = update(r) == 0 && report_input(r, "scheme.server") == "cpu";
  return fmt::format(
      "Efficiency above 100 %: the optimiser's update takes {:.0f} % of the step on {} device{}{}, and {}.",
      100 * update(*base), base->setup.devices, base->setup.devices == 1 ? "" : "s",
      launches < 0.005 ? "" : fmt::format(" and its launches some {:.0f} %", 100 * launches),
      served ? fmt::format("servers do it for {} devices", r.setup.devices)
             : fmt::format("{} devices divide it", r.setup.devices));
}

std::string bound_by(const Report& r) {
  if (!r.fits) return "memory, does not fit: " + needs_text(r);
  const auto& b = r.bottleneck;
  std::string out = resource_words(r);
  if (b.resource == "compute") return out;
  // If workers wait for what a link brings to others, the exposed time is not the link's share.
  const double removable = b.gain_if_unlimited ? 1 - 1 / (1 + *b.gain_if_unlimited) : 0;
  if (b.share >= removable / 2) out += fmt::format(", {:.0f} % of the step", 100 * b.share);
  if (b.gain_if_unlimited) out += fmt::format(" (unlimited: {:+.0f} %)", 100 * *b.gain_if_unlimited);
  return out;
}

std::string rest_of_step(const Report& r) {
  const TimeShare& t = r.time.share;
  if (!r.fits || r.bottleneck.resource != "compute" || t.compute >= 0.9) return "";
  std::string communication = "communication that compute does not hide";
  if (!r.time.communication_kinds.empty())
    communication += fmt::format(" (most: {})", r.time.communication_kinds[0].first);
  std::vector<std::pair<double, std::string>> rest = {{t.exposed_communication, communication},
                                                      {t.bubble, "the pipeline's bubble"},
                                                      {t.waiting, "waiting for slower workers"},
                                                      {t.server, "waiting for servers"},
                                                      {t.input, "waiting for input"},
                                                      {t.launch, "the host's launches"},
                                                      {t.idle, "idle"}};
  std::stable_sort(rest.begin(), rest.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out = fmt::format("A step on {} device{} computes for {:.0f} % of its time", r.setup.devices,
                                r.setup.devices == 1 ? "" : "s", 100 * t.compute);
  for (const auto& [share, words] : rest)
    if (share >= 0.02) out += fmt::format("; {} {:.0f} %", words, 100 * share);
  return out + ".\n";
}

std::string memory_line(const Report& report) {
  const MemoryUse& m = report.memory;
  if (m.nvidia_smi.n == 0) return "";
  std::string out = fmt::format(
      "Memory on {} device{} is what nvidia-smi shows at the peak and decides whether it fits: {} = "
      "parameters {}, "
      "gradients {}, optimiser {}, activations beyond them {}, workspace {}, buffers {}, the allocator's "
      "rounding and "
      "cache {}, driver and communication {}.",
      report.setup.devices, report.setup.devices == 1 ? "" : "s", to_text(m.nvidia_smi),
      to_text(m.parameters), to_text(m.gradients), to_text(m.optimizer), to_text(m.activations),
      to_text(m.workspace), to_text(m.buffers), to_text(m.reserved - m.total()),
      to_text(m.nvidia_smi - m.reserved));
  if (m.host.n > 0)
    out += fmt::format(" Of the host's memory each device takes {}, a node {} of {}.", to_text(m.host),
                       to_text(m.node.needed),
                       m.node.capacity.n == 0 ? "an unknown capacity" : to_text(m.node.capacity));
  for (const RoleMemory& role : report.memory_by_role) {
    if (report.memory_by_role.size() > 1)
      out += fmt::format(" Device{} of role {}: {}.", role.devices == 1 ? "" : "s", role.role,
                         to_text(role.memory.nvidia_smi));
  }
  if (m.barely_fits()) out += " " + barely_fits_text();
  if (m.within_error()) out += " " + within_error_text();
  return out + "\n";
}

std::string power_line(const Report& report) {
  if (!report.fits || !report.time.power) return "";
  const schemes::DevicePower& p = *report.time.power;
  const bool one = report.setup.devices == 1;
  std::string out =
      fmt::format("{} {:.0f} W{}", one ? "The device draws" : "Devices draw", p.watts, one ? "" : " each");
  if (p.high > 0) out += fmt::format(" ({:.0f} .. {:.0f} W)", p.low, p.high);
  return out + fmt::format(", {:.3g} J per sample, hosts not counted.\n", p.joules_per_sample);
}

std::string drawn_line(const Report& report) {
  if (!report.time.power || !report.time.power->readings) return "";
  const DevicePower& p = *report.time.power;
  const DevicePower::Readings& r = *p.readings;
  const bool one = r.devices == 1;
  std::string out =
      fmt::format("{} drew {:.0f} W{} ({:.0f} .. {:.0f} in {} readings), {} J a step",
                  r.source == "RAPL" ? (one ? "the processor package" : "processor packages")
                                     : (one ? "the GPU" : "GPUs"),
                  p.watts, one ? "" : " each", r.least, r.most, whole(r.count), grouped(p.joules_per_step));
  if (r.clock_mhz > 0) out += fmt::format(", clocks {} MHz", whole(std::llround(r.clock_mhz)));
  if (r.celsius > 0) out += fmt::format(", at most {:.0f} °C", r.celsius);
  for (const auto& [share, what] : {std::pair{r.held_by_power, "the power limit"}, {r.held_by_heat, "heat"}})
    if (share > 0) out += fmt::format(", held down by {} in {:.0f} % of the readings", what, 100 * share);
  return out;
}

std::string barely_fits_text() {
  return "That is closer to the capacity than the error of predictions against published figures "
         "(VALIDATION.md, Memory): it may not fit.";
}

std::string within_error_text() {
  return "That is more than the capacity, but by less than predictions have exceeded published figures "
         "(VALIDATION.md, Memory): it may not fit.";
}

std::string side_by_side_line(const Report& report) {
  std::vector<std::string> jobs;
  for (const SharedRate& job : report.rate.side_by_side)
    jobs.push_back(fmt::format("{} on {} device{} {} samples/s (alone {}, {:+.1f} %)", job.model, job.devices,
                               job.devices == 1 ? "" : "s", grouped(job.shared), grouped(job.alone),
                               std::round(1000 * (job.shared / job.alone - 1)) / 10 + 0.0));
  return jobs.empty() ? "" : fmt::format("Side by side: {}.\n", fmt::join(jobs, "; "));
}

Table report_table(const std::vector<Report>& reports) {
  const bool stale = any_staleness(reports);
  const bool tokens = std::any_of(reports.begin(), reports.end(),
                                  [](const Report& r) { return r.rate.tokens_per_second > 0; });
  std::vector<Column> columns = {{"devices", true}, {"samples/s", true}};
  if (tokens) columns.push_back({"tokens/s", true});
  if (tokens) columns.push_back({"global batch", true, 1});
  columns.insert(columns.end(), {{"90 % interval", true, 6}, {"speed-up", true, 4}, {"efficiency", true, 5}});
  const bool failing = std::any_of(reports.begin(), reports.end(), [](const Report& r) { return r.goodput; });
  if (failing) columns.push_back({"goodput samples/s", true, 2});
  if (stale) columns.push_back({"staleness", true});
  columns.insert(columns.end(), {{"memory/device", true}, {"bound by"}});
  Table table(columns);
  for (const Report& r : reports) {
    std::vector<std::string> row = {std::to_string(r.setup.devices)};
    if (r.fits) {
      row.push_back(grouped(r.rate.samples_per_second));
      if (tokens) row.push_back(grouped(r.rate.tokens_per_second));
      if (tokens) row.push_back(whole(r.setup.samples_per_iteration));
      row.insert(row.end(),
                 {fmt::format("{} .. {}", grouped(r.rate.interval.low), grouped(r.rate.interval.high)),
                  grouped(r.scaling.speedup), fmt::format("{:.0f} %", 100 * r.scaling.efficiency)});
      if (failing) row.push_back(goodput_cell(r));
      if (stale) row.push_back(staleness_text(r.staleness.all));
    } else {
      row.resize(columns.size() - 2, "-");
    }
    row.insert(row.end(), {memory_text(r.memory), bound_by(r)});
    table.add(std::move(row));
  }
  return table;
}

namespace {

constexpr const char* kCsvColumns[] = {"model",
                                       "system",
                                       "scheme",
                                       "precision",
                                       "recipe",
                                       "batch_per_device",
                                       "samples_per_iteration",
                                       "devices",
                                       "fits",
                                       "memory_bytes",
                                       "memory_capacity_bytes",
                                       "samples_per_second",
                                       "samples_per_second_low",
                                       "samples_per_second_high",
                                       "tokens_per_second",
                                       "iteration_median_seconds",
                                       "speedup",
                                       "scaling_efficiency",
                                       "speedup_base_devices",
                                       "staleness_mean",
                                       "staleness_p95",
                                       "staleness_max",
                                       "compute_share",
                                       "launch_share",
                                       "exposed_communication_share",
                                       "waiting_share",
                                       "bubble_share",
                                       "input_share",
                                       "server_share",
                                       "idle_share",
                                       "bottleneck",
                                       "bottleneck_elasticity",
                                       "gain_if_unlimited",
                                       "calibrated",
                                       "first_loss",
                                       "last_loss",
                                       "accuracy",
                                       "watts_per_device",
                                       "joules_per_sample",
                                       "goodput_share",
                                       "goodput_samples_per_second",
                                       "checkpoint_interval_seconds",
                                       "target",
                                       "target_value",
                                       "samples_to_target",
                                       "steps_to_target",
                                       "seconds_to_target",
                                       "seconds_to_target_low",
                                       "seconds_to_target_high"};
constexpr std::size_t kOfTarget = 7;  ///< the last ones

/// Their cells.
std::vector<std::string> target_cells(const TrainingProgress& p) {
  const auto real = [](const std::optional<double>& v) { return v ? fmt::format("{:.9g}", *v) : ""; };
  return {std::string(name(p.target)), real(p.value),       real(p.samples), real(p.steps), real(p.seconds),
          real(p.seconds_low),         real(p.seconds_high)};
}

/// The cells under kCsvColumns; results are empty if the model does not fit.
std::vector<std::string> csv_row(const Report& r) {
  const auto real = [](double v) { return fmt::format("{:.9g}", v); };
  const auto where = [&](bool there, double v) { return there && std::isfinite(v) ? real(v) : ""; };
  std::vector<std::string> row = {report_input(r, "model"),
                                  report_system(r),
                                  report_input(r, "scheme"),
                                  report_input(r, "precision"),
                                  r.basis.recipe,
                                  std::to_string(r.setup.batch_per_device),
                                  std::to_string(r.setup.samples_per_iteration),
                                  std::to_string(r.setup.devices),
                                  r.fits ? "true" : "false",
                                  std::to_string(r.memory.needed().n),
                                  std::to_string(r.memory.capacity.n)};
  if (r.fits)
    row.insert(row.end(), {real(r.rate.samples_per_second),
                           real(r.rate.interval.low),
                           real(r.rate.interval.high),
                           where(r.rate.tokens_per_second > 0, r.rate.tokens_per_second),
                           real(r.iteration.median),
                           real(r.scaling.speedup),
                           real(r.scaling.efficiency),
                           std::to_string(r.scaling.base_devices),
                           real(r.staleness.all.mean()),
                           std::to_string(r.staleness.all.quantile(0.95)),
                           std::to_string(r.staleness.all.max()),
                           real(r.time.share.compute),
                           real(r.time.share.launch),
                           real(r.time.share.exposed_communication),
                           real(r.time.share.waiting),
                           real(r.time.share.bubble),
                           real(r.time.share.input),
                           real(r.time.share.server),
                           real(r.time.share.idle),
                           r.bottleneck.resource,
                           r.bottleneck.elasticity ? real(*r.bottleneck.elasticity) : "",
                           r.bottleneck.gain_if_unlimited ? real(*r.bottleneck.gain_if_unlimited) : "",
                           r.basis.calibrated ? "true" : "false",
                           where(r.training.real, r.training.first_loss),
                           where(r.training.real, r.training.last_loss),
                           where(r.training.real && r.training.accuracy >= 0, r.training.accuracy),
                           r.time.power ? real(r.time.power->watts) : "",
                           r.time.power ? real(r.time.power->joules_per_sample) : ""});
  if (r.goodput)
    row.insert(row.end(),
               {real(r.goodput->share), real(r.goodput->samples_per_second), real(r.goodput->interval)});
  return row;
}

}  // namespace

std::string report_csv(const std::vector<Report>& reports) {
  std::vector<Column> columns;
  for (const char* head : kCsvColumns) columns.push_back({head});
  Table table(columns);
  for (const Report& r : reports) {
    std::vector<std::string> row = csv_row(r);
    row.resize(columns.size() - (r.progress ? kOfTarget : 0));
    if (r.progress) {
      for (std::string& cell : target_cells(*r.progress)) row.push_back(std::move(cell));
    }
    table.add(std::move(row));
  }
  return table.csv();
}

Table compare_table(const std::vector<ReportPair>& pairs) {
  const auto model = [](const Report& r) { return report_input(r, "model"); };
  const bool several = std::any_of(pairs.begin(), pairs.end(),
                                   [&](const ReportPair& p) { return model(p.b) != model(pairs[0].a); });
  std::vector<Column> columns = {{"devices", true},
                                 {"A samples/s", true},
                                 {"B samples/s", true},
                                 {"B / A", true},
                                 {"90 % interval", true},
                                 {"A efficiency", true, 5},
                                 {"B efficiency", true, 5},
                                 {"A memory", true, 3},
                                 {"B memory", true, 3},
                                 {"A bound by"},
                                 {"B bound by"}};
  if (several) columns.insert(columns.begin(), Column{"model"});
  Table table(std::move(columns));
  const auto where = [](bool there, const std::string& text) { return there ? text : "-"; };
  for (const auto& [x, y, asked_x, asked_y] : pairs) {
    const Report::Interval interval = x.fits && y.fits ? ratio_interval(x, y) : Report::Interval{};
    std::vector<std::string> row = {
        x.setup.devices == y.setup.devices ? std::to_string(x.setup.devices)
                                           : fmt::format("{} and {}", x.setup.devices, y.setup.devices),
        where(x.fits, grouped(x.rate.samples_per_second)),
        where(y.fits, grouped(y.rate.samples_per_second)),
        where(x.fits && y.fits, fmt::format("{:.3f}", y.rate.samples_per_second / x.rate.samples_per_second)),
        where(x.fits && y.fits, fmt::format("{:.2f} .. {:.2f}", interval.low, interval.high)),
        where(x.fits, fmt::format("{:.0f} %", 100 * x.scaling.efficiency)),
        where(y.fits, fmt::format("{:.0f} %", 100 * y.scaling.efficiency)),
        memory_text(x.memory),
        memory_text(y.memory),
        bound_by(x),
        bound_by(y)};
    if (several) row.insert(row.begin(), model(x));
    table.add(std::move(row));
  }
  return table;
}

}  // namespace tandem::app
