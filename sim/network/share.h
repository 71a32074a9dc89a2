// SPDX-License-Identifier: Apache-2.0
#pragma once
// Max-min fair sharing of resources between fluid flows, incremental. Knows no networks.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/plan/plan.h"

namespace tandem::sim {

/// Rates r_f maximal in the max-min sense subject to, for every resource l,
///   sum over flows f of weight(f, l) * r_f <= capacity(l),   and r_f <= cap_f.
/// Flows are added and removed one at a time; update() then solves by progressive filling only what these
/// changes can reach. Filling fixes slow flows first, and a flow that goes or comes touches nothing that was
/// fixed below its own rate: so only the flows at or above that level count, and of those only the ones
/// joined to the change by full resources. Resources with room to spare are checked afterwards; one that
/// turns out too small joins, and the change is solved once more. Deterministic.
/// For one thread at a time.
class FairShare {
 public:
  using FlowId = uint32_t;
  /// Throws InputError for a capacity that is not finite or negative.
  explicit FairShare(std::vector<double> capacity);
  /// Registers a flow; ids are reused after remove(). `uses` is copied; uses of one link add up. cap 0 =
  /// none; a flow with neither uses nor cap has infinite rate. Throws InputError for weights that are not
  /// finite or negative. O(uses).
  FlowId add(std::span<const Use> uses, double cap);
  void remove(FlowId flow);
  /// Solves what changed. Returns the flows whose rate is not what it was at the last update(), new ones
  /// included; valid until the next call. O(k log k) in the uses k of the flows reached.
  const std::vector<FlowId>& update();
  /// As of the last update().
  double rate(FlowId flow) const { return rate_[flow]; }
  std::size_t active() const { return active_; }

 private:
  struct Share {
    uint32_t link = 0;
    float weight = 0;
  };
  struct Flow {
    uint32_t first = 0, count = 0;  ///< its shares in pool_
  };
  struct Member {
    FlowId flow;
    float weight;
  };
  /// A link while solving.
  struct Filling {
    double left = 0, load = 0;  ///< capacity left; weight of the flows not yet fixed
    uint32_t open = 0;          ///< how many these are
    uint32_t seen = 0;          ///< round in which it was reached
    double level() const { return left > 0 && load > 0 ? left / load : 0; }
  };
  struct Level {
    double level;
    uint32_t index;  ///< of a link, or kCap + a flow
  };
  void reserve_shares(FlowId flow, std::size_t count);
  void touch(uint32_t link);
  void reach(FlowId flow);
  double threshold();
  void gather(double threshold);
  void fill();
  void sink(std::size_t at);
  void saturate(uint32_t link, double level);
  bool book();
  void undo();
  void fix(FlowId flow, double rate);

  // What solving walks through is kept apart from the rest, so that it stays in the cache.
  std::vector<double> capacity_;
  std::vector<std::vector<Member>> members_;          ///< [link]
  std::vector<std::vector<uint32_t>> member_shares_;  ///< [link]: index into pool_ of each member
  std::vector<Filling> filling_;                      ///< [link]
  std::vector<double> usage_;                         ///< [link]: sum of weight x rate
  std::vector<uint8_t> full_;  ///< [link]: the bottleneck of some flow, or to be taken for one
  std::vector<Flow> flows_;
  std::vector<double> rate_, before_;  ///< [flow]: kOpen while solving; before update(), kNew when new
  std::vector<double> cap_;            ///< [flow]: infinite without one
  std::vector<uint32_t> room_;         ///< [flow]: shares reserved
  std::vector<Share> pool_;
  std::vector<uint32_t> position_;  ///< [index into pool_]: in the link's list of members
  std::vector<FlowId> free_, changed_, added_, reached_;
  std::vector<uint32_t> dirty_, area_;  ///< links of changed flows; links reached
  std::vector<uint32_t> overfull_;      ///< links outside the area that cannot carry the new rates
  std::vector<Level> heap_;
  double removed_level_ = 0;  ///< least rate among flows removed since the last update()
  uint32_t round_ = 0;
  std::size_t open_ = 0;  ///< reached flows not yet fixed
  std::size_t active_ = 0;
};

}  // namespace tandem::sim
