// SPDX-License-Identifier: Apache-2.0
#include "exec/results/join_ranks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "exec/comm/ranks.h"

namespace tandem::exec {

std::vector<Slice> held_by(const RunPlan& plan, uint32_t instance) {
  std::vector<Slice> out;
  const uint32_t role = plan.stages().place(instance).role;
  if (!plan.spreads() && !plan.stages().split()) return {{0, plan.stages().lowered(instance).parameters()}};
  const GridPlace& place = plan.stages().place(instance);
  if (place.worker > 0) return out;
  for (uint32_t key = 0; key < plan.program().buckets.size(); ++key) {
    const Bucket& bucket = plan.program().buckets[key];
    if (bucket.role != role) continue;
    const bool copy = !plan.stages().own_samples() &&
                      ((plan.stages().dealt(bucket) ? place.holder : place.replica) > 0 || place.context > 0);
    if (plan.spreads())
      out.push_back(plan.share(key, instance));
    else if (!copy)
      out.push_back({bucket.first, bucket.elements});
  }
  return out;
}

namespace {

/// From one flat vector to another, or from several in sequence (an optimiser's state).
template <class F, class T>
void copy_slices(int64_t n, const ParameterMap& parts, const std::vector<F>& from, std::vector<T>& to) {
  for (std::ptrdiff_t base = 0; base < static_cast<std::ptrdiff_t>(to.size()); base += n) {
    for (const MappedRange& p : parts)
      std::copy_n(from.begin() + base + p.whole, p.elements, to.begin() + base + p.whole);
  }
}

/// Each process has merged what reached its own servers.
void join_stores(ExecutionResult& out) {
  constexpr std::size_t kMost = 65536;
  std::vector<double> sums(kMost + 3);
  for (const Histogram::Bin& bin : out.report.staleness.all.bins())
    sums[std::min(static_cast<std::size_t>(bin.value), kMost - 1)] += static_cast<double>(bin.count);
  sums[kMost] = static_cast<double>(out.versions);
  sums[kMost + 1] = static_cast<double>(out.dropped);
  sums[kMost + 2] = static_cast<double>(out.updates);
  sum_over_ranks(sums);
  Histogram all;
  for (std::size_t i = 0; i < kMost; ++i) {
    if (sums[i] > 0) all.add(static_cast<int64_t>(i), std::llround(sums[i]));
  }
  out.report.staleness.all = all;
  out.versions = std::llround(sums[kMost]);
  out.dropped = std::llround(sums[kMost + 1]);
  out.updates = std::llround(sums[kMost + 2]);
}

/// For the same number of models in each process.
void take_mean(std::vector<float>& values) {
  std::vector<double> all(values.begin(), values.end());
  sum_over_ranks(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    values[i] = static_cast<float>(all[i] / static_cast<double>(ranks().size));
}

/// If servers keep the state after the parameters.
void join_exchanged(const ParameterMap& own, ExecutionResult& out) {
  std::vector<float> both = out.parameters;
  both.insert(both.end(), out.state.begin(), out.state.end());
  std::vector<double> all(both.size());
  copy_slices(static_cast<int64_t>(both.size()), own, both, all);
  sum_over_ranks(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    (i < out.parameters.size() ? out.parameters[i] : out.state[i - out.parameters.size()]) =
        static_cast<float>(all[i]);
}

/// Vectors of `n` elements, of which each process has parts; `bits`: words that are not numbers.
void join_values(const ParameterMap& own, int64_t n, std::vector<float>& values, bool bits) {
  const std::vector<float> one(static_cast<std::size_t>(n), 1);
  std::vector<double> holders(one.size());  // devices that share a layer all hold what none of them splits
  copy_slices(n, own, one, holders);
  sum_over_ranks(holders);
  std::vector<double> mine, all(values.size());
  for (const float v : values) mine.push_back(bits ? std::bit_cast<uint32_t>(v) : static_cast<double>(v));
  copy_slices(n, own, mine, all);
  sum_over_ranks(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double mean = all[i] / std::max(1.0, holders[i % holders.size()]);
    values[i] = bits ? std::bit_cast<float>(static_cast<uint32_t>(mean)) : static_cast<float>(mean);
  }
}

/// For a state stored tensor by tensor: the part that belongs to these parameters.
ParameterMap own_state(const RunPlan& plan, const ParameterMap& own) {
  ParameterMap out;
  const OptimizerState& state = plan.optimizer_state();
  for (const MappedRange& p : own) {
    for (const UpdatedTensor& t : state.in({p.whole, p.elements}))
      out.push_back({0, t.state, plan.execution().job.optimizer->state_words(t.elements, t.rows)});
  }
  return out;
}

/// Each process has the parameters and optimiser state that its own servers or workers updated.
void join_slices(const Run& run, ExecutionResult& out) {
  const RunPlan& plan = run.plan();
  ParameterMap own;
  for (uint32_t key = 0; key < plan.program().buckets.size() && run.store(); ++key) {
    for (uint32_t i = 0; i < plan.shards().local(); ++i) {
      for (const uint32_t s : plan.shards().with(key)) {
        const Slice slice = plan.shards().slice(key, i, s);
        if (run.links()->here(s)) own.push_back({slice.first, slice.first, slice.elements});
      }
    }
  }
  for (uint32_t w = 0; w < plan.here() && !run.store(); ++w) {
    const uint32_t instance = plan.first_here() + w;
    for (const Slice& s : held_by(plan, instance)) {
      for (const MappedRange& p : plan.stages().parameter_map(instance)) {
        const int64_t begin = std::max(p.own, s.first),
                      end = std::min(p.own + p.elements, s.first + s.elements);
        if (begin < end) own.push_back({0, p.whole + begin - p.own, end - begin});
      }
    }
  }
  if (plan.shards().exchanged_vectors() > 1) return join_exchanged(own, out);
  const int64_t n = plan.execution_graph().parameters();
  join_values(own, n, out.parameters, false);
  if (plan.stages().split()) join_values(own, n, out.averaging, false);
  if (plan.execution().job.optimizer->flat()) return join_values(own, n, out.state, false);
  join_values(own_state(plan, own), plan.optimizer_state().words(), out.state, true);
}

}  // namespace

void join_ranks(const Run& run, ExecutionResult& out) {
  const RunPlan& plan = run.plan();
  if (run.store()) join_stores(out);
  if (plan.keep().parameters && plan.shards().hold_models())
    take_mean(out.parameters);
  else if (plan.keep().parameters && (run.store() || plan.spreads() || plan.stages().split()))
    join_slices(run, out);
  Report& r = out.report;
  double rates[4] = {r.rate.samples_per_second, r.rate.interval.low, r.rate.interval.high,
                     static_cast<double>(out.sent_between_nodes)};
  sum_over_ranks(rates);
  r.rate.samples_per_second = rates[0];
  r.rate.interval.low = rates[1];
  r.rate.interval.high = rates[2];
  out.sent_between_nodes = std::llround(rates[3]);
  sum_over_ranks(out.losses);
  for (double& loss : out.losses) loss /= static_cast<double>(ranks().size);
  r.staleness.by_worker.clear();  // each process knows only those of its own shards
  r.setup.devices = plan.workers();
}

}  // namespace tandem::exec
