// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which way to train is predicted to be fastest: a search over candidates (answers/candidates.h).
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answers/candidates.h"
#include "answers/question.h"
#include "answers/way_search.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// A candidate with what makes it fit, and its prediction.
struct Choice {
  Candidate candidate;
  Recompute recompute;
  Offload offload;
  Report report;
  /// Of its samples/s over the first choice's; errors that both have cancel.
  Report::Interval to_first = {1, 1};
  bool tight = false;  ///< it comes last, as it leaves less than a tenth of a device's memory free
};

struct Advice {
  std::vector<Choice> ranked;                ///< the best of each Candidate::shape(), fastest first
  std::optional<double> first_beats_second;  ///< probability; unset with one choice
  std::vector<Outcome> outcomes;             ///< one per scheme, in order
  int64_t ways = 0;                          ///< number of candidates
  int64_t simulated = 0;
  /// False: the search hit its limit or was interrupted, so an untested candidate may be faster than the
  /// second.
  bool complete = true;
  bool interrupted = false;
  /// What the first choice would give with more samples per step, if that is at least a tenth more; up to the
  /// size beyond which four times as many samples gain little.
  struct Larger {
    int64_t samples = 0;
    std::string scheme;
    int64_t devices = 1, batch = 1;
    double rate = 0;
  };
  std::optional<Larger> larger;
};

/// find_ways() (answers/way_search.h) with predictions of what it found, the first at Depth::full and the
/// others at Depth::fit. As each is simulated as `predict` does, no candidate of a complete search that is
/// not tight in memory is predicted faster than the first. `question`: its scheme, batch, precision,
/// recomputation and offload count for nothing. The result depends on `threads` in nothing. Throws as
/// find_ways() does.
Advice advise(const Question& question, const Space& space, const Search& search);

/// P(a is faster than b) when both rates are lognormal to either side and errors that both have cancel
/// (ratio_interval()).
double probability_faster(const Report& a, const Report& b);

}  // namespace tandem::answers
