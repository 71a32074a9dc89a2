// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/sweep.h"

// Ops in issue order, each for all instances of its role at once. Issue order is topological and lanes are in
// order, so when an op's turn comes, all that it waits for is known. Memory: rows only for ends that an op on
// another lane still needs.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/until.h"
#include "sim/bound/alone_times.h"
#include "sim/bound/groups.h"
#include "sim/evaluate/fold.h"
#include "sim/evaluate/host_clock.h"
#include "sim/evaluate/lane_rows.h"
#include "sim/evaluate/recorder.h"
#include "sim/evaluate/shared_copies.h"
#include "sim/evaluate/sweep_roles.h"

namespace tandem::sim {

namespace {

/// Ends of one op: one per row, or a single one where all instances share it.
struct Ends {
  Row row;
  bool scalar = false;
  int64_t value = 0;    ///< of all, or the latest
  uint32_t latest = 0;  ///< whose that is
  bool ran = false;
};

/// Ends of ops, of as many iterations each as others look back.
class EndsOfOps {
 public:
  void add_op(uint32_t lag) {
    rings_.emplace_back(ends_.size(), lag + 1);
    ends_.resize(ends_.size() + lag + 1);
  }
  Ends& of(uint32_t op, uint32_t iteration) {
    return ends_[rings_[op].first + iteration % rings_[op].second];
  }
  const Ends& of(uint32_t op, uint32_t iteration) const {
    return ends_[rings_[op].first + iteration % rings_[op].second];
  }

 private:
  std::vector<Ends> ends_;
  std::vector<std::pair<std::size_t, uint32_t>> rings_;  ///< [op]: the first of its ends, and how many
};

/// The groups of collectives on the same axes.
struct Meeting {
  Groups groups;
  std::vector<uint64_t> weight;  ///< [group]: sum of its members' weights
};

struct OpPlan {
  std::vector<Time> time;            ///< [class], where nothing is random
  const Meeting* meeting = nullptr;  ///< of a collective
  bool needed = false;               ///< by an op on another lane
  uint32_t lag = 0;                  ///< largest of these
  uint32_t last_use = 0;             ///< last op that needs it in the same iteration
  int64_t runs = 0;
};

/// Messages between the stages of a pipeline that were sent and not yet received, in order.
struct Letter {
  Row sent, arrived;  ///< [row]
};
/// What roles have in common.
struct Mail {
  explicit Mail(const BoundProgram& plan) : alone(plan.transfers, plan.capacity) {}
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Letter>> letters;  ///< by channel and key
  std::deque<SharedCopies> copies;                                      ///< by lane, where they share links
  AloneTimes alone;
};

class RoleSweep {
 public:
  RoleSweep(const BoundProgram& plan, uint32_t r, const EvaluateOptions& options, Recorder& recorder,
            Mail& mail)
      : mail_(mail),
        plan_(plan),
        r_(r),
        role_(plan.program->roles[r]),
        costs_(plan.roles.at(r)),
        iterations_(options.iterations),
        recorder_(recorder),
        calm_(plan.disturbance.none()),
        count_(static_cast<uint32_t>(role_.mesh.size())),
        rows_(count_) {
    for (uint32_t i = 0; i < count_; ++i) weight_.push_back(Recorder::weight(r, i));
    for (LaneRows& lane : lanes_) lane.assign(rows_);
    waited_.assign(rows_, 0);
    if (!costs_.issued.empty()) host_.resize(rows_);
    begin_.assign(host_.size(), 0);
    start_.assign(rows_, 0);
    ready_.assign(std::min(rows_, recorder.kept()), 0);
    last_.assign(rows_, 0);
    ops_.resize(role_.ops.size());
    for (uint32_t o = 0; o < ops_.size(); ++o) plan_op(o);
    plan_uses();
    for (const OpPlan& p : ops_) ends_.add_op(p.lag);
  }

