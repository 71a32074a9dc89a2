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
  std::string cells() const { return fmt::format("{} | {}", cell(small), cell(large)); }
  static std::string cell(const std::vector<double>& e) {
    return e.empty() ? "–" : fmt::format("{:.1f} % ({})", 100 * geometric_error(e), e.size());
  }
};

/// What kind of machine a log is from; the order is that of the table.
const std::vector<std::string> kGroups = {"one node, NVLink switch", "one node, PCIe or host memory",
                                          "one node, direct cables", "several nodes",
                                          "several nodes, EFA or TCPX"};
const std::string& group_of(const CollectiveRow& row) {
  // The clouds' own transports bring their own latencies, which stock figures of NCCL do not hold.
  const bool own_transport = row.sets.find("network.bandwidth=") != std::string::npos ||
                             row.system.starts_with("p4d") || row.system.starts_with("p5.") ||
                             row.system == "g4dn-metal.json";
  const bool several = row.sets.find("nodes=") != std::string::npos && row.devices > 8;
  if (several || row.system == "g4dn-metal.json") return kGroups[own_transport ? 4 : 3];
  if (row.system.starts_with("mi300x") || row.system.starts_with("dgx1")) return kGroups[2];
  return row.table == "pcie" || row.table == "deepbench" || row.table == "theano_mpi_k80" ? kGroups[1]
                                                                                          : kGroups[0];
}

/// Errors of the sizes that did not calibrate, each log calibrated by every second power of two of its own.
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
    const GeometricErrors e = calibrated(log);
    GeometricErrors& sum = tuned[group_of(*log.front())];
    sum.small.insert(sum.small.end(), e.small.begin(), e.small.end());
    sum.large.insert(sum.large.end(), e.large.begin(), e.large.end());
  }
  std::string out =
      "| all-reduce | stock: up to 1 MiB | above 1 MiB | calibrated: up to 1 MiB | above 1 MiB |\n"
      "| --- | ---: | ---: | ---: | ---: |\n";
  for (const std::string& group : kGroups)
    out += fmt::format("| {} | {} | {} |\n", group, stock[group].cells(), tuned[group].cells());
  return out;
}

/// Errors on machines and generations that a fit did not see, as calibration/fit/fit_collectives.py left
/// them.
std::string held_out() {
  std::string out;
  const Json links = Json::load(data_root() + "/calibration/profiles/links.json");
  for (const Json& entry : links.at("families").at("nccl").items()) {
    const Json* held = entry.find("held_out");
    if (held == nullptr) continue;
    const auto cell = [](const Json& errors, std::string_view which) {
      const Json* e = errors.find(which);
      return e == nullptr ? std::string("–") : fmt::format("{:.1f} %", 100 * e->as_real());
    };
    for (const auto& [left_out, errors] : held->members()) {
      out += fmt::format("| {} | {} | {} | {} |\n", left_out.substr(0, left_out.find(".json")),
                         entry.at("from").as_text(), cell(errors, "small"), cell(errors, "large"));
    }
  }
  if (out.empty()) return out;
  return "\n| held out | NCCL from | all-reduce up to 1 MiB | above 1 MiB |\n| --- | ---: | ---: | ---: |\n" +
         out;
}

/// Beside what ASTRA-sim states for itself (geometric means over sizes, nccl-tests all-reduce).
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
         summary(rows) + held_out() + beside_astra_sim(rows);
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
