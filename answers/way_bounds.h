// SPDX-License-Identifier: Apache-2.0
#pragma once
// Closed forms and small simulations that bound what a candidate (answers/candidates.h) can reach, and what
// it must hold: most of a search's candidates are never compiled.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "answers/candidates.h"
#include "answers/question.h"

namespace tandem::answers {

/// The bounds of one question's model on one system, for any number of devices. `question` must outlive it.
/// Any thread may call; threads that ask the same at once compute it each.
class WayBounds {
 public:
  /// `recipe` replaces that of each scheme.
  explicit WayBounds(const Question& question, std::optional<Recipe> recipe = {});

  ResolvedScheme resolved(const std::string& scheme) const;

  /// Samples/s if all devices did nothing but the model's arithmetic at their peak: KernelCost::seconds() is
  /// never less. O(1).
  double peak_rate(const Candidate& c) const;
  /// Samples/s if replicas exchanged nothing. With t the time of a micro-batch on all stages that is not its
  /// host's, p stages, v chunks, m micro-batches and b equal blocks of time u a step takes at least t (m + (p
  /// - 1) / v) / p, with a quarter of the fill where the schedule is zero-bubble (forward alone, a quarter of
  /// the work where blocks run forward twice), and as long as the stage with the most blocks: t + (m - 1)
  /// ceil(b / p) u. The last stage of an interleaved pipeline may be shorter, for which 3 % are allowed. 0
  /// where the stage is impossible. Cost: one compilation and three steps of one stage, once for each
  /// Candidate::stage_scheme, batch, precision and `recompute`.
  double stage_rate(const Candidate& c, const Recompute& recompute);
  /// Least bytes a device holds: parameters, the optimiser's state, and what backward keeps of micro-batches
  /// under way: the first of p stages has as many as there are stages, each of its floor(b / p) of b equal
  /// blocks; the first or the last has at least half of everything. Nothing of what is offloaded. Cost:
  /// two walks, once for each Candidate::stage_scheme, precision and `recompute`.
  double least_bytes(const Candidate& c, const Recompute& recompute, const Offload& offload = {});
  /// What devices of this candidate hold besides parameters, gradients and state: longer pipelines of the
  /// same schedule hold at least nine tenths of it. While no other thread calls.
  void learn(const Candidate& c, const Recompute& recompute, Bytes activations);

  /// Candidates that divide the model in the same way, by Candidate::split(), and how a search makes them
  /// fit.
  using Misfit = std::tuple<std::string, std::size_t, bool, bool>;
  /// A batch that does not fit on this number of replicas: nor does a larger one, nor one on fewer of them.
  struct TooBig {
    int64_t batch = 0, replicas = 0;
    bool tight = false;  ///< it would if it need not leave room
    bool covers(const Candidate& c) const { return c.batch >= batch && c.replicas <= replicas; }
  };
  /// What was marked, for searches with the same options; null: nothing. While no other thread calls.
  const TooBig* too_big(const Misfit& misfit) const;
  void mark_too_big(const Misfit& misfit, const TooBig& what);

 private:
  using Schedule = std::tuple<std::string, int, std::string, int64_t, bool>;
  struct Learned {
    int64_t pipeline = 0, batch = 0;
    double block = 0;  ///< bytes of a sample in a block
  };
  static Schedule schedule(const Candidate& c, const Recompute& recompute);
  double learned_bytes(const Candidate& c, const Recompute& recompute) const;
  /// Seconds of a micro-batch on all stages of a pipeline, one after another; of them those in which devices
  /// do not wait for their hosts, which go on issuing while a pipeline fills.
  struct StageTime {
    double step = 0, device = 0;
  };
  using Key = std::tuple<std::string, int64_t, int, std::string>;
  template <typename Value, typename Find>
  Value known(std::map<Key, Value>& of, const Key& key, Find find);
  Request stage(const Candidate& c, int64_t batch, const Recompute& recompute,
                const ResolvedScheme& scheme) const;
  std::string micro_batch_option(const Candidate& c) const;
  StageTime find_time(const Candidate& c, const Recompute& recompute) const;
  StageTime step(const Candidate& c, const Recompute& recompute, const std::string& text,
                 int64_t micro) const;
  double kept_bytes(const Candidate& c, int64_t batch, const Recompute& recompute) const;
  double state_bytes(const Candidate& c, const Offload& offload) const;
  double most_outside_blocks(const Candidate& c) const;
  double held_blocks(const Candidate& c) const;
  double held_bytes(const Candidate& c, double sample);

  const Question& q_;
  std::optional<Recipe> recipe_;
  std::map<Precision, double> peak_;  ///< samples/s of one device
  int64_t blocks_ = 0;                ///< equal ones that the model repeats; 0: none
  double in_blocks_ = 0;              ///< their share of its arithmetic
  std::map<Schedule, Learned> learned_;
  std::map<Misfit, TooBig> too_big_;
  std::mutex mutex_;
  std::map<Key, StageTime> times_;
  std::map<Key, double> kept_, outside_;
};

}  // namespace tandem::answers
