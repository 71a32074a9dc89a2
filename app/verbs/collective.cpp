// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "app/collective_table.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "pictures/draw.h"

namespace tandem::app {

namespace {

int collective(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  check_out(arguments);
  const std::vector<CollectiveRun> runs =
      predict_collectives(arguments, [&](std::string_view text) { note(arguments, text); });
  for (const CollectiveRun& run : runs) {
    if (!arguments.has("plot")) break;
    std::string base = picture_base(arguments.text("plot", ""), "collective");
    if (runs.size() > 1) base += fmt::format("-{}-{}", run.kind, run.devices);
    for (const std::string& file : write_pictures({{base, draw_collective(run)}})) note(arguments, file);
  }
  if (format == "json") {
    put_result(arguments, collective_json(runs));
    return 0;
  }
  if (format == "csv") {
    put_result(arguments, collective_csv(runs));
    return 0;
  }
  std::string page;
  const int columns = format == "md" ? 0 : result_columns(arguments);
  for (const CollectiveRun& run : runs) {
    page += fmt::format("{}{} of {} devices on {}\n\n{}\n{}", page.empty() ? "" : "\n", run.kind, run.devices,
                        run.system, collective_table(run).as(format, columns), collective_remarks(run));
  }
  put_page(arguments, page);
  return 0;
}

}  // namespace

void register_collective(Registry<Verb>& registry) {
  std::vector<Option> flags = collective_options();
  const auto set =
      std::find_if(flags.begin(), flags.end(), [](const Option& flag) { return flag.name == "set"; });
  flags.insert(set, {"plot", "BASE", "also draw bus bandwidth over size: BASE.png, BASE.svg"});
  flags.insert(flags.end(), {format_flag(), out_flag(), wide_flag(), quiet_flag()});
  registry.add(
      {.name = "collective",
       .summary = "one collective over a range of sizes, as nccl-tests prints it, next to a measured log",
       .usage = "--system NAME [options]",
       .flags = std::move(flags),
       .run = collective});
}

}  // namespace tandem::app
