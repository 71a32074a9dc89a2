// SPDX-License-Identifier: Apache-2.0
#pragma once
// Closed forms and small simulations that bound what a candidate (answers/candidates.h) can reach, and what
// it must hold: most of a search's candidates are never compiled.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

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
  /// The option of its scheme that says how many micro-batches there are; "" where it has none.
  std::string micro_batch_option(const Candidate& c) const;

  /// Samples/s if all devices did nothing but the model's arithmetic at their peak: KernelCost::seconds() is
  /// never less. O(1).
  double peak_rate(const Candidate& c) const;
  /// Samples/s if replicas exchanged nothing. With t the time of a micro-batch on all stages that is not its
  /// host's, p stages, v chunks, m micro-batches and b equal blocks of time u a step takes at least t (m + (p
  /// - 1) / v) / p, with a quarter of the fill where the schedule is zero-bubble (forward alone, a quarter of
  /// the work where blocks run forward twice), and as long as the stage with the most blocks: t + (m - 1)
  /// ceil(b / p) u, or with (b / p) u and the output layer where p divides b: then the last stage has more.
  /// The last stage of an interleaved pipeline may be shorter, for which 3 % are allowed. 0 where the stage
  /// is impossible. Of a model that repeats a block t is extended from the model with two of them and that
  /// with four. Cost: one compilation and three steps of one stage, or of these two, once for each
  /// Candidate::stage_scheme, batch, precision and `recompute`.
  double stage_rate(const Candidate& c, const Recompute& recompute);
  /// Least bytes a device holds: parameters, the optimiser's state, and what backward keeps of micro-batches
  /// under way: the first of p stages has as many as there are stages, each of its blocks. Where blocks are
  /// not equal the first or the last stage has at least half of everything. Nothing of what is offloaded.
  /// Cost: two compilations and half walks, once for each Candidate::stage_scheme, precision and `recompute`.
  double least_bytes(const Candidate& c, const Recompute& recompute, const Offload& offload = {});

  /// Two models with fewer of the equal blocks, which a candidate divides as it does the model itself: the
  /// same blocks are left over, and each part has some fewer. What a step takes lies nearly on a line.
  struct Shorter {
    std::shared_ptr<const Graph> few, more;
    double beyond = 0;  ///< how many times further the whole model is from `more` than `few` is
    double line(double of_few, double of_more) const { return of_more + (of_more - of_few) * beyond; }
  };
  /// None where blocks are not equal, or these two were together no shorter than two thirds of the model.
  std::optional<Shorter> shorter(const Candidate& c);

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
  /// Bytes of a sample: of all of the model, and of a block.
  struct Kept {
    double all = 0, block = 0;
    bool wide_sums = false;  ///< gradients are summed in fp32
  };
  /// Seconds of a micro-batch on all stages of a pipeline, one after another; of them those in which devices
  /// do not wait for their hosts, which go on issuing while a pipeline fills.
  struct StageTime {
    double step = 0, device = 0;
    double block = 0;  ///< of `device` in one of the equal blocks; 0: unknown
  };
  using Key = std::tuple<std::string, int64_t, int, std::string>;
  template <typename Value, typename Find>
  Value known(std::map<Key, Value>& of, const Key& key, Find find);
  Request stage(const Graph& graph, const Candidate& c, int64_t batch, const Recompute& recompute,
                const ResolvedScheme& scheme) const;
  double of_all_blocks(double few, double more) const;
  double longest_stage(const Candidate& c, const StageTime& once) const;
  StageTime find_time(const Candidate& c, const Recompute& recompute) const;
  StageTime step(const Candidate& c, const Recompute& recompute, const std::string& text,
                 int64_t micro) const;
  Kept find_kept(const Candidate& c, const Recompute& recompute) const;
  double state_bytes(const Candidate& c, const Offload& offload) const;
  double sums_bytes(const Candidate& c, const Offload& offload, const Kept& kept) const;
  double own_elements(const Candidate& c) const;
  double held_blocks(const Candidate& c) const;
  double held_bytes(const Candidate& c, const Kept& kept) const;

  const Question& q_;
  std::optional<Recipe> recipe_;
  std::shared_ptr<sim::PricedCollectives> priced_ = std::make_shared<sim::PricedCollectives>(q_.system);
  double parameters_ = 0, dealt_ = 0;
  std::map<Precision, double> peak_;  ///< samples/s of one device
  int64_t repeated_ = 0;              ///< equal_blocks()
  std::vector<Graph> shorter_;        ///< the model with a few of them and with more; or none
  int64_t blocks_ = 0;                ///< equal ones that the model repeats; 0: none
  double in_blocks_ = 0;              ///< their share of its arithmetic
  std::map<Misfit, TooBig> too_big_;
  std::mutex mutex_;
  std::map<Key, StageTime> times_;
  std::map<Key, Kept> kept_;
  std::map<int64_t, std::shared_ptr<const Graph>> with_blocks_;  ///< by their number
};

}  // namespace tandem::answers
