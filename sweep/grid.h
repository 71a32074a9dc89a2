// SPDX-License-Identifier: Apache-2.0
#pragma once
// A grid of questions: options of answers/question.h with several values each, and every combination of them.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answers/question.h"

namespace tandem::sweep {

/// As a value of an option: as if the option were not given.
inline constexpr std::string_view kUnset = "default";

/// A given option with its values, of which a cell has one.
struct Axis {
  std::string option;               ///< "batch", "set"
  std::string path;                 ///< of "set" and "swap": what is changed, "links.pcie.bandwidth"
  std::string column;               ///< its column in a file: "batch", "set.nodes", "batch_split", "with_2"
  std::vector<std::string> values;  ///< at least one, no two the same
  bool operator==(const Axis&) const = default;
};

/// One of several parts of a grid, which share no cell and are all of it. Cells next to each other, or a
/// fixed number apart, fall into different parts as evenly as they can.
struct Shard {
  static constexpr int64_t kMost = 1'000'000;
  int64_t index = 0, count = 1;
  /// Which of `count` parts a cell falls into.
  static int64_t index_of(int64_t position, int64_t count);
  bool has(int64_t position) const { return index_of(position, count) == index; }
  /// "3/8". Throws InputError unless 0 <= index < count.
  static Shard parse(const std::string& text, const Place& place);
  std::string text() const;
  bool operator==(const Shard&) const = default;
};

/// A value; any thread may read it.
class Grid {
 public:
  using Options = std::vector<std::pair<std::string, std::string>>;
  static constexpr int64_t kMostCells = 10'000'000;

  /// Of each option all values of all times that it is given, divided at commas (docs/sweep.md). A repeatable
  /// option is an axis each time. Throws UsageError: "model", "system" or "devices" is missing, a value is
  /// empty or there twice, more than kMostCells.
  static Grid read(const Values& values);
  static Grid from_json(const Json& document);
  /// An object: columns with their lists of values.
  JsonWriter to_json() const;

  const std::vector<Axis>& axes() const { return axes_; }
  int64_t cells() const { return cells_; }
  /// Which value of each axis a cell has. Cells are numbered from 0, the last axis first; axes are in the
  /// order of question_options().
  std::vector<std::size_t> choice(int64_t position) const;
  /// Texts of the values of a cell, one for each axis.
  std::vector<std::string> values(int64_t position) const;
  /// The options of a cell for Question::of(). Those of kUnset are left out.
  Options options(int64_t position) const;
  /// All cells of the shard in an order in which those come together that train the same on different
  /// systems.
  std::vector<int64_t> order(const Shard& shard) const;
  bool operator==(const Grid&) const = default;

 private:
  void count();
  std::vector<Axis> axes_;
  int64_t cells_ = 0;
};

/// Whether an option is about the machine: cells that differ in these alone train the same.
bool of_machine(std::string_view option);

}  // namespace tandem::sweep
