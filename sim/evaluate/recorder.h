// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fills a Trace, in the same way for every evaluator.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "sim/evaluate/trace.h"

namespace tandem::sim {

/// How a message that ended a recv spent its time: boundaries in order. A request is on its way until
/// `arrived`; at the server it queues and is served, but from `parked` to `opened` a gate holds it: until
/// `late` the worker `behind` had not sent what opens it, until `flown` that was on its way.
struct Way {
  int64_t sent = 0, arrived = 0, parked = 0, late = 0, flown = 0, opened = 0;
  int64_t replied = 0;  ///< when the reply set out; of a message between peers unused
  uint32_t behind = 0;
};

/// When one execution could start (its lane and its dependencies allowed it), did, and ended. Only
/// collectives start later than `ready`: with their last member, `last` (the lowest of several).
struct OpInterval {
  int64_t ready = 0, start = 0, end = 0;
  uint32_t last = 0;
};

/// An op of a role, found without writing out the role's list: `offset` in a part of it.
struct OpPlace {
  const OpList::Part* part = nullptr;
  uint32_t offset = 0;
  const Op* op = nullptr;  ///< as it is stored (OpList::stored)
  uint32_t index() const { return part->first + offset; }
};

/// Calls f(op, lag) for all that the op waits for, as indices into the role's list.
template <typename F>
void each_dep(const OpPlace& at, F f) {
  const uint32_t base = at.part->routine < 0 ? 0 : at.part->first;
  for (const Dep& dep : at.op->deps) f(dep.op + base, dep.lag);
  for (const auto& [offset, dep] : at.part->deps) {
    if (offset == at.offset) f(dep.op, dep.lag);
  }
}

/// Ends of each worker's periods in a free-running program: the iterations after which its ops repeat.
/// For one thread at a time.
class Periods {
 public:
  Periods(std::size_t workers, int32_t iterations) : each_(iterations), ends_(workers) {}
  /// The worker's `made`-th iteration ended. Whether a period did.
  bool end(uint32_t worker, uint32_t made, int64_t at) {
    if (made % static_cast<uint32_t>(each_) == 0) ends_[worker].push_back(at);
    return ends_[worker].size() > 1 && made % static_cast<uint32_t>(each_) == 0;
  }
  /// Iterations/s of all workers between the first and the last of their ends up to `until`; of a worker with
  /// fewer than two, over the iterations that it made until its last.
  double rate(int64_t until, const std::vector<uint32_t>& made, const std::vector<int64_t>& last) const;

 private:
  int32_t each_;
  std::vector<std::vector<int64_t>> ends_;  ///< [worker]
};

/// All that a Trace tells about op executions. Ops of one lane are to be reported in order, and an op after
/// its dependencies; everything else may come in any order.
/// For one thread at a time.
class Recorder {
 public:
  Recorder(const BoundProgram& plan, const EvaluateOptions& options, Trace& trace);

  /// The hash of one execution is a * weight(role, instance), a = mark(...), so that `n` instances with equal
  /// times take one product with the sum of their weights.
  static uint64_t stem(uint32_t role, uint32_t iteration, uint32_t op) {
    return mix64(uint64_t{role} << 56 ^ uint64_t{op} << 32 ^ iteration);
  }
  static uint64_t mark(uint64_t stem, int64_t start, int64_t end) {
    return mix64(stem ^ static_cast<uint64_t>(start) * 0xd6e8feb86659fd93ULL ^
                 std::rotl(static_cast<uint64_t>(end) * 0xff51afd7ed558ccdULL, 31));
  }
  static uint64_t weight(uint32_t role, uint32_t instance) {
    return mix64(uint64_t{role} << 32 ^ instance ^ 0x5851f42d4c957f2dULL) | 1;
  }

