// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/compare_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "answers/swap.h"

namespace tandem::app {

namespace {

using NamedCells = std::vector<std::pair<const char*, std::string>>;

std::string seconds_to_target(const Report& r) {
  return r.progress && r.progress->seconds ? fmt::format("{:.9g}", *r.progress->seconds) : "";
}

std::string joules_per_sample(const Report& r) {
  return r.fits && r.time.power ? fmt::format("{:.9g}", r.time.power->joules_per_sample) : "";
}

/// A row of csv; fields of a side that does not fit are empty.
NamedCells csv_row(const ReportPair& pair) {
  const Report &x = pair.a, &y = pair.b;
  const bool both = x.fits && y.fits;
  const Report::Interval ratio = both ? ratio_interval(x, y) : Report::Interval{};
  const Swap swap = both ? swap_parts(pair) : Swap{};
  const auto real = [](bool there, double v) { return there ? fmt::format("{:.9g}", v) : ""; };
  const auto truth = [](bool v) { return v ? "true" : "false"; };
  return {{"model", report_input(x, "model")},
          {"devices", std::to_string(x.setup.devices)},
          {"a_system", report_system(x)},
          {"b_system", report_system(y)},
          {"a_samples_per_second", real(x.fits, x.rate.samples_per_second)},
          {"b_samples_per_second", real(y.fits, y.rate.samples_per_second)},
          {"ratio", real(both, y.rate.samples_per_second / x.rate.samples_per_second)},
          {"ratio_low", real(both, ratio.low)},
          {"ratio_high", real(both, ratio.high)},
          {"a_scaling_efficiency", real(x.fits, x.scaling.efficiency)},
          {"b_scaling_efficiency", real(y.fits, y.scaling.efficiency)},
          {"a_memory_bytes", std::to_string(x.memory.needed().n)},
          {"b_memory_bytes", std::to_string(y.memory.needed().n)},
          {"a_bottleneck", x.fits ? x.bottleneck.resource : ""},
          {"b_bottleneck", y.fits ? y.bottleneck.resource : ""},
          {"only_devices_changed_ratio", real(swap.devices.has_value(), swap.devices.value_or(0))},
          {"only_links_and_host_changed_ratio", real(swap.rest.has_value(), swap.rest.value_or(0))},
          {"a_scheme", report_input(x, "scheme")},
          {"b_scheme", report_input(y, "scheme")},
          {"a_engine", x.evaluation.engine},
          {"b_engine", y.evaluation.engine},
          {"a_batch_per_device", std::to_string(x.setup.batch_per_device)},
          {"b_batch_per_device", std::to_string(y.setup.batch_per_device)},
          {"a_fits", truth(x.fits)},
          {"b_fits", truth(y.fits)},
          {"a_samples_per_second_low", real(x.fits, x.rate.interval.low)},
          {"a_samples_per_second_high", real(x.fits, x.rate.interval.high)},
          {"b_samples_per_second_low", real(y.fits, y.rate.interval.low)},
          {"b_samples_per_second_high", real(y.fits, y.rate.interval.high)},
          {"a_staleness_mean", real(x.fits, x.staleness.all.mean())},
          {"b_staleness_mean", real(y.fits, y.staleness.all.mean())},
          {"b_devices", std::to_string(y.setup.devices)},
          {"a_seconds_to_target", seconds_to_target(x)},
          {"b_seconds_to_target", seconds_to_target(y)},
          {"a_joules_per_sample", joules_per_sample(x)},
          {"b_joules_per_sample", joules_per_sample(y)}};
}

}  // namespace

/// `pairs`: one at least.
std::string compare_csv(const std::vector<ReportPair>& pairs) {
  std::vector<Column> columns;
  for (const auto& [head, cell] : csv_row(pairs.front())) columns.push_back({head});
  Table table(std::move(columns));
  for (const ReportPair& pair : pairs) {
    std::vector<std::string> cells;
    for (auto& [head, cell] : csv_row(pair)) cells.push_back(std::move(cell));
    table.add(std::move(cells));
  }
  return table.csv();
}

Table several_table(const std::vector<OfSeveral>& rows) {
  const auto any = [&](auto test) {
    return std::any_of(rows.begin(), rows.end(), [&](const OfSeveral& r) { return test(r.report); });
  };
  const bool tokens = any([](const Report& r) { return r.rate.tokens_per_second > 0; });
  const bool models =
      any([&](const Report& r) { return report_input(r, "model") != report_input(rows[0].report, "model"); });
  std::vector<Column> columns = {{""}};
  if (models) columns.push_back({"model"});
  columns.insert(columns.end(), {{"devices", true}, {"samples/s", true}});
  if (tokens) columns.push_back({"tokens/s", true});
  columns.insert(columns.end(),
                 {{"90 % interval", true, 6}, {"over A", true}, {"memory/device", true, 3}, {"bound by"}});
  Table table(columns);
  for (const OfSeveral& row : rows) {
    const Report& r = row.report;
    std::vector<std::string> cells = {std::string(1, row.side)};
    if (models) cells.push_back(report_input(r, "model"));
    const auto put = [&](const std::string& text) { cells.push_back(r.fits ? text : "-"); };
    cells.push_back(std::to_string(r.setup.devices));
    put(grouped(r.rate.samples_per_second));
    if (tokens) put(r.rate.tokens_per_second > 0 ? grouped(r.rate.tokens_per_second) : "-");
    put(fmt::format("{} .. {}", grouped(r.rate.interval.low), grouped(r.rate.interval.high)));
    const auto ratio = over_base(row);
    put(ratio ? fmt::format("{:.3f}", *ratio) : "-");
    cells.insert(cells.end(), {memory_text(r.memory), bound_by(r)});
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace tandem::app
