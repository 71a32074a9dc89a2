// SPDX-License-Identifier: Apache-2.0
#pragma once
// Max-min fair sharing of resources between fluid flows, incremental. Knows no networks.
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "sim/bound/bound_program.h"
#include "sim/network/level_order.h"

namespace tandem::sim {

/// Rates r_f maximal in the max-min sense subject to, for every resource l,
///   sum over flows f of weight(f, l) * r_f <= capacity(l),   and r_f <= cap_f.
///
/// Every flow has one bottleneck, a full link or its own cap, and all flows of a bottleneck have one rate,
/// its level. So a change is solved from link to link: a link whose level changes tells those that the flows
/// it limits pass besides, in order of level, since what is slower is never touched by what is faster
/// (progressive filling, begun in the middle). Flows are moved only where they change their bottleneck.
///
/// Links with room to spare are "cold" and hear nothing: each deals out more of its capacity to its flows
/// than they use. A flow that rises beyond what was dealt out to it, and a new one, asks for more, and a cold
/// link that has no more to deal is looked at again. Levels are right to a relative 1e-12. Deterministic.
///
/// Without rounding the order of levels ends it: what is below the level in hand is final. Nothing proves
/// that rounding errors cannot make two links call on each other for ever, where an overfull link begins the
/// order again. So visits to links are counted, and beyond many times the usual number all rates are formed
/// from nothing (fill()), which takes as many rounds as there are flows at most. For one thread at a time.
class FairShare {
 public:
  using FlowId = uint32_t;
  /// Visits within one solution, for each hot link; a few are usual.
  static constexpr std::size_t kMostVisits = 1000;
  /// Throws InputError for a capacity that is not finite or negative. `most_visits`: beyond that many a
  /// solution is formed from nothing.
  explicit FairShare(std::vector<double> capacity, std::size_t most_visits = kMostVisits);
  /// Registers a flow; ids are reused after remove(). `uses` is copied; uses of one link add up. cap 0 =
  /// none; a flow with neither uses nor cap has infinite rate. Throws InputError for weights that are not
  /// finite or negative. O(uses).
  FlowId add(std::span<const Use> uses, double cap);
  void remove(FlowId flow);
  /// Solves what changed. O(k log k) in the flows of the bottlenecks whose levels change and their hot links;
  /// from nothing O(flows x links).
  void update();
  /// As of the last update(): what limits the flow, below links() a link, else its cap.
  uint32_t bottleneck(FlowId flow) const { return bottleneck_[flow]; }
  /// Rate of all flows of a bottleneck.
  double level(uint32_t bottleneck) const { return level_[bottleneck]; }
  double rate(FlowId flow) const { return level_[bottleneck_[flow]]; }
  /// What the last update() changed: links whose level is another, flows that may have another bottleneck,
  /// new ones included. Each once, valid until the next call of any other function.
  const std::vector<uint32_t>& changed() const { return changed_; }
  const std::vector<FlowId>& moved() const { return moved_; }
  std::size_t active() const { return active_; }
  std::size_t links() const { return link_.size(); }
  /// Numbers of bottlenecks are below this.
  std::size_t bottlenecks() const { return level_.size(); }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  struct Share {
    uint32_t link = 0;
    float weight = 0;
  };
  struct Flow {
    uint32_t first = 0, count = 0;  ///< its shares in pool_
    uint32_t hot = 0;               ///< the first that many of them are of hot links
    uint32_t room = 0;              ///< shares reserved
  };
  /// What flows that a link limits use of another one, together.
  struct Beside {
    uint32_t link;
    uint32_t flows;
    double weight;
  };
  struct Member {
    FlowId flow;
    float weight;
  };
  /// What solving walks through is kept apart from the rest, so that it stays in the cache.
  struct Link {
    /// Of a hot link: capacity that the flows leave which it does not limit. Of a cold one: capacity that is
    /// dealt out to no flow.
    double left = 0;
    double own = 0;  ///< weight of the flows that it limits
    double top = 0;  ///< no other is faster
  };
  struct LinkFacts {
    double capacity = 0;
    double total = 0;          ///< weight of all flows
    double cap = kInfinite;    ///< none of its own has a lower one
    double watch = kInfinite;  ///< up to this level its flows stay within what cold links dealt out to them
    double rise = 0;           ///< of a cold link: what it deals out to a flow beyond its rate
    uint32_t looked = 0;       ///< round of the last look() while cold
    uint32_t woken = 0;        ///< update in which it was found overfull though it limited nobody
    bool hot = false, changed = false, overfull = false;
  };
  uint32_t own_cap(FlowId flow) const { return idle_ + 1 + flow; }
  void reserve_shares(FlowId flow, std::size_t count);
  void swap_shares(uint32_t a, uint32_t b);
  void unlink(FlowId flow, double rate);
  void promote(uint32_t link);
  void demote(uint32_t link);
  double sum(uint32_t link);

