// SPDX-License-Identifier: Apache-2.0
#include "sim/bind/gather.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tandem::sim {
namespace {

struct Gradient {
  double ready = 0;  ///< seconds after the iteration's start, by compute and what it waits for
  double bytes = 0;
  uint32_t key = 0;
  int64_t elements = 0;
  double seconds = 0;                   ///< of its reduction, or of the push, when it is alone
  const Transfer* reduction = nullptr;  ///< null: it is pushed to servers
};

/// Until the pushes of all workers have left for all servers: what the link with the most to carry takes.
double push_seconds(const BoundProgram& plan, const Op& op) {
  const Channel& c = plan.program->channels[op.what];
  std::map<uint32_t, double> seconds;  // [link]
  double longest = 0;
  const auto workers = static_cast<uint32_t>(plan.program->roles[c.from_role].mesh.size());
  const Instances servers = holders(c, op.key, plan.program->roles[c.to_role].mesh.size());
  for (uint32_t w = 0; w < workers; ++w) {
    for (uint32_t s = servers.first; s < servers.first + servers.count; ++s) {
      const Transfer& t = plan.messages->message(op.what, op.key, w, s);
      for (const Use& use : t.uses) seconds[use.link] += t.bytes * use.weight / plan.capacity[use.link];
      if (t.cap > 0) longest = std::max(longest, t.bytes / t.cap);
    }
  }
  for (const auto& [link, sum] : seconds) longest = std::max(longest, sum);
  return longest;
}

/// By the compute lane of worker 0.
std::vector<double> ends_of_worker(const BoundProgram& plan) {
  const Role& role = plan.program->roles[0];
  const RoleCosts& costs = plan.roles[0];
  std::vector<double> end(role.ops.size());
  double now = 0;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (op.lane == Lane::compute) now += costs.duration[0][i].seconds();
    if (op.kind == OpKind::collective && op.payload == Payload::exchanged)  // the pass waits for it
      now += plan.transfers[static_cast<std::size_t>(costs.transfer[0][i])].alone(plan.capacity).seconds();
    end[i] = now;
  }
  return end;
}

/// Of the first instance of a role, in the order in which they are reduced, or pushed. `end`: of its ops.
std::vector<Gradient> gradients(const BoundProgram& plan, uint32_t r, const std::vector<double>& end) {
  const Role& role = plan.program->roles[r];
  std::vector<Gradient> out;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    const bool pushed = op.kind == OpKind::send && !plan.program->stores.empty();
    const bool reduced = op.kind == OpKind::collective && op.payload == Payload::gradients;
    if (plan.program->stores.empty() ? !reduced : !pushed) continue;
    Gradient g;
    for (const Dep& d : op.deps) g.ready = std::max(g.ready, d.lag == 0 ? end[d.op] : 0);
    g.key = op.key;
    g.bytes = static_cast<double>(op.bytes.n);
    g.elements = plan.program->buckets[op.key].elements;
    if (reduced) g.reduction = &plan.transfers[static_cast<std::size_t>(plan.roles[r].transfer[0][i])];
    g.seconds = reduced ? g.reduction->alone(plan.capacity).seconds() : push_seconds(plan, op);
    out.push_back(g);
  }
  return out;
}

/// Of the workers, or of each stage.
std::vector<std::vector<Gradient>> gradients(const BoundProgram& plan, const StepEnds& ends) {
  if (ends.empty()) return {gradients(plan, 0, ends_of_worker(plan))};
  std::vector<std::vector<Gradient>> out;
  for (uint32_t r = 0; r < ends.size(); ++r) out.push_back(gradients(plan, r, ends[r]));
  return out;
}

std::vector<Gradient> by_cycle(const std::vector<Gradient>& all, double cycle, double most) {
  const double last_look = all.back().ready + cycle / 2;
  const auto looks_after = [&](const Gradient& g) { return std::floor((last_look - g.ready) / cycle); };
  std::vector<Gradient> out;
  for (const Gradient& g : all) {
    if (out.empty() || looks_after(out.back()) != looks_after(g) || out.back().bytes + g.bytes > most) {
      out.push_back(g);
      continue;
    }
    out.back().bytes += g.bytes;
    out.back().elements += g.elements;
    out.back().ready = g.ready;
  }
  return out;
}

