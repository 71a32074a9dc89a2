// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/pictures/rates_picture.h"
#include "base/json.h"
#include "calibration/validate/check_result.h"
#include "calibration/validate/collective_data.h"
#include "calibration/validate/fitted.h"
#include "calibration/validate/validate.h"
#include "calibration/validate/validate_incast.h"
#include "calibration/validate/validate_input.h"
#include "calibration/validate/validate_memory.h"
#include "calibration/validate/validate_pairs.h"
#include "calibration/validate/validate_regret.h"
#include "calibration/validate/validate_splits.h"
#include "calibration/validate/validate_staleness.h"
#include "calibration/validate/visits.h"

namespace tandem::app {

namespace {

/// The folder of the tables, beside the document.
constexpr const char* kTables = "calibration/validation";

/// Writes a table for each source and the picture of all rates into the folder that the document links.
void write_tables(const Arguments& arguments, const std::vector<ValidationRow>& rows,
                  const std::vector<CollectiveRow>& collectives, const std::vector<MemoryRow>& memory,
                  const std::vector<SplitRow>& splits, const std::vector<PairRow>& pairs,
                  const std::vector<InputRow>& input, const std::vector<RegretGrid>& regret) {
  const auto folder = std::filesystem::path(arguments.text("out", "")).parent_path() / kTables;
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw InputError(fmt::format("cannot make the folder {}: {}", folder.string(), failure.message()));
  std::set<std::string> files;
  for (const ValidationRow& r : rows) files.insert(r.file);
  for (const std::string& file : files) {
    write_file((folder / std::filesystem::path(file).replace_extension(".csv")).string(),
               validation_csv(rows, file));
  }
  if (!collectives.empty()) write_file((folder / "collectives.csv").string(), collectives_csv(collectives));
  if (!memory.empty()) write_file((folder / "memory.csv").string(), memory_csv(memory));
  if (!pairs.empty()) write_file((folder / "pairs.csv").string(), pairs_csv(pairs));
  if (!input.empty()) write_file((folder / "input.csv").string(), input_csv(input));
  if (!regret.empty()) write_file((folder / "regret.csv").string(), regret_csv(regret));
  std::map<std::string, std::vector<SplitRow>> by_file;
  for (const SplitRow& r : splits) by_file[r.file].push_back(r);
  for (const auto& [file, own] : by_file)
    write_file(
        (folder / ("split_" + std::filesystem::path(file).replace_extension(".csv").string())).string(),
        splits_csv(own));
  try {
    draw_rates(rows, (folder / "rates").string());
  } catch (const DeviceError& e) {
    note(arguments, fmt::format("no picture of the rates: {}", e.what()));
  }
}

/// The section, or the rows, of what is published twice.
int put_pairs(const Arguments& arguments) {
  if (arguments.has("pairs")) {
    const auto rows = validate_pairs();
    const bool csv = arguments.choice("pairs", "md", {"md", "csv"}) == "csv";
    put_result(arguments, csv ? pairs_csv(rows) : pairs_markdown(rows));
    return 0;
  }
  const auto rows = validate_input();
  const bool csv = arguments.choice("input", "md", {"md", "csv"}) == "csv";
  put_result(arguments, csv ? input_csv(rows) : input_markdown(rows));
  return 0;
}

int run_validate(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "md", {"md", "json"});
  const int threads = static_cast<int>(
      arguments.integer("threads", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  check_out(arguments);
  if (arguments.has("memory")) {
    const auto rows = validate_memory();
    const bool csv = arguments.choice("memory", "md", {"md", "csv"}) == "csv";
    put_result(arguments, csv ? memory_csv(rows) : memory_markdown(rows));
    return 0;
  }
  if (arguments.has("collectives")) {
    const auto rows = validate_collectives();
    const bool csv = arguments.choice("collectives", "md", {"md", "csv"}) == "csv";
    put_result(arguments, csv ? collectives_csv(rows) : collectives_markdown(rows));
    return 0;
  }
  if (arguments.has("pairs") || arguments.has("input")) return put_pairs(arguments);
  if (arguments.has("regret")) {
    const auto grids = regret_grids(validate({}, threads, {}), validate_splits({}, threads));
    const bool csv = arguments.choice("regret", "md", {"md", "csv"}) == "csv";
    put_result(arguments, csv ? regret_csv(grids) : regret_markdown(grids));
    return 0;
  }
  if (arguments.has("incast")) {
    put_result(arguments, incast_markdown(validate_incast()));
    return 0;
  }
  Progress progress(arguments);
  const auto rows = validate(arguments.words(), threads, [&](int done, int total) {
    progress.show(fmt::format("series {} of {}", done, total));
  });
  const bool all = arguments.words().empty();
  progress.show("staleness, memory, split models and collectives");
  const auto staleness = all ? validate_staleness() : std::vector<StalenessRow>{};
  const auto memory = all ? validate_memory() : std::vector<MemoryRow>{};
  const auto pairs = all && format != "json" ? validate_pairs() : std::vector<PairRow>{};
  const auto input = all && format != "json" ? validate_input() : std::vector<InputRow>{};
  const auto splits = all && format != "json" ? validate_splits({}, threads) : std::vector<SplitRow>{};
  const auto collectives = all && format != "json" ? validate_collectives() : std::vector<CollectiveRow>{};
  const auto regret = all ? regret_grids(rows, splits) : std::vector<RegretGrid>{};
  progress.show("");
  if (format == "json") {
    put_result(arguments, validation_json(rows, staleness));
    return 0;
  }
  std::string document = validation_markdown(rows, kTables);
  if (all) {
    document += pairs_markdown(pairs) + input_markdown(input) + splits_markdown(splits) +
                regret_markdown(regret) + staleness_markdown(staleness) + collectives_markdown(collectives) +
                incast_markdown(validate_incast()) + memory_markdown(memory) + executed_markdown() +
                visits_markdown() + fitted_markdown();
  }
  if (!arguments.text("out", "").empty())
    write_tables(arguments, rows, collectives, memory, splits, pairs, input, regret);
  put_result(arguments, std::move(document));
  return 0;
}

}  // namespace

void register_validate(Registry<Verb>& registry) {
  registry.add(
      {.name = "validate",
       .summary = "predictions against the published measurements in calibration/data",
       .usage = "[FILE...] [options]",
       .flags = {{"format", "FORMAT", "md (default) or json"},
                 {"threads", "N", "default: one per processor; the result does not depend on it"},
                 {"pairs", "md|csv", "only the section about boards that differ in one thing, or its rows"},
                 {"input", "md|csv", "only the section about runs with and without input, or its rows"},
                 {"regret", "md|csv", "only the section about choices by predictions, or its rows"},
                 {"collectives", "md|csv", "only the section about collectives, or its rows"},
                 {"incast", "", "only the section about many senders into one port"},
                 {"memory", "md|csv", "only the section about memory, or its rows"},
                 out_flag(),
                 quiet_flag()},
       .most_words = 1000,
       .run = run_validate,
       .details =
           "VALIDATION.md of the repository is made by: tandem validate --out VALIDATION.md. With --out and "
           "md, every row is written to calibration/validation/SOURCE.csv beside the document, and the "
           "picture of all rates to rates.png and rates.svg there."});
}

}  // namespace tandem::app
