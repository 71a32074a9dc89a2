// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "app/analysis/parquet.h"
#include "app/analysis/sweep_asking.h"
#include "app/analysis/sweep_text.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/page/sweep_document.h"
#include "base/text.h"
#include "exec/comm/ranks.h"

namespace tandem::app {

namespace {

/// Throws UsageError for an option that is none of these.
void only_options(const Arguments& arguments, const std::vector<Option>& flags,
                  const std::set<std::string_view>& of) {
  for (const Option& flag : flags) {
    if (arguments.has(flag.name) && of.count(flag.name) == 0)
      throw UsageError(fmt::format("--{} does not go with tandem sweep {}, which has --{}", flag.name,
                                   arguments.words().empty() ? "" : arguments.words()[0],
                                   fmt::join(of, ", --")));
  }
}

void show_progress(Progress& progress, const sweep::Progress& p) {
  std::optional<double> share;  // of the time, as cells that were there take none
  if (p.left > 0 || p.done == p.cells) share = p.seconds / (p.seconds + p.left);
  progress.show(fmt::format("{} of {} cells", whole(p.done), whole(p.cells)), share);
}

/// The file as far as it is, and what to do where that is not to the end.
int report_outcome(const Arguments& arguments, const sweep::Outcome& outcome) {
  sweep::Store store = sweep::Store::read(outcome.file);
  const std::string line = sweep_line(store);
  if (!outcome.complete) {
    note(arguments, line + ". The same command goes on with the rest");
    return interrupt_code();
  }
  note(arguments, fmt::format("{}{}", line,
                              outcome.before > 0 && outcome.before < outcome.done
                                  ? fmt::format(" ({} were there)", whole(outcome.before))
                                  : ""));
  const sweep::Value other = store.database().value("SELECT 1 FROM cells WHERE status <> 'refused' LIMIT 1");
  const sweep::Value reason = store.database().value("SELECT reason FROM cells ORDER BY position LIMIT 1");
  if (std::holds_alternative<std::string>(reason) && std::holds_alternative<std::monostate>(other))
    throw InputError(fmt::format("{}: no cell could be answered; the first: {}", printable(outcome.file),
                                 printable(std::get<std::string>(reason))));
  return 0;
}

/// Answers the grid, with the other ranks if there are some, of which this is rank 0.
int answer(const Arguments& arguments, sweep::SweepQuestion q) {
  q.others.threads = (exec::ranks().size - 1) * q.threads;
  q.others.serve = exec::answer_ranks;
  catch_interrupts();
  if (exec::ranks().several()) catch_mpirun_end();
  sweep::Outcome outcome;
  {
    Progress progress(arguments);
    q.progress = [&](const sweep::Progress& p) {
      still_alive();
      show_progress(progress, p);
    };
    outcome = sweep::answer_grid(q);
  }
  const int code = report_outcome(arguments, outcome);
  if (outcome.lost == 0) return code;
  if (outcome.complete)
    note(arguments,
         fmt::format("{} of {} threads of other ranks did not come back; rank 0 answered their cells",
                     outcome.lost, q.others.threads));
  exec::abort_ranks(code);  // nor can MPI end as it should without them
  return code;
}

/// What ranks of the same sweep have in common.
std::string header_text(const sweep::SweepQuestion& q) {
  return fmt::format("{} {} {} {} {}", q.header.build, q.header.grid.to_json().dump(), q.header.depth,
                     q.header.shard.text(), q.threads);
}

/// Rank 0 has the file and says what is to be said; the others answer what it gives them.
int answer_with_ranks(const Arguments& given) {
  constexpr std::chrono::minutes kPatience{10};
  const bool first = exec::ranks().rank == 0;
  std::optional<sweep::SweepQuestion> q;
  std::exception_ptr failed;
  std::string said;
  try {
    q = sweep_question(given);
  } catch (const std::exception& error) {
    failed = std::current_exception();
    said = error.what();
  }
  const std::vector<std::string> failures = exec::gather_over_ranks(said);
  const std::vector<std::string> headers = exec::gather_over_ranks(q ? header_text(*q) : "");
  for (std::size_t r = 0; r < failures.size(); ++r) {
    if (failures[r].empty() && headers[r] == headers[0]) continue;
    if (!first) return 0;
    if (failed) std::rethrow_exception(failed);
    throw InputError(
        fmt::format("rank {}: {}", r,
                    failures[r].empty() ? "is another build of tandem, or has other options" : failures[r]));
  }
  if (first) return answer(given, std::move(*q));
  sweep::answer_for(q->header, q->hooks, q->threads, [&](int thread, const std::string& message) {
    return exec::ask_rank_0(thread, message, kPatience);
  });
  return 0;
}

std::string the_file(const Arguments& arguments) {
  if (arguments.words().size() != 2)
    throw UsageError(
        fmt::format("tandem sweep {0} takes one file: tandem sweep {0} grid.sqlite", arguments.words()[0]));
  return arguments.words()[1];
}

int show_sweep(const Arguments& arguments, const std::vector<Option>& flags) {
  only_options(arguments, flags, {"sort", "ascending", "top", "format", "out", "wide", "quiet"});
  SweepView view;
  view.sort = arguments.text("sort", view.sort);
  view.ascending = arguments.has("ascending");
  view.top = arguments.integer("top", view.top, 1, sweep::Grid::kMostCells);
  const std::string format = format_of(arguments);
  sweep::Store store = sweep::Store::read(the_file(arguments));
  check_out_apart(arguments, {store.file()});
  if (format == "text") {
    put_result(arguments, sweep_text(store, view, result_columns(arguments)));
  } else if (format == "json") {
    put_result(arguments, sweep_json(store, which_cells(store, view)).dump(2));
  } else if (format == "csv") {
    put_result(arguments, sweep::csv(store, which_cells(store, view)));
  } else {
    put_result(arguments, sweep_table(store, view).markdown());
  }
  return 0;
}

int export_sweep(const Arguments& arguments, const std::vector<Option>& flags) {
  only_options(arguments, flags, {"format", "out", "quiet"});
  const std::string format = arguments.choice("format", "csv", {"csv", "parquet"});
  if (format == "parquet") arguments.required("out", "grid.parquet");
  check_out(arguments);
  sweep::Store store = sweep::Store::read(the_file(arguments));
  check_out_apart(arguments, {store.file()});
  if (format == "parquet") {
    write_parquet(store, arguments.text("out", ""));
  } else {
    put_result(arguments, sweep::csv(store));
  }
  return 0;
}

/// The files to merge: those that are named, or those of --shards that are there.
std::vector<std::string> files_to_merge(const Arguments& arguments, int64_t shards) {
  std::vector<std::string> out(arguments.words().begin() + 1, arguments.words().end());
  if (!arguments.has("shards")) {
    if (out.empty())
      throw UsageError(
          "tandem sweep merge takes files: tandem sweep merge a.sqlite b.sqlite --out grid.sqlite; or "
          "--shards 8 for those of 8 shards");
    return out;
  }
  if (!out.empty()) throw UsageError("--shards stands for files: tandem sweep merge takes one of the two");
  const std::string whole = arguments.text("out", "");
  for (int64_t i = 0; i < shards; ++i) {
    const std::string file = sweep::shard_file(whole, {i, shards});
    std::error_code none;
    if (std::filesystem::exists(file, none)) out.push_back(file);
  }
  if (out.empty())
    throw InputError(fmt::format("{}: none of {} shards has a file yet; the first would be {}",
                                 printable(whole), shards, printable(sweep::shard_file(whole, {0, shards}))));
  return out;
}

int merge_sweeps(const Arguments& arguments, const std::vector<Option>& flags) {
  only_options(arguments, flags, {"out", "quiet", "shards"});
  arguments.required("out", "grid.sqlite");
  check_database_out(arguments);
  say_interrupts();
  int64_t shards = arguments.integer("shards", 1, 1, sweep::Shard::kMost);
  const std::vector<std::string> files = files_to_merge(arguments, shards);
  for (const std::string& file : files)
    shards = std::max(shards, sweep::Store::read(file).header().shard.count);
  const sweep::Outcome outcome = sweep::merge(files, arguments.text("out", ""));
  sweep::Store store = sweep::Store::read(outcome.file);
  note(arguments, sweep_line(store));
  if (outcome.complete) return 0;
  const std::vector<std::string> missing = sweep::missing_shards(store, shards);
  note(arguments, shards == 1 ? "cells are missing: the sweep's own command with this --out answers them"
                              : fmt::format("cells are missing: {}", fmt::join(missing, ", ")));
  return 1;
}

const std::vector<std::string> kFurther = {"show", "export", "merge"};

int run_sweep_verb(const Arguments& arguments) {
  const std::vector<Option> flags = sweep_flags();
  if (arguments.words().empty())
    return exec::ranks().several() ? answer_with_ranks(arguments)
                                   : answer(arguments, sweep_question(arguments));
  const std::string& what = arguments.words()[0];
  if (what == "show") return show_sweep(arguments, flags);
  if (what == "export") return export_sweep(arguments, flags);
  if (what == "merge") return merge_sweeps(arguments, flags);
  throw UsageError(fmt::format("\"{}\" is none of show, export and merge.{}", printable(what),
                               did_you_mean(what, kFurther)));
}

const std::string& sweep_details() {
  static const std::string text = [] {
    std::vector<std::string_view> names;
    for (const sweep::Figure& figure : sweep::figures()) names.push_back(figure.name);
    return fmt::format(
        "Each option of predict may have several values, parted by commas or given one by one; \"default\" "
        "is "
        "as if it were not given. Of --set the values stand together (nodes=1,2), and each --set is combined "
        "with all others. Cells are kept as they are answered: after an interruption the same command goes "
        "on.\n\nColumns of the table \"cells\": hash, position, status, reason, the options, {}, question, "
        "report.\n\nExamples\n"
        "  tandem sweep --model resnet50,vgg16 --system dgx1-v100,v100-pcie-8x --batch 16,32,64 --devices "
        "1,2,4,8 --out grid.sqlite\n"
        "  tandem sweep show grid.sqlite --sort memory_bytes --top 10\n"
        "  tandem sweep export grid.sqlite --format csv --out grid.csv",
        fmt::join(names, ", "));
  }();
  return text;
}

}  // namespace

void register_sweep(Registry<Verb>& registry) {
  registry.add(
      {.name = "sweep",
       .summary = "a grid of predictions in an SQLite file: every combination of options with several values",
       .usage = "--model A,B --system X,Y --devices N,N --out FILE [options]\n"
                "       tandem sweep show FILE | export FILE | merge FILE... --out FILE\n"
                "       tandem sweep merge --shards N --out FILE",
       .flags = sweep_flags(),
       .most_words = 10'000,
       .next =
           [](const std::vector<std::string>& before) {
             return before.empty() ? kFurther : std::vector<std::string>();
           },
       .run = run_sweep_verb,
       .details = sweep_details()});
}

}  // namespace tandem::app
