// SPDX-License-Identifier: Apache-2.0
// The sweep with one row for each role. What a call of a routine does depends on few things: when its lanes
// are free and its input is there, counted from when the compute lane is free. In the steady state of a
// pipeline these are the same from micro-batch to micro-batch, and so is all that follows: it is then taken
// from the call before.

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include "base/until.h"
#include "sim/bound/alone_times.h"
#include "sim/evaluate/fold.h"
#include "sim/evaluate/host_clock.h"
#include "sim/evaluate/recorder.h"
#include "sim/evaluate/sweep.h"
#include "sim/evaluate/sweep_roles.h"

namespace tandem::sim {

namespace {

using CallPart = OpList::Part;

/// A message between the stages of a pipeline that was sent and not yet received.
struct Posted {
  int64_t sent = 0, arrived = 0;
};
/// Those of one channel and key, in order.
class PostBox {
 public:
  bool empty() const { return first_ == letters_.size(); }
  void push(Posted letter) { letters_.push_back(letter); }
  Posted pop() {
    const Posted out = letters_[first_++];
    if (2 * first_ >= letters_.size() && (empty() || first_ >= kMany)) {
      letters_.erase(letters_.begin(), letters_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    return out;
  }

 private:
  static constexpr std::size_t kMany = 64;
  std::vector<Posted> letters_;
  std::size_t first_ = 0;  ///< what is before has been received
};
/// All of them.
class Post {
 public:
  explicit Post(const Program& program) {
    std::size_t boxes = 0;
    for (const Channel& c : program.channels) {
      first_.push_back(boxes);
      boxes += c.key_bytes.size();
    }
    boxes_.resize(boxes);
  }
  PostBox& box(const Op& op) { return boxes_[first_[op.what] + op.key]; }

 private:
  std::vector<std::size_t> first_;  ///< [channel]
  std::vector<PostBox> boxes_;
};

/// What a call did after its first work. Times count from the end of that.
struct CallOutcome {
  std::vector<int64_t> end;  ///< [op after it]
  int64_t lane[kLanes] = {};
  int64_t latest = 0;
  /// When the host had issued the first of its ops. If it bound nowhere, it might have been up to `slack`.
  int64_t issued = 0, slack = INT64_MAX;
  bool bound = false;
  Recorder::CallEffect record;
  bool holds(int64_t begin) const { return bound ? issued == begin : begin <= slack; }
};

/// What calls of a routine with equal costs have in common.
struct CallKind {
  uint32_t first = 0;   ///< op of the call that stands for all
  bool repeats = true;  ///< runs in every iteration
  /// Its ops up to the first work, which waits for the call's input: they run by themselves, so that what
  /// follows does not depend on when that came.
  uint32_t before = 0;
  std::vector<uint32_t> inputs;   ///< of these: those on other lanes that what follows waits for
  std::vector<uint32_t> awaited;  ///< of what follows: those that the host waits for
  uint32_t lanes = 0;             ///< mask of those that what follows uses besides compute
  /// Of these: whose first op waits for work of this iteration, so that to be free earlier changes nothing.
  uint32_t free_before = 0;
};

class FoldedRole {
 public:
  FoldedRole(const BoundProgram& plan, uint32_t r, const EvaluateOptions& options, Recorder& recorder,
             Post& mail)
      : plan_(plan),
        r_(r),
        ops_(plan.program->roles[r].ops),
        costs_(plan.roles.at(r)),
        class_(costs_.class_at(0)),
        iterations_(static_cast<uint32_t>(options.iterations)),
        recorder_(recorder),
        mail_(mail),
        calm_(plan.disturbance.none()),
        count_(static_cast<uint32_t>(plan.program->roles[r].mesh.size())),
        alone_(plan.transfers, plan.capacity),
        end_(new int64_t[std::max<std::size_t>(1, ops_.size())]) {
    for (uint32_t i = 0; i < count_; ++i) weight_ += Recorder::weight(r, i);
    if (!costs_.issued.empty()) host_.emplace();
    find_routines();
    find_exports();
  }

  /// As far as it gets without a message that is not sent yet. True if that is any further.
  bool advance() {
    bool moved = false;
    for (; iteration_ < iterations_; ++iteration_, part_ = offset_ = 0) {
      Until::check();
      if (part_ == 0 && offset_ == 0) begin_iteration();
      for (; part_ < ops_.parts().size(); ++part_, offset_ = 0, moved = true) {
        const CallPart& part = ops_.parts()[part_];
        if (part.routine >= 0) {
          call(part, routines_[variant_[part_]]);
          continue;
        }
        for (; offset_ < part.count; ++offset_, moved = true) {
          const Op& op = ops_.stored(part, offset_);
          if (!runs(op, iteration_)) continue;
          if (op.kind == OpKind::recv && mail_.box(op).empty()) return moved;
          run({&part, offset_, &op});
          if (alike_ && has_transfer(op)) count_transfer(part.first + offset_, op, 1);
        }
      }
      waited_ = lanes_[static_cast<int>(Lane::compute)];
      if (r_ == 0)
        recorder_.iteration(0, iteration_, *std::max_element(std::begin(lanes_), std::end(lanes_)), count_);
    }
    return moved;
  }
  bool done() const { return iteration_ == iterations_; }

  /// Every run of an op is one transfer per instance, or per group of a collective.
  void count_transfers() const {
    std::vector<int64_t> calls(routines_.size());
    for (std::size_t k = 0; k < variant_.size(); ++k) {
      const CallPart& part = ops_.parts()[k];
      if (part.routine >= 0)
        ++calls[variant_[k]];
      else if (!alike_)
        count_transfers(part, 1);
    }
    for (std::size_t k = 0; k < variant_.size(); ++k) {
      const CallPart& part = ops_.parts()[k];
      if (part.routine >= 0 && routines_[variant_[k]].first == part.first)
        count_transfers(part, calls[variant_[k]]);
    }
  }

 private:
  void count_transfers(const CallPart& part, int64_t times) const {
    for (uint32_t i = 0; i < part.count; ++i) {
      const Op& op = ops_.stored(part, i);
      if (has_transfer(op)) count_transfer(part.first + i, op, times * op.times(iterations_));
    }
  }

  void count_transfer(uint32_t o, const Op& op, int64_t times) const {
    if (alike_) {
      const int32_t transfer = costs_.transfer[0][o];
      if (transfer >= 0) recorder_.transfer(transfer, units_of(plan_, r_, op) * times);
      return;
    }
    for (const auto& [transfer, units] : transfers_of(plan_, r_, o, op)) {
      if (transfer >= 0) recorder_.transfer(transfer, units * times);
    }
  }

  static bool runs(const Op& op, uint32_t iteration) { return op.runs(iteration); }

  /// Calls of one routine whose ops cost the same share a CallKind.
  void find_routines() {
    variant_.assign(ops_.parts().size(), 0);
    std::vector<std::vector<uint32_t>> known(ops_.routines().size());
    for (std::size_t k = 0; k < variant_.size(); ++k) {
      const CallPart& part = ops_.parts()[k];
      if (part.routine < 0) continue;
      auto& same = known[static_cast<std::size_t>(part.routine)];
      const auto at =
          std::find_if(same.begin(), same.end(), [&](uint32_t v) { return costs_the_same(v, part); });
      variant_[k] = at != same.end() ? *at : add_routine(part);
      if (at == same.end()) same.push_back(variant_[k]);
    }
  }

  bool costs_the_same(uint32_t variant, const CallPart& part) const {
    const uint32_t first = routines_[variant].first;
    const auto equal = [&](const auto& of) {
      return std::equal(of.begin() + first, of.begin() + first + part.count, of.begin() + part.first);
    };
    if (!equal(costs_.duration[class_]) || !equal(costs_.transfer[class_])) return false;
    if (costs_.issued.empty()) return true;
    const auto& issued = costs_.issued[class_];
    const Time later = issued[part.first] - issued[first];
    for (uint32_t i = 1; i < part.count; ++i) {
      if (issued[part.first + i] - issued[first + i] != later) return false;
    }
    return true;
  }

  uint32_t add_routine(const CallPart& part) {
    CallKind routine;
    routine.first = part.first;
    const auto lane = [&](uint32_t i) { return ops_.stored(part, i).lane; };
    while (routine.before < part.count && lane(routine.before) != Lane::compute) ++routine.before;
    routine.before = std::min(routine.before + 1, part.count);
    for (uint32_t i = 0; i < part.count; ++i) {
      const OpPlace op{&part, i, &ops_.stored(part, i)};
      routine.repeats = routine.repeats && op.op->always();
      if (i < routine.before) continue;
      if (op.op->kind != OpKind::copy && HostClock::waits_for(costs_, op.op->kind, op.index(), 0))
        routine.awaited.push_back(i);
      for (const Dep& dep : op.op->deps) {
        if (dep.op < routine.before && lane(dep.op) != Lane::compute) routine.inputs.push_back(dep.op);
      }
      const uint32_t own = 1U << static_cast<int>(lane(i));
      if (lane(i) == Lane::compute || (routine.lanes & own) != 0) continue;
      routine.lanes |= own;
      each_dep(op, [&](uint32_t on, uint16_t lag) {
        const bool work = lag == 0 && op_at(on).lane == Lane::compute;
        // Work inside ends at or after the beginning, work outside before it.
        if (work && on >= part.first + routine.before - 1) routine.free_before |= own;
      });
    }
    routines_.push_back(routine);
    return static_cast<uint32_t>(routines_.size() - 1);
  }

  /// Ends that are asked for from outside of a call, and those of earlier iterations.
  void find_exports() {
    exports_.resize(ops_.parts().size());
    const bool called = !ops_.routines().empty();
    const auto ask = [&](uint32_t on, uint16_t lag) {
      const std::size_t k = ops_.part_of(on);
      const CallPart& part = ops_.parts()[k];
      if (part.routine >= 0) exports_[k].push_back(on - part.first);
      if (lag == 0) return;
      auto& ring = rings_[on];
      ring.resize(std::max<std::size_t>(ring.size(), lag + 1U));
    };
    for (const CallPart& part : ops_.parts()) {
      for (uint32_t i = 0; i < part.count && part.routine < 0; ++i) {
        const Op& op = ops_.stored(part, i);
        thinned_ = thinned_ || !op.always();
        for (const Dep& dep : op.deps) {
          if (called || dep.lag > 0) ask(dep.op, dep.lag);
        }
      }
      for (const auto& [i, dep] : part.deps) ask(dep.op, dep.lag);
    }
    for (const CallKind& routine : routines_) thinned_ = thinned_ || !routine.repeats;
  }

  const Op& op_at(uint32_t index) const {
    const CallPart& part = ops_.parts()[ops_.part_of(index)];
    return ops_.stored(part, index - part.first);
  }

  void begin_iteration() {
    if (host_) begin_ = host_->begin(costs_, class_, iteration_, waited_);
    if (calm_) return;
    double factor = 0;  // as slow as the slowest
    for (uint32_t i = 0; i < count_; ++i)
      factor = std::max(factor, plan_.iteration_factor(r_, i, iteration_));
    if (factor != factor_) effects_.clear();
    factor_ = factor;
  }

  int64_t duration(uint32_t o, const Op& op) {
    if (op.kind == OpKind::compute) {
      const Time d = costs_.duration[class_][o];
      return factor_ == 1 ? d.ps : picoseconds(d.seconds() * factor_);
    }
    const int32_t t = costs_.transfer[class_][o];
    return t < 0 ? 0 : alone_.of(t).ps;
  }

  /// The end of an op that another lane waits for; -1: none.
  int64_t awaited(uint32_t on, uint16_t lag) const {
    if (lag > iteration_) return -1;
    if (lag == 0 && !thinned_) return end_[on];
    const Op& op = op_at(on);
    if (!runs(op, iteration_ - lag)) return -1;
    if (lag == 0) return end_[on];
    const auto& ring = rings_.at(on);
    return ring[(iteration_ - lag) % ring.size()];
  }

  void store(uint32_t o, int64_t end) {
    end_[o] = end;
    if (rings_.empty()) return;
    const auto at = rings_.find(o);
    if (at != rings_.end()) at->second[iteration_ % at->second.size()] = end;
  }

  /// The host goes on when an op that it waits for has ended.
  void hold_host(uint32_t o, int64_t end) {
    host_->ended(costs_, class_, o, iteration_, end);
    begin_ = host_->begin(costs_, class_, iteration_, waited_);
  }

  /// Returns the end; how far the host bound it is in `late_`.
  int64_t run(const OpPlace& at) {
    const Op& op = *at.op;
    if (!runs(op, iteration_)) return 0;
    const uint32_t o = at.index();
    int64_t& lane = lanes_[static_cast<int>(op.lane)];
    int64_t start = lane;
    each_dep(at, [&](uint32_t on, uint16_t lag) { start = std::max(start, awaited(on, lag)); });
    const bool tracks = recorder_.tracks(r_);
    late_ = INT64_MIN;
    switch (op.kind) {
      case OpKind::send: {
        const Transfer& t = plan_.transfers.at(static_cast<std::size_t>(costs_.transfer[class_][o]));
        lane = start + t.payload(t.rate_alone(plan_.capacity), 1).ps;
        mail_.box(op).push({start, lane + t.delay(1).ps});
        break;
      }
      case OpKind::recv: {
        const Posted letter = mail_.box(op).pop();
        lane = std::max(start, letter.arrived);
        if (tracks) recorder_.heard(r_, 0, letter.sent);
        break;
      }
      default:
        lane = start + duration(o, op);
        if (!host_ || !launched(op)) break;
        late_ = begin_ + costs_.issued[class_][o].ps - lane;
        if (late_ > 0 && tracks) recorder_.launch(late_);
        lane += std::max<int64_t>(late_, 0);
    }
    if (HostClock::waits_for(costs_, op.kind, o, iteration_)) hold_host(o, lane);
    if (lane >= kNever) throw InputError("the simulated time exceeds 26 days; simulate fewer iterations");
    recorder_.hash(
        recorder_.hashes() ? Recorder::mark(Recorder::stem(r_, iteration_, o), start, lane) * weight_ : 0,
        count_);
    recorder_.makespan(lane);
    if (tracks) recorder_.ready(r_, iteration_, at, start);
    recorder_.keep(r_, 0, iteration_, at, {start, start, lane, 0}, count_);
    store(o, lane);
    return lane;
  }

  void call(const CallPart& part, const CallKind& routine) {
    const bool alone = !routine.repeats || recorder_.hashes() || recorder_.keeps_spans(iteration_);
    for (uint32_t i = 0; i < (alone ? part.count : routine.before); ++i)
      run({&part, i, &ops_.stored(part, i)});
    if (alone || routine.before == part.count) return;
    const int64_t begin = lanes_[static_cast<int>(Lane::compute)];
    describe(part, routine, begin);
    const uint32_t next = part.first + routine.before;
    const int64_t issued = host_ ? begin_ + costs_.issued[class_][next].ps - begin : 0;
    std::vector<CallOutcome>& known = effects_[key_];
    const auto at =
        std::find_if(known.begin(), known.end(), [&](const CallOutcome& e) { return e.holds(issued); });
    if (at != known.end()) return repeat(part, routine, begin, *at);
    CallOutcome effect = run_call(part, routine, begin);
    effect.issued = issued;
    constexpr std::size_t kMostEffects = 16;
    if (effect.record.repeats && known.size() < kMostEffects) known.push_back(std::move(effect));
  }

  static Recorder::CallOps behind(const CallPart& part, const CallKind& routine, int64_t begin) {
    return {&part, routine.before, routine.lanes, begin};
  }

  /// All that the call's effect depends on but for the host.
  void describe(const CallPart& part, const CallKind& routine, int64_t begin) {
    key_.assign({variant_[part_]});
    for (int l = 0; l < kLanes; ++l) {
      if ((routine.lanes >> l & 1U) == 0) continue;
      const bool free = (routine.free_before >> l & 1U) != 0;
      key_.push_back(free ? std::max<int64_t>(lanes_[l] - begin, 0) : lanes_[l] - begin);
    }
    for (const uint32_t i : routine.inputs) key_.push_back(end_[part.first + i] - begin);
    for (const auto& [i, dep] : part.deps) {
      if (i < routine.before) continue;
      const int64_t end = awaited(dep.op, dep.lag);
      const bool works = ops_.stored(part, i).lane == Lane::compute;
      key_.push_back(end < 0 ? INT64_MIN : works ? std::max<int64_t>(end - begin, 0) : end - begin);
    }
    recorder_.describe(r_, iteration_, behind(part, routine, begin), routine.inputs, key_);
  }

  CallOutcome run_call(const CallPart& part, const CallKind& routine, int64_t begin) {
    CallOutcome out;
    const int64_t base = host_ ? costs_.issued[class_][part.first + routine.before].ps : 0;
    recorder_.begin_call(r_);
    for (uint32_t i = routine.before; i < part.count; ++i) {
      const Op& op = ops_.stored(part, i);
      const int64_t end = run({&part, i, &op});
      out.end.push_back(end - begin);
      out.latest = std::max(out.latest, end - begin);
      if (!host_ || !launched(op)) continue;
      out.bound = out.bound || late_ > 0;
      out.slack = std::min(out.slack, end - begin - (costs_.issued[class_][part.first + i].ps - base));
    }
    out.bound = out.bound || !routine.awaited.empty();
    for (int l = 0; l < kLanes; ++l) out.lane[l] = lanes_[l] - begin;
    out.record = recorder_.end_call(r_, behind(part, routine, begin));
    return out;
  }

  void repeat(const CallPart& part, const CallKind& routine, int64_t begin, const CallOutcome& effect) {
    const uint32_t lanes = routine.lanes | 1U << static_cast<int>(Lane::compute);
    for (int l = 0; l < kLanes; ++l) {
      if ((lanes >> l & 1U) != 0) lanes_[l] = begin + effect.lane[l];
    }
    if (begin + effect.latest >= kNever)
      throw InputError("the simulated time exceeds 26 days; simulate fewer iterations");
    recorder_.makespan(begin + effect.latest);
    recorder_.hash(0, int64_t{count_} * (part.count - routine.before));
    for (const uint32_t i : routine.awaited)
      hold_host(part.first + i, begin + effect.end[i - routine.before]);
    for (const uint32_t i : exports_[part_]) {
      if (i >= routine.before) store(part.first + i, begin + effect.end[i - routine.before]);
    }
    recorder_.repeat_call(r_, iteration_, behind(part, routine, begin),
                          lanes_[static_cast<int>(Lane::compute)], effect.record);
  }

  const BoundProgram& plan_;
  uint32_t r_;
  const OpList& ops_;
  const RoleCosts& costs_;
  uint32_t class_;
  uint32_t iterations_;
  Recorder& recorder_;
  Post& mail_;
  bool calm_;
  uint32_t count_;
  uint64_t weight_ = 0;
  AloneTimes alone_;
  std::unique_ptr<int64_t[]> end_;                  ///< [op], once it has run
  std::map<uint32_t, std::vector<int64_t>> rings_;  ///< ends of ops that later iterations ask for
  bool alike_ = costs_.class_of.empty();            ///< the transfers of all instances are the same
  bool thinned_ = false;                            ///< some ops do not run in every iteration
  std::vector<CallKind> routines_;
  std::vector<uint32_t> variant_;               ///< [part]: of a call, index into routines_
  std::vector<std::vector<uint32_t>> exports_;  ///< [part]
  std::map<std::vector<int64_t>, std::vector<CallOutcome>> effects_;
  std::vector<int64_t> key_;
  uint32_t iteration_ = 0, part_ = 0, offset_ = 0;
  int64_t lanes_[kLanes] = {};
  double factor_ = 1;
  std::optional<HostClock> host_;
  int64_t begin_ = 0;   ///< from when on the host issues this iteration
  int64_t waited_ = 0;  ///< end of the compute lane's previous iteration
  int64_t late_ = 0;    ///< how much later the host issued the last op than it would have ended
};

}  // namespace

Trace run_folded(const BoundProgram& plan, const EvaluateOptions& options) {
  Post mail(*plan.program);
  return sweep_roles<FoldedRole>(plan, options, "folded", mail);
}

}  // namespace tandem::sim