  /// As far as it gets without a message that is not sent yet. True if that is any further.
  bool advance() {
    bool moved = false;
    for (; iteration_ < static_cast<uint32_t>(iterations_); ++iteration_, next_ = 0) {
      Until::check();
      if (next_ == 0) begin_iteration();
      for (; next_ < ops_.size(); ++next_, moved = true) {
        if (role_.ops[next_].runs(iteration_)) {
          if (role_.ops[next_].kind == OpKind::recv && box(next_).empty()) return moved;
          run_op(next_);
        } else {
          ends_.of(next_, iteration_).ran = false;
        }
        release(next_);
      }
      for (LaneRows& lane : lanes_) catch_up(lane);
      waited_ = lanes_[static_cast<int>(Lane::compute)].rows();
      if (r_ == 0) end_iteration();
    }
    return moved;
  }
  bool done() const { return iteration_ == static_cast<uint32_t>(iterations_); }

  /// Every run of an op is one transfer per instance, or per group of a collective.
  void count_transfers() {
    for (uint32_t o = 0; o < ops_.size(); ++o) {
      for (const auto& [transfer, units] : transfers_of(plan_, r_, o)) {
        if (transfer >= 0) recorder_.transfer(transfer, units * ops_[o].runs);
      }
    }
  }

 private:
  uint32_t class_of(uint32_t i) const { return costs_.class_of.empty() ? 0 : costs_.class_of[i]; }

  void plan_op(uint32_t o) {
    const Op& op = role_.ops[o];
    OpPlan& p = ops_[o];
    for (std::size_t c = 0; c < costs_.duration.size(); ++c) {
      const int32_t transfer = op.kind == OpKind::compute ? -1 : costs_.transfer[c][o];
      p.time.push_back(op.kind == OpKind::compute ? costs_.duration[c][o]
                       : transfer < 0             ? Time{}
                                                  : mail_.alone.of(transfer));
    }
    if (op.kind == OpKind::collective) p.meeting = &meeting(plan_.program->collectives[op.what].axes);
    p.last_use = o;
  }

  /// What other lanes need of each op.
  void plan_uses() {
    for (uint32_t user = 0; user < ops_.size(); ++user) {
      for (const Dep& dep : role_.ops[user].deps) {
        if (role_.ops[user].lane == role_.ops[dep.op].lane) continue;
        OpPlan& p = ops_[dep.op];
        p.needed = true;
        p.lag = std::max<uint32_t>(p.lag, dep.lag);
        p.last_use = std::max(p.last_use, user);
      }
    }
  }

  const Meeting& meeting(uint32_t axes) {
    const auto known = meetings_.find(axes);
    if (known != meetings_.end()) return known->second;
    Meeting m{Groups(role_.mesh, axes), {}};
    m.weight.assign(m.groups.count(), 0);
    for (uint32_t i = 0; i < count_; ++i) m.weight[m.groups.of(i)] += weight_[i];
    return meetings_.emplace(axes, std::move(m)).first->second;
  }

  void begin_iteration() {
    for (uint32_t i = 0; i < host_.size(); ++i)
      begin_[i] = host_[i].begin(costs_, class_of(i), iteration_, waited_[i]);
    if (calm_) return;
    factor_.assign(rows_, 0);
    largest_factor_ = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      factor_[i] = plan_.iteration_factor(r_, i, iteration_);
      largest_factor_ = std::max(largest_factor_, factor_[i]);
    }
  }

  /// Fills `lane` with the ends of an op that every row runs by itself.
  void run_durations(uint32_t o, Row& lane) const {
    const bool per_row = !costs_.class_of.empty();
    const bool by_factor = role_.ops[o].kind == OpKind::compute && !calm_ && !plan_.disturbance.per_op();
    if (by_factor && per_row) {
      for (uint32_t i = 0; i < rows_; ++i) {
        const Time d = ops_[o].time[costs_.class_of[i]];
        lane[i] = start_[i] + (factor_[i] == 1 ? d.ps : picoseconds(d.seconds() * factor_[i]));
      }
    } else if (by_factor) {
      const int64_t d = ops_[o].time[0].ps;
      const double seconds = ops_[o].time[0].seconds();
      for (uint32_t i = 0; i < rows_; ++i) {
        lane[i] = start_[i] + (factor_[i] == 1 ? d : picoseconds(seconds * factor_[i]));
      }
    } else if (!per_row &&
               (calm_ || (role_.ops[o].kind != OpKind::compute && plan_.disturbance.network_sigma == 0))) {
      const int64_t d = ops_[o].time[0].ps;
      for (uint32_t i = 0; i < rows_; ++i) lane[i] = start_[i] + d;
    } else {
      for (uint32_t i = 0; i < rows_; ++i) lane[i] = start_[i] + duration(o, i);
    }
  }