  /// One execution. `weight` as above, `count` how many instances it stands for (from `instance` on).
  void op(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, const OpInterval& e,
          uint64_t weight, uint32_t count = 1) {
    hash(hashes() ? mark(stem(role, iteration, op), e.start, e.end) * weight : 0, count);
    if (instance < kept_) keep(role, instance, iteration, op, e, count);
  }
  bool hashes() const { return options_.fingerprint; }
  /// Only the order-free part, for rows of instances; kept instances then go through keep().
  void hash(uint64_t sum, int64_t executions) {
    trace_.fingerprint += sum;
    trace_.events += executions;
  }
  void keep(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, const OpInterval& e,
            uint32_t count = 1) {
    keep(role, instance, iteration, op, e, count, tracks(role) ? instance : 0);
  }
  void keep(uint32_t role, uint32_t instance, uint32_t iteration, const OpPlace& op, const OpInterval& e,
            uint32_t count) {
    if (instance == 0 && tracks(role)) account(tracked_[role], iteration, op.index(), *op.op, e);
    keep_span(role, instance, iteration, op.index(), e, count, tracks(role) ? instance : 0);
  }
  /// Of a server, in the iteration of the worker that asked for it.
  void keep(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, const OpInterval& e,
            uint32_t count, uint32_t worker);
  uint32_t kept() const { return kept_; }
  /// The first instance of the role is accounted for: role 0, and the stages of a pipeline.
  bool tracks(uint32_t role) const { return role < tracked_.size() && tracked_[role].role != nullptr; }
  /// The first instance of such a role has all that an op needs but other members of a collective: what had
  /// it waited for? Before keep() of that op, and after that of all ops ended by then that it depends on.
  void ready(uint32_t role, uint32_t iteration, uint32_t op, int64_t at);
  void ready(uint32_t role, uint32_t iteration, const OpPlace& op, int64_t at);
  /// The recv of the role's first instance that is kept next was ended by this reply, or by this message of a
  /// peer.
  void replied(uint32_t role, const Way& way) {
    heard(role, way.behind, way.sent);
    tracked_[role].way = way;
  }
  void heard(uint32_t role, uint32_t peer, int64_t sent) {
    tracked_[role].peer = peer;
    tracked_[role].sent = sent;
  }
  /// An op of such an instance's compute lane ended so much later because it was not issued earlier. Before
  /// its keep().
  void launch(int64_t late) {
    trace_.exposed[static_cast<int>(Wait::launch)].ps += late;
    trace_.busy[static_cast<int>(Lane::compute)].ps -= late;
  }
  /// Iteration `iteration` of `count` workers from `instance` on ended at `end`. Of a free-running program in
  /// the order of time.
  void iteration(uint32_t instance, uint32_t iteration, int64_t end, uint32_t count = 1);
  /// The time that is accounted for so far is of the run-in: it will not be counted.
  void forget_time();
  /// BoundProgram::transfers[index] ran once more, `count` times.
  void transfer(int32_t index, int64_t count = 1) { runs_[static_cast<std::size_t>(index)] += count; }
  void message(const Transfer& transfer);
  /// Does keep() of this iteration leave spans, besides what it adds up?
  bool keeps_spans(uint32_t iteration) const {
    return iteration + static_cast<uint32_t>(options_.kept_iterations) >= made_[0];
  }
  /// Throws InputError beyond 26 days (kNever).
  void makespan(int64_t end) {
    if (end >= kNever) throw InputError("the simulated time exceeds 26 days; simulate fewer iterations");
    trace_.makespan.ps = std::max(trace_.makespan.ps, end);
  }
  /// Finishes the sums and orders the spans. Call once.
  void finish();

  /// One execution of a tracked instance; numbered from 1 in the order of keep().
  struct Done {
    const Op* op = nullptr;
    int64_t ready = 0, end = 0;
    int64_t start = 0;   ///< of a collective; of a recv when a peer sent what ended it
    uint64_t after = 0;  ///< the execution whose end let it go on; 0: compute, or none
    uint32_t iteration = 0;
    uint32_t other = 0;  ///< who came last, or sent; of a recv that a reply ended the number of its way
  };

  /// Consecutive ops of a call of a routine, from `before` on. They begin at `begin`, where the compute lane
  /// is free, and use the lanes of the mask `lanes` meanwhile.
  struct CallOps {
    const OpList::Part* part = nullptr;
    uint32_t before = 0, lanes = 0;
    int64_t begin = 0;
    uint32_t first() const { return part->first + before; }
  };
  /// What they add here for a tracked instance. Times count from their beginning.
  struct CallEffect {
    int64_t exposed[kWaits] = {}, busy[kLanes] = {}, moved[kMoves] = {};
    /// Executions that its compute lane's end leaves under way, and which of the call's ops they are of;
    /// Done::after counts within these, from 1.
    std::vector<std::pair<Done, uint32_t>> left;
    uint64_t on_lane[kLanes] = {};  ///< likewise
    std::pair<int64_t, uint32_t> final_end{-1, 0};
    bool repeats = true;  ///< it depended on nothing that describe() does not tell
  };
  /// Appends to `key` all that this effect depends on here; `inputs`: which of the call's earlier ops these
  /// wait for.
  void describe(uint32_t role, uint32_t iteration, const CallOps& call, const std::vector<uint32_t>& inputs,
                std::vector<int64_t>& key) const;
  /// Before the first and after the last of the ops.
  void begin_call(uint32_t role);
  CallEffect end_call(uint32_t role, const CallOps& call);
  /// The same again, instead of the ops. `compute_end`: of their compute lane.
  void repeat_call(uint32_t role, uint32_t iteration, const CallOps& call, int64_t compute_end,
                   const CallEffect& effect);

