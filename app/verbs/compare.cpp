#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/compare_ops.h"
#include "app/output.h"
#include "app/report_text.h"
#include "app/verb.h"

namespace tandem {

namespace {

constexpr std::size_t kMostOps = 20;

nlohmann::ordered_json pairs_json(const std::vector<OpPair>& pairs) {
  auto out = nlohmann::ordered_json::array();
  for (const OpPair& p : pairs) {
    nlohmann::ordered_json row = {{"lane", p.lane}};
    if (!p.label.empty()) row["op"] = p.label;
    row["a_seconds"] = p.a;
    row["b_seconds"] = p.b;
    out.push_back(std::move(row));
  }
  return out;
}

std::string compare_json(const std::vector<Report>& a, const std::vector<Report>& b) {
  nlohmann::ordered_json out = {{"schema", "tandem-compare-1"}, {"rows", nlohmann::ordered_json::array()}};
  for (const Report& x : a) {
    for (const Report& y : b) {
      if (x.devices != y.devices) continue;
      const OpComparison ops = compare_ops(x, y);
      const auto ratio = [](double to, double from) { return from > 0 ? to / from : 0.0; };
      out["rows"].push_back(
          {{"devices", x.devices},
           {"a",
            {{"title", report_title(x)}, {"engine", x.engine}, {"samples_per_second", x.samples_per_second}}},
           {"b",
            {{"title", report_title(y)}, {"engine", y.engine}, {"samples_per_second", y.samples_per_second}}},
           {"samples_per_second_ratio", ratio(y.samples_per_second, x.samples_per_second)},
           {"iteration_ratio", ratio(y.iteration_median, x.iteration_median)},
           {"staleness_mean_difference", y.staleness.mean() - x.staleness.mean()},
           {"memory_ratio",
            ratio(static_cast<double>(y.memory.total().n), static_cast<double>(x.memory.total().n))},
           {"lanes", pairs_json(ops.lanes)},
           {"ops", pairs_json(ops.ops)}});
      break;
    }
  }
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The timelines of the most devices that both sides have, as text; empty when one side keeps none.
std::string ops_text(const std::vector<Report>& a, const std::vector<Report>& b, const std::string& format) {
  const Report *x = nullptr, *y = nullptr;
  for (const Report& r : a) {
    for (const Report& s : b) {
      if (r.devices == s.devices && (x == nullptr || r.devices > x->devices)) x = &r, y = &s;
    }
  }
  const OpComparison c = compare_ops(*x, *y);
  if (c.ops.empty()) return "";
  const bool apart = x->engine != y->engine;
  const std::string left = apart ? "A " + engine_word(*x) : "A";
  const std::string right = apart ? "B " + engine_word(*y) : "B";
  std::string out = fmt::format("\nOne worker of {}, milliseconds an iteration\n\n{}\n{}", x->devices,
                                op_table(c.lanes, left, right, c.lanes.size()).as(format),
                                op_table(c.ops, left, right, kMostOps).as(format));
  if (c.ops.size() > kMostOps)
    out += fmt::format("... and {} ops that differ less (--format json has all)\n", c.ops.size() - kMostOps);
  return out + "\n" + largest_disagreement(c, *x, *y) + "\n";
}

int compare(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  const auto a = load_reports(arguments.words()[0]);
  const auto b = load_reports(arguments.words()[1]);
  const Table table = compare_table(a, b);
  if (table.empty()) {
    throw InputError(fmt::format("{} and {} have no device count in common", printable(arguments.words()[0]),
                                 printable(arguments.words()[1])));
  }
  if (format == "json") {
    put_result(arguments, compare_json(a, b));
  } else if (format == "csv") {
    put_result(arguments, table.csv());
  } else {
    put_result(arguments,
               fmt::format("A  {} ({})\nB  {} ({})\n\n{}{}", report_title(a[0]), engine_word(a[0]),
                           report_title(b[0]), engine_word(b[0]), table.as(format), ops_text(a, b, format)));
  }
  return 0;
}

}  // namespace

void register_compare(Registry<Verb>& registry) {
  registry.add(
      {.name = "compare",
       .summary = "two reports side by side: predicted and executed, PCIe and NVLink, before and after",
       .usage = "REPORT REPORT [options]",
       .flags = {format_flag(), out_flag(), quiet_flag()},
       .least_words = 2,
       .most_words = 2,
       .run = compare,
       .details = "Reports come from: tandem predict or tandem run, with --format json --out FILE. Where "
                  "both keep a\n"
                  "timeline, ops and lanes are compared too, and the largest disagreement is named."});
}

}  // namespace tandem
