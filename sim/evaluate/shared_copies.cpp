// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/shared_copies.h"

#include <algorithm>
#include <numeric>

#include "sim/evaluate/fold.h"

namespace tandem::sim {

namespace {

uint32_t root(std::vector<uint32_t>& parent, uint32_t i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

}  // namespace

SharedCopies::SharedCopies(const BoundProgram& plan, ContendingCopies found)
    : plan_(plan),
      found_(std::move(found)),
      watched_(plan.capacity.size(), kNone),
      busy_(found_.links.size()),
      load_(found_.links.size()) {
  for (uint32_t w = 0; w < found_.links.size(); ++w) watched_[found_.links[w].link] = w;
  const Role& role = plan.program->roles[found_.role];
  std::vector<uint32_t> copies;
  for (uint32_t o = 0; o < role.ops.size(); ++o) {
    if (times(found_.role, std::as_const(role.ops)[o])) copies.push_back(o);
  }
  find_clusters(copies);
}

const Transfer& SharedCopies::transfer(uint32_t op, uint32_t row) const {
  const RoleCosts& costs = plan_.roles[found_.role];
  static const Transfer kNothing;
  const int32_t t = costs.transfer[costs.class_at(row)][op];
  return t < 0 ? kNothing : plan_.transfers.at(static_cast<std::size_t>(t));
}

/// Joins instances that load a watched link in common.
void SharedCopies::find_clusters(const std::vector<uint32_t>& ops) {
  const auto rows = static_cast<uint32_t>(plan_.program->roles[found_.role].mesh.size());
  std::vector<uint32_t> parent(rows), first(found_.links.size(), kNone), number(rows, kNone);
  std::iota(parent.begin(), parent.end(), 0U);
  for (const uint32_t o : ops) {
    for (uint32_t i = 0; i < rows; ++i) {
      for (const Use& use : transfer(o, i).uses) {
        if (watched_[use.link] == kNone) continue;
        uint32_t& one = first[watched_[use.link]];
        one = one == kNone ? i : one;
        const uint32_t a = root(parent, i), b = root(parent, one);
        parent[std::max(a, b)] = std::min(a, b);
      }
    }
  }
  for (uint32_t i = 0; i < rows; ++i) {
    uint32_t& c = number[root(parent, i)];
    if (c == kNone) {
      c = static_cast<uint32_t>(clusters_.size());
      clusters_.emplace_back();
    }
    clusters_[c].rows.push_back(i);
  }
  for (Cluster& c : clusters_) {
    std::vector<double> capacity;
    for (const uint32_t o : ops) {
      for (const uint32_t i : c.rows) {
        for (const Use& use : transfer(o, i).uses) {
          if (c.link.try_emplace(use.link, capacity.size()).second)
            capacity.push_back(plan_.capacity[use.link]);
        }
      }
    }
    c.share.emplace(std::move(capacity));
  }
}

void SharedCopies::run(uint32_t op, uint32_t iteration, const std::vector<int64_t>& start,
                       std::vector<int64_t>& end) {
  const bool calm = plan_.disturbance.none();
  for (Cluster& c : clusters_) {
    std::vector<Flow> flows;
    for (const uint32_t i : c.rows) {
      const Transfer& t = transfer(op, i);
      const double factor = calm ? 1 : plan_.transfer_factor(found_.role, i, iteration, op);
      if (t.uses.empty() || t.bytes == 0) {
        end[i] = start[i] + t.alone(plan_.capacity, factor).ps;
        continue;
      }
      if (start[i] < c.left) throw Overlap{};
      flows.push_back({i, 0, &t, t.bytes * factor, 0, start[i], kNever, t.delay(factor).ps});
    }
    run_cluster(c, std::move(flows), end);
  }
}

/// From event to event: a copy sets out, or has left. As sim/network/flows.h does it, for few flows.
void SharedCopies::run_cluster(Cluster& c, std::vector<Flow> flows, std::vector<int64_t>& end) {
  std::stable_sort(flows.begin(), flows.end(),
                   [](const Flow& a, const Flow& b) { return a.start < b.start; });
  std::vector<Flow> under_way;
  std::vector<Use> uses;
  int64_t now = 0;
  for (std::size_t next = 0; next < flows.size() || !under_way.empty();) {
    int64_t then = next < flows.size() ? flows[next].start : kNever;
    for (const Flow& f : under_way) then = std::min(then, f.end);
    if (then >= kNever) throw InputError("a transfer takes longer than 26 days of simulated time");
    note_busy(under_way, now, then);
    const double seconds = static_cast<double>(then - now) * 1e-12;
    now = then;
    std::erase_if(under_way, [&](Flow& f) {
      f.bytes = std::max(0.0, f.bytes - f.rate * seconds);
      if (f.end > now) return false;
      end[f.row] = now + f.delay;
      c.left = now;
      c.share->remove(f.id);
      return true;
    });
    for (; next < flows.size() && flows[next].start == now; ++next) {
      Flow& f = flows[next];
      uses = f.transfer->uses;
      for (Use& use : uses) use.link = c.link.at(use.link);
      f.id = c.share->add(uses, f.transfer->cap);
      under_way.push_back(f);
    }
    c.share->update();
    for (Flow& f : under_way) {
      const double rate = c.share->rate(f.id);
      if (rate == f.rate) continue;
      f.rate = rate;
      f.end = rate > 0 ? std::min(kNever, now + picoseconds(f.bytes / rate)) : kNever;
    }
  }
}

void SharedCopies::note_busy(const std::vector<Flow>& under_way, int64_t begin, int64_t end) {
  if (begin == end) return;
  const auto each = [&](auto f) {
    for (const Flow& flow : under_way) {
      for (const Use& use : flow.transfer->uses) {
        const uint32_t w = watched_[use.link];
        if (w != kNone && found_.links[w].others > 0) f(w, flow.rate * static_cast<double>(use.weight));
      }
    }
  };
  each([&](uint32_t w, double load) { load_[w] += load; });
  each([&](uint32_t w, double) {
    const double load = std::exchange(load_[w], 0);
    if (load > 0 && !fit_together(plan_, found_.links[w].link, load + found_.links[w].others))
      busy_[w].push_back({begin, end, load});
  });
}

void SharedCopies::beside(uint32_t role, uint32_t op, int64_t begin, int64_t end) {
  const auto lane = static_cast<int>(std::as_const(plan_.program->roles[role].ops)[op].lane);
  lanes_[{role, lane}].push_back({begin, end, op});
}

double SharedCopies::load_of(uint32_t role, uint32_t op, uint32_t watched) {
  const auto [at, fresh] = loads_.try_emplace({role, op});
  if (fresh) {
    at->second.assign(found_.links.size(), 0);
    for (const auto& [t, times] : transfers_of(plan_, role, op)) {
      if (t < 0) continue;
      const Transfer& moved = plan_.transfers[static_cast<std::size_t>(t)];
      const double rate = moved.rate_alone(plan_.capacity) * static_cast<double>(times);
      for (const Use& use : moved.uses) {
        if (watched_[use.link] != kNone)
          at->second[watched_[use.link]] += rate * static_cast<double>(use.weight);
      }
    }
  }
  return at->second[watched];
}

bool SharedCopies::fits(uint32_t watched, const Busy& busy, uint32_t role, const std::vector<Run>& runs) {
  auto at = std::upper_bound(runs.begin(), runs.end(), busy.begin,
                             [](int64_t time, const Run& run) { return time < run.end; });
  for (; at != runs.end() && at->begin < busy.end; ++at) {
    if (!fit_together(plan_, found_.links[watched].link, busy.load + load_of(role, at->op, watched)))
      return false;
  }
  return true;
}

bool SharedCopies::exact() {
  for (uint32_t w = 0; w < busy_.size(); ++w) {
    for (const Busy& busy : busy_[w]) {
      for (const auto& [lane, runs] : lanes_) {
        if (!fits(w, busy, lane.first, runs)) return false;
      }
    }
  }
  return true;
}

}  // namespace tandem::sim