 private:
  /// Numbers that are 0 at first. Pages of them that are never used cost nothing.
  struct Numbers {
    std::unique_ptr<uint64_t[], void (*)(void*)> data{nullptr, std::free};
    std::size_t ops = 0;
    uint32_t ring = 8;  ///< more than any lag, so that lanes may run ahead
    uint64_t& at(uint32_t op, uint32_t iteration) { return data[iteration % ring * ops + op]; }
    uint64_t at(uint32_t op, uint32_t iteration) const { return data[iteration % ring * ops + op]; }
  };
  /// The first instance of a role that works: executions that ended after all time that is accounted for,
  /// with some more before.
  struct Tracked {
    const Role* role = nullptr;
    const Op* plain = nullptr;  ///< [op], where there are no routines
    std::deque<Done> recent;
    uint64_t newest = 0;      ///< number of the last of these
    uint64_t dropped = 0;     ///< before `recent`
    int64_t compute_end = 0;  ///< all time up to here is accounted for
    Numbers numbers;
    struct OfLane {
      uint64_t last = 0, after = 0;  ///< last number; Done::after of the next
    };
    OfLane on_lane[kLanes];
    uint64_t final_ = 0;                     ///< which ended last ...
    std::pair<int64_t, uint32_t> final_end;  ///< ... and when, which op
    int64_t sent = 0;  ///< of the message that ends the next recv kept, when `peer` sent it
    uint32_t peer = 0;
    uint32_t dropped_ways = 0;
    Way way;                 ///< of that message, if a server replied
    std::vector<Lane> lane;  ///< [op], where there are routines
    std::deque<Way> ways;    ///< of replies that ended recvs among `recent`, numbered from 1
    Lane lane_of(uint32_t op) const { return plain != nullptr ? plain[op].lane : lane[op]; }
    const Op& op(uint32_t index) const { return plain != nullptr ? plain[index] : role->ops[index]; }
    void forget_accounted(const Program& program);
    void add(const Done& done) {
      recent.push_back(done);
      ++newest;
    }
    /// Counted from the end, near which most are asked for.
    const Done* number(uint64_t n) const {
      return n <= dropped ? nullptr : &*(recent.end() - static_cast<std::ptrdiff_t>(newest - n + 1));
    }
    bool ended(uint64_t n, int64_t at) const {
      const Done* const d = number(n);
      return d != nullptr && d->end == at;
    }
  };
  /// What an execution spent its time on, up to `end` from where the one before ends.
  struct Stretch {
    int64_t end = 0;
    Wait wait = Wait::idle;
    int move = kMoveCopy;
    uint32_t awaited = 0;
  };
  struct Stretches {
    std::array<Stretch, 7> of;
    uint32_t count = 0;
    void add(int64_t end, Wait wait, int move = 0, uint32_t awaited = 0) {
      of.at(count++) = {end, wait, move, awaited};
    }
  };
  static bool replied(const Program& program, const Op& op) {
    return op.kind == OpKind::recv && program.channels[op.what].address == Address::reply;
  }
  Done done(Tracked& t, uint32_t iteration, const Op& op, const OpInterval& e) const;
  Stretches stretches(const Tracked& t, const Done& d) const;
  void charge(const Tracked& t, Stretch stretch, int64_t begin);
  void charge_chain(Tracked& t, uint64_t last, int64_t at);
  void account(Tracked& t, uint32_t iteration, uint32_t index, const Op& op, const OpInterval& e);
  void ready_behind(Tracked& t, uint32_t iteration, Lane lane, int64_t at, std::span<const Dep> deps);
  void keep_span(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op, const OpInterval& e,
                 uint32_t count, uint32_t worker);
  void describe_chain(const Tracked& t, uint64_t n, uint32_t iteration, int64_t begin,
                      std::vector<int64_t>& key) const;
  void forget_early();

  const BoundProgram& plan_;
  EvaluateOptions options_;
  Trace& trace_;
  uint32_t kept_;
  bool free_running_;
  std::vector<int64_t> runs_;  ///< [transfer]
  /// [worker]: iterations that it makes, so far where the program is free-running, and the end of the last.
  std::vector<uint32_t> made_;
  std::vector<int64_t> last_;
  /// Spans of the last iterations and, where how many will come is not known, some before.
  std::vector<std::pair<Span, uint32_t>> spans_;  ///< with the worker whose iteration it is
  std::size_t most_spans_ = 4096;
  std::vector<Tracked> tracked_;  ///< [role]
  std::vector<Dep> deps_;         ///< of the op that is ready
  int64_t waits_ = 0;             ///< charges to other workers
  /// Sums of a Trace at one time.
  struct Sums {
    Time busy[kLanes], exposed[kWaits], moved[kMoves];
    std::map<uint32_t, Time> awaited;
  };
  Sums sums() const;
  void keep_period();
  Sums early_;                      ///< when the run-in ended
  std::optional<Sums> late_;        ///< when worker 0 last ended a period
  std::optional<Periods> periods_;  ///< where one is several iterations
  /// When a call began: the newest execution and that which ended last, the sums so far, `waits_`.
  uint64_t call_newest_ = 0, call_final_ = 0;
  CallEffect call_sums_;
  int64_t call_waits_ = 0;
};

}  // namespace tandem::sim