  /// A compute op ends when the host has issued it.
  void wait_for_host(uint32_t o, Row& lane) {
    if (costs_.issued.empty() || !launched(role_.ops[o])) return;
    const int64_t late = begin_[0] + costs_.issued[class_of(0)][o].ps - lane[0];
    if (late > 0 && recorder_.tracks(r_)) recorder_.launch(late);
    if (costs_.class_of.empty()) {
      const int64_t issued = costs_.issued[0][o].ps;
      for (uint32_t i = 0; i < rows_; ++i) lane[i] = std::max(lane[i], begin_[i] + issued);
    } else {
      for (uint32_t i = 0; i < rows_; ++i)
        lane[i] = std::max(lane[i], begin_[i] + costs_.issued[class_of(i)][o].ps);
    }
  }

  /// The host goes on when an op that it waits for has ended.
  void hold_host(uint32_t o, const Row& lane) {
    if (!HostClock::waits_for(costs_, role_.ops[o].kind, o, iteration_)) return;
    for (uint32_t i = 0; i < host_.size(); ++i) {
      host_[i].ended(costs_, class_of(i), o, iteration_, lane[i]);
      begin_[i] = host_[i].begin(costs_, class_of(i), iteration_, waited_[i]);
    }
  }

  int64_t duration(uint32_t o, uint32_t i) const {
    if (calm_) return ops_[o].time[class_of(i)].ps;
    if (role_.ops[o].kind == OpKind::compute) {
      return scaled(ops_[o].time[class_of(i)], factor_[i] * plan_.op_factor(r_, i, iteration_, o)).ps;
    }
    if (plan_.disturbance.network_sigma == 0) return ops_[o].time[class_of(i)].ps;
    const int32_t t = costs_.transfer[class_of(i)][o];
    if (t < 0) return 0;
    const double factor = plan_.transfer_factor(r_, i, iteration_, o);
    return plan_.transfers.at(static_cast<std::size_t>(t)).alone(plan_.capacity, factor).ps;
  }

  /// A collective of all rows: they start when the last is there, and end together.
  void run_with_all(uint32_t o) {
    const Op& op = role_.ops[o];
    LaneRows& lane = lanes_[static_cast<int>(op.lane)];
    const uint32_t kept = std::min(rows_, recorder_.kept());
    catch_up(lane);
    std::vector<const Row*> awaited;
    int64_t floor = lane.same().value_or(0);
    Latest latest;  // of the only rows that it waits for
    for (const Dep& dep : op.deps) {
      if (role_.ops[dep.op].lane == op.lane || dep.lag > iteration_) continue;
      const Ends& ends = ends_.of(dep.op, iteration_ - dep.lag);
      if (ends.ran && ends.scalar) floor = std::max(floor, ends.value);
      if (!ends.ran || ends.scalar) continue;
      awaited.push_back(&ends.row);
      latest = {ends.value, ends.latest};
    }
    if (!lane.same()) {
      awaited.push_back(&lane.rows());
      latest = latest_of(lane.rows());
    }
    const auto start_of = [&](uint32_t i) {
      int64_t start = floor;
      for (const Row* row : awaited) start = std::max(start, (*row)[i]);
      return start;
    };
    for (uint32_t i = 0; i < rows_ && awaited.size() > 1; ++i) {
      if (const int64_t start = start_of(i); i == 0 || start > latest.end) latest = {start, i};
    }
    const int64_t begin = std::max(floor, latest.end), end = begin + duration(o, 0);
    const uint32_t last = latest.end > floor ? latest.row : 0;
    for (uint32_t i = 0; i < kept; ++i) {
      const int64_t ready = start_of(i);
      if (i == 0 && recorder_.tracks(r_)) recorder_.ready(r_, iteration_, o, ready);
      recorder_.keep(r_, i, iteration_, o, {ready, begin, end, last});
    }
    lane.all_at(end);
    recorder_.hash(0, count_);
    recorder_.makespan(end);
    for (SharedCopies& copies : mail_.copies) {
      if (has_transfer(op) && !copies.times(r_, op)) copies.beside(r_, o, begin, end);
    }
    if (ops_[o].needed) store_ends(o, {}, {end, 0});
  }

