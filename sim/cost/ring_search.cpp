// SPDX-License-Identifier: Apache-2.0
// Packing of rings over the links of a node, as NCCL's search does: widest Hamiltonian cycle (or path that
// the network closes) over what earlier rings left, again and again.
#include <algorithm>
#include <map>
#include <tuple>

#include "sim/cost/link_pattern.h"
#include "sim/cost/nccl_tuning.h"

namespace tandem::sim {
namespace {

constexpr std::size_t kMostRings = 16;
constexpr int kMostTries = 1 << 14;  // order prefixes looked at per ring

/// What one hop puts on the resources, as (local index, crossings).
using Hop = std::vector<std::pair<uint32_t, int>>;

/// What the rings found so far leave of the links, and what the ring being searched would put on them.
class Residual {
 public:
  explicit Residual(const System& system) : system_(&system) {}

  /// A hop that takes these routes.
  Hop hop(const std::vector<Route>& routes) {
    std::map<uint32_t, int> crossings;
    for (const Route& r : routes) {
      for (const LinkId l : r.links) {
        const uint32_t resource = resource_of(*system_, l);
        const auto [at, fresh] = index_.emplace(resource, static_cast<uint32_t>(left_.size()));
        if (fresh) {
          left_.push_back(system_->usable(resource));
          used_.push_back(0);
        }
        ++crossings[at->second];
      }
    }
    return {crossings.begin(), crossings.end()};
  }
  /// Rate of the ring so far, whose hops are marked, if `h` joins it.
  double with(const Hop& h, double rate) const {
    for (const auto& [l, n] : h) rate = std::min(rate, left_[l] / (used_[l] + n));
    return rate;
  }
  /// Rate that a marked hop leaves.
  double with_marked(const Hop& h) const {
    double rate = 1e300;
    for (const auto& [l, n] : h) rate = std::min(rate, left_[l] / used_[l]);
    return rate;
  }
  /// `h` joins the ring being searched (1) or leaves it (-1).
  void mark(const Hop& h, int sign) {
    for (const auto& [l, n] : h) used_[l] += sign * n;
  }
  /// A ring of `rate` takes `h` permanently.
  void spend(const Hop& h, double rate) {
    for (const auto& [l, n] : h) left_[l] = std::max(0.0, left_[l] - n * rate);
  }

 private:
  const System* system_;
  std::map<uint32_t, uint32_t> index_;  // resource -> local index
  std::vector<double> left_;            // bytes/s
  std::vector<int> used_;               // crossings of the marked hops
};

class Search {
 public:
  Search(const System& system, const Group& group) : size_(group.by_node.front().size()), left_(system) {
    const auto& node = group.by_node.front();
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) {
        const Route route = i == j ? Route{} : system.route(node[i], node[j]);
        inside_.push_back(left_.hop({route}));
        latency_.push_back(route.latency.seconds());
      }
    }
    if (group.nodes() > 1) {
      const auto& next = group.by_node[1];
      const auto& last = group.by_node.back();
      for (std::size_t i = 0; i < size_; ++i) {
        for (std::size_t j = 0; j < size_; ++j) {
          closing_.push_back(left_.hop({system.route(node[i], next[j]), system.route(last[i], node[j])}));
        }
      }
    } else {
      closing_ = inside_;
    }
  }

  std::vector<Ring> run(bool cycle) {
    cycle_ = cycle;
    const Residual whole = left_;
    double total = 0;
    std::vector<Ring> best = pack(1e300, total);
    if (best.empty()) return best;
    // Some graphs (four GPUs with one cable between any two) fill up only with rings of half a cable.
    const double half = best.front().share * total / 2;
    left_ = whole;
    double halves = 0;
    std::vector<Ring> thin = pack(half, halves);
    return halves > total * 1.02 ? thin : best;
  }

 private:
  /// Rings of at most `limit` each, with shares that add up to 1; their total rate.
  std::vector<Ring> pack(double limit, double& total) {
    limit_ = limit;
    std::vector<Ring> rings;
    double first = 0;
    while (rings.size() < kMostRings) {
      Ring ring = widest();
      const double least = nccl_tuning().search.least_rate * first;
      if (best_rate_ <= 0 || (first > 0 && best_rate_ < least)) break;
      if (first == 0) first = best_rate_;
      take(ring.order);
      ring.share = best_rate_;
      total += best_rate_;
      rings.push_back(std::move(ring));
    }
    for (Ring& r : rings) r.share /= total;
    return rings;
  }

  const Hop& inside(std::size_t i, std::size_t j) const { return inside_[i * size_ + j]; }
  const Hop& closing(std::size_t i, std::size_t j) const { return closing_[i * size_ + j]; }

