// SPDX-License-Identifier: Apache-2.0
// Packing of rings over the links of a node, as NCCL's search does: widest Hamiltonian cycle (or path that
// the network closes) over what earlier rings left, again and again.
#include <algorithm>
#include <functional>

#include "sim/cost/link_pattern.h"

namespace tandem::sim {
namespace {

constexpr std::size_t kMostRings = 16;
constexpr int kMostTries = 1 << 14;          // order prefixes looked at per ring
constexpr double kLeastShareOfFirst = 0.49;  // NCCL's rule for going on with slower channels

/// What one hop puts on the resources, as (local index, crossings).
using Hop = std::vector<std::pair<uint32_t, int>>;

class Search {
 public:
  Search(const System& system, const Group& group) : system_(system), size_(group.by_node.front().size()) {
    const auto& node = group.by_node.front();
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) {
        inside_.push_back(i == j ? Hop{} : hop({system.route(node[i], node[j])}));
      }
    }
    if (group.nodes() > 1) {
      const auto& next = group.by_node[1];
      const auto& last = group.by_node.back();
      for (std::size_t i = 0; i < size_; ++i) {
        for (std::size_t j = 0; j < size_; ++j) {
          closing_.push_back(hop({system.route(node[i], next[j]), system.route(last[i], node[j])}));
        }
      }
    } else {
      closing_ = inside_;
    }
    used_.assign(residual_.size(), 0);
  }

  std::vector<Ring> run(bool cycle) {
    cycle_ = cycle;
    const std::vector<double> whole = residual_;
    double total = 0;
    std::vector<Ring> best = pack(1e300, total);
    if (best.empty()) return best;
    // Some graphs (four GPUs with one cable between any two) fill up only with rings of half a cable.
    const double half = best.front().share * total / 2;
    residual_ = whole;
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
      if (best_rate_ <= 0 || (first > 0 && best_rate_ < kLeastShareOfFirst * first)) break;
      if (first == 0) first = best_rate_;
      take(ring.order);
      ring.share = best_rate_;
      total += best_rate_;
      rings.push_back(std::move(ring));
    }
    for (Ring& r : rings) r.share /= total;
    return rings;
  }

  Hop hop(const std::vector<Route>& routes) {
    std::map<uint32_t, int> crossings;
    for (const Route& r : routes) {
      for (const LinkId l : r.links) {
        const uint32_t resource = resource_of(system_, l);
        const auto [at, fresh] = index_.emplace(resource, static_cast<uint32_t>(residual_.size()));
        if (fresh) residual_.push_back(system_.usable(resource));
        ++crossings[at->second];
      }
    }
    return {crossings.begin(), crossings.end()};
  }
  const Hop& inside(std::size_t i, std::size_t j) const { return inside_[i * size_ + j]; }
  const Hop& closing(std::size_t i, std::size_t j) const { return closing_[i * size_ + j]; }

  /// Rate of the ring so far if `h` joins it, given its crossings in used_.
  double with(const Hop& h, double rate) const {
    for (const auto& [l, n] : h) rate = std::min(rate, residual_[l] / (used_[l] + n));
    return rate;
  }
  /// Rate that a hop already in used_ leaves.
  double with_marked(const Hop& h) const {
    double rate = 1e300;
    for (const auto& [l, n] : h) rate = std::min(rate, residual_[l] / used_[l]);
    return rate;
  }
  void mark(const Hop& h, int sign) {
    for (const auto& [l, n] : h) used_[l] += sign * n;
  }

  /// No ring can be wider: every member needs some way out, and some pair must close the ring.
  double bound() const {
    double out = 1e300, close = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      double best = size_ == 1 ? 1e300 : 0;
      for (std::size_t j = 0; j < size_; ++j) {
        if (i != j) best = std::max(best, with(inside(i, j), 1e300));
        if (i != j || size_ == 1) close = std::max(close, with(closing(i, j), 1e300));
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
        ends.emplace_back(-with(closing_[k], 1e300), k);
      }
      std::stable_sort(ends.begin(), ends.end(),
                       [](const auto& x, const auto& y) { return x.first < y.first; });
      for (const auto& [rate, k] : ends) {
        if (best_rate_ >= bound_ || -rate <= best_rate_) break;
        mark(closing_[k], 1);
        start(k % size_, k / size_);
        mark(closing_[k], -1);
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
    const double rate = to < size_ ? with_marked(closing(to, from)) : 1e300;
    extend(rate);
    taken_[from] = 0;
    if (to < size_) taken_[to] = 0;
  }

  void finish(double rate) {
    const double closed =
        std::min(limit_, cycle_ ? with(closing(order_.back(), order_.front()), rate) : rate);
    if (closed <= best_rate_ * (1 + 1e-9)) return;
    best_rate_ = closed;
    best_ = order_;
  }

  void extend(double rate) {
    if (++tries_ > kMostTries && best_rate_ > 0) return;
    if (order_.size() == size_) return finish(rate);
    if (!cycle_ && order_.size() + 1 == size_) {
      const double ended = with(inside(order_.back(), last_), rate);
      order_.push_back(static_cast<uint32_t>(last_));
      finish(ended);
      order_.pop_back();
      return;
    }
    const std::size_t at = order_.back();
    // Neighbours by width, then by distance in rank order.
    std::vector<std::pair<double, std::size_t>> next;
    for (std::size_t k = 1; k < size_; ++k) {
      const std::size_t j = (at + k) % size_;
      if (taken_[j]) continue;
      const double wide = with(inside(at, j), rate);
      if (wide > best_rate_ * (1 + 1e-9)) next.emplace_back(-wide, j);
    }
    std::stable_sort(next.begin(), next.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [wide, j] : next) {
      if (best_rate_ >= bound_) return;
      const Hop& h = inside(at, j);
      mark(h, 1);
      taken_[j] = 1;
      order_.push_back(static_cast<uint32_t>(j));
      extend(-wide);
      order_.pop_back();
      taken_[j] = 0;
      mark(h, -1);
    }
  }

  void take(const std::vector<uint32_t>& order) {
    const auto spend = [&](const Hop& h) {
      for (const auto& [l, n] : h) residual_[l] = std::max(0.0, residual_[l] - n * best_rate_);
    };
    for (std::size_t i = 0; i + 1 < order.size(); ++i) spend(inside(order[i], order[i + 1]));
    spend(closing(order.back(), order.front()));
  }

  const System& system_;
  std::size_t size_;
  bool cycle_ = true;
  std::map<uint32_t, uint32_t> index_;  // resource -> local index
  std::vector<double> residual_;
  std::vector<int> used_;
  std::vector<Hop> inside_, closing_;
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
