// SPDX-License-Identifier: Apache-2.0
#include "answers/comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "answers/compare_ops.h"
#include "answers/labels.h"
#include "answers/swap.h"
#include "answers/why.h"
#include "base/json_writer.h"

namespace tandem::answers {

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
  if (r.fits && r.time.power) {
    out["watts_per_device"] = r.time.power->watts;
    out["joules_per_sample"] = r.time.power->joules_per_sample;
  }
  if (r.rate.tokens_per_second > 0) out["tokens_per_second"] = r.rate.tokens_per_second;
  if (r.goodput) out["goodput_share"] = r.goodput->share;
  if (r.progress) out["progress"] = progress_json(*r.progress);
  return out;
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

std::optional<double> over_base(const OfSeveral& row) {
  if (row.base == nullptr || !row.base->fits || !row.report.fits) return std::nullopt;
  return row.report.rate.samples_per_second / row.base->rate.samples_per_second;
}

std::optional<double> over_base_by_device(const OfSeveral& row) {
  const auto ratio = over_base(row);
  if (!ratio) return std::nullopt;
  return *ratio * static_cast<double>(row.base->setup.devices) /
         static_cast<double>(row.report.setup.devices);
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

}  // namespace tandem::answers