std::vector<Gradient> merged(const std::vector<Gradient>& all, const std::vector<double>& capacity) {
  const auto [least, most] = std::minmax_element(
      all.begin(), all.end(), [](const Gradient& a, const Gradient& b) { return a.bytes < b.bytes; });
  const double start_up = least->reduction->latency.seconds(), rate = most->reduction->rate_alone(capacity);
  std::vector<Gradient> out;
  double free = 0;  // when all before the last of `out` are reduced
  for (const Gradient& g : all) {
    if (!out.empty()) {
      Gradient& open = out.back();
      const double start = std::max(free, open.ready), done = start + start_up + open.bytes / rate;
      if (g.ready < done && g.ready - start < start_up) {
        open.bytes += g.bytes;
        open.elements += g.elements;
        open.ready = g.ready;
        continue;
      }
      free = done;
    }
    out.push_back(g);
  }
  return out;
}

}  // namespace

bool by_need(const ResolvedScheme& scheme) {
  const auto& options = scheme.scheme->options;
  return std::any_of(options.begin(), options.end(),
                     [](const OptionSpec& o) { return o.name == "priority"; }) &&
         scheme.options.flag("priority");
}

namespace {

/// `all`: the last is needed first.
std::vector<uint32_t> order_of(const std::vector<Gradient>& all, Bytes credit) {
  std::vector<std::size_t> out;
  std::vector<double> ends;  // of those in `out`, on the link
  std::vector<bool> chosen(all.size());
  double now = 0;
  while (out.size() < all.size()) {
    double under_way = 0, wakes = INFINITY;
    for (std::size_t i = ends.size(); i-- > 0 && ends[i] > now;) {
      under_way += all[out[i]].bytes;
      wakes = ends[i];
    }
    const auto fits = [&](std::size_t i) {
      return under_way == 0 || under_way + all[i].bytes <= static_cast<double>(credit.n);
    };
    std::size_t best = all.size();
    for (std::size_t i = all.size(); i-- > 0;) {
      if (chosen[i]) continue;
      if (all[i].ready > now)
        wakes = std::min(wakes, all[i].ready);
      else if (best == all.size())
        best = i;
    }
    if (best == all.size() || !fits(best)) {
      now = wakes;
      continue;
    }
    chosen[best] = true;
    out.push_back(best);
    ends.push_back(std::max(now, ends.empty() ? 0 : ends.back()) + all[best].seconds);
  }
  std::vector<uint32_t> keys;
  for (const std::size_t i : out) keys.push_back(all[i].key);
  return keys;
}

}  // namespace

std::vector<uint32_t> order_by_need(const BoundProgram& plan, Bytes credit, const StepEnds& ends) {
  std::vector<uint32_t> out;
  for (const std::vector<Gradient>& all : gradients(plan, ends)) {
    const std::vector<uint32_t> keys = order_of(all, credit);
    out.insert(out.end(), keys.begin(), keys.end());
  }
  return out;
}

std::vector<int64_t> gather(const BoundProgram& fine, const Overheads& overheads, Bytes most,
                            const StepEnds& ends) {
  std::vector<int64_t> out;
  for (std::vector<Gradient>& all : gradients(fine, ends)) {
    if (!all.empty() && overheads.merge) all = merged(all, fine.capacity);
    if (!all.empty() && overheads.cycle.ps > 0)
      all = by_cycle(all, overheads.cycle.seconds(), static_cast<double>(most.n));
    for (const Gradient& g : all) out.push_back(g.elements);
  }
  return out;
}

Time last_look(const BoundProgram& fine, Time cycle, const StepEnds& ends) {
  double compute = 0;
  if (ends.empty()) {
    for (const Time t : fine.roles[0].duration[0]) compute += t.seconds();
  }
  for (const auto& all : ends.empty() ? std::vector<std::vector<Gradient>>{} : gradients(fine, ends))
    for (const Gradient& g : all) compute = std::max(compute, g.ready);
  // A host that issues all this goes on with it meanwhile.
  const double half = cycle.seconds() / 2, step = compute * fine.program->micro_batches;
  return Time::from_seconds(std::max(half, cycle.seconds() - step));
}

}  // namespace tandem::sim
