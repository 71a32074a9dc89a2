// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one door to what things cost. It has two implementations: sim/cost/stock_costs.h prices by descriptions
// of devices, links and frameworks, sim/cost/machine_costs.h by what was measured on one machine. The binder
// knows only this file.
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schemes/program/program.h"
#include "schemes/setup/job.h"
#include "sim/bound/bound_program.h"
#include "sim/bound/speeds.h"
#include "sim/cost/incast_rounds.h"
#include "sim/cost/link_cost.h"
#include "sim/cost/measured_collectives.h"
#include "sim/cost/overlap.h"
#include "topologies/system.h"

namespace tandem::sim {

/// Workers whose batches differ: what each trains on, and the program that it would run if all trained on so
/// many. These programs differ in kernels, samples and bytes alone.
struct UnlikeBatches {
  std::vector<int64_t> samples;                                ///< in one pass, by device of the cluster
  std::map<int64_t, std::shared_ptr<const Program>> programs;  ///< by samples
};

/// What is priced. `system` and the job's graph and optimiser must outlive the Costs; of the scheme, they
/// keep copies.
struct CostInput {
  std::shared_ptr<const Program> program;
  const System* system = nullptr;
  Cluster cluster;
  Job job;
  std::shared_ptr<const UnlikeBatches> batches = {};  ///< null: all train on the job's
  std::string profile = "stock";                      ///< of the kernel costs
  bool autocast = false;     ///< fp32 parameters are cast where they are used (memory_habits.h)
  double compute_scale = 1;  ///< of every kernel on the accelerators (the anchor's)
  std::shared_ptr<const MeasuredCollectives> measured =
      {};  ///< correct the library's collectives; null: none
  Speeds speeds;
  std::shared_ptr<PricedCollectives> priced = {};  ///< as Request::priced
  int64_t own_executions = kOwnExecutions;         ///< of a split model
  /// How long a coordinator makes the last gradients of a step wait; 0: half of its cycle.
  Time last_look = {};
};

/// The host's part in an iteration of a role.
struct HostTimes {
  std::vector<Time> issued;  ///< [op], as RoleCosts::issued; empty: issuing takes no time
  bool runs_ahead = true;    ///< as RoleCosts::runs_ahead
  bool awaits_messages = false, awaits_sends = false;
  std::vector<bool> awaited = {};  ///< [op], as RoleCosts::awaited
};

/// One kernel, all its launches, at the input's scale.
struct KernelTime {
  double seconds = 0;
  double distance = 0;  ///< to the nearest measured one (KernelNeighbours::seconds); 0 where none is
};

struct CostError {
  double compute = 0;             ///< relative standard error of the kernel costs used
  std::optional<double> several;  ///< what several devices add to it, where that was measured
  double limited = 1;             ///< speed of a step's kernels under the device's power limit
};

/// Prices the ops of one Program on one system. Durations and latencies are at the input's Speeds. Transfers
/// use the resources of capacity(), which grow as ops are priced. Not thread safe.
class Costs {
 public:
  explicit Costs(const CostInput& input);
  virtual ~Costs() = default;
  Costs(const Costs&) = delete;
  Costs& operator=(const Costs&) = delete;

  /// What the device at `at` takes for the task's kernels, once they are issued.
  virtual Time task(const Task& task, VertexId at, Site site) = 0;
  /// What the processors that serve the device at `at` take for an update of what it has offloaded to their
  /// memory, whose bandwidth is shared by all devices of the job that they serve.
  virtual Time host_task(const Task& task, VertexId at) = 0;
  /// What the first task of an iteration takes besides, where several devices train.
  Time start(VertexId at, Site site) const;
  virtual HostTimes host(uint32_t role, VertexId at) = 0;

  /// A copy op, that of `copy`, of the instance at `at`.
  virtual Transfer copy(const Op& op, const Copy& copy, VertexId at);
  /// One collective op of a group, whose root is the first of `members`. `awaited`: nothing else goes on
  /// while ranks agree to begin it, since it is the iteration's last, or in the middle of a pass.
  Transfer collective(const Op& op, std::span<const VertexId> members, bool awaited);
  /// How many times as long as alone the task's kernels and a collective take at the same time; asked after
  /// collective(). `seconds`: of the collective alone, above 0.
  virtual Beside beside(const Op& op, const Transfer& collective, double seconds, const Task& task,
                        VertexId at) = 0;
  virtual bool interferes() const = 0;  ///< false: beside() is always 1

