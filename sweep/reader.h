// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions of cells, each made from the most similar of those before.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "answers/question.h"
#include "sweep/cell.h"
#include "sweep/grid.h"

namespace tandem::sweep {

/// Models and machines are read once for each that occurs, Programs are compiled once for all readers. For
/// one thread at a time.
class Reader {
 public:
  /// Both must outlive it.
  Reader(const Grid& grid, const Hooks& hooks, std::shared_ptr<Programs> programs)
      : grid_(grid), hooks_(hooks), programs_(std::move(programs)) {}
  /// The question of a cell; null where it cannot be read: then cell.refusal says why. Valid until the next
  /// call.
  const Question* read(int64_t position, AskedCell& cell);

 private:
  const Question& base(const std::vector<std::size_t>& choice, const Grid::Options& options);

  const Grid& grid_;
  const Hooks& hooks_;
  std::shared_ptr<Programs> programs_;
  /// By the choices of what is read from files or takes long to set up.
  std::map<std::vector<std::size_t>, Question> bases_;
  std::optional<Question> question_;
};

/// The row of a cell, or nothing if its question still has the key `known`: then the file has that row.
std::optional<Row> answer_cell(Reader& reader, const Grid& grid, int64_t position, const std::string& known,
                               Depth depth);

/// Throws UsageError or InputError for a value that no cell can have, whatever the other options: a model,
/// machine, scheme or recipe that does not exist, a number out of range. Notes on models go to `hooks`. Ends
/// early once `stop` is true.
void check_grid(const Grid& grid, const Hooks& hooks, const std::atomic<bool>* stop = nullptr);

}  // namespace tandem::sweep
