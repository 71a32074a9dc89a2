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
#include "exec/comm/ranks.h"
#include "sweep/ask_sweep.h"

namespace tandem::app {

std::vector<Option> sweep_flags() {
  std::vector<Option> out = sweep::sweep_options();
  const auto threads =
      std::find_if(out.begin(), out.end(), [](const Option& flag) { return flag.name == "threads"; });
  out.insert(threads, {"shards", "N", "merge: the files of N shards, as they are named for --out"});
  out.insert(
      out.end(),
      {{"sort", "COLUMN", "show: by this column of the file, largest first; default samples_per_second"},
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

sweep::SweepQuestion sweep_question(const Arguments& arguments) {
  for (const char* other : {"sort", "top", "ascending", "format", "wide", "shards"}) {
    if (arguments.has(other))
      throw UsageError(fmt::format("--{} is for tandem sweep {}", other,
                                   std::string_view(other) == "shards" ? "merge" : "show"));
  }
  arguments.required("out", "grid.sqlite");
  if (exec::ranks().rank == 0) check_database_out(arguments);
  // A process of several has as many processors as mpirun was told: one, unless --threads says otherwise.
  const int64_t processors = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64);
  sweep::SweepQuestion q =
      sweep::read_sweep_question(arguments, hooks(arguments), exec::ranks().several() ? 1 : processors);
  q.stop = &interrupted;
  return q;
}

}  // namespace tandem::app
