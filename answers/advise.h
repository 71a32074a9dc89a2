// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which way to train is predicted to be fastest: a search over candidates (answers/candidates.h).
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/candidates.h"
#include "answers/question.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// How a search is made.
struct Search {
  std::size_t top = 5;                 ///< choices that are reported
  int threads = 1;                     ///< do not change the result
  std::optional<Recompute> recompute;  ///< unset: the least that makes a candidate fit
  std::optional<Offload> offload;      ///< unset: none, or the least that makes one fit where none does
  std::optional<Recipe> recipe;        ///< unset: that of each scheme
  std::function<void(std::string_view)> progress;  ///< may be empty; called by one thread at a time
  const std::atomic<bool>* stop = nullptr;         ///< the search ends when it becomes true; null: never
};

/// A candidate with what makes it fit, and its prediction.
struct Choice {
  Candidate candidate;
  Recompute recompute;
  Offload offload;
  Report report;
};

/// The result for one of the schemes that were asked about.
struct Outcome {
  std::string scheme;
  double rate = 0;        ///< samples/s of its best simulated candidate
  double at_most = 0;     ///< no candidate was simulated: upper bound of those that fit
  Bytes needs, capacity;  ///< no candidate fits: of the one that needs least
  HostMemory host = {};   ///< it fits its devices but not the host's memory: of the one that needs least
  std::string refusal;    ///< why no candidate compiles
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

/// Candidates are taken in the order of a bound on their rate: the time of one micro-batch on one stage,
/// simulated without update, input and noise, times the micro-batches and the pipeline's bubble where all
/// stages are equal. Those that fit are simulated until no bound is above the second best, or 400 are (60 on
/// more than 64 devices). As each is simulated as `predict` does, no candidate of a complete search is
/// predicted faster than the first. Of recomputation the least that lets a candidate fit is taken, of none,
/// norms and activations, blocks. `question`: its scheme, batch, precision, recomputation and offload count
/// for nothing. The result depends on `threads` in nothing. Where `search.stop` is set the search ends with
/// what it has found. Throws InputError where no candidate fits, or none exists.
Advice advise(const Question& question, const Space& space, const Search& search);

/// "256 samples", "1 sample".
std::string samples_words(int64_t count);

/// P(a is faster than b) when both rates are lognormal to either side and errors that both have cancel
/// (ratio_interval()).
double probability_faster(const Report& a, const Report& b);

}  // namespace tandem::answers
