// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transfers in flight: which finishes next, while their rates change.
#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/share.h"

namespace tandem::sim {

/// Fluid flows over shared links in virtual time. Rates change only in update(), at which all flows started
/// and finished at that time are known. Memory O(flows in flight + links).
/// For one thread at a time.
class Flows {
 public:
  explicit Flows(const std::vector<double>& capacity) : share_(capacity) {}
  /// A payload of `bytes` sets out at `now`; `tag` comes back when it has left. Takes effect at update().
  void start(int64_t now, std::span<const Use> uses, double cap, double bytes, uint64_t tag);
  /// Takes out the flows done by `now` (requires now <= next()) and appends their tags in increasing order.
  void finish(int64_t now, std::vector<uint64_t>& tags);
  /// Shares the links anew from `now` on. Call once per time, after all start() and finish() of it.
  void update(int64_t now);
  /// When the next flow finishes; kNever when none does.
  int64_t next() const { return next_; }
  bool pending() const { return pending_; }
  std::size_t active() const { return share_.active(); }

 private:
  struct Flow {
    double left = 0;  ///< bytes at `since`
    double rate = 0;
    int64_t since = 0;
    uint64_t tag = 0;
  };
  static constexpr std::size_t kBlock = 64;
  void set_finish(uint32_t id, int64_t at);
  void resolve_blocks();

  FairShare share_;
  std::vector<Flow> flows_;        ///< by FairShare::FlowId
  std::vector<int64_t> finish_;    ///< by FlowId, padded to whole blocks
  std::vector<int64_t> least_;     ///< per block of finish_
  std::vector<uint32_t> stale_;    ///< blocks to be looked through
  std::vector<uint8_t> is_stale_;  ///< per block
  int64_t next_ = kNever;
  bool pending_ = false;
};

}  // namespace tandem::sim
