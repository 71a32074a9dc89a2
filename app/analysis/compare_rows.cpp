// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/compare_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "answers/swap.h"
#include "answers/why.h"
#include "app/analysis/compare_ops.h"
#include "base/json_writer.h"

namespace tandem::app {

namespace {

JsonWriter pairs_json(const std::vector<OpPair>& pairs) {
  auto out = JsonWriter::array();
  for (const OpPair& p : pairs) {
    JsonWriter row = {{"lane", p.lane}};
    if (!p.label.empty()) row["op"] = p.label;
    row["a_seconds"] = p.a;
    row["b_seconds"] = p.b;
    out.push_back(std::move(row));
  }
  return out;
}

JsonWriter side_json(const Report& r) {
  JsonWriter out = {{"title", report_title(r)},
                    {"model", report_input(r, "model")},
                    {"system", report_system(r)},
                    {"devices", r.setup.devices},
                    {"engine", r.evaluation.engine},
                    {"fits", r.fits},
                    {"samples_per_iteration", r.setup.samples_per_iteration}};
  if (r.fits) {
    out["samples_per_second"] = r.rate.samples_per_second;
    out["samples_per_second_interval"] = {
        {"low", r.rate.interval.low}, {"high", r.rate.interval.high}, {"level", r.rate.interval.level}};
    out["scaling_efficiency"] = r.scaling.efficiency;
    out["bottleneck"] = r.bottleneck.resource;
    out["speedup_base_devices"] = r.scaling.base_devices;
  } else {
    out["samples_per_second"] = nullptr;
    out["needs_bytes"] = r.memory.needed().n;
  }
  out["memory_bytes_per_device"] = r.memory.needed().n;
  if (r.rate.tokens_per_second > 0) out["tokens_per_second"] = r.rate.tokens_per_second;
  if (r.goodput) out["goodput_share"] = r.goodput->share;
  if (r.progress) out["progress"] = progress_json(*r.progress);
  return out;
}

using NamedCells = std::vector<std::pair<const char*, std::string>>;

std::string seconds_to_target(const Report& r) {
  return r.progress && r.progress->seconds ? fmt::format("{:.9g}", *r.progress->seconds) : "";
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
          {"b_seconds_to_target", seconds_to_target(y)}};
}

JsonWriter board_json(const BoardAnswer& answer) {
  const auto side = [](const std::optional<Placements>& p) -> JsonWriter {
    if (!p) return nullptr;
    const auto choice = [](const Placements::Choice& c) {
      return JsonWriter{{"devices", c.devices}, {"samples_per_second", c.rate}};
    };
    return {{"used", choice(p->used)}, {"best", choice(p->best)}, {"worst", choice(p->worst)}};
  };
  JsonWriter out = {{"worth_from", kWorth}, {"largest_batch", nullptr}, {"batches", JsonWriter::array()}};
  if (const auto largest = answer.worth.largest()) out["largest_batch"] = largest->batch;
  for (const Worth::At& at : answer.worth.at)
    out["batches"].push_back({{"batch_per_device", at.batch}, {"samples_per_second_ratio", 1 + at.gain}});
  out["placement"] = {{"a", side(answer.a)}, {"b", side(answer.b)}};
  return out;
}

}  // namespace

void same_base(ReportPair& pair) {
  if (!pair.a.fits || !pair.b.fits) return;
  const int64_t base = std::max(pair.a.scaling.base_devices, pair.b.scaling.base_devices);
  for (const auto& [report, asked] : {std::pair{&pair.a, pair.asked_a}, std::pair{&pair.b, pair.asked_b}}) {
    if (report->scaling.base_devices == base || asked == nullptr || report->setup.devices < base) continue;
    const double rate = throughput(asked->request(base));
    report->scaling.speedup = report->rate.samples_per_second / rate;
    report->scaling.efficiency =
        report->scaling.speedup * static_cast<double>(base) / static_cast<double>(report->setup.devices);
    report->scaling.base_devices = base;
  }
}

/// "only B holds it, A needs 33 of 16 GiB" where not both do, else why().
std::string reason_text(const ReportPair& pair) {
  const Report &a = pair.a, &b = pair.b;
  if (a.fits && b.fits) return why(pair).text;
  const std::string model = fmt::format("{} on {} device{}", report_input(b, "model"), b.setup.devices,
                                        b.setup.devices == 1 ? "" : "s");
  if (!a.fits && !b.fits)
    return fmt::format("{}: neither holds it, A {}, B {}", model, needs_text(a), needs_text(b));
  return fmt::format("{}: only {} holds it, {} {}", model, a.fits ? "A" : "B", a.fits ? "B" : "A",
                     needs_text(a.fits ? b : a));
}

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

