// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_power.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "answers/answer.h"
#include "base/data.h"
#include "base/in_parallel.h"
#include "base/text.h"
#include "calibration/validate/asking.h"
#include "calibration/validate/validation_statistics.h"
#include "plan/power.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kPowers = "calibration/data/power", kLimits = "calibration/data/power_limits";

Question question_of_row(const Json& row, const std::string& limit = "") {
  Json asked = row.at("question");
  asked.set("schema", Json::make_text("tandem-question-1", row.place()));
  if (!limit.empty())
    asked.set("set", Json::parse(fmt::format("[\"devices.*.power_limit={}\"]", limit), "power limit"));
  return Question::from_json(asked);
}

/// Longer steps, in which devices stand still until the rate is `rate`.
Report slowed_to(Report report, double rate) {
  const double share = rate / report.rate.samples_per_second;
  if (rate <= 0 || share >= 1) return report;
  TimeShare& t = report.time.share;
  for (double* part :
       {&t.compute, &t.launch, &t.exposed_communication, &t.waiting, &t.bubble, &t.input, &t.server, &t.idle})
    *part *= share;
  for (KernelShare& kind : report.time.kernels) kind.share *= share;
  report.time.slowed *= share;
  t.idle += 1 - share;
  return report;
}

PowerRow predict_power(const Json& row) {
  const Question question = question_of_row(row);
  PowerRow out;
  out.machine = row.at("machine").as_text();
  out.model = question.graph.name();
  out.system = question.system.name();
  out.source = row.at("source").as_text();
  out.devices = question.devices.at(0);
  const std::string& per = row.at("per").as_text();
  if (per != "node" && per != "device")
    row.at("per").fail(fmt::format("\"{}\" is not what watts are of. Valid: node, device", printable(per)));
  out.node = per == "node";
  out.held_out = row.boolean("held_out", false);
  out.published = row.at("watts").as_real(1);
  const Report report = answers::predict(question, out.devices, answers::Depth::rate);
  const auto each = static_cast<int64_t>(question.system.accelerators().size());
  const int64_t parts = out.node ? (out.devices + each - 1) / each : out.devices;
  const auto watts = [&](const Report& r) {
    const plan::Power power = plan::power_of(r, question.system);
    return (out.node ? power.wall() : power.devices) * (1 / static_cast<double>(parts));
  };
  const plan::Estimate found = watts(report);
  out.low = found.low;
  out.predicted = found.value;
  out.high = found.high;
  out.at_rate = watts(slowed_to(report, row.real("samples_per_second", 0, 0))).value;
  return out;
}

/// All limits of a row; none where the model does not fit.
std::vector<LimitRow> predict_limits(const Json& row) {
  const auto& under = row.at("under").items();
  const auto figures = [](const Json& entry) {
    const auto& n = entry.items();
    if (n.size() != 3) entry.fail("needs three numbers: limit in watts, watts, seconds");
    return std::array<double, 3>{n[0].as_real(1), n[1].as_real(1), n[2].as_real(1e-6)};
  };
  if (under.empty()) row.at("under").fail("needs the figures at rated power at the end");
  const double seconds = figures(under.back())[2];
  const Question plain = question_of_row(row);
  const Report full = answers::predict(plain, 1, answers::Depth::rate);
  std::vector<LimitRow> out;
  if (!full.fits) return out;
  for (std::size_t i = 0; i + 1 < under.size(); ++i) {
    const auto [limit, watts, longer] = figures(under[i]);
    const Question question = question_of_row(row, fmt::format("{:.10g}W", limit));
    const Report limited = answers::predict(question, 1, answers::Depth::rate);
    const Report::Interval interval = ratio_interval(full, limited);
    LimitRow& to = out.emplace_back();
    to.machine = row.at("machine").as_text();
    to.model = plain.graph.name();
    to.batch = full.setup.batch_per_device;
    to.limit = limit;
    to.held_out = row.find("fitted") == nullptr;
    to.published = seconds / longer;
    to.predicted = limited.rate.samples_per_second / full.rate.samples_per_second;
    to.low = interval.low;
    to.high = interval.high;
    to.published_watts = watts;
    to.predicted_watts = plan::power_of(limited, question.system).devices.value;
  }
  return out;
}

/// All rows of a folder's files, which must outlive them.
std::vector<const Json*> rows_of(const std::vector<Json>& documents,
                                 std::initializer_list<std::string_view> keys) {
  std::vector<const Json*> out;
  for (const Json& document : documents) {
    document.only({"source", "date", "note", "rows"});
    for (const Json& row : document.at("rows").items()) {
      row.only(keys);
      out.push_back(&row);
    }
  }
  return out;
}

std::vector<Json> documents_in(std::string_view folder, const char* what) {
  std::vector<Json> out;
  for (const std::string& name : list_data(folder)) out.push_back(Json::load(find_data(folder, what, name)));
  return out;
}