  void begin();
  void place(FlowId flow);
  void move(FlowId flow, uint32_t to);
  void leave(FlowId flow, uint32_t from);
  void touch(uint32_t link);
  void set_level(uint32_t link, double level);
  void note_level(uint32_t link, double level);
  std::vector<Beside>::iterator find_beside(uint32_t link, uint32_t other);
  void add_beside(uint32_t link, const Share& share);
  void drop_beside(uint32_t link, const Share& share);
  void expect(uint32_t link);
  void fall(uint32_t link);
  bool overfull(uint32_t link) const { return link_[link].left < -1e-12 * facts_[link].capacity; }
  bool wake();
  void solve();
  void visit(uint32_t link, double key);
  double own_level(uint32_t link) const;
  double joined_level(uint32_t link, double least);
  void part_capped(uint32_t link);

  std::vector<uint32_t> filled(std::vector<double>& levels) const;
  void fill();

  void certify();
  void find_risen();
  void deal(FlowId flow, double had);
  void look(uint32_t link);
  void refresh();

  std::size_t most_visits_;
  uint32_t idle_;  ///< bottleneck of flows that have none yet, of level 0; after it every flow's cap
  std::vector<Link> link_;
  std::vector<LinkFacts> facts_;              ///< [link]
  std::vector<uint8_t> is_touched_;           ///< [link]
  std::vector<double> level_;                 ///< [bottleneck]: infinite for a link that limits nobody
  std::vector<std::vector<Member>> members_;  ///< [link]
  std::vector<std::vector<uint32_t>> member_shares_;  ///< [link]: index into pool_ of each member
  std::vector<std::vector<FlowId>> own_;              ///< [link]: flows that it limits
  std::vector<Flow> flows_;
  std::vector<uint32_t> bottleneck_;  ///< [flow]
  std::vector<uint32_t> own_at_;      ///< [flow]: its place in own_
  std::vector<double> watch_;  ///< [flow]: up to this rate it stays within what cold links dealt out to it
  std::vector<uint8_t> is_moved_;  ///< [flow]
  std::vector<Share> pool_;
  std::vector<uint32_t> position_;  ///< [index into pool_]: in the link's list of members
  std::vector<FlowId> free_, added_, moved_;
  std::vector<uint32_t> touched_;  ///< hot links whose sums have changed
  std::vector<uint32_t> changed_, hot_;
  std::vector<std::pair<FlowId, double>> risen_;  ///< flows beyond what was dealt out to them, and that
  /// Hot links by level, and marked where that may be wrong, then by the least that it can be.
  LevelOrder order_;
  std::vector<uint32_t> overfull_;           ///< hot links that limit nobody and may be overfull
  std::vector<std::vector<Beside>> beside_;  ///< [link]: what its own flows use of other hot links
  std::vector<Member> joining_;
  double floor_ = 0;  ///< while solving: all levels below are final
  uint32_t round_ = 0, updates_ = 0;
  std::size_t next_hot_ = 0;  ///< whose turn it is in refresh()
  std::size_t active_ = 0;
  bool reported_ = false;
};

}  // namespace tandem::sim
