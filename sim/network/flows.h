// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transfers in flight: which finishes next, while their rates change.
#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/indexed_heap.h"
#include "sim/network/min_tree.h"
#include "sim/network/share.h"

namespace tandem::sim {

/// Fluid flows over shared links in virtual time. Rates change only in update(), at which all flows started
/// and finished at that time are known. All flows of a bottleneck have one rate, so each bottleneck counts
/// how much it has served every one of them, and a flow is done when that count has grown by its bytes (the
/// virtual time of generalised processor sharing, Parekh and Gallager 1993): a change of rate costs O(log
/// links) a bottleneck, whatever the flows. Memory O(flows in flight + links). For one thread at a time.
class Flows {
 public:
  explicit Flows(const std::vector<double>& capacity) : share_(capacity) {}
  /// A payload of `bytes` sets out at `now`; `tag` comes back when it has left. Takes effect at update().
  void start(int64_t now, std::span<const Use> uses, double cap, double bytes, uint64_t tag);
  /// Takes out the flows done by `now` (requires now <= next()) and appends their tags in increasing order.
  void finish(int64_t now, std::vector<uint64_t>& tags);
  /// Shares the links again from `now` on. Call once per time, after all start() and finish() of it.
  void update(int64_t now);
  /// When the next flow finishes; kNever when none does.
  int64_t next() const { return next_.least(); }
  bool pending() const { return pending_; }
  std::size_t active() const { return share_.active(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Flow {
    double bytes = 0;
    uint64_t tag = 0;
    uint32_t bottleneck = kNone;  ///< as of the last update()
  };
  struct Bottleneck {
    double served = 0;  ///< bytes of each of its flows, at `since`
    double rate = 0;
    int64_t since = 0;
    IndexedHeap due;  ///< its flows, by the count at which they are done
    bool stale = false;
  };
  void advance(Bottleneck& b, int64_t now);
  void note(uint32_t bottleneck);
  int64_t end_of(const Bottleneck& b) const;
  void erase(Bottleneck& b, uint32_t flow);

  FairShare share_;
  std::vector<Flow> flows_;              ///< by FairShare::FlowId
  IndexedHeap::Places at_;               ///< [flow]: its place in its bottleneck's heap
  std::vector<Bottleneck> bottlenecks_;  ///< by number, as in FairShare
  MinTree next_;                         ///< [bottleneck]: when its next flow finishes
  std::vector<uint32_t> stale_;          ///< bottlenecks whose entry in next_ is out of date
  bool pending_ = false;
};

}  // namespace tandem::sim
