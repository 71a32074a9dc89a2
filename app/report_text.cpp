#include "app/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {

namespace {

double gib(Bytes b) { return static_cast<double>(b.n) / (1 << 30); }

/// "9.8 of 16 GiB", in MiB below one GiB.
std::string memory_text(const MemoryUse& m) {
  const double total = gib(m.needed());
  const std::string used =
      total < 0.995 ? fmt::format("{:.0f} MiB", total * 1024) : fmt::format("{:.1f}", total);
  return m.capacity.n == 0 ? used + (total < 0.995 ? "" : " GiB")
                           : fmt::format("{} of {:.3g} GiB", used, gib(m.capacity));
}

bool any_staleness(const std::vector<Report>& reports) {
  return std::any_of(reports.begin(), reports.end(), [](const Report& r) { return r.staleness.max() > 0; });
}

std::string staleness_text(const Histogram& h) {
  return h.count() == 0 ? "-"
                        : fmt::format("{:.2f} (95 %: {}, most {})", h.mean(), h.quantile(0.95), h.max());
}

/// Kernel kinds as people call them.
std::string_view kernel_words(std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"gemm", "matrix products"},      {"conv", "convolutions"},
      {"norm", "normalisation"},        {"pool", "pooling"},
      {"embedding", "embeddings"},      {"elementwise", "elementwise kernels"},
      {"optimizer", "optimiser update"}};
  for (const auto& [name, words] : kWords) {
    if (name == kind) return words;
  }
  return kind;
}

/// "compute: matrix products 54 % (most: forward 20 %)"; of a slower worker, where others wait for it.
std::string compute_words(const Report& r) {
  if (r.time_share.waiting >= 0.1 && r.time_share.waiting > r.time_share.compute && !r.waiting_for.empty())
    return fmt::format("compute of {}, awaited for {:.0f} % of the step", r.waiting_for[0].first,
                       100 * r.waiting_for[0].second);
  if (r.kernels.empty()) return fmt::format("compute ({:.0f} % of the step)", 100 * r.time_share.compute);
  const KernelShare& k = r.kernels[0];
  std::string out = fmt::format("compute: {} {:.0f} %", kernel_words(k.kind), 100 * k.share);
  if (k.heaviest < 0.99 * k.share)
    out += fmt::format(" (most: {} {:.0f} %)", k.heaviest_pass, 100 * k.heaviest);
  return out;
}

}  // namespace

std::string report_input(const Report& report, std::string_view key) {
  for (const auto& [name, value] : report.inputs) {
    if (name == key) return value;
  }
  return "";
}

std::string report_title(const Report& report) {
  return fmt::format("{} on {}, {}, {}, {} samples per device", report_input(report, "model"),
                     report_input(report, "system"), report_input(report, "scheme"),
                     report_input(report, "precision"), report.batch_per_device);
}

std::string resource_words(const Report& r) {
  const std::string& path = r.bottleneck.resource;
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"network.bandwidth", "network bandwidth"}, {"host.local_storage", "local storage"},
      {"host.shared_storage", "shared storage"},  {"host.core_speed", "the cores that decode input"},
      {"launch", "the host's launches"},          {"server", "the server's processor"},
      {"latency", "latency of messages"}};
  if (path == "compute") return compute_words(r);
  if (path == "waiting" && !r.waiting_for.empty()) return "waiting for " + r.waiting_for[0].first;
  for (const auto& [name, words] : kWords) {
    if (name == path) return std::string(words);
  }
  if (path.rfind("links.", 0) == 0) return path.substr(6, path.rfind('.') - 6) + " bandwidth";
  return path;
}

std::string bound_by(const Report& r) {
  const auto& b = r.bottleneck;
  std::string out = resource_words(r);
  if (b.resource == "compute") return out;
  out += fmt::format(", {:.0f} % of the step", 100 * b.share);
  if (b.gain_if_unlimited) out += fmt::format(" (unlimited: {:+.0f} %)", 100 * *b.gain_if_unlimited);
  return out;
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
      report.devices, report.devices == 1 ? "" : "s", to_text(m.nvidia_smi), to_text(m.parameters),
      to_text(m.gradients), to_text(m.optimizer), to_text(m.activations), to_text(m.workspace),
      to_text(m.buffers), to_text(m.reserved - m.total()), to_text(m.nvidia_smi - m.reserved));
  for (const RoleMemory& role : report.memory_by_role) {
    if (report.memory_by_role.size() > 1)
      out += fmt::format(" Device{} of role {}: {}.", role.devices == 1 ? "" : "s", role.role,
                         to_text(role.memory.nvidia_smi));
  }
  return out + "\n";
}