  void run_op(uint32_t o) {
    const Op& op = role_.ops[o];
    ++ops_[o].runs;
    const bool collective = op.kind == OpKind::collective;
    if (collective && ops_[o].meeting->groups.count() == 1 && !recorder_.hashes()) return run_with_all(o);
    const uint32_t kept = std::min(rows_, recorder_.kept());
    LaneRows& on = lanes_[static_cast<int>(op.lane)];
    const std::optional<int64_t> floor = uniform(o);
    Row& lane = on.rows();
    if (floor) {
      run_uniform(o, on, *floor, kept);
    } else {
      catch_up(on);
      find_starts(o, lane);
      std::copy_n(start_.begin(), kept, ready_.begin());
      const uint64_t stem = Recorder::stem(r_, iteration_, o);
      const int64_t latest = collective ? run_groups(o, lane, stem) : run_rows(o, lane, stem);
      recorder_.makespan(latest);
      for (SharedCopies& copies : mail_.copies) {
        if (has_transfer(op) && !copies.times(r_, op))
          copies.beside(r_, o, *std::min_element(start_.begin(), start_.end()), latest);
      }
    }
    for (uint32_t i = 0; i < kept; ++i) {
      if (i == 0 && recorder_.tracks(r_)) recorder_.ready(r_, iteration_, o, ready_[0]);
      const uint32_t last = collective ? last_[ops_[o].meeting->groups.of(i)] : i;
      recorder_.keep(r_, i, iteration_, o, {ready_[i], start_[i], lane[i], last});
    }
    if (!ops_[o].needed) return;
    catch_up(on);
    const bool scalar = collective && ops_[o].meeting->groups.count() == 1;
    store_ends(o, scalar ? std::span<const int64_t>() : std::span<const int64_t>(lane),
               scalar  ? Latest{lane[0], 0}
               : floor ? on.latest()
                       : latest_of(lane));
  }

  /// Where a compute op asks no more of one row than of another: what all of them wait for.
  std::optional<int64_t> uniform(uint32_t o) const {
    const bool noisy = !calm_ && plan_.disturbance.per_op();
    if (!launched(role_.ops[o]) || !costs_.class_of.empty() || noisy || recorder_.hashes() ||
        static_cast<double>(ops_[o].time[0].ps) * std::max(1.0, largest_factor_) >= 0x1p49)
      return std::nullopt;
    int64_t floor = 0;
    for (const Dep& dep : role_.ops[o].deps) {
      if (role_.ops[dep.op].lane == role_.ops[o].lane || dep.lag > iteration_) continue;
      const Ends& ends = ends_.of(dep.op, iteration_ - dep.lag);
      if (ends.ran && !ends.scalar) return std::nullopt;
      if (ends.ran) floor = std::max(floor, ends.value);
    }
    return floor;
  }

