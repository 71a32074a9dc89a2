#pragma once
// Collectives among threads that share memory: the schedules of schemes/collectives, step by step. Floor 3.
#include <memory>
#include <string>
#include <vector>

#include "exec/sync.h"
#include "schemes/collectives.h"

namespace tandem {

/// One group's collectives of one kind and algorithm. Every member calls run() from its comm lane, in the
/// same order; calls of one group must not overlap (lanes are in order, so they do not).
class GroupCollective {
 public:
  /// `local`: consecutive ranks that share a node. "auto" is "direct" where it may be, else "ring". Throws
  /// InputError when the algorithm does not do that kind for that group.
  GroupCollective(CollKind kind, const std::string& algorithm, uint32_t ranks, uint32_t local, Abort& abort,
                  int spins);

  /// In place on `elements` floats of this rank. Sums are made in the schedule's order, so the result depends
  /// on no timing. Returns when the last member had arrived (now_ns()).
  int64_t run(uint32_t rank, float* buffer, int64_t elements);
  uint32_t ranks() const { return static_cast<uint32_t>(members_.size()); }

 private:
  struct Pull {  ///< what a rank takes in one step
    uint32_t from;
    uint32_t offset, count;  ///< in chunks
    bool reduce;
  };
  struct RankStep {
    std::vector<Pull> pulls;
    std::vector<uint32_t> waits;  ///< ranks that must have finished the step before
    bool staged = false;  ///< what is taken in overlaps what others take from here: it goes to `stage` and
                          ///< in place in the next step
  };
  struct alignas(64) Member {
    Progress done;  ///< steps finished, counted over all runs; arriving counts as one
    float* buffer = nullptr;
    int64_t arrived[2] = {0, 0};  ///< of this and the last run, in turn
    uint32_t runs = 0;
    std::vector<RankStep> steps;
    std::vector<float> stage;
  };
  void plan(const Schedule& schedule);
  void pull(Member& me, const RankStep& step, int64_t elements);
  void place(Member& me, const RankStep& step, int64_t elements);

  uint32_t chunks_ = 1;
  std::vector<std::unique_ptr<Member>> members_;
  Abort& abort_;
  int spins_;
};

}  // namespace tandem