  /// No ring can be wider: every member needs some way out, and some pair must close the ring.
  double bound() const {
    double out = 1e300, close = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      double best = size_ == 1 ? 1e300 : 0;
      for (std::size_t j = 0; j < size_; ++j) {
        if (i != j) best = std::max(best, left_.with(inside(i, j), 1e300));
        if (i != j || size_ == 1) close = std::max(close, left_.with(closing(i, j), 1e300));
      }
      if (cycle_) out = std::min(out, best);
    }
    return std::min(out, close);
  }

  Ring widest() {
    best_rate_ = 0;
    best_.clear();
    tries_ = 0;
    bound_ = std::min(bound(), limit_) * (1 - 1e-9);
    taken_.assign(size_, 0);
    if (cycle_) {
      start(0, size_);
    } else {
      // The network decides: first the pairs of members (out, in) that it joins widest.
      std::vector<std::pair<double, std::size_t>> ends;
      for (std::size_t k = 0; k < closing_.size(); ++k) {
        if (k / size_ == k % size_ && size_ > 1) continue;
        ends.emplace_back(-left_.with(closing_[k], 1e300), k);
      }
      std::stable_sort(ends.begin(), ends.end(),
                       [](const auto& x, const auto& y) { return x.first < y.first; });
      for (const auto& [rate, k] : ends) {
        if (best_rate_ >= bound_ || -rate <= best_rate_) break;
        left_.mark(closing_[k], 1);
        start(k % size_, k / size_);
        left_.mark(closing_[k], -1);
      }
    }
    Ring ring;
    ring.order.assign(best_.begin(), best_.end());
    return ring;
  }

  /// Searches orders that begin at `from` and, unless `to` is none, end at `to`.
  void start(std::size_t from, std::size_t to) {
    order_ = {static_cast<uint32_t>(from)};
    taken_[from] = 1;
    last_ = to;
    if (to < size_) taken_[to] = 1;
    const double rate = to < size_ ? left_.with_marked(closing(to, from)) : 1e300;
    extend(rate);
    taken_[from] = 0;
    if (to < size_) taken_[to] = 0;
  }

  void finish(double rate) {
    const double closed =
        std::min(limit_, cycle_ ? left_.with(closing(order_.back(), order_.front()), rate) : rate);
    if (closed <= best_rate_ * (1 + 1e-9)) return;
    best_rate_ = closed;
    best_ = order_;
  }

  void extend(double rate) {
    if (++tries_ > kMostTries && best_rate_ > 0) return;
    if (order_.size() == size_) return finish(rate);
    if (!cycle_ && order_.size() + 1 == size_) {
      const double ended = left_.with(inside(order_.back(), last_), rate);
      order_.push_back(static_cast<uint32_t>(last_));
      finish(ended);
      order_.pop_back();
      return;
    }
    const std::size_t at = order_.back();
    // Neighbours by width, then the nearest, then by rank order, so that numbers given otherwise matter
    // little.
    struct Neighbour {
      double negative_width, latency;
      std::size_t member;
    };
    std::vector<Neighbour> next;
    for (std::size_t k = 1; k < size_; ++k) {
      const std::size_t j = (at + k) % size_;
      if (taken_[j]) continue;
      const double wide = left_.with(inside(at, j), rate);
      if (wide > best_rate_ * (1 + 1e-9)) next.push_back({-wide, latency_[at * size_ + j], j});
    }
    std::stable_sort(next.begin(), next.end(), [](const Neighbour& a, const Neighbour& b) {
      return std::tie(a.negative_width, a.latency) < std::tie(b.negative_width, b.latency);
    });
    for (const Neighbour& n : next) {
      if (best_rate_ >= bound_) return;
      const std::size_t j = n.member;
      const Hop& h = inside(at, j);
      left_.mark(h, 1);
      taken_[j] = 1;
      order_.push_back(static_cast<uint32_t>(j));
      extend(-n.negative_width);
      order_.pop_back();
      taken_[j] = 0;
      left_.mark(h, -1);
    }
  }

  void take(const std::vector<uint32_t>& order) {
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      left_.spend(inside(order[i], order[i + 1]), best_rate_);
    left_.spend(closing(order.back(), order.front()), best_rate_);
  }

  std::size_t size_;
  Residual left_;
  bool cycle_ = true;
  std::vector<Hop> inside_, closing_;
  std::vector<double> latency_;  // seconds, of the route between two members, as inside_
  std::vector<char> taken_;
  std::vector<uint32_t> order_, best_;
  std::size_t last_ = 0;  // where a path must end
  double best_rate_ = 0, bound_ = 0, limit_ = 0;
  int tries_ = 0;
};

Ring natural(std::size_t size) {
  Ring ring;
  for (uint32_t i = 0; i < size; ++i) ring.order.push_back(i);
  return ring;
}

}  // namespace

std::vector<Ring> search_rings(const System& system, const Group& group, bool pack) {
  const std::size_t size = group.by_node.front().size();
  constexpr std::size_t kMostSearched = 64;  // members of one node; beyond, pairs are too many to tabulate
  if (!pack || !group.uniform || group.ranks() < 2 || size > kMostSearched) return {natural(size)};
  auto rings = Search(system, group).run(group.nodes() == 1);
  if (rings.empty()) return {natural(size)};
  return rings;
}

}  // namespace tandem::sim
