// SPDX-License-Identifier: Apache-2.0
#include "exec/results/time_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tandem::exec {

namespace {

/// By precedence if several happen at once.
enum Cause : uint8_t { kCommunication, kServer, kWaiting, kInput, kCauses };

struct Stretch {
  int64_t start, end;
  Cause cause;
  uint32_t awaited = 0;  ///< while waiting: the worker waited for
};

class MeasuredShares {
 public:
  MeasuredShares(const Run& run, const std::vector<std::unique_ptr<Worker>>& workers, std::size_t warm)
      : plan_(run.plan()), workers_(workers), warm_(warm), ops_(plan_.role(plan_.first_here()).ops) {
    for (uint32_t s = 0; s < plan_.shards().count(); ++s) apart_ = apart_ || run.apart(0, s);
    for (int l = 0; l < kLanes; ++l) {
      if (static_cast<Lane>(l) != Lane::compute) add_lane(static_cast<Lane>(l));
    }
    std::sort(stretches_.begin(), stretches_.end(),
              [](const Stretch& a, const Stretch& b) { return a.start < b.start; });
    for (const Stretch& s : stretches_) longest_ = std::max(longest_, s.end - s.start);
  }

  void fill(Report& report, int64_t begin, const std::vector<int64_t>& ends) {
    double busy = 0, wall = 0;
    int64_t at = 0;
    uint32_t iteration = kNoOp;
    for (const Executed& e : workers_[0]->executed(Lane::compute)) {
      if (e.iteration < warm_ || e.op == kNoOp) continue;
      if (e.iteration != iteration) {
        if (iteration != kNoOp) gap(at, ends[iteration]);
        iteration = e.iteration;
        at = iteration == 0 ? begin : ends[iteration - 1];
        wall += static_cast<double>(ends[iteration] - at);
      }
      gap(at, e.start);
      busy += static_cast<double>(e.end - e.start);
      at = std::max(at, e.end);
    }
    if (iteration != kNoOp) gap(at, ends[iteration]);
    double all = busy;
    for (const int64_t time : time_) all += static_cast<double>(time);
    all = std::max(all, wall);
    if (all <= 0) return;
    const auto share = [&](Cause c) { return static_cast<double>(time_[c]) / all; };
    TimeShare& t = report.time.share;
    t.compute = busy / all;
    t.exposed_communication = share(kCommunication);
    t.server = share(kServer);
    t.waiting = share(kWaiting);
    t.input = share(kInput);
    t.idle = std::max(0.0, 1 - t.compute - t.exposed_communication - t.server - t.waiting - t.input);
    for (const auto& [worker, time] : awaited_) {
      if (worker != kNoOp)
        report.time.waiting_for.emplace_back(fmt::format("worker {}", worker),
                                             static_cast<double>(time) / all);
    }
    std::stable_sort(report.time.waiting_for.begin(), report.time.waiting_for.end(),
                     [](const NamedShare& a, const NamedShare& b) { return a.second > b.second; });
    report.largest_share_is_bottleneck();
  }

 private:
  void add_lane(Lane lane) {
    for (const Executed& e : workers_[0]->executed(lane)) {
      if (e.iteration < warm_ || e.op == kNoOp) continue;
      switch (ops_[e.op].kind) {
        case OpKind::collective:
          if (e.ready < e.start) stretches_.push_back({e.ready, e.start, kWaiting, last_of(e, lane)});
          stretches_.push_back({e.start, e.end, kCommunication});
          break;
        case OpKind::send:
          if (of_layers(ops_[e.op].payload)) {
            stretches_.push_back({e.start, e.end, kCommunication});
            break;
          }
          stretches_.push_back({e.start, e.end, apart_ ? kCommunication : kServer});
          break;
        case OpKind::recv:
          if (of_layers(ops_[e.op].payload)) {  // from when the message is there
            stretches_.push_back({e.ready, e.start, kWaiting, kNoOp});
            stretches_.push_back({e.start, e.end, kCommunication});
            break;
          }
          stretches_.push_back({e.start, e.end, apart_ ? kCommunication : kWaiting, kNoOp});
          break;
        case OpKind::copy:
          stretches_.push_back(
              {e.start, e.end,
               lane == Lane::copy || lane == Lane::read || lane == Lane::decode ? kInput : kCommunication});
          break;
        case OpKind::compute:  // the update of offloaded state
          stretches_.push_back({e.start, e.end, kServer});
          break;
        default:
          break;
      }
    }
  }

  /// The local worker that came last to the collective `e`.
  uint32_t last_of(const Executed& e, Lane lane) {
    if (arrivals_.empty()) {
      for (uint32_t w = 0; w < workers_.size(); ++w) {
        if (&plan_.role(plan_.first_here() + w).ops != &ops_) continue;  // of another stage: other ops
        for (const Executed& other : workers_[w]->executed(lane)) {
          if (other.iteration < warm_ || other.op == kNoOp) continue;
          const Op& op = ops_.at(other.op);
          if (op.kind != OpKind::collective) continue;
          const Collective& c = plan_.program().collectives[op.what];
          if (plan_.member(c, plan_.first_here() + w).group != plan_.member(c, plan_.first_here()).group)
            continue;
          auto& [ready, who] = arrivals_[{other.iteration, other.op}];
          if (other.ready > ready) ready = other.ready, who = plan_.first_here() + w;
        }
      }
    }
    return arrivals_[{e.iteration, e.op}].second;
  }

  /// Charges the time from `from` to `to`, during which the compute lane was idle.
  void gap(int64_t from, int64_t to) {
    if (from >= to) return;
    const auto first = std::lower_bound(stretches_.begin(), stretches_.end(), from - longest_,
                                        [](const Stretch& s, int64_t time) { return s.start < time; });
    std::vector<int64_t> cuts{from, to};
    std::vector<const Stretch*> within;
    for (auto s = first; s != stretches_.end() && s->start < to; ++s) {
      if (s->end <= from) continue;
      within.push_back(&*s);
      cuts.push_back(std::max(from, s->start));
      cuts.push_back(std::min(to, s->end));
    }
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      const Stretch* why = nullptr;
      for (const Stretch* s : within) {
        const bool covers = s->start <= cuts[i - 1] && s->end >= cuts[i];
        if (covers && (why == nullptr || s->cause < why->cause)) why = s;
      }
      if (why == nullptr) continue;
      time_[why->cause] += cuts[i] - cuts[i - 1];
      if (why->cause == kWaiting) awaited_[why->awaited] += cuts[i] - cuts[i - 1];
    }
  }

  const RunPlan& plan_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  std::size_t warm_;
  const OpList& ops_;
  bool apart_ = false;              ///< some shard is reached over links
  std::vector<Stretch> stretches_;  ///< by start
  int64_t longest_ = 0;             ///< of them
  int64_t time_[kCauses] = {};      ///< ns
  std::map<uint32_t, int64_t> awaited_;
  /// [iteration, op]: when the last of the first worker's group was ready for it, and which one that was.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<int64_t, uint32_t>> arrivals_;
};

}  // namespace

void add_measured_shares(Report& report, const Run& run, const std::vector<std::unique_ptr<Worker>>& workers,
                         std::size_t warm, int64_t begin, const std::vector<int64_t>& ends) {
  MeasuredShares(run, workers, warm).fill(report, begin, ends);
}

}  // namespace tandem::exec
