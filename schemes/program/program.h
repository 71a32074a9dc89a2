// SPDX-License-Identifier: Apache-2.0
#pragma once
// The narrow waist: what a synchronisation scheme compiles to and what both engines run.
// Meaning of every field: schemes/semantics.md.
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/layers/kernel.h"
#include "models/slice.h"
#include "schemes/program/op_list.h"

namespace tandem::schemes {

/// What becomes of parameters x that workers trained apart, with an anchor a which they have in common,
/// when their mean m is known, or when one worker's own reach a server that keeps the anchor
/// (semantics.md 2.6).
struct Averaging {
  enum class Rule : uint8_t {
    none,
    momentum,  ///< v = weight v + (m - a); a += rate v; x = a
    nesterov,  ///< v as above; a += rate (m - a + weight v); x = a
    elastic,   ///< x += weight (a - x); a += rate (m - a), with the a of before
    movement,  ///< x -= a: what a worker has moved since a came from the server
    /// A server's, where m is such a movement and n workers push: a += rate m / n, d += m; with every n-th
    /// v = weight v + d, a += rate weight v / n, d = 0.
    delayed,
  };
  static constexpr std::string_view kNames[] = {"none",    "momentum", "nesterov",
                                                "elastic", "movement", "delayed"};
  Rule rule = Rule::none;
  double rate = 1, weight = 0;
  bool operator==(const Averaging&) const = default;
};
std::string_view name(Averaging::Rule rule);

/// How gradients are made smaller for the way (semantics.md 2.8).
struct Compression {
  enum class Kind : uint8_t {
    none,
    int8,      ///< 8 bits an element and a scale for every few
    topk,      ///< the largest alone, with their places
    powersgd,  ///< matrices as products of two thin ones
  };
  Kind kind = Kind::none;
  double density = 1;    ///< topk: the share of a bucket's elements that travels
  int32_t rank = 1;      ///< powersgd: columns of the thin matrices
  bool feedback = true;  ///< what was left out is added to the next gradients
  bool operator==(const Compression&) const = default;
};
std::string_view name(Compression::Kind kind);

/// A compute op's work; several ops may share one. The layers and the pass let an executor bind tensors; the
/// kernels let a cost model price it. A backward task holds both backward kernels, its pass being
/// backward_weights, unless `parts` says that it makes only those of `pass`.
struct Task {
  uint32_t layer = 0;   ///< index into Graph::layers() of the first layer
  uint32_t layers = 1;  ///< number of consecutive layers; for an update those whose tensors it touches; 0:
                        ///< the host alone works, at copying the module for the devices
  Pass pass = Pass::forward;
  std::vector<Kernel> kernels;
  bool parts =
      false;  ///< backward_data: the inputs' gradients alone; backward_weights: the parameters' alone
  Averaging averaging = {};  ///< of an update: not the optimiser's step but this
  /// Neither: these layers run forward once more, for the backward passes of their block, which follow; the
  /// pass is backward_weights.
  bool again = false;
};

/// What a key names: gradients that are communicated and updated together. Buckets are consecutive
/// ranges of the flat parameter vector, in which the last layer's last tensor comes first: the order in which
/// backward makes gradients.
struct Bucket {
  int64_t first = 0, elements = 0;  ///< in the flat vector ...
  uint32_t role = 0;                ///< ... of this role's slice
};

/// A copy op's path.
enum class CopyKind : uint8_t {
  input,           ///< samples, from the CPU that serves the instance to the instance
  host_to_device,  ///< anything else between these two
  device_to_host,
  read,           ///< samples, from storage to the host's memory
  decode,         ///< there, by the host's cores
  decode_device,  ///< on the instance, of samples that were copied encoded
};
inline constexpr int kCopyKinds = 6;
/// Where it goes, unless it is offloaded.
inline Lane lane_of(CopyKind k) {
  return k == CopyKind::read                                     ? Lane::read
         : k == CopyKind::decode || k == CopyKind::decode_device ? Lane::decode
                                                                 : Lane::copy;
}
/// A stage of input?
inline bool of_input(CopyKind k) { return k != CopyKind::host_to_device && k != CopyKind::device_to_host; }
std::string_view name(CopyKind kind);
struct Copy {
  CopyKind kind = CopyKind::input;
  int64_t samples = 0;  ///< of input only: how many samples one op is for
};

enum class CollKind : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  shift,  ///< each sends its buffer to the next, the last to the first: messages, which no algorithm changes
};
inline constexpr int kCollKinds = 6;  ///< that algorithms carry out
std::string_view name(CollKind kind);
/// Members of one group: the instances of a role that differ only on the axes in `axes` (bit i = axis i).
struct Collective {
  CollKind kind = CollKind::all_reduce;
  uint32_t axes = 1;
  std::string algorithm = "auto";  ///< a name in collectives_registry() or "auto"
  uint32_t root = 0;               ///< broadcast, reduce: index within the group
};

