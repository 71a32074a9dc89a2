// SPDX-License-Identifier: Apache-2.0
// A tree of switches with fat trunks. Level 0 are the ports; a leaf joins the ports of `nodes_per_leaf`
// nodes, a switch above `down` switches of the level below. A trunk upwards is the sum of the cables from
// below divided by that level's oversubscription: the parallel cables of a folded Clos as one capacity. With
// rails, port i of every node is joined to the leaves of rail i only, and the rails meet at the level above.
//
// Switches that place whole flows on cables by a hash ("ecmp" flows per port) load one cable more than the
// others. Everyone waits for that one, so the trunk is worth its mean load over the expected largest one,
// when all ports below send upwards at once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "topologies/blocks/network.h"

namespace tandem::topologies {

namespace {

struct Level {
  uint64_t units = 1;    ///< switches of this level (ports for level 0)
  uint64_t first = 0;    ///< id of its first trunk
  double bandwidth = 0;  ///< of one trunk upwards
};

/// Expected load of the fullest of `cables` among which `flows` are placed at random: the sum over m of the
/// probability that one has more than m. Of multinomial counts (Levin 1981, "A representation for multinomial
/// cumulative distribution functions"): those of independent Poisson counts cut off at m, given that they add
/// up to `flows`, whose sum is taken as normal. O(largest load).
double fullest(double flows, double cables) {
  const double mean = flows / cables;
  // The probability that Poisson counts of all cables add up to `flows`.
  const double meet = std::exp(flows * std::log(flows) - flows - std::lgamma(flows + 1));
  const double least = std::max(0.0, std::floor(mean - 40 * std::sqrt(mean)));  // no cable has less
  double term = std::exp(least * std::log(mean) - mean - std::lgamma(least + 1));
  double sum = std::ceil(mean), below = term, first = least * term, second = least * first;
  const auto last = static_cast<int64_t>(flows);
  for (int64_t k = static_cast<int64_t>(least) + 1; k <= last; ++k) {
    const auto m = static_cast<double>(k);
    term *= mean / m;
    below += term;
    first += m * term;
    second += m * m * term;
    if (m < mean) continue;
    const double cut = first / below, variance = cables * (second / below - cut * cut);
    const double off = flows - cables * cut;
    const double density = std::exp(-off * off / (2 * variance)) / std::sqrt(2 * std::numbers::pi * variance);
    const double within = std::min(1.0, std::exp(cables * std::log(below)) * density / meet);
    sum += 1 - within;
    if (within > 1 - 1e-9) break;
  }
  return sum;
}

class FatTree : public Network {
 public:
  FatTree(const NetworkShape& shape, const Json& spec) : shape_(shape) {
    read(spec);
    const auto nodes = static_cast<uint64_t>(shape.nodes);
    levels_.push_back({nodes * shape.ports, 0, shape.bandwidth.bytes_per_second});
    double cables = 1;  // of a trunk, each as wide as a port
    while (levels_.back().units > 1) {
      const std::size_t k = levels_.size();
      const Level& below = levels_.back();
      const bool rails = k == 1 && rails_;
      const uint64_t wide = k == 1 ? leaf_ : down_;
      const uint64_t units = rails ? shape.ports * groups(nodes, wide) : groups(below.units, wide);
      // A switch is never wider than what it joins.
      const double joined = static_cast<double>(std::min(wide, rails ? nodes : below.units));
      const double ports = cables * joined;
      cables = ports / (k <= thinned_.size() ? thinned_[k - 1] : 1);
      const double even = shape.bandwidth.bytes_per_second * cables;
      levels_.push_back({units, below.first + 2 * below.units, even / imbalance(ports, cables)});
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

  NodeRange below(uint64_t id) const override {
    const std::size_t k = level(id);
    uint64_t first = (id - levels_[k].first) / 2, last = first + 1;
    for (std::size_t above = k; above > 1; --above) first *= down_, last *= down_;
    if (k > 0 && rails_) {
      first = first / shape_.ports * leaf_;
      last = groups(last, shape_.ports) * leaf_;
    } else {
      if (k > 0) first *= leaf_, last *= leaf_;
      first /= shape_.ports;
      last = groups(last, shape_.ports);
    }
    return {static_cast<int64_t>(first), std::min(static_cast<int64_t>(last), shape_.nodes)};
  }

 private:
  void read(const Json& spec) {
    rails_ = spec.boolean("rails", false);
    const auto down = static_cast<uint64_t>(spec.at("down").as_int(2, 1 << 20));
    down_ = std::max<uint64_t>(2, groups(down, shape_.bonded));
    leaf_ = down_;
    if (const Json* nodes = spec.find("nodes_per_leaf"))
      leaf_ = static_cast<uint64_t>(nodes->as_int(1, 1 << 20)) * (rails_ ? 1 : shape_.ports);
    if (const Json* over = spec.find("oversubscription")) {
      for (const Json& ratio : over->is_array() ? over->items() : std::vector<Json>{*over})
        thinned_.push_back(ratio.as_real(1e-3, 1e3));
    }
    flows_ = static_cast<int>(spec.integer("ecmp", 0, 0, 1024) * shape_.bonded);
  }
  /// The largest load of a trunk's cable over the mean one, where the hash of every flow picks one.
  double imbalance(double ports, double cables) const {
    cables *= shape_.bonded;
    if (flows_ == 0 || cables < 1.5) return 1;
    return std::max(1.0, fullest(ports * flows_, cables) * cables / (ports * flows_));
  }
  static uint64_t groups(uint64_t units, uint64_t wide) { return (units + wide - 1) / wide; }
  uint64_t unit(Port p) const { return static_cast<uint64_t>(p.node) * shape_.ports + p.index; }
  uint64_t parent(std::size_t k, uint64_t unit) const {
    if (k > 0) return unit / down_;
    if (!rails_) return unit / leaf_;
    const uint64_t node = unit / shape_.ports, rail = unit % shape_.ports;
    return node / leaf_ * shape_.ports + rail;
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
  uint64_t down_ = 2, leaf_ = 2;  ///< switches that one above the leaves joins; ports that a leaf joins
  std::vector<double> thinned_;  ///< [level - 1]: ports below a switch per cable of its trunk; 1 past the end
  int flows_ = 0;                ///< of a port, each on the cable that its hash picks; 0: spread evenly
  std::vector<Level> levels_;
};

}  // namespace

void register_fat_tree(Registry<NetworkBlock>& registry) {
  registry.add(
      {"fat_tree",
       "folded Clos: switches of \"down\" ports, trunks thinned by \"oversubscription\", optional \"rails\"",
       {"down", "nodes_per_leaf", "oversubscription", "ecmp", "rails"},
       [](const NetworkShape& shape, const Json& spec) {
         return std::unique_ptr<Network>(std::make_unique<FatTree>(shape, spec));
       }});
}

}  // namespace tandem::topologies
