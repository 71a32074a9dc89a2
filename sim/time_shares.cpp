// SPDX-License-Identifier: Apache-2.0
#include "sim/time_shares.h"

#include <algorithm>

namespace tandem::sim {

namespace {

constexpr std::size_t kMostAwaited = 8;

void largest_first(std::vector<NamedShare>& shares) {
  std::stable_sort(shares.begin(), shares.end(),
                   [](const NamedShare& a, const NamedShare& b) { return a.second > b.second; });
}

/// The kinds of kernels by what they alone take, as shares of the step that together are `compute`.
std::vector<KernelShare> kernel_shares(const Bound& bound, double compute) {
  std::vector<KernelShare> out;
  double sum = 0;
  for (int k = 0; k < kKernelKinds; ++k) {
    KernelShare kind{std::string(name(static_cast<KernelKind>(k))), "", 0, 0};
    for (int p = 0; p < kPasses; ++p) {
      const double seconds = bound.by_kind[k][p];
      kind.share += seconds;
      if (seconds <= kind.heaviest) continue;
      kind.heaviest = seconds;
      kind.heaviest_pass = name(static_cast<Pass>(p));
    }
    sum += kind.share;
    if (kind.share > 0) out.push_back(std::move(kind));
  }
  for (KernelShare& kind : out) {
    kind.share *= compute / sum;
    kind.heaviest *= compute / sum;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const KernelShare& a, const KernelShare& b) { return a.share > b.share; });
  return out;
}

}  // namespace

void add_time_shares(Report& report, const Trace& t, const Bound& bound,
                     const std::function<std::string(uint32_t)>& who) {
  double total = t.busy[static_cast<int>(Lane::compute)].seconds();
  for (const Time& time : t.exposed) total += time.seconds();
  total -= t.filling.seconds();  // a training does that once
  if (total <= 0) return;
  const auto share = [&](Wait wait) { return t.exposed_to(wait).seconds() / total; };
  TimeShare& s = report.time.share;
  s.compute = t.busy[static_cast<int>(Lane::compute)].seconds() / total;
  s.launch = share(Wait::launch);
  s.exposed_communication = share(Wait::communication);
  s.waiting = share(Wait::waiting);
  s.input = (t.exposed_to(Wait::input).seconds() - t.filling.seconds()) / total;
  s.server = share(Wait::server);
  s.bubble = share(Wait::bubble);
  s.idle = share(Wait::idle);
  for (int move = 0; move < kMoves; ++move) {
    if (t.moved[move].ps > 0)
      report.time.communication_kinds.emplace_back(move_name(move), t.moved[move].seconds() / total);
  }
  largest_first(report.time.communication_kinds);
  for (const auto& [worker, time] : t.awaited)
    if (time.ps > 0) report.time.waiting_for.emplace_back(who(worker), time.seconds() / total);
  largest_first(report.time.waiting_for);
  if (report.time.waiting_for.size() > kMostAwaited) report.time.waiting_for.resize(kMostAwaited);
  report.time.slowed = std::min(s.compute, bound.slowed_seconds * t.timed_iterations() / total);
  report.time.kernels = kernel_shares(bound, s.compute - report.time.slowed);
}

}  // namespace tandem::sim