/// Over how many workers each of these is cut evenly; 1: every worker holds all of it.
struct Sharding {
  int64_t parameters = 1;  ///< in the format that layers compute with; gathered where they are needed
  int64_t gradients = 1;
  int64_t state = 1;    ///< the optimiser's, and under mixed precision the fp32 parameters that it updates
  int64_t experts = 0;  ///< dealt experts have that many holders and are cut over no more; 0: as all else
  bool keeps = false;   ///< parameters that were gathered for a forward pass stay for the backward pass
  bool stays = false;   ///< and for a step's last, and so do whole gradients
  /// Over how many of `holders`, one of the above, a parameter is cut.
  int64_t of(int64_t holders, bool dealt) const {
    return dealt && experts > 0 && holders > experts ? experts : holders;
  }
};

/// How the sender's instance finds the receiver's.
enum class Address : uint8_t {
  shards,        ///< the receiving role: the payload is split evenly over its instances, or goes to an owner
  same_index,    ///< receiver i = sender i
  reply,         ///< back to the instance whose message is being served
  sampled_peer,  ///< hash(seed, index, iteration), never itself
  next_peer,     ///< the next index, after the last the first
};
inline constexpr int kAddresses = 5;
std::string_view name(Address address);
struct Channel {
  uint32_t from_role = 0, to_role = 0;
  Address address = Address::shards;
  std::vector<Bytes> key_bytes;  ///< whole payload per key, before splitting over shards
  /// [key], between roles that divide a model: the layers whose outputs, or whose outputs' gradients, travel
  /// together, in this order. Of tied gradients the layer of the sender, then the receiver's, whose first
  /// tensor the weight is.
  std::vector<std::vector<uint32_t>> key_layers = {};
  /// [key], of `shards`: the instance that has all of the key; empty: each instance has an equal part of it.
  std::vector<uint32_t> owners = {};
  /// Between roles that divide a model: of the instances that share layers, that many, each sends the part of
  /// every tensor with its number, cut like a bucket into shards; the receivers gather it.
  int32_t parts = 1;
};
/// Instances of a role, one after another.
struct Instances {
  uint32_t first = 0, count = 0;
};
/// Of the `instances` that a channel of `shards` leads to, those that have the key, or an equal part each.
inline Instances holders(const Channel& channel, uint32_t key, int64_t instances) {
  if (channel.owners.empty()) return {0, static_cast<uint32_t>(instances)};
  return {channel.owners[key], 1};
}

/// Versioned parameters held by every instance (shard) of `role`, one version counter per (shard, key,
/// share).
struct Store {
  uint32_t role = 0;
  int32_t batch = 1;       ///< gradients merged into one version
  int32_t quorum = 1;      ///< gate: opens when this many workers ...
  int32_t slack = 0;       ///< ... have clock >= own clock - slack
  bool drop_late = false;  ///< ignore gradients computed on an older version than the current one
  /// Number of equal shares that make up a key; worker i pushes and pulls share i % shares alone, whose
  /// version and clocks those workers have to themselves: batch and quorum count among them.
  int32_t shares = 1;
  /// Messages are parameters, which this makes of the store's anchor and a worker's own (m).
  Averaging averaging = {};
  /// What a gradient's own staleness does to the learning rate.
  enum class Rate : uint8_t {
    fixed,
    staleness,  ///< divided by it, from 2 on (Zhang et al. 2016)
    delay,      ///< what is staler than there are workers: times workers / staleness (Koloskova et al. 2022)
  };
  Rate rate = Rate::fixed;
  /// Every shard holds its own model: that of the worker of its number (semantics.md 4.6).
  bool own_models = false;
  /// Gradients are merged one after another; else concurrently, as they come (semantics.md 4.8).
  bool locked = true;
  /// The role that answers those who ask for parameters, apart from those who push; -1: a push is answered
  /// with them (semantics.md 4.9).
  int32_t reader = -1;
  /// The role whose replies carry parameters.
  uint32_t answers() const { return reader >= 0 ? static_cast<uint32_t>(reader) : role; }
};
std::string_view name(Store::Rate rate);

struct Axis {
  std::string name;
  int32_t size = 1;
};
/// Instances of a role; the last axis is innermost (varies fastest).
struct Mesh {
  std::vector<Axis> axes;
  int64_t size() const;
  int64_t members(uint32_t axes) const;  ///< of a group along these (Collective::axes)
};