  /// The rows that the recorder keeps run it at once, and all of them where the host waits for its end.
  void run_uniform(uint32_t o, LaneRows& lane, int64_t floor, uint32_t kept) {
    const uint32_t now = std::max(kept, 1U);
    for (uint32_t i = 0; i < now; ++i) start_[i] = std::max(lane.end(i), floor);
    std::copy_n(start_.begin(), kept, ready_.begin());
    const int64_t issued = costs_.issued.empty() ? 0 : costs_.issued[0][o].ps;
    const int64_t first =
        start_[0] +
        (factor_.empty() ? ops_[o].time[0].ps : short_picoseconds(ops_[o].time[0].seconds() * factor_[0]));
    if (!begin_.empty() && begin_[0] + issued > first && recorder_.tracks(r_))
      recorder_.launch(begin_[0] + issued - first);
    recorder_.hash(0, count_);
    lane.run({floor, ops_[o].time[0].ps, issued}, now, {factor_, begin_});
    if (!HostClock::waits_for(costs_, role_.ops[o].kind, o, iteration_)) return;
    catch_up(lane);
    hold_host(o, lane.rows());
  }

  void catch_up(LaneRows& lane) {
    if (!lane.behind()) return;
    recorder_.makespan(lane.catch_up({factor_, begin_}).end);
  }

  void find_starts(uint32_t o, const Row& lane) {
    std::copy(lane.begin(), lane.end(), start_.begin());
    int64_t floor = 0;
    for (const Dep& dep : role_.ops[o].deps) {
      if (role_.ops[dep.op].lane == role_.ops[o].lane || dep.lag > iteration_) continue;
      const Ends& ends = ends_.of(dep.op, iteration_ - dep.lag);
      if (!ends.ran) continue;
      if (ends.scalar) {
        floor = std::max(floor, ends.value);
      } else {
        for (uint32_t i = 0; i < rows_; ++i) start_[i] = std::max(start_[i], ends.row[i]);
      }
    }
    if (floor > 0) {
      for (int64_t& s : start_) s = std::max(s, floor);
    }
  }

  int64_t run_rows(uint32_t o, Row& lane, uint64_t stem) {
    uint64_t sum = 0;
    int64_t latest = 0;
    switch (role_.ops[o].kind) {
      case OpKind::send:
        run_send(o, lane);
        break;
      case OpKind::recv:
        run_recv(o, lane);
        break;
      default:
        if (const auto copies =
                std::find_if(mail_.copies.begin(), mail_.copies.end(),
                             [&](const SharedCopies& c) { return c.times(r_, role_.ops[o]); });
            copies != mail_.copies.end()) {
          copies->run(o, iteration_, start_, lane);
        } else {
          run_durations(o, lane);
        }
        wait_for_host(o, lane);
        hold_host(o, lane);
    }
    for (uint32_t i = 0; i < rows_; ++i) latest = std::max(latest, lane[i]);
    for (uint32_t i = 0; i < rows_ && recorder_.hashes(); ++i)
      sum += Recorder::mark(stem, start_[i], lane[i]) * weight_[i];
    recorder_.hash(sum, count_);
    return latest;
  }

  std::deque<Letter>& box(uint32_t o) { return mail_.letters[{role_.ops[o].what, role_.ops[o].key}]; }

  /// The lane is free when the payload has left; the message arrives after the way's latency.
  void run_send(uint32_t o, Row& lane) {
    Letter letter{start_, start_};
    for (uint32_t i = 0; i < rows_; ++i) {
      const auto index = static_cast<std::size_t>(costs_.transfer[class_of(i)][o]);
      const Transfer& t = plan_.transfers.at(index);
      const double factor = calm_ ? 1 : plan_.transfer_factor(r_, i, iteration_, o);
      lane[i] = start_[i] + t.payload(t.rate_alone(plan_.capacity), factor).ps;
      letter.arrived[i] = lane[i] + t.delay(factor).ps;
    }
    box(o).push_back(std::move(letter));
    hold_host(o, lane);
  }

  void run_recv(uint32_t o, Row& lane) {
    Letter letter = std::move(box(o).front());
    box(o).pop_front();
    for (uint32_t i = 0; i < rows_; ++i) lane[i] = std::max(start_[i], letter.arrived[i]);
    hold_host(o, lane);
    if (recorder_.tracks(r_)) recorder_.heard(r_, 0, letter.sent[0]);
  }

