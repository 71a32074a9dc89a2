// SPDX-License-Identifier: Apache-2.0
#pragma once
// The search for the fastest ways to train: best first, by bounds that are refined until what is on top has
// been simulated.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/candidates.h"
#include "answers/question.h"
#include "answers/way_bounds.h"
#include "schemes/report/report.h"

namespace tandem::answers {

/// How well what a search finds is known. Each bounds the rate of those below it from above, unless they find
/// that nothing fits without offloading.
enum class Until : uint8_t {
  stage,  ///< by a stage's time, and the least that it must hold fits: the others may find that it does not
  undisturbed,  ///< by sim::undisturbed(), and it fits
  simulated
};

/// How a search is made.
struct Search {
  std::size_t top = 5;                 ///< choices that are reported
  int threads = 1;                     ///< do not change the result
  std::optional<Recompute> recompute;  ///< unset: the least that makes a candidate fit
  std::optional<Offload> offload;      ///< unset: none, or the least that makes one fit where none does
  std::optional<Recipe> recipe;        ///< unset: that of each scheme
  bool full_memory = false;            ///< ways that leave less than a tenth of it free are taken like others
  Until until = Until::simulated;
  /// May be empty; called by one thread at a time. `share`: of the work that the text names, what is done.
  std::function<void(std::string_view text, std::optional<double> share)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< the search ends when it becomes true; null: never
  bool stopped() const { return stop != nullptr && *stop; }
  void say(std::string_view text, std::optional<double> share = std::nullopt) const {
    if (progress) progress(text, share);
  }
};

/// What lets a candidate fit.
struct Saver {
  Recompute recompute;
  Offload offload;
};

/// A candidate that fits.
struct Way {
  Candidate candidate;
  Saver saver;
  double rate = 0;     ///< samples/s without noise; or an upper bound, see Search::until
  bool tight = false;  ///< it comes last, as it leaves less than a tenth of a device's memory free
};

/// The result for one of the schemes that were asked about.
struct Outcome {
  std::string scheme;
  double rate = 0;        ///< samples/s of its best simulated candidate
  double at_most = 0;     ///< no candidate was simulated: no one that fits is faster
  Bytes needs, capacity;  ///< no candidate fits: of the one that needs least
  HostMemory host = {};   ///< it fits its devices but not the host's memory: of the one that needs least
  std::string refusal;    ///< why no candidate compiles
};

struct Ways {
  std::vector<Way> ranked;  ///< the best of each Candidate::shape(), fastest first; those that are tight last
  std::vector<Outcome> outcomes;  ///< one per scheme, in order
  int64_t count = 0;              ///< of candidates
  int64_t simulated = 0;
  /// False: the search hit its limit or was interrupted, so an untested candidate may be faster than the
  /// second.
  bool complete = true;
};

/// A* over candidates. Each has an upper bound of its rate, which is refined when it is the highest of all:
/// by arithmetic at peak, by a stage's time where the least it must hold fits, by an evaluation without
/// contention and noise where all that it holds fits, by a simulation without noise. Steps of many
/// micro-batches are bounded and simulated by two shorter ones: a full pipeline takes the same time for each.
/// When the second best simulated is above all bounds it is decided; ways of other shapes are then taken as
/// they come, up to `search.top`. Of recomputation the least that lets a candidate fit is taken, of none,
/// norms and activations, blocks. What leaves less than a tenth of the memory is taken last, unless
/// `search.full_memory`, and where nothing fits with offloading; a search that was given --offload leaves
/// that as it is. At most 400 candidates are simulated (40 on more than 64 devices). The result depends on
/// `threads` in nothing. Where `search.stop` is set the search ends with what it has found, which may be
/// nothing. Throws InputError where no candidate fits, none exists, or the devices lack a precision. `bounds`
/// are of the same question; `space` may have any devices of its system.
Ways find_ways(const Question& question, const Space& space, const Search& search, WayBounds& bounds);

/// "256 samples", "1 sample".
std::string samples_words(int64_t count);

}  // namespace tandem::answers
