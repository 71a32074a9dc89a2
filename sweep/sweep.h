// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers all questions of a grid and keeps the answers in a file.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "answers/question.h"
#include "sweep/desk.h"
#include "sweep/grid.h"
#include "sweep/store.h"

namespace tandem::sweep {

/// How far a sweep is.
struct Progress {
  int64_t cells = 0;   ///< to be in the file
  int64_t done = 0;    ///< of these, in the file
  double seconds = 0;  ///< since the start
  double left = 0;     ///< seconds, at the speed so far; 0: unknown yet
};

struct SweepQuestion {
  Header header;
  Hooks hooks;
  std::string out;                          ///< the file; of a shard see shard_file()
  int threads = 1;                          ///< the answers do not depend on it
  std::chrono::milliseconds together{100};  ///< a finished cell waits so long for others at most
  const std::atomic<bool>* stop =
      nullptr;  ///< once true, cells that are not answered yet are left; null: never
  std::function<void(const Progress&)> progress = {};  ///< from another thread; may be empty
  Others others = {};
};

struct Outcome {
  std::string file;       ///< with all cells, or if it was stopped with those so far
  int64_t cells = 0;      ///< that should be there
  int64_t done = 0;       ///< that are
  int64_t before = 0;     ///< of these: found in the file, or in those of earlier attempts
  bool complete = false;  ///< all are, as their questions are now
  int64_t lost = 0;       ///< threads of Others that did not come back; their cells were answered here
};

/// "grid.sqlite" as "grid.shard-3-of-8.sqlite"; the whole grid's file is `out` itself.
std::string shard_file(const std::string& out, const Shard& shard);

/// Answers what is not in the file yet. A cell is kept within SweepQuestion::together of being answered,
/// whatever ends the process; one that cannot be answered is kept with its reason. A shard is answered in a
/// file of this attempt's own (".part"), which takes what earlier attempts left and replaces shard_file()
/// when it is whole: two attempts at once, on any machines, do no harm. So is a grid whose file another build
/// answered, after a note. Throws UsageError and InputError:
/// values that no question may have, names that do not exist, another sweep in the file, another process that
/// writes it, SQLite's errors.
Outcome answer_grid(const SweepQuestion& question);

/// Copies all cells of files with the same grid, depth and build into `out`, whose cells count too if it
/// exists. Equal cells are kept once. Throws InputError: files that differ, or unequal cells, which both
/// files are named for. Returns how many cells there are and should be.
Outcome merge(const std::vector<std::string>& files, const std::string& out);

/// Of the cells that a file lacks of its whole grid: "shard 3/8 (12,500 cells)", for shards of `count`.
std::vector<std::string> missing_shards(Store& store, int64_t count);

/// Cells as Store::each() gives them, as CSV (RFC 4180), without question and report.
std::string csv(Store& store, std::string_view which = Store::kAll);

}  // namespace tandem::sweep
