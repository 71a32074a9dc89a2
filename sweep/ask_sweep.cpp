// SPDX-License-Identifier: Apache-2.0
#include "sweep/ask_sweep.h"

#include "base/version.h"

namespace tandem::sweep {

std::vector<Option> sweep_options() {
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
       {"threads", "N",
        "default: one per processor, under mpirun one per process; the answers do not depend on it"}});
  return out;
}

SweepQuestion read_sweep_question(const Values& given, const Hooks& hooks, int64_t threads) {
  given.required("out", "grid.sqlite");
  const Values values = with_question(given, sweep_options(), hooks.note);
  SweepQuestion q;
  q.header.grid = Grid::read(values);
  q.header.depth = values.text("depth", "rate");
  values.value("depth", "rate", parse_depth);
  q.header.build = build_name();
  q.header.shard = values.value("shard", "0/1", Shard::parse);
  q.hooks = hooks;
  q.out = values.text("out", "");
  q.threads = static_cast<int>(values.integer("threads", threads, 1, 1024));
  return q;
}

}  // namespace tandem::sweep
