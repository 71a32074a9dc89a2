// SPDX-License-Identifier: Apache-2.0
// A tree of switches with fat trunks. Level 0 are the ports; a switch of level k joins `down` units of level
// k-1, and its trunk upwards is the sum of their cables divided by the oversubscription (the parallel cables
// of a folded Clos with even spreading, as one capacity). With rails, port i of every node is joined to the
// leaves of rail i only, and the rails meet at the level above.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "topologies/network.h"

namespace tandem::topologies {

namespace {

struct Level {
  uint64_t units = 1;    ///< switches of this level (ports for level 0)
  uint64_t first = 0;    ///< id of its first trunk
  double bandwidth = 0;  ///< of one trunk upwards
};

class FatTree : public Network {
 public:
  FatTree(const NetworkShape& shape, const Json& spec) : shape_(shape) {
    rails_ = spec.boolean("rails", false);
    down_ = static_cast<uint64_t>(spec.at("down").as_int(2, 1 << 20));
    oversubscription_ = spec.real("oversubscription", 1, 1e-3, 1e3);
    Level ports{static_cast<uint64_t>(shape.nodes) * shape.ports, 0, shape.bandwidth.bytes_per_second};
    levels_.push_back(ports);
    while (levels_.back().units > 1) {
      const Level& below = levels_.back();
      const bool leaves = levels_.size() == 1;
      const uint64_t units =
          leaves && rails_ ? shape.ports * groups(static_cast<uint64_t>(shape.nodes)) : groups(below.units);
      // A switch is never wider than what it joins.
      const uint64_t joined = leaves && rails_ ? std::min(down_, static_cast<uint64_t>(shape.nodes))
                                               : std::min(down_, below.units);
      const double trunk = below.bandwidth * static_cast<double>(joined) / oversubscription_;
      levels_.push_back({units, below.first + 2 * below.units, trunk});
    }
    // The top switch has no trunk upwards, so its entry only ends the ladder.
  }
  uint64_t link_count() const override { return levels_.back().first; }
  Bandwidth bandwidth(uint64_t id) const override { return {levels_[level(id)].bandwidth}; }
  std::string label(uint64_t id) const override {
    const std::size_t k = level(id);
    const uint64_t below = (id - levels_[k].first) / 2;
    const bool up = (id - levels_[k].first) % 2 == 0;
    const std::string low = name_of(k, below), high = name_of(k + 1, parent(k, below));
    return up ? low + ">" + high : high + ">" + low;
  }
  void route(Port from, Port to, std::vector<uint64_t>& links) const override {
    uint64_t a = unit(from), b = unit(to);
    std::vector<uint64_t> down;
    for (std::size_t k = 0; a != b; ++k) {
      links.push_back(levels_[k].first + 2 * a);
      down.push_back(levels_[k].first + 2 * b + 1);
      a = parent(k, a);
      b = parent(k, b);
    }
    links.insert(links.end(), down.rbegin(), down.rend());
  }

 private:
  uint64_t groups(uint64_t units) const { return (units + down_ - 1) / down_; }
  uint64_t unit(Port p) const { return static_cast<uint64_t>(p.node) * shape_.ports + p.index; }
  uint64_t parent(std::size_t k, uint64_t unit) const {
    if (k > 0 || !rails_) return unit / down_;
    const uint64_t node = unit / shape_.ports, rail = unit % shape_.ports;
    return node / down_ * shape_.ports + rail;
  }
  std::size_t level(uint64_t id) const {
    std::size_t k = 0;
    while (id >= levels_[k + 1].first) ++k;
    return k;
  }
  std::string name_of(std::size_t k, uint64_t unit) const {
    if (k == 0) return fmt::format("node{}/port{}", unit / shape_.ports, unit % shape_.ports);
    return k == 1 ? fmt::format("leaf{}", unit) : fmt::format("spine{}-{}", k - 1, unit);
  }
  NetworkShape shape_;
  bool rails_ = false;
  uint64_t down_ = 2;
  double oversubscription_ = 1;
  std::vector<Level> levels_;
};

}  // namespace

void register_fat_tree(Registry<NetworkBlock>& registry) {
  registry.add(
      {"fat_tree",
       "folded Clos: switches of \"down\" ports, trunks thinned by \"oversubscription\", optional \"rails\"",
       {"down", "oversubscription", "rails"},
       [](const NetworkShape& shape, const Json& spec) {
         return std::unique_ptr<Network>(std::make_unique<FatTree>(shape, spec));
       }});
}

}  // namespace tandem::topologies
