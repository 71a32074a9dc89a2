// SPDX-License-Identifier: Apache-2.0
#pragma once
// The measurements of a race so far, in a file that grows line by line, so that an interrupted race can
// continue.
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

  /// Without a file nothing is kept. `race` identifies the race: a file of another race, or a line that is
  /// not a result, is an InputError; an incomplete last line is ignored.
  RaceResults(std::string file, const JsonWriter& race);

  /// The recorded value, else the result of `measure`, which is recorded; nothing if that gives nothing.
  std::optional<Values> get(const std::string& what, const std::function<std::optional<Values>()>& measure);
  bool knows(const std::string& what) const { return known_.count(what) > 0; }
  int64_t size() const { return static_cast<int64_t>(known_.size()); }

 private:
  void append(const std::string& line) const;

  std::string file_;
  std::map<std::string, Values> known_;
};

}  // namespace tandem::app
