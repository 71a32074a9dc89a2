// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "app/analysis/asking.h"
#include "app/analysis/records_text.h"
#include "app/analysis/visit_text.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "base/json.h"
#include "calibration/validate/validate_incast.h"
#include "calibration/validate/validate_kinds.h"
#include "calibration/validate/validation_pages.h"
#include "pictures/rates_picture.h"

namespace tandem::app {

namespace {

/// Next to the document: the folders of its pages and of the tables.
constexpr const char *kPages = "docs/validation", *kTables = "calibration/validation";

std::filesystem::path folder_beside(const Arguments& arguments, const char* name) {
  auto folder = std::filesystem::path(arguments.text("out", "")).parent_path() / name;
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw InputError(fmt::format("cannot make the folder {}: {}", folder.string(), failure.message()));
  return folder;
}

/// Writes a table per source and the picture of all rates into folders next to the document.
void write_tables(const Arguments& arguments, const Comparisons& found) {
  const auto folder = folder_beside(arguments, kTables);
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file((folder / (name + ".csv")).string(), text);
  };
  const auto stem = [](const std::string& file) { return std::filesystem::path(file).stem().string(); };
  std::set<std::string> files;
  for (const ValidationRow& r : found.rows) files.insert(r.file);
  for (const std::string& file : files) write(stem(file), validation_csv(found.rows, file));
  if (!found.collectives.empty()) write("collectives", collectives_csv(found.collectives));
  if (!found.memory.empty()) write("memory", memory_csv(found.memory));
  if (!found.pairs.empty()) write("pairs", pairs_csv(found.pairs));
  if (!found.input.empty()) write("input", input_csv(found.input));
  if (!found.regret.empty()) write("regret", regret_csv(found.regret));
  if (!found.runs.empty()) write("runs", runs_csv(found.runs));
  if (!found.power.drawn.empty()) write("power", power_csv(found.power));
  std::map<std::string, std::vector<SplitRow>> by_file;
  for (const SplitRow& r : found.splits) by_file[r.file].push_back(r);
  for (const auto& [file, own] : by_file) write("split_" + stem(file), splits_csv(own));
  try {
    write_pictures(draw_rates(found.rows, (folder / "rates").string()));
  } catch (const DeviceError& e) {
    note(arguments, fmt::format("no picture of the rates: {}", e.what()));
  }
}

/// The document with its pages next to it, or all of it on stdout.
void put_document(const Arguments& arguments, const Comparisons& found) {
  const auto pages = validation_pages(found);
  std::string document = validation_markdown(found.rows);
  if (arguments.text("out", "").empty()) {
    for (const ValidationPage& page : pages) document += page.text;
  } else {
    document += list_of_pages(pages);
    const auto folder = folder_beside(arguments, kPages);
    for (const ValidationPage& page : pages)
      write_file((folder / (page.name + ".md")).string(), page_markdown(page));
    write_tables(arguments, found);
  }
  put_result(arguments, std::move(document));
}

/// The section that a flag asks for, or its rows.
template <typename Rows>
int put_section(const Arguments& arguments, const char* flag, const Rows& rows,
                std::string (*markdown)(const Rows&), std::string (*csv)(const Rows&)) {
  put_result(arguments, arguments.choice(flag, "md", {"md", "csv"}) == "csv" ? csv(rows) : markdown(rows));
  return 0;
}

int put_regret(const Arguments& arguments, int threads) {
  const std::vector<ValidationRow> rows = validate(arguments.words(), threads, {});
  const std::vector<RegretGrid> grids =
      regret_grids(rows, arguments.words().empty() ? validate_splits({}, threads) : std::vector<SplitRow>{});
  const bool csv = arguments.choice("regret", "md", {"md", "csv"}) == "csv";
  put_result(arguments, csv ? regret_csv(grids)
                            : regret_markdown(grids) +
                                  chances_markdown(machine_contests(rows), setting_contests(grids)));
  return 0;
}

/// What may be said of records; their question says the rest. --memory and --input mean other things here.
constexpr std::string_view kOfRecords[] = {
    "model", "system", "scheme", "precision", "optimizer", "recipe", "profile", "collective-profile", "set"};

/// What several GPUs did. Its trainings are known: only on what, and by whose kernels, may be said.
int put_visits(const Arguments& arguments, const Values& given, bool all) {
  if (!all) throw UsageError("--add takes records or visits, not both at once");
  for (const std::string_view option : kOfRecords) {
    if (given.has(option) && option != "system" && option != "profile")
      refuse_option(option, "goes with records; a visit says what was trained");
  }
  std::vector<VisitJudged> judged;
  for (const std::string& file : arguments.words()) judged.push_back(judge_visit(file, given));
  const bool csv = arguments.choice("format", "md", {"md", "csv"}) == "csv";
  put_result(arguments, csv ? visits_judged_csv(judged) : visits_judged_markdown(judged));
  return 0;
}

int put_records(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "md", {"md", "csv"});
  if (arguments.words().empty())
    throw UsageError("--add takes records: tandem validate --add RECORD.json [RECORD.json...]");
  Values given;
  for (const std::string_view option : kOfRecords) {
    if (arguments.has(option)) given.set(option, arguments.all(option));
  }
  const std::vector<std::string>& files = arguments.words();
  const auto visits = std::count_if(files.begin(), files.end(), is_visit);
  if (visits > 0) return put_visits(arguments, given, visits == std::ssize(files));
  const auto rows = validate_records(arguments.words(), given, hooks(arguments));
  put_result(arguments, format == "csv" ? records_csv(rows) : records_markdown(rows));
  return 0;
}

