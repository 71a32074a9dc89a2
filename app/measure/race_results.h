// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a race has measured so far, in a file that grows line by line, so that a race that was cut off goes
// on.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_writer.h"

namespace tandem::app {

/// For one thread.
class RaceResults {
 public:
  using Values = std::vector<double>;

  /// Without a file nothing is kept. `race` says what is raced: a file of another race is an InputError, and
  /// so is a line that is no result; a last line that was cut off is not there.
  RaceResults(std::string file, const JsonWriter& race);

  /// What is known of it, else what `measure` gives, which is written down; nothing where that gives nothing.
  std::optional<Values> get(const std::string& what, const std::function<std::optional<Values>()>& measure);
  bool knows(const std::string& what) const { return known_.count(what) > 0; }
  int64_t size() const { return static_cast<int64_t>(known_.size()); }

 private:
  void append(const std::string& line) const;

  std::string file_;
  std::map<std::string, Values> known_;
};

}  // namespace tandem::app
