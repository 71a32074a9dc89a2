// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/sweep_asking.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <thread>

#include "app/analysis/asking.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/version.h"
#include "exec/comm/ranks.h"

namespace tandem::app {

std::vector<Option> sweep_flags() {
  std::vector<Option> out = question_options();
  for (Option& option : out) {
    option.repeatable = true;
    if (option.value.empty()) option.value = "true|false";
  }
  out.insert(
      out.end(),
      {question_flag(),
       {"out", "FILE", "the SQLite file, or of show and export the result's; goes on with one that exists"},
       {"depth", "rate|report|full",
        "rate (default): throughput, staleness, memory; report: speed-up too, and each cell's whole "
        "report; full: its bottleneck too"},
       {"shard", "I/N", "only that part of the cells, 0/8 to 7/8, in its own file: grid.shard-0-of-8.sqlite"},
       {"shards", "N", "merge: the files of N shards, as they are named for --out"},
       {"threads", "N",
        "default: one per processor, under mpirun one per process; the answers do not depend on it"},
       {"sort", "COLUMN", "show: by this column of the file, largest first; default samples_per_second"},
       {"ascending", "", "show: smallest first"},
       {"top", "N", "show: that many cells; default 20"},
       {"format", "text|json|csv|md|parquet",
        "show: text (default), json, csv or md; export: csv (default) or parquet, which DuckDB writes"},
       wide_flag(),
       quiet_flag()});
  return out;
}

void check_database_out(const Arguments& arguments) {
  check_out(arguments);
  const std::string out = arguments.text("out", "");
  if (out == "-") refuse_option("out", "the answers are an SQLite file, which standard output cannot hold");
  std::error_code none;
  if (std::filesystem::exists(out, none) && !std::filesystem::is_regular_file(out, none))
    throw InputError(fmt::format("{}: is no regular file", printable(out)));
}

sweep::SweepQuestion sweep_question(const Arguments& given, const std::vector<Option>& flags) {
  for (const char* other : {"sort", "top", "ascending", "format", "wide", "shards"}) {
    if (given.has(other))
      throw UsageError(fmt::format("--{} is for tandem sweep {}", other,
                                   std::string_view(other) == "shards" ? "merge" : "show"));
  }
  given.required("out", "grid.sqlite");
  if (exec::ranks().rank == 0) check_database_out(given);
  const Arguments arguments = with_question(given, flags);
  sweep::SweepQuestion q;
  q.header.grid = sweep::Grid::read(arguments);
  q.header.depth = arguments.text("depth", "rate");
  arguments.value("depth", "rate", sweep::parse_depth);
  q.header.build = build_name();
  q.header.shard = arguments.value("shard", "0/1", sweep::Shard::parse);
  q.hooks = hooks(arguments);
  q.out = arguments.text("out", "");
  // A process of several has as many processors as mpirun was told: one, unless --threads says otherwise.
  const int64_t processors = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64);
  q.threads =
      static_cast<int>(arguments.integer("threads", exec::ranks().several() ? 1 : processors, 1, 1024));
  q.stop = &interrupted;
  return q;
}

}  // namespace tandem::app
