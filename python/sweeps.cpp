// SPDX-License-Identifier: Apache-2.0
#include "python/sweeps.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/json_writer.h"
#include "python/document.h"
#include "python/keywords.h"
#include "sweep/ask_sweep.h"
#include "sweep/sweep_json.h"

namespace tandem::python {

namespace nb = nanobind;

namespace {

/// One shard of a sweep, as it is sent to a worker.
struct ShardTask {
  std::string grid, depth, build, shard, out;

  using State = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  State state() const { return {grid, depth, build, shard, out}; }
  static ShardTask of(const State& s) {
    return {std::get<0>(s), std::get<1>(s), std::get<2>(s), std::get<3>(s), std::get<4>(s)};
  }
  /// Answers its cells with one thread; returns its file.
  std::string answer() const {
    const nb::gil_scoped_release others;
    SweepQuestion q;
    q.header.grid = sweep::Grid::from_json(Json::parse(grid, "grid"));
    q.header.depth = depth;
    q.header.build = build;
    q.header.shard = sweep::Shard::parse(shard, {});
    q.hooks = hooks({});
    q.out = out;
    return answer_grid(q).file;
  }
};

int64_t processors() { return std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64); }

/// As many as the executor says that it has workers, else as this machine has processors.
int64_t workers_of(nb::handle executor) {
  if (!nb::hasattr(executor, "_max_workers")) return processors();
  return std::max<int64_t>(1, nb::cast<int64_t>(executor.attr("_max_workers")));
}

/// Answers the grid by shards, each a task of the executor, and merges their files, which must lie in a
/// folder that all workers share.
void sweep_by(nb::handle executor, int64_t shards, const SweepQuestion& q) {
  std::vector<nb::object> futures;
  for (int64_t i = 0; i < shards; ++i) {
    const ShardTask task{q.header.grid.to_json().dump(), q.header.depth, q.header.build,
                         sweep::Shard{i, shards}.text(), q.out};
    futures.push_back(executor.attr("submit")(nb::cast(task)));
  }
  std::vector<std::string> files;
  for (const nb::object& future : futures) files.push_back(nb::cast<std::string>(future.attr("result")()));
  const nb::gil_scoped_release others;
  merge(files, q.out);
  for (const std::string& file : files) {
    if (file != q.out) sweep::remove_store(file);
  }
}

Document sweep_grid(const nb::kwargs& keywords) {
  static const std::vector<Option> options = sweep::sweep_options();
  const nb::dict own = nb::cast<nb::dict>(keywords.attr("copy")());
  const nb::object executor = own.attr("pop")("executor", nb::none());
  const nb::object asked = own.attr("pop")("shards", nb::none());
  const Values values = read_keywords("sweep", options, own);
  if (executor.is_none() && !asked.is_none()) refuse_option("shards", "needs an executor");
  if (!executor.is_none() && values.has("shard")) refuse_option("shard", "cannot be given with an executor");
  std::vector<std::string> notes;
  const SweepQuestion q = read_sweep_question(
      values, hooks([&](std::string_view text) { notes.emplace_back(text); }), processors());
  std::string file = q.out;
  if (executor.is_none()) {
    const nb::gil_scoped_release others;
    file = answer_grid(q).file;
  } else {
    const int64_t shards = asked.is_none() ? workers_of(executor)
                                           : parse_integer(text_of("shards", asked), 1, sweep::Shard::kMost,
                                                           option_place("shards"));
    sweep_by(executor, std::min(shards, q.header.grid.cells()), q);
  }
  return {[file] {
            sweep::Store store = sweep::Store::read(file);
            return sweep_json(store);
          },
          std::move(notes)};
}

}  // namespace

void bind_sweep(nb::module_& module) {
  nb::class_<ShardTask>(module, "SweepShard", "What sweep() submits to an executor: a shard of the grid.")
      .def("__call__", &ShardTask::answer, "Answers its cells; returns its file.")
      .def("__getstate__", &ShardTask::state)
      .def("__setstate__", [](ShardTask& task, const ShardTask::State& state) {
        new (&task) ShardTask(ShardTask::of(state));
      });
  static const std::vector<Option> options = sweep::sweep_options();
  static const std::string signature =
      signature_of("def sweep(*, executor: typing.Any = None, shards: int | None = None", options, "Report");
  static const std::string doc = docstring_of(
      "A grid of predictions in an SQLite file: every combination of options with several values.\n\n"
      "With an executor, anything with submit(), its workers answer a shard each; they share the folder of "
      "the file. shards: how many; default as many as it has workers.",
      options, "Report: a \"tandem-sweep-1\" document: its rows are the file's, without question and report");
  module.def("sweep", &sweep_grid, nb::sig(signature.c_str()), doc.c_str());
}

}  // namespace tandem::python
