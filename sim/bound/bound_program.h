// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Program with every duration, route and placement resolved: all that an evaluator sees.
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "schemes/program/program.h"

namespace tandem::sim {

/// Load that a transfer puts on one resource: `weight` bytes on `link` per byte of payload.
struct Use {
  uint32_t link = 0;  ///< index into BoundProgram::capacity
  float weight = 1;
};

/// A transfer as a fluid flow: `bytes` at the max-min fair rate, at most `cap` bytes/s, then `latency`.
/// A collective is one such flow for its whole group (weights = algorithm x routes).
struct Transfer {
  Time latency;
  double bytes = 0;
  double cap = 0;  ///< payload bytes/s, 0 = none
  std::vector<Use> uses;
  /// Bytes put on links per byte of payload that are accounted for but not shared: the binder has resolved
  /// what they allow in `cap`.
  std::vector<Use> resolved = {};
  /// A collective's, of every member's device while it runs: multiprocessors, and bytes through its memory
  /// per byte of payload. The binder makes of them what simultaneous kernels lose.
  double units = 0, traffic = 0;
  double spread = 0;  ///< standard error of the logarithm of its time (sim/cost/link_spread.h)
  /// min(cap, min over uses of capacity / weight), bytes/s; infinite with neither cap nor uses.
  double rate_alone(const std::vector<double>& capacity) const;
  /// Time that the payload takes at `rate`, both latency and bytes being multiplied by `factor`.
  Time payload(double rate, double factor = 1) const;
  Time delay(double factor = 1) const;
  /// Makes it `factor` times as long: what its links carry of it takes them longer.
  void stretch(double factor);
  /// Duration when alone: payload at rate_alone, then the latency.
  Time alone(const std::vector<double>& capacity, double factor = 1) const;
};

/// Seconds >= 0 to the nearest picosecond; beyond 2^61 ps (26 days), and for NaN, kNever.
inline constexpr int64_t kNever = int64_t{1} << 61;
inline int64_t picoseconds(double seconds) {
  const double ps = seconds * 1e12 + 0.5;
  return ps < 0x1p61 ? static_cast<int64_t>(ps) : kNever;
}
/// The same below 2^49 ps (nine minutes), where loops over it are vectorised: adding 3 * 2^51 to a double of
/// that size leaves its nearest integer in the lowest bits.
inline int64_t short_picoseconds(double seconds) {
  constexpr double kShift = 0x1.8p52;
  const double ps = seconds * 1e12 + 0.5, shifted = ps + kShift;
  const int64_t nearest = std::bit_cast<int64_t>(shifted) - std::bit_cast<int64_t>(kShift);
  return nearest - (shifted - kShift > ps ? 1 : 0);
}
/// `t` times a factor >= 0, to the nearest picosecond; exactly `t` for factor 1.
Time scaled(Time t, double factor);

/// Devices that are permanently slow: each that trains is one with probability `share`, drawn once, and
/// computes `slow` times as long.
struct Stragglers {
  double share = 0, slow = 1;
  bool operator==(const Stragglers&) const = default;
};
/// Pauses in which a device that trains stands still, as when its host does something else. They begin at
/// random in the time that it computes (a Poisson process), one in `every` seconds on average, and last an
/// exponential time with mean `length` seconds, those of a slower device as much longer. 0: none.
struct Pauses {
  double every = 0, length = 0;
  bool operator==(const Pauses&) const = default;
};

/// Threads of role 0's instances that share processors in time slices: instance i on processor i modulo their
/// number. Whoever has it keeps it to the end of the turn that is going on there if others want it, or until
/// it waits.
struct SharedCores {
  uint32_t cores = 0;       ///< 0: nobody shares one
  std::vector<Time> turns;  ///< as a machine showed them; processors begin at different ones, and go around
  /// An instance is one thread, which also makes its messages: it keeps its processor meanwhile. Else its
  /// lanes are threads, and what it sends while it computes waits for the end of a time slice.
  bool one_thread = false;
  Time least;  ///< that who gets a processor in the middle of a turn has it
};

/// Randomness and faults of a run; never part of a Program.
struct Disturbance {
  double compute_sigma = 0;         ///< lognormal sigma of each compute op, per (instance, iteration, op)
  double iteration_sigma = 0;       ///< lognormal sigma common to all compute ops of an (instance, iteration)
  double network_sigma = 0;         ///< lognormal sigma of each transfer's latency and bytes
  double straggle_probability = 0;  ///< of an (instance, iteration) to be slowed by straggle_factor
  double straggle_factor = 1;
  /// (instance of role 0, factor): permanently slow devices.
  std::vector<std::pair<uint32_t, double>> slow;
  /// [series][iteration]: factors of role 0's instances as a machine showed them, instance i those of i
  /// modulo their number. As many as there are series begin at the same place, drawn from the seed, the next
  /// ones at another, and after the last comes the first. An iteration of an instance that is permanently
  /// slow takes as many times longer, and so the mean of as many of them: an interruption does not last
  /// longer because the device is slower.
  std::vector<std::vector<double>> recorded = {};
  Stragglers stragglers = {};
  Pauses pauses = {};
  SharedCores shared = {};
  /// Compute ops of an (instance, iteration) differ by more than one factor for all of them.
  bool per_op() const { return compute_sigma != 0 || pauses.every > 0; }
  bool none() const {
    return !per_op() && iteration_sigma == 0 && network_sigma == 0 && straggle_probability == 0 &&
           slow.empty() && recorded.empty() && stragglers.share == 0 && shared.cores == 0;
  }
};

/// Copies, collectives and, between the stages of a static program, sends, whose transfers are in RoleCosts;
/// those of other messages are asked for.
inline bool has_transfer(const Op& op) {
  return op.kind == OpKind::copy || op.kind == OpKind::collective || op.kind == OpKind::send;
}

/// The host launches it on the device: RoleCosts::issued. What it does itself, as an update of what is
/// offloaded, it does in parallel, in its own threads.
inline bool launched(const Op& op) { return op.kind == OpKind::compute && op.lane == Lane::compute; }

/// Durations and transfers of one role's ops. Instances fall into classes with equal costs; class_of
/// has one entry per instance (empty = all class 0).
struct RoleCosts {
  std::vector<uint32_t> class_of;
  uint32_t class_at(uint32_t instance) const { return class_of.empty() ? 0 : class_of[instance]; }
  /// [class][op]: compute, apply (per message of the largest key) and gate durations; 0 for transfers.
  std::vector<std::vector<Time>> duration;
  /// [class][op]: index into BoundProgram::transfers for ops that have_transfer(), else -1. A group's
  /// collective is the transfer of its first member's class. Instances of one class load the very same links.
  std::vector<std::vector<int32_t>> transfer;
  /// [class][op]: when the host has issued the last kernel of a compute op, counted from where it began with
  /// the iteration. An op that is launched() ends no earlier. Empty: issuing takes no time.
  std::vector<std::vector<Time>> issued = {};
  std::vector<Time> issue = {};  ///< [class]: the host's time for a whole iteration
  /// The host goes on with the next iteration as soon as it has issued this one (frameworks that nothing
  /// makes wait for the device); else it begins when the compute lane has ended the iteration before.
  bool runs_ahead = true;
  /// The host waits for each message between stages before it issues what follows.
  bool awaits_messages = false;
  bool awaits_sends = false;  ///< the same for what it sends
  /// [op]: the host waits for what this op made or brought before it issues what follows: a step's samples,
  /// results that it reads. Empty: for nothing.
  std::vector<bool> awaited = {};
  /// Of a role that runs per message: what instance i applies takes the device on which instance i of the
  /// senders computes, whose op that runs meanwhile ends so much later.
  bool on_devices = false;
};

/// Executions in an iteration of a split model up to which every instance has its own transfers: a million
/// are then evaluated (Simulation::steps), in about a second.
inline constexpr int64_t kOwnExecutions = 200'000;

struct BoundProgram {
  std::shared_ptr<const Program> program;
  std::vector<RoleCosts> roles;
  std::vector<Transfer> transfers;
  std::vector<double> capacity;  ///< usable bytes/s per resource
  /// Names a resource. Asked for those that carry bytes only; null in benchmarks.
  std::function<std::string(uint32_t)> name_link;
  std::string link_name(uint32_t link) const {
    return name_link ? name_link(link) : "link " + std::to_string(link);
  }
  /// Transfers of sends and replies: asked per (channel, key, sender, receiver), memoised by the binder.
  /// Null when the program has no channels.
  class Messages {
   public:
    virtual ~Messages() = default;
    /// With Address::shards, the part of the payload that goes to this receiver. The reference must hold
    /// until the next call.
    virtual const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) = 0;
    /// Duration of applying one gradient of `key` on shard `shard` of `store`.
    virtual Time apply(uint32_t store, uint32_t key, uint32_t shard) = 0;
    /// How long a reply of `key` holds the shard before it leaves: the copy of the parameters that travels.
    virtual Time snapshot(uint32_t /*store*/, uint32_t /*key*/, uint32_t /*shard*/) { return {}; }
  };
  std::shared_ptr<Messages> messages;
  /// Several jobs side by side (sim/bind/side_by_side.h): the first that many roles are the job that is
  /// measured; the others repeat until it has ended, and their stores count for nothing. 0 = all are one job.
  uint32_t measured_roles = 0;
  bool measured(uint32_t role) const { return measured_roles == 0 || role < measured_roles; }
  /// Every transfer exp(`deviations` * its spread) times as long.
  BoundProgram stretched(double deviations) const;
  Disturbance disturbance;
  uint64_t seed = 1;
  /// Random factors (>= 0, 1 without disturbance), pure functions of their arguments: every evaluator uses
  /// these. Lognormal ones have mean 1: exp(sigma z - sigma^2 / 2). A collective draws for its first member.
  double compute_factor(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op) const {
    return iteration_factor(role, instance, iteration) * op_factor(role, instance, iteration, op);
  }
  /// What all compute ops of an (instance, iteration) share: noise of the iteration, straggling, slow device.
  double iteration_factor(uint32_t role, uint32_t instance, uint32_t iteration) const;
  /// Drawn as one of Disturbance::stragglers.
  bool straggles(uint32_t role, uint32_t instance) const;
  /// Noise of one compute op, and its pauses over its duration.
  double op_factor(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op) const;
  double transfer_factor(uint32_t role, uint32_t instance, uint32_t iteration, uint32_t op) const;
};

}  // namespace tandem::sim
