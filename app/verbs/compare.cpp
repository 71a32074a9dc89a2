#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/output.h"
#include "app/report_text.h"
#include "app/verb.h"

namespace tandem {

namespace {

std::string compare_json(const std::vector<Report>& a, const std::vector<Report>& b) {
  nlohmann::ordered_json out = {{"schema", "tandem-compare-1"}, {"rows", nlohmann::ordered_json::array()}};
  for (const Report& x : a) {
    for (const Report& y : b) {
      if (x.devices != y.devices) continue;
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
            ratio(static_cast<double>(y.memory.total().n), static_cast<double>(x.memory.total().n))}});
      break;
    }
  }
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
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
    put_result(arguments, fmt::format("A  {} ({})\nB  {} ({})\n\n{}", report_title(a[0]), a[0].engine,
                                      report_title(b[0]), b[0].engine, table.as(format)));
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
       .details = "Reports come from: tandem predict ... --format json --out FILE"});
}

}  // namespace tandem
