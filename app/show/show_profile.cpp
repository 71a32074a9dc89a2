// SPDX-License-Identifier: Apache-2.0
// A measured machine: what its kernels achieve.
#include <fmt/format.h>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "app/show/show.h"
#include "base/json_writer.h"
#include "calibration/validate/kernel_efficiency.h"

namespace tandem::app {

namespace {

std::string kernels_page(const EfficiencyTable& t, int columns) {
  std::vector<Column> heads;
  for (const std::string& head : efficiency_heads(t)) heads.push_back({head, heads.size() >= 2});
  Table table(heads);
  for (const KernelEfficiency& row : t.rows) table.add(efficiency_cells(t, row));
  table.add(efficiency_cells(t, t.all));
  std::string out =
      fmt::format("\n{}: {}\n\n{}", name(t.precision), efficiency_basis(t), table.text(true, columns));
  if (t.between > 0)
    out +=
        fmt::format("\n{:.1f} % of the time passes between kernels; it is counted with the preceding one.\n",
                    100 * t.between / t.all.seconds);
  if (!t.counted)
    out +=
        "\nThe profile does not say how often steps launch each kernel: each shape counts once. tandem fit "
        "says it.\n";
  return out;
}

JsonWriter row_json(const EfficiencyTable& t, const KernelEfficiency& row) {
  JsonWriter out = {{"kind", row.kind}};
  if (!row.pass.empty()) out["pass"] = row.pass;
  out["shapes"] = row.shapes;
  out["launches"] = row.launches;
  out["seconds"] = row.seconds;
  out["time_share"] = row.seconds / t.all.seconds;
  out["flops_per_second"] = row.flops / row.seconds;
  out["bytes_per_second"] = row.bytes / row.seconds;
  if (!t.device) return out;
  out["roofline_share"] = row.roofline / row.seconds;
  out["stock_over_measured"] = row.stock / row.seconds;
  return out;
}

JsonWriter table_json(const EfficiencyTable& t) {
  JsonWriter out = {{"precision", name(t.precision)}};
  if (t.device) {
    out["device"] = {{"name", t.device->name},
                     {"product_peak_flops_per_second", t.device->product_peak(t.precision).flops_per_second},
                     {"other_peak_flops_per_second", t.device->peak_at(Precision::fp32).flops_per_second},
                     {"memory_bytes_per_second", t.device->memory_bandwidth.bytes_per_second}};
    if (t.device->kind == Device::Kind::cpu) out["device"]["cores"] = 1;
    out["recipe"] = t.recipe;
  }
  out["between_kernels_seconds"] = t.between;
  out["launches_known"] = t.counted;
  out["kernels"] = JsonWriter::array();
  for (const KernelEfficiency& row : t.rows) out["kernels"].push_back(row_json(t, row));
  out["all"] = row_json(t, t.all);
  return out;
}

}  // namespace

std::string show_profile(const ShowRequest& request) {
  if (request.format == "dot") throw UsageError("a profile is shown as text or json");
  const Arguments& a = request.arguments;
  std::vector<Precision> precisions;
  if (a.has("precision")) precisions.push_back(a.value("precision", "", parse_precision));
  const Json document = load_measured_profile(request.name);
  if (precisions.empty()) precisions = measured_precisions(document);
  JsonWriter json = {{"schema", "tandem-kernels-1"},
                     {"profile", request.name},
                     {"machine", document.text("machine", "")},
                     {"date", document.text("date", "")},
                     {"precisions", JsonWriter::array()}};
  std::string page = fmt::format("{}: {}\n", request.name, document.text("summary", ""));
  for (const Precision p : precisions) {
    const EfficiencyTable table = kernel_efficiency(MachineProfile(document, p), p);
    json["precisions"].push_back(table_json(table));
    page += kernels_page(table, request.columns);
  }
  return request.format == "json" ? json.dump(2) : page;
}

}  // namespace tandem::app
