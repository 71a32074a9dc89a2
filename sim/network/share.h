#pragma once
// Max-min fair sharing of resources between fluid flows, incremental. Knows no networks. Floor 3.
#include <cstdint>
#include <span>
#include <vector>

#include "sim/plan.h"

namespace tandem {

/// Rates r_f maximal in the max-min sense subject to, for every resource l,
///   sum over flows f of weight(f, l) * r_f <= capacity(l),   and r_f <= cap_f.
/// Flows are added and removed one at a time; only the connected component they touch is solved anew.
class FairShare {
 public:
  using FlowId = uint32_t;
  explicit FairShare(std::vector<double> capacity);
  /// Registers a flow; ids are reused after remove(). `uses` is copied. cap 0 = none; a flow with neither
  /// uses nor cap has infinite rate.
  FlowId add(std::span<const Use> uses, double cap);
  void remove(FlowId flow);
  /// Solves what changed; calls `changed(flow, rate)` semantics via changed_flows(): flows whose rate is
  /// not what it was at the last update(), in increasing id.
  const std::vector<FlowId>& update();
  double rate(FlowId flow) const;
  std::size_t active() const;

 private:
  struct Flow {
    std::vector<Use> uses;
    double cap = 0, rate = 0;
    bool live = false;
  };
  std::vector<double> capacity_;
  std::vector<Flow> flows_;
  std::vector<FlowId> free_, changed_;
};

}  // namespace tandem