  /// Makes the resources that messages between these take, so that no message adds any.
  void connect(std::span<const VertexId> from, std::span<const VertexId> to);
  /// One message of the channel. The reference holds until the next call. O(1) after the first between two
  /// vertices.
  virtual const Transfer& message(const Channel& channel, VertexId from, VertexId to, Bytes bytes) = 0;
  /// Merging one gradient of `bytes` into a store's shard at `at`.
  virtual Time merge(const Store& store, VertexId at, Bytes bytes) = 0;
  /// Copying that many bytes of a store's shard at `at` for a reply. Nothing is merged there meanwhile.
  virtual Time snapshot(const Store& /*store*/, VertexId /*at*/, Bytes /*bytes*/) { return {}; }

  virtual KernelTime kernel(const Kernel& kernel, VertexId at) = 0;
  /// `distance`: of a step's kernels on the device at `at`, on average by time.
  virtual CostError error(VertexId at, double distance) = 0;
  /// What makes steps with that many seconds of compute differ, on a machine that was measured.
  virtual std::optional<Disturbance> disturbance(double compute_seconds) const = 0;
  /// What was assumed so far for lack of measurements, in words.
  virtual std::vector<std::string> extrapolates() const = 0;
  /// Which collectives were corrected by what was measured, and which were not, in words.
  const std::vector<std::string>& measured_notes() const { return measured_notes_; }

  const System& system() const { return *in_.system; }
  /// Rounds of messages into one port; of collectives, those priced so far.
  IncastRounds& incast() { return incast_; }

  /// Usable bytes/s (decoding cores and threads: seconds per second) of every resource so far.
  const std::vector<double>& capacity() const { return links_.capacity(); }
  std::string resource_name(uint32_t resource) const { return links_.resource_name(resource); }

 protected:
  /// A collective at full speed, without what ranks do to agree on it.
  virtual Transfer collective_alone(const Op& op, std::span<const VertexId> members) = 0;
  /// What ranks exchange to agree on a reduction: seconds.
  virtual double agreement(bool awaited) const = 0;
  /// The host issues the ops of such a role, on its own clock.
  virtual bool host_issues(VertexId at, Site site) const = 0;

  const CostInput& input() const { return in_; }
  const Program& program() const { return *in_.program; }
  const Overheads& overheads() const { return overheads_; }
  double devices() const { return static_cast<double>(in_.cluster.devices); }
  double compute_scale() const { return in_.compute_scale / in_.speeds.compute; }  ///< of kernels
  Time start_up() const { return start_up_; }  ///< of every collective and message: hooks, launches
  Time at_speed(Time latency) const { return scaled(latency, 1 / in_.speeds.latency); }
  /// A collective on the system's links, with what the framework adds.
  Transfer over_links(const Op& op, std::span<const VertexId> members);
  /// Measured over predicted time of a collective, where measured ones bear on it, else 1. They were measured
  /// on the first devices of the system: groups over another number of nodes are left alone.
  double measured_factor(CollKind kind, Bytes bytes, std::span<const VertexId> members);
  LinkCost& links() { return links_; }
  const LinkCost& links() const { return links_; }

  struct Way {
    Transfer transfer;  ///< of the bytes last asked
    double rate = 0;    ///< alone, of the first message
  };
  /// The way between two vertices, kept, for `bytes` > 0.
  Way& way(VertexId from, VertexId to, Bytes bytes);
  /// Of a transfer between the two, as Transfer::spread.
  double spread_between(VertexId a, VertexId b) const;
  Transfer nothing() const;  ///< a message without bytes
  /// Devices of the job that have the host of the one at `at`.
  int64_t served_with(VertexId at) const;

 private:
  Transfer input_stage(const Op& op, const Copy& copy, VertexId at);
  Time timeouts(const Op& op, std::span<const VertexId> members);

  CostInput in_;
  Overheads overheads_;
  Time start_up_;
  LinkCost links_;
  IncastRounds incast_;
  std::unordered_map<uint64_t, Way> ways_;  ///< by sender and receiver
  std::map<std::pair<CollKind, std::vector<VertexId>>, CollectiveCorrection> corrections_;
  std::vector<std::string> measured_notes_;
};

/// Seconds in which the gradients of a collective are copied into and out of buffers.
double copying(const Overheads& overheads, const Op& op, const Device& device);

/// What the kernels of a worker move in one step.
Bytes moved_in_step(const Program& program);

/// The host copies the module to all devices, under a broadcast.
bool copies_module(const Task& task);

}  // namespace tandem::sim