std::string drawn_markdown(const std::vector<PowerRow>& rows) {
  Errors held, fitted, held_at_rate, fitted_at_rate;
  for (const PowerRow& r : rows) {
    add_error(r.held_out ? held : fitted, r);
    (r.held_out ? held_at_rate : fitted_at_rate).all.push_back(r.error_at_rate());
  }
  std::string out =
      "\n## Power while training\n\nWatts of a node at the wall, or of one device, against those predicted "
      "from where the time of a step goes. Figures of `topologies/power/devices.json` and "
      "`plan/power/draw.json` were fitted to some rows; the others are held out. Where a run logged a lower "
      "rate than is predicted, its devices stood still for the rest: \"at its rate\" takes that into "
      "account.\n\n| rows that | ";
  out += kErrorHead;
  out += fmt::format("| are held out {}\n| are held out, at their rate {}\n", worst_cells(held),
                     worst_cells(held_at_rate));
  out += fmt::format("| figures were fitted to {}\n| figures were fitted to, at their rate {}\n",
                     worst_cells(fitted), worst_cells(fitted_at_rate));
  out +=
      "\n| machine | model | devices | of | published | predicted | bounds | error | at its rate | held out "
      "|\n|---|---|---:|---|---:|---:|---:|---:|---:|---|\n";
  for (const PowerRow& r : rows)
    out += fmt::format(
        "| {} | {} | {} | {} | {:.0f} W | {:.0f} W | {:.0f} to {:.0f} W | {:+.1f} % | {:+.1f} % | {} |\n",
        r.machine, r.model, r.devices, r.node ? "a node" : "a device", r.published, r.predicted, r.low,
        r.high, 100 * r.error(), 100 * r.error_at_rate(), r.held_out ? "yes" : "no");
  return out;
}

std::string limits_markdown(const std::vector<LimitRow>& rows) {
  struct Group {
    Errors speeds, watts;
    bool held_out = false;
  };
  std::map<std::string, Group> machines;
  std::map<std::pair<std::string, double>, Group> limits;
  for (const LimitRow& r : rows) {
    for (Group* group : {&machines[r.machine], &limits[{r.machine, r.limit}]}) {
      add_error(group->speeds, r);
      group->watts.all.push_back(r.watts_error());
      group->held_out = r.held_out;
    }
  }
  std::string out =
      "\n## Power limits\n\nThe speed under a power limit, relative to that at rated power, and the watts "
      "drawn meanwhile, against those predicted of the same model and batch. The clock was fitted to one "
      "machine; the other is held out.\n\n| machine | ";
  out += kErrorHead;
  for (const auto& [machine, group] : machines)
    out += fmt::format("| {}, speed{} {}\n| {}, watts {}\n", machine, group.held_out ? ", held out" : "",
                       worst_cells(group.speeds), machine, worst_cells(group.watts));
  out +=
      "\n| machine | limit | rows | speed: mean error | bias | watts: mean error | bias |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n";
  for (const auto& [at, group] : limits)
    out += fmt::format("| {} | {:.0f} W | {} | {:.1f} % | {:+.1f} % | {:.1f} % | {:+.1f} % |\n", at.first,
                       at.second, group.speeds.all.size(), 100 * group.speeds.mean(),
                       100 * group.speeds.bias(), 100 * group.watts.mean(), 100 * group.watts.bias());
  return out;
}

}  // namespace

PowerRows validate_power(int threads) {
  const std::vector<Json> powers = documents_in(kPowers, "table of watts"),
                          limits = documents_in(kLimits, "table of power limits");
  const auto drawn = rows_of(powers, {"machine", "question", "watts", "per", "samples_per_second", "source",
                                      "date", "fitted", "held_out", "note"});
  const auto limited = rows_of(limits, {"machine", "question", "under", "fitted"});
  PowerRows out;
  out.drawn.resize(drawn.size());
  in_parallel(drawn.size(), threads, [&](std::size_t i) { out.drawn[i] = predict_power(*drawn[i]); });
  std::vector<std::vector<LimitRow>> found(limited.size());
  in_parallel(limited.size(), threads, [&](std::size_t i) { found[i] = predict_limits(*limited[i]); });
  for (std::vector<LimitRow>& rows : found)
    out.limits.insert(out.limits.end(), std::make_move_iterator(rows.begin()),
                      std::make_move_iterator(rows.end()));
  return out;
}

std::string power_markdown(const PowerRows& rows) {
  return drawn_markdown(rows.drawn) + limits_markdown(rows.limits);
}

std::string power_csv(const PowerRows& rows) {
  std::string out =
      "machine,model,batch,system,devices,of,limit,held_out,published,predicted,low,high,error_percent,at_"
      "rate,"
      "watts,predicted_watts,source\n";
  for (const PowerRow& r : rows.drawn)
    out += fmt::format("{},{},,{},{},{},,{},{:.6g},{:.6g},{:.6g},{:.6g},{:.2f},{:.6g},{:.6g},{:.6g},{}\n",
                       csv_cell(r.machine), csv_cell(r.model), r.system, r.devices,
                       r.node ? "node" : "device", r.held_out ? "yes" : "no", r.published, r.predicted, r.low,
                       r.high, 100 * r.error(), r.at_rate, r.published, r.predicted, csv_cell(r.source));
  for (const LimitRow& r : rows.limits)
    out += fmt::format("{},{},{},,1,speed,{:.6g},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.2f},,{:.6g},{:.6g},\n",
                       csv_cell(r.machine), csv_cell(r.model), r.batch, r.limit, r.held_out ? "yes" : "no",
                       r.published, r.predicted, r.low, r.high, 100 * r.error(), r.published_watts,
                       r.predicted_watts);
  return out;
}

}  // namespace tandem::calibration