Table report_table(const std::vector<Report>& reports) {
  const bool stale = any_staleness(reports);
  std::vector<Column> columns = {{"devices", true},  {"samples/s", true},  {"90 % interval", true},
                                 {"speed-up", true}, {"efficiency", true}, {"memory/device", true}};
  if (stale) columns.insert(columns.begin() + 5, {"staleness", true});
  columns.push_back({"bound by", false});
  Table table(std::move(columns));
  for (const Report& r : reports) {
    std::vector<std::string> row = {
        fmt::format("{}", r.devices),
        grouped(r.samples_per_second),
        fmt::format("{} .. {}", grouped(r.interval.low), grouped(r.interval.high)),
        grouped(r.speedup),
        fmt::format("{:.0f} %", 100 * r.scaling_efficiency),
        memory_text(r.memory)};
    if (stale) row.insert(row.begin() + 5, staleness_text(r.staleness));
    row.push_back(bound_by(r));
    table.add(std::move(row));
  }
  return table;
}

std::string report_csv(const std::vector<Report>& reports) {
  Table table({{"model"},
               {"system"},
               {"scheme"},
               {"precision"},
               {"batch_per_device"},
               {"devices"},
               {"samples_per_second"},
               {"samples_per_second_low"},
               {"samples_per_second_high"},
               {"iteration_median_seconds"},
               {"speedup"},
               {"scaling_efficiency"},
               {"staleness_mean"},
               {"staleness_p95"},
               {"staleness_max"},
               {"memory_bytes"},
               {"memory_capacity_bytes"},
               {"compute_share"},
               {"launch_share"},
               {"exposed_communication_share"},
               {"waiting_share"},
               {"bubble_share"},
               {"input_share"},
               {"server_share"},
               {"idle_share"},
               {"bottleneck"},
               {"bottleneck_elasticity"},
               {"gain_if_unlimited"},
               {"calibrated"},
               {"first_loss"},
               {"last_loss"},
               {"accuracy"}});
  const auto real = [](double v) { return fmt::format("{:.9g}", v); };
  for (const Report& r : reports) {
    table.add({report_input(r, "model"),
               report_input(r, "system"),
               report_input(r, "scheme"),
               report_input(r, "precision"),
               std::to_string(r.batch_per_device),
               std::to_string(r.devices),
               real(r.samples_per_second),
               real(r.interval.low),
               real(r.interval.high),
               real(r.iteration_median),
               real(r.speedup),
               real(r.scaling_efficiency),
               real(r.staleness.mean()),
               std::to_string(r.staleness.quantile(0.95)),
               std::to_string(r.staleness.max()),
               std::to_string(r.memory.needed().n),
               std::to_string(r.memory.capacity.n),
               real(r.time_share.compute),
               real(r.time_share.launch),
               real(r.time_share.exposed_communication),
               real(r.time_share.waiting),
               real(r.time_share.bubble),
               real(r.time_share.input),
               real(r.time_share.server),
               real(r.time_share.idle),
               r.bottleneck.resource,
               r.bottleneck.elasticity ? real(*r.bottleneck.elasticity) : "",
               r.bottleneck.gain_if_unlimited ? real(*r.bottleneck.gain_if_unlimited) : "",
               r.calibrated ? "true" : "false",
               r.training.real && std::isfinite(r.training.first_loss) ? real(r.training.first_loss) : "",
               r.training.real && std::isfinite(r.training.last_loss) ? real(r.training.last_loss) : "",
               r.training.real && r.training.accuracy >= 0 ? real(r.training.accuracy) : ""});
  }
  return table.csv();
}

std::vector<ReportPair> matched(const std::vector<Report>& a, const std::vector<Report>& b) {
  std::vector<ReportPair> out;
  for (const Report& x : a) {
    const auto y = std::find_if(b.begin(), b.end(), [&](const Report& r) { return r.devices == x.devices; });
    if (y != b.end()) out.push_back({x, *y});
  }
  return out;
}

Table compare_table(const std::vector<ReportPair>& pairs) {
  const auto model = [](const Report& r) { return report_input(r, "model"); };
  const bool several = std::any_of(pairs.begin(), pairs.end(),
                                   [&](const ReportPair& p) { return model(p.b) != model(pairs[0].a); });
  std::vector<Column> columns = {{"devices", true},      {"A samples/s", true},   {"B samples/s", true},
                                 {"B / A", true},        {"90 % interval", true}, {"A efficiency", true},
                                 {"B efficiency", true}, {"A memory", true},      {"B memory", true},
                                 {"A bound by"},         {"B bound by"}};
  if (several) columns.insert(columns.begin(), Column{"model"});
  Table table(std::move(columns));
  for (const auto& [x, y, asked_x, asked_y] : pairs) {
    const Report::Interval interval = ratio_interval(x, y);
    std::vector<std::string> row = {std::to_string(x.devices),
                                    grouped(x.samples_per_second),
                                    grouped(y.samples_per_second),
                                    fmt::format("{:.3f}", y.samples_per_second / x.samples_per_second),
                                    fmt::format("{:.2f} .. {:.2f}", interval.low, interval.high),
                                    fmt::format("{:.0f} %", 100 * x.scaling_efficiency),
                                    fmt::format("{:.0f} %", 100 * y.scaling_efficiency),
                                    memory_text(x.memory),
                                    memory_text(y.memory),
                                    bound_by(x),
                                    bound_by(y)};
    if (several) row.insert(row.begin(), model(x));
    table.add(std::move(row));
  }
  return table;
}

}  // namespace tandem