  int64_t run_groups(uint32_t o, Row& lane, uint64_t stem) {
    const Groups& groups = ops_[o].meeting->groups;
    uint64_t sum = 0;
    int64_t latest = 0;
    for (uint32_t g = 0; g < groups.count(); ++g) {
      const uint32_t first = groups.first(g);
      int64_t begin = -1;
      for (const uint32_t offset : groups.offsets()) {
        if (start_[first + offset] <= begin) continue;
        begin = start_[first + offset];
        last_[g] = first + offset;
      }
      const int64_t end = begin + duration(o, first);
      for (const uint32_t offset : groups.offsets()) {
        start_[first + offset] = begin;
        lane[first + offset] = end;
      }
      latest = std::max(latest, end);
      if (recorder_.hashes()) sum += Recorder::mark(stem, begin, end) * ops_[o].meeting->weight[g];
    }
    recorder_.hash(sum, count_);
    return latest;
  }

  /// `lane`: empty where all rows end when `latest` does.
  void store_ends(uint32_t o, std::span<const int64_t> lane, Latest latest) {
    Ends& ends = ends_.of(o, iteration_);
    ends.ran = true;
    ends.scalar = lane.empty();
    ends.value = latest.end;
    ends.latest = latest.row;
    if (ends.scalar) return;
    if (ends.row.empty() && !spare_.empty()) {
      ends.row = std::move(spare_.back());
      spare_.pop_back();
    }
    ends.row.assign(lane.begin(), lane.end());
  }

  /// Rows that nobody after `o` needs go back to the pool.
  void release(uint32_t o) {
    for (const Dep& dep : role_.ops[o].deps) {
      const OpPlan& p = ops_[dep.op];
      if (!p.needed || p.lag > 0 || p.last_use != o) continue;
      Row& row = ends_.of(dep.op, 0).row;
      if (!row.empty()) spare_.push_back(std::move(row));
      row = {};
    }
  }

  void end_iteration() {
    for (uint32_t i = 0; i < rows_; ++i) {
      int64_t end = 0;
      for (const LaneRows& lane : lanes_) end = std::max(end, lane.end(i));
      recorder_.iteration(i, iteration_, end);
    }
  }

  Mail& mail_;
  const BoundProgram& plan_;
  uint32_t r_;
  const Role& role_;
  const RoleCosts& costs_;
  int32_t iterations_;
  Recorder& recorder_;
  bool calm_;
  uint32_t count_, rows_;
  uint32_t iteration_ = 0, next_ = 0;     ///< `next_`: op
  std::map<uint32_t, Meeting> meetings_;  ///< by axes
  std::vector<OpPlan> ops_;
  EndsOfOps ends_;
  std::vector<uint64_t> weight_;  ///< [row]
  std::vector<double> factor_;    ///< [row]
  double largest_factor_ = 0;     ///< of these
  std::vector<Row> spare_;
  LaneRows lanes_[kLanes];
  Row start_, ready_;            ///< `ready_`: of the instances kept, without waiting for others
  std::vector<uint32_t> last_;   ///< [group]: who came last to the collective that runs
  std::vector<HostClock> host_;  ///< [row], where issuing takes time
  Row begin_;                    ///< [row]: from when on it issues this iteration
  Row waited_;                   ///< [row]: end of the compute lane's previous iteration
};

}  // namespace

Trace run_sweep(const BoundProgram& plan, const EvaluateOptions& options) {
  Mail mail(plan);
  return sweep_roles<RoleSweep>(plan, options, "sweep", mail);
}

std::optional<Trace> run_sweep(const BoundProgram& plan, const EvaluateOptions& options,
                               const std::vector<ContendingCopies>& contend) {
  Mail mail(plan);
  for (const ContendingCopies& of_lane : contend) mail.copies.emplace_back(plan, of_lane);
  try {
    Trace trace = sweep_roles<RoleSweep>(plan, options, "sweep", mail);
    if (std::all_of(mail.copies.begin(), mail.copies.end(), [](SharedCopies& c) { return c.exact(); }))
      return trace;
  } catch (const SharedCopies::Overlap&) {
  }
  return std::nullopt;
}

}  // namespace tandem::sim
