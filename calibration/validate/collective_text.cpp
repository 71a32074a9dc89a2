// SPDX-License-Identifier: Apache-2.0
// The section "Collectives" of the validation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/data.h"
#include "calibration/fit/collective_profile.h"
#include "calibration/validate/collective_data.h"

namespace tandem::calibration {
namespace {

constexpr int64_t kSmall = int64_t{1} << 20;  // errors are told up to and above this size

/// Logarithms of predicted over measured, up to 1 MiB and above.
struct GeometricErrors {
  std::vector<double> small, large;
  void add(int64_t bytes, double log_ratio) { (bytes <= kSmall ? small : large).push_back(log_ratio); }
  void add(const GeometricErrors& other) {
    small.insert(small.end(), other.small.begin(), other.small.end());
    large.insert(large.end(), other.large.begin(), other.large.end());
  }
  std::string cells() const { return fmt::format("{} | {}", cell(small), cell(large)); }
  static std::string cell(const std::vector<double>& e) {
    return e.empty() ? "–" : fmt::format("{:.1f} % ({})", 100 * geometric_error(e), e.size());
  }
};

/// The kind of machine of a log; in the order of the table.
const std::vector<std::string> kGroups = {"one node, NVLink switch", "one node, PCIe or host memory",
                                          "one node, direct cables", "several nodes",
                                          "several nodes, EFA or TCPX"};
const std::string& group_of(const CollectiveRow& row) {
  const bool aws = row.system.starts_with("p4d") || row.system.starts_with("p5.") ||
                   row.system.starts_with("p3dn") || row.system.starts_with("g4dn");
  const bool own_transport = aws || row.sets.find("transport.name=") != std::string::npos;
  const bool few = row.system.starts_with("g4dn") || row.system.starts_with("p3dn");  // up to eight in all
  const bool several = row.sets.find("nodes=") != std::string::npos && (row.devices > 8 || few);
  if (several) return kGroups[own_transport ? 4 : 3];
  if (row.system.starts_with("mi300x") || row.system.starts_with("dgx1")) return kGroups[2];
  return row.table == "pcie" || row.table == "deepbench" || row.table == "theano_mpi_k80" ? kGroups[1]
                                                                                          : kGroups[0];
}

/// Errors of the sizes that did not calibrate, each log calibrated by every second power of two of its sizes.
GeometricErrors calibrated(const std::vector<const CollectiveRow*>& log) {
  std::vector<CollectivePoint> measured;
  std::map<int64_t, double> predicted;
  for (const CollectiveRow* r : log) {
    measured.push_back({r->bytes, r->measured});
    predicted.emplace(r->bytes, r->predicted);
  }
  GeometricErrors out;
  const auto points = every_second_size(measured);
  if (points.size() < 4) return out;
  const CollectiveCorrection correction(points, [&](int64_t bytes) { return predicted.at(bytes); });
  for (const CollectiveRow* r : log) {
    const auto used = [&](const CollectivePoint& p) { return p.bytes == r->bytes; };
    if (std::any_of(points.begin(), points.end(), used)) continue;
    out.add(r->bytes, r->log_ratio() + std::log(correction.factor(r->bytes)));
  }
  return out;
}

/// Logs of one machine on one number of devices, by operation.
using Logs = std::map<CollKind, std::vector<const CollectiveRow*>>;

/// Adds the errors of operations related to all-reduce, as predicted and corrected by it. Sizes without a
/// measured all-reduce are left out.
void add_siblings(const Logs& logs, GeometricErrors& stock, GeometricErrors& corrected) {
  const auto found = logs.find(CollKind::all_reduce);
  if (found == logs.end()) return;
  std::map<int64_t, const CollectiveRow*> measured;
  for (const CollectiveRow* r : found->second) measured.emplace(r->bytes, r);
  std::vector<CollectivePoint> points;
  for (const auto& [bytes, r] : measured) points.push_back({bytes, r->measured});
  if (points.size() < 4) return;
  const CollectiveCorrection correction(points, [&](int64_t bytes) { return measured.at(bytes)->predicted; });
  for (const auto& [kind, log] : logs) {
    if (bearing(measured_name(CollKind::all_reduce), measured_name(kind)) != Bearing::sibling) continue;
    for (const CollectiveRow* r : log) {
      if (!measured.contains(r->bytes)) continue;
      stock.add(r->bytes, r->log_ratio());
      corrected.add(r->bytes, r->log_ratio() + std::log(correction.factor(r->bytes)));
    }
  }
}

/// "dgx-a100, nccl-2.27.3".
std::string machine_and_library(const CollectiveRow& row) {
  std::string system = row.system.substr(0, row.system.find(".json"));
  const std::string key = "communication.library=";
  const std::size_t at = row.sets.find(key);
  if (at == std::string::npos) return system;
  const std::size_t from = at + key.size();
  return system + ", " + row.sets.substr(from, row.sets.find(';', from) - from);
}

/// The value of a log of all-reduce for the machine's other operations.
std::string by_all_reduce(const std::vector<CollectiveRow>& rows) {
  std::map<std::string, std::map<std::string, Logs>> machines;
  for (const CollectiveRow& r : rows) {
    // Only logs of one source: elsewhere the same system file describes another machine.
    const std::string log = fmt::format("{}|{}|{}|{}x{}x{}", r.table, r.sets, r.devices, r.harness.threads,
                                        r.harness.gpus_per_thread, r.harness.iterations);
    machines[machine_and_library(r)][log][r.kind].push_back(&r);
  }
  GeometricErrors all_stock, all_corrected;
  std::string lines, worst;
  double most = 0;
  for (const auto& [machine, groups] : machines) {
    GeometricErrors stock, corrected;
    for (const auto& [group, logs] : groups) add_siblings(logs, stock, corrected);
    if (corrected.small.empty() && corrected.large.empty()) continue;
    lines += fmt::format("| {} | {} | {} |\n", machine, stock.cells(), corrected.cells());
    all_stock.add(stock);
    all_corrected.add(corrected);
    if (geometric_error(corrected.large) <= most) continue;
    most = geometric_error(corrected.large);
    worst = machine;
  }
  return "\nAll-gather and reduce-scatter, corrected by a log of all-reduce of the same machine and number "
         "of devices (`tandem collective\n--profile FILE`). All-to-all and broadcast take other ways: a log "
         "of all-reduce corrects none of them.\n\n"
         "| calibrated by all-reduce | stock: up to 1 MiB | above 1 MiB | calibrated: up to 1 MiB | "
         "above 1 MiB |\n"
         "| --- | ---: | ---: | ---: | ---: |\n" +
         lines +
         fmt::format("| **all** | {} | {} |\n\nWorst above 1 MiB: {}, {:.1f} %.\n", all_stock.cells(),
                     all_corrected.cells(), worst, 100 * most);
}

std::string summary(const std::vector<CollectiveRow>& rows) {
  std::map<std::string, GeometricErrors> stock, tuned;
  std::map<std::string, std::vector<const CollectiveRow*>> logs;
  for (const CollectiveRow& r : rows) {
    if (r.kind != CollKind::all_reduce) continue;
    stock[group_of(r)].add(r.bytes, r.log_ratio());
    logs[fmt::format("{}|{}|{}|{}|{}", r.system, r.sets, r.devices, r.harness.threads,
                     r.harness.gpus_per_thread)]
        .push_back(&r);
  }
  for (const auto& [name, log] : logs) {
    tuned[group_of(*log.front())].add(calibrated(log));
  }
  std::string out =
      "| all-reduce | stock: up to 1 MiB | above 1 MiB | calibrated: up to 1 MiB | above 1 MiB |\n"
      "| --- | ---: | ---: | ---: | ---: |\n";
  for (const std::string& group : kGroups)
    out += fmt::format("| {} | {} | {} |\n", group, stock[group].cells(), tuned[group].cells());
  return out;
}

/// " | 8.7, 13.8": percent up to 1 MiB and above.
std::string held_out_cell(const Json* errors) {
  if (errors == nullptr) return " | –";
  const auto cell = [](const Json& e) {
    return e.kind() == Json::Kind::null ? std::string("–") : fmt::format("{:.1f}", 100 * e.as_real());
  };
  return fmt::format(" | {}, {}", cell(errors->items().at(0)), cell(errors->items().at(1)));
}

/// The share of those rows inside the 90 % intervals, by kind of interconnect.
std::string inside_intervals(const Json& links) {
  std::map<std::string, std::pair<int64_t, int64_t>> sum;
  for (const Json& entry : links.at("families").at("nccl").items()) {
    const Json* inside = entry.find("inside");
    if (inside == nullptr) continue;
    for (const auto& [name, counts] : inside->members()) {
      sum[name].first += counts.items().at(0).as_int();
      sum[name].second += counts.items().at(1).as_int();
    }
  }
  std::string out;
  for (const auto& [name, words] :
       std::initializer_list<std::pair<const char*, const char*>>{{"fabric", "fast links"},
                                                                  {"pcie", "PCIe"},
                                                                  {"host", "host memory"},
                                                                  {"network", "several nodes"}}) {
    if (sum[name].second == 0) continue;
    out += fmt::format(
        "{}{}: {} of {}",
        out.empty() ? "\nOf these rows lie inside the stated 90 % interval, by what joins the devices: "
                    : ", ",
        words, sum[name].first, sum[name].second);
  }
  return out.empty() ? out : out + ".\n";
}

/// Errors on machines, clusters and generations that a fit did not see, as stored by
/// calibration/fit/fit_collectives.py.
std::string held_out() {
  std::string out;
  const Json links = Json::load(data_root() + "/calibration/profiles/links.json");
  for (const Json& entry : links.at("families").at("nccl").items()) {
    const Json* held = entry.find("held_out");
    if (held == nullptr) continue;
    for (const auto& [left_out, errors] : held->members()) {
      out += fmt::format("| {} | {}", left_out.substr(0, left_out.find(".json")), entry.at("from").as_text());
      for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"})
        out += held_out_cell(errors.find(kind));
      out += " |\n";
    }
  }
  if (out.empty()) return out;
  return "\nLeft out of the fit, in percent up to 1 MiB and above:\n\n| held out | NCCL from | all-reduce | "
         "all-gather | reduce-scatter | broadcast | all-to-all |\n| --- | ---: | ---: | ---: | ---: | ---: | "
         "---: |\n" +
         out + inside_intervals(links);
}

/// Compared with ASTRA-sim's own figures (geometric means over sizes, nccl-tests all-reduce).
std::string beside_astra_sim(const std::vector<CollectiveRow>& rows) {
  const auto row = [&](const std::string& system, int64_t devices, const std::string& theirs) {
    GeometricErrors e;
    for (const CollectiveRow& r : rows) {
      if (r.table == "nvswitch" && r.system == system && r.devices == devices &&
          r.kind == CollKind::all_reduce)
        e.add(r.bytes, r.log_ratio());
    }
    return fmt::format("| {} of {} | {} | {} |\n", devices, system, theirs, e.cells());
  };
  return "\n| all-reduce | ASTRA-sim, as published | here: up to 1 MiB | above 1 MiB |\n| --- | ---: | ---: "
         "| ---: |\n" +
         row("dgx-h100", 2, "20.63 %") + row("dgx-h100", 8, "9.69 %") +
         "\nIts 2.8 % on 8x V100 stand without a counterpart: no published table of one such server was "
         "found. Here "
         "in sample; without the machine in the fit see dgx-h100 above.\n";
}

}  // namespace

std::string collectives_markdown(const std::vector<CollectiveRow>& rows) {
  return "\n## Collectives\n\n"
         "Time of a collective from the machine's topology and stock link figures alone, against published "
         "nccl-tests logs and\ntables (`calibration/data/collectives`). Errors are geometric means, "
         "exp(mean |ln(predicted / measured)|) - 1, with the number\nof rows. In sample: "
         "`calibration/profiles/links.json` was fitted to most of these rows; what it is worth on a machine, "
         "or a\n"
         "generation of GPUs, that the fit has not seen is the second table "
         "(`calibration/fit/fit_collectives.py "
         "--leave-one-out`).\n\"Calibrated\": every second size of a log corrects the prediction "
         "(`tandem collective --log FILE --calibrate`), the errors\nare those of its other sizes.\n\n" +
         summary(rows) + by_all_reduce(rows) + held_out() + beside_astra_sim(rows);
}

std::string collectives_csv(const std::vector<CollectiveRow>& rows) {
  std::string out = "table,system,sets,kind,devices,bytes,measured_us,predicted_us,error_percent\n";
  for (const CollectiveRow& r : rows) {
    out += fmt::format("{},{},{},{},{},{},{:.6g},{:.6g},{:.1f}\n", r.table, r.system, r.sets, name(r.kind),
                       r.devices, r.bytes, 1e6 * r.measured, 1e6 * r.predicted,
                       100 * (r.predicted / r.measured - 1));
  }
  return out;
}

}  // namespace tandem::calibration