std::string compare_json(const std::vector<ReportPair>& pairs, const Names& names,
                         const std::vector<BoardAnswer>& boards, const std::vector<OfSeveral>& unpaired) {
  JsonWriter out = {
      {"schema", "tandem-compare-1"}, {"a", names.a}, {"b", names.b}, {"rows", JsonWriter::array()}};
  for (const ReportPair& pair : pairs) {
    const Report &x = pair.a, &y = pair.b;
    const OpComparison ops = compare_ops(x, y);
    const auto ratio = [](double to, double from) { return from > 0 ? to / from : 0.0; };
    JsonWriter row = {{"devices", x.setup.devices}, {"a", side_json(x)}, {"b", side_json(y)}};
    const auto set = [&](const char* key, double value) {
      row[key] = x.fits && y.fits ? JsonWriter::finite_or_null(value) : nullptr;
    };
    set("samples_per_second_ratio", ratio(y.rate.samples_per_second, x.rate.samples_per_second));
    set("iteration_ratio", ratio(y.iteration.median, x.iteration.median));
    set("staleness_mean_difference", y.staleness.all.mean() - x.staleness.all.mean());
    row["memory_ratio"] =
        ratio(static_cast<double>(y.memory.needed().n), static_cast<double>(x.memory.needed().n));
    if (x.fits && y.fits) {
      const Report::Interval interval = ratio_interval(x, y);
      row["samples_per_second_ratio_interval"] = {{"low", JsonWriter::finite_or_null(interval.low)},
                                                  {"high", JsonWriter::finite_or_null(interval.high)},
                                                  {"level", interval.level}};
      const Reason reason = why(pair);
      if (reason.swap.devices)
        row["only_devices_changed_ratio"] = JsonWriter::finite_or_null(*reason.swap.devices);
      if (reason.swap.rest)
        row["only_links_and_host_changed_ratio"] = JsonWriter::finite_or_null(*reason.swap.rest);
    }
    if (const std::string text = reason_text(pair); !text.empty()) row["why"] = text;
    if (!boards.empty()) row["board"] = board_json(boards[static_cast<std::size_t>(&pair - pairs.data())]);
    row["lanes"] = pairs_json(ops.lanes);
    row["ops"] = pairs_json(ops.ops);
    out["rows"].push_back(std::move(row));
  }
  for (const OfSeveral& one : unpaired) {
    JsonWriter json = side_json(one.report);
    json["side"] = std::string(1, one.side);
    out["unpaired"].push_back(std::move(json));
  }
  return out.dump(2);
}

namespace {

/// B's samples/s relative to A's; nothing if one does not hold the model, or A is missing.
std::optional<double> over_base(const OfSeveral& row) {
  if (row.base == nullptr || !row.base->fits || !row.report.fits) return std::nullopt;
  return row.report.rate.samples_per_second / row.base->rate.samples_per_second;
}

}  // namespace

std::optional<double> over_base_by_device(const OfSeveral& row) {
  const auto ratio = over_base(row);
  if (!ratio) return std::nullopt;
  return *ratio * static_cast<double>(row.base->setup.devices) /
         static_cast<double>(row.report.setup.devices);
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
    if (tokens) put(grouped(r.rate.tokens_per_second));
    put(fmt::format("{} .. {}", grouped(r.rate.interval.low), grouped(r.rate.interval.high)));
    const auto ratio = over_base(row);
    put(ratio ? fmt::format("{:.3f}", *ratio) : "-");
    cells.insert(cells.end(), {memory_text(r.memory), bound_by(r)});
    table.add(std::move(cells));
  }
  return table;
}

std::string several_json(const std::vector<OfSeveral>& rows, const std::vector<std::string>& names) {
  JsonWriter out = {{"schema", "tandem-compare-several-1"}, {"sides", names}, {"rows", JsonWriter::array()}};
  for (const OfSeveral& row : rows) {
    JsonWriter json = side_json(row.report);
    json["side"] = std::string(1, row.side);
    json["over_a"] = over_base(row);
    if (const auto ratio = over_base(row)) {
      json["over_a_devices"] = row.base->setup.devices;
      json["over_a_by_device"] = over_base_by_device(row);
      const Report::Interval interval = ratio_interval(*row.base, row.report);
      json["over_a_interval"] = {{"low", JsonWriter::finite_or_null(interval.low)},
                                 {"high", JsonWriter::finite_or_null(interval.high)},
                                 {"level", interval.level}};
    }
    out["rows"].push_back(std::move(json));
  }
  return out.dump(2);
}

}  // namespace tandem::app