/// Where the instances of a role live.
enum class Site : uint8_t {
  accelerators,  ///< instance i on the i-th accelerator used
  hosts,         ///< instance i on the CPU that serves the first accelerator used of node i mod nodes
  extra_nodes,   ///< instance i on the CPU of the i-th node after those that workers use
};
std::string_view name(Site site);

struct Role {
  std::string name;
  Mesh mesh;
  Site site = Site::accelerators;
  int32_t on_channel = -1;  ///< -1: repeats every iteration; else runs once per message of that channel
  OpList ops;               ///< issue order; topological
  ModelSlice slice = {};    ///< what each instance holds of the model
  /// Where Program::grid has axes: for each of them the coordinate at which this role is, or -1 where it is
  /// an axis of `mesh`, whose axes are those in the same order.
  std::vector<int32_t> at = {};
  bool works() const { return site == Site::accelerators && on_channel < 0; }  ///< trains a slice
};

struct Program {
  std::vector<Role> roles;
  std::vector<Task> tasks;
  std::vector<Bucket> buckets;
  std::vector<Copy> copies;
  std::vector<Collective> collectives;
  std::vector<Channel> channels;
  std::vector<Store> stores;
  std::vector<std::string> labels;
  int64_t samples_per_iteration = 0;  ///< of one worker instance, or of one of `replicas`
  int32_t micro_batches = 1;          ///< iterations that make one step of the optimiser (semantics.md 1.6)
  /// Gradients are applied that many iterations after they were made (semantics.md 2.7).
  int32_t delay = 0;
  Compression compression = {};
  /// Processor cores of each worker that run its comm lane and nothing else (semantics.md 2.9).
  int32_t comm_cores = 0;
  Sharding sharding;  ///< says what must fit a device
  /// The devices, where several roles divide the model among them: instance i of a role with that site is on
  /// the device whose coordinates are the role's, the last axis varying fastest. No axes: role 0, always
  /// workers, has them all.
  Mesh grid = {};
  int64_t replicas =
      0;  ///< whole models, each training on its own samples; 0: as many as instances of role 0
};

/// Vectors, each as long as the flat parameters and in fp32, that a worker keeps from one iteration to the
/// next for averaging: its anchor, its velocity, or the model that others may change while it computes.
int64_t averaging_vectors(const Program& program);
/// Models that train on their own samples.
int64_t replicas(const Program& program);
/// Roles that train a slice of the model: the workers', or the stages of a split model.
int64_t working_roles(const Program& program);
/// Ops that all instances together run in an iteration.
int64_t executions(const Program& program);
/// Who gets what `instance` sends in `iteration`, of the `count` instances that an address of peers joins.
uint32_t peer_of(Address address, uint32_t instance, uint32_t count, uint64_t seed, uint32_t iteration);
/// Device of the grid that instance `i` of `role` is on; `i` itself without a grid. O(axes).
int64_t grid_device(const Program& program, const Role& role, int64_t i);

/// Of one replica in one step of the optimiser.
int64_t samples_per_step(const Program& program);
/// No role runs per message, no op applies or gates, and whatever is sent goes to the same instance of
/// another role: when an op starts does not depend on which message is first, and the sweep may run it.
bool is_static(const Program& program);
/// Every reply of every store waits for every worker: no arrival order decides anything. `roles`: of the
/// first that many roles alone, 0 = of all.
bool in_lock_step(const Program& program, uint32_t roles = 0);
/// Workers talk to stores alone and not in lock step: how many of a run's iterations each of them makes
/// depends on how fast it is (semantics.md 1.7). `roles` as above.
bool free_running(const Program& program, uint32_t roles = 0);
/// The axes on which workers meet in collectives: those that differ on these only make equal numbers of
/// iterations.
uint32_t meeting_axes(const Program& program);

/// Throws ProgramError naming role, op and rule: index out of range, op on a lane it may not use, forward
/// dep, send without matching recv, bytes that differ from the key's, key out of range, a collective on a
/// missing axis, gate or apply outside the role that holds the store, a gate that can never open, deadlock
/// (ops that wait for each other within one iteration). O(ops + deps).
class ProgramError : public std::logic_error {
  using std::logic_error::logic_error;
};
void check(const Program& program);

/// Stable text, one op a line; parse_program(print(p)) gives p back except for the kernels of tasks, which
/// are printed as their count, FLOPs and bytes.
std::string print(const Program& program);
/// Throws InputError with the line. Does not check().
Program parse_program(std::string_view text, const std::string& file = "program");
/// 64-bit hash of the printed text.
uint64_t fingerprint(const Program& program);

}  // namespace tandem::schemes