int run_validate(const Arguments& arguments) {
  if (arguments.has("add")) {
    check_out_apart(arguments, arguments.words());
    return put_records(arguments);
  }
  for (const std::string_view option : kOfRecords) {
    if (arguments.has(option)) refuse_option(option, "goes with --add");
  }
  const std::string format = arguments.choice("format", "md", {"md", "json"});
  const int threads = static_cast<int>(
      arguments.integer("threads", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  check_out(arguments);
  const auto only = [&](const char* flag) { return arguments.has(flag); };
  if (only("memory")) return put_section(arguments, "memory", validate_memory(), memory_markdown, memory_csv);
  if (only("collectives"))
    return put_section(arguments, "collectives", validate_collectives(), collectives_markdown,
                       collectives_csv);
  if (only("pairs")) return put_section(arguments, "pairs", validate_pairs(), pairs_markdown, pairs_csv);
  if (only("input")) return put_section(arguments, "input", validate_input(), input_markdown, input_csv);
  if (only("runs")) return put_section(arguments, "runs", validate_runs(threads), runs_markdown, runs_csv);
  if (only("power"))
    return put_section(arguments, "power", validate_power(threads), power_markdown, power_csv);
  if (only("splits"))
    return put_section(arguments, "splits", validate_splits(arguments.words(), threads), splits_markdown,
                       splits_csv);
  if (only("regret")) return put_regret(arguments, threads);
  if (only("kinds")) {
    const std::vector<ValidationRow> rows = validate(arguments.words(), threads, {});
    put_result(arguments, arguments.choice("kinds", "md", {"md", "json"}) == "json" ? kinds_json(rows)
                                                                                    : kinds_markdown(rows));
    return 0;
  }
  if (arguments.has("incast")) {
    put_result(arguments, incast_markdown(validate_incast()));
    return 0;
  }
  Progress progress(arguments);
  Comparisons found{validate(arguments.words(), threads, [&](int done, int total) {
    progress.show(fmt::format("series {} of {}", done, total), static_cast<double>(done) / total);
  })};
  found.all = arguments.words().empty();
  progress.show("staleness, memory, split models, whole runs and collectives");
  if (found.all) found.staleness = validate_staleness();
  if (found.all && format != "json") {
    found.memory = validate_memory();
    found.pairs = validate_pairs();
    found.input = validate_input();
    found.splits = validate_splits({}, threads);
    found.runs = validate_runs(threads);
    found.power = validate_power(threads);
    found.collectives = validate_collectives();
    found.regret = regret_grids(found.rows, found.splits);
  }
  progress.show("");
  if (format == "json") {
    put_result(arguments, validation_json(found.rows, found.staleness));
  } else {
    put_document(arguments, found);
  }
  return 0;
}

}  // namespace

void register_validate(Registry<Verb>& registry) {
  std::vector<Option> flags = {
      {"add", "",
       "instead: predictions against records of tandem.record, or visits of gpu_visit.py --call multi "
       "(FILE...), "
       "which may be of any machine"},
      {"format", "md|json", "default md; with --add md or csv"},
      {"threads", "N", "default: one per processor; the result does not depend on it"},
      {"pairs", "md|csv", "only the section about boards that differ in one thing, or its rows"},
      {"input", "md|csv", "only the section about runs with and without input, or its rows"},
      {"regret", "md|csv",
       "only the sections about choices by predictions and their probabilities, or the choices"},
      {"kinds", "md|json",
       "only the section about kinds that one source has, or the kinds that two have "
       "(calibration/profiles/met.json)"},
      {"splits", "md|csv",
       "only the section about split models, or its rows; FILE: of these tables in "
       "calibration/data/splits"},
      {"collectives", "md|csv", "only the section about collectives, or its rows"},
      {"runs", "md|csv", "only the section about whole published runs, or its rows"},
      {"power", "md|csv", "only the section about power while training, or its rows"},
      {"incast", "", "only the section about many senders into one port"},
      {"memory", "md|csv", "only the section about memory, or its rows"},
      out_flag(),
      quiet_flag()};
  for (const std::string_view option : kOfRecords) flags.push_back(question_option(option));
  registry.add(
      {.name = "validate",
       .summary = "predictions against the published measurements in calibration/data, or your own records",
       .usage = "[FILE...] [options] | --add RECORD... [options]",
       .flags = std::move(flags),
       .most_words = 1000,
       .run = run_validate,
       .details =
           "VALIDATION.md of the repository is made by: tandem validate --out VALIDATION.md. With --out and "
           "md, the sections go to docs/validation next to the document, every row to "
           "calibration/validation/SOURCE.csv, and the picture of all rates to rates.png and rates.svg "
           "there. Without --out all sections are one document.\n\n"
           "A record is of PyTorch on your machine (docs/python.md). With several of one training, the one "
           "on the fewest devices is the anchor of the others.\n\nExample\n"
           "  tandem validate --add one.json eight.json --system dgx1-v100"});
}

}  // namespace tandem::app
