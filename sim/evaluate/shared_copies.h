// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of a node's devices that share its storage, cores and links with each other and with nothing else:
// timed for all of them at once, where a sweep comes to the op.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/evaluate/contention.h"
#include "sim/network/share.h"

namespace tandem::sim {

/// Instances whose copies pass common links are a cluster. One run of a copy op is a fluid problem of its
/// cluster alone, with max-min fair rates as the events have, provided that
///   - all copies of the run before have left when the first of the next sets out (run() throws if not), and
///   - what other lanes move over these links at that time fits as well (exact() tells, at the end).
/// Then nothing else changes these copies' rates, nor they others'. Memory O(instances + runs + times at
/// which others might lack room). For one thread at a time.
class SharedCopies {
 public:
  /// What run() throws.
  struct Overlap {};

  SharedCopies(const BoundProgram& plan, ContendingCopies found);
  bool times(uint32_t role, const Op& op) const { return role == found_.role && op.lane == found_.lane; }
  /// Ends of the copy op `op` of iteration `iteration`, one per instance of the role, given its starts.
  /// O(n^2) in the instances of a cluster. Throws Overlap.
  void run(uint32_t op, uint32_t iteration, const std::vector<int64_t>& start, std::vector<int64_t>& end);
  /// A run of an op of another lane that has transfers, all of them between `begin` and `end`; of one lane in
  /// order.
  void beside(uint32_t role, uint32_t op, int64_t begin, int64_t end);
  /// Whether all that was moved during copies left them their rates.
  bool exact();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Cluster {
    std::vector<uint32_t> rows;
    std::map<uint32_t, uint32_t> link;  ///< index into BoundProgram::capacity: into `share`
    std::optional<FairShare> share;
    int64_t left = 0;  ///< when the last copy of the run before was gone
  };
  struct Flow {
    uint32_t row = 0;
    FairShare::FlowId id = 0;
    const Transfer* transfer = nullptr;
    double bytes = 0, rate = 0;
    int64_t start = 0, end = kNever, delay = 0;
  };
  /// Copies took so much of a link for a time, that not everything else has room as well.
  struct Busy {
    int64_t begin = 0, end = 0;
    double load = 0;
  };
  struct Run {
    int64_t begin = 0, end = 0;
    uint32_t op = 0;
  };
  using Lanes = std::map<std::pair<uint32_t, int>, std::vector<Run>>;  ///< by role and lane

  const Transfer& transfer(uint32_t op, uint32_t row) const;
  void find_clusters(const std::vector<uint32_t>& ops);
  void run_cluster(Cluster& c, std::vector<Flow> flows, std::vector<int64_t>& end);
  void note_busy(const std::vector<Flow>& under_way, int64_t begin, int64_t end);
  double load_of(uint32_t role, uint32_t op, uint32_t watched);
  bool fits(uint32_t watched, const Busy& busy, uint32_t role, const std::vector<Run>& runs);

  const BoundProgram& plan_;
  ContendingCopies found_;
  std::vector<uint32_t> watched_;  ///< [index into BoundProgram::capacity]: index into found_.links, or kNone
  std::vector<Cluster> clusters_;
  std::vector<std::vector<Busy>> busy_;  ///< [index into found_.links]
  std::vector<double> load_;             ///< likewise, while a run is timed
  Lanes lanes_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<double>> loads_;  ///< of a role's op: by watched link
};

}  // namespace tandem::sim
