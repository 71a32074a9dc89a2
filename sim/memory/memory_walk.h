// SPDX-License-Identifier: Apache-2.0
#pragma once
// One device's memory over training steps: a walk through forward, backward and update that takes and frees
// tensors as a framework with reverse-mode differentiation does.
#include <map>
#include <vector>

#include "schemes/setup/memory_habits.h"
#include "schemes/setup/scheme.h"
#include "sim/memory/caching_allocator.h"
#include "sim/memory/chunk_passes.h"
#include "sim/memory/memory_tensors.h"

namespace tandem::sim {

struct WalkInput {
  const Workload* work = nullptr;  ///< of the role's slice
  const Program* program = nullptr;
  uint32_t role = 0;
  MemoryHabits habits;
  Bytes workspace;  ///< that libraries take from the allocator permanently
  Bytes limit = CachingAllocator::kEndless;
  /// Under one process that drives all devices: 0 apart, or how many devices the master gathers from (on
  /// itself), or -1 on the others, which hold replicas for one step.
  int64_t gathers = 0;
  bool over_step = false;  ///< keep WalkResult::over_step
};

/// Each of these at its largest; they need not be so at once, but where the peak is low in activations the
/// others explain it.
struct WalkResult {
  Bytes parameters, gradients, optimizer, buffers, workspace;
  Bytes host;  ///< in the host's memory, what is offloaded
  Bytes peak_allocated, peak_reserved;
  bool exceeded = false;  ///< the limit
  std::vector<schemes::MemoryPoint> over_step =
      {};  ///< of the second step, without micro-batches that repeat others
};

/// A stage of a pipeline holds what its ops have forwarded and not yet gone back over. Two steps: the first
/// makes the optimiser's state, the second is how training goes on. O(layers log layers).
WalkResult walk_memory(const WalkInput& input);

/// The walk over the passes of a step with every tensor that is made and dropped on the way: memory_walk.cpp
/// has the passes, walk_parameters.cpp what belongs to parameters (weights, gradients, optimiser). For one
/// thread. O(layers x micro-batches).
class Walk {
 public:
  explicit Walk(const WalkInput& in);
  WalkResult run();
  /// Of a first micro-batch; instead of run().
  Bytes kept_by_forward();

 private:
  using Id = Tensors::Id;
  static constexpr Id kNone = Tensors::kNone;
  struct Node {            // of a layer
    bool trained = false;  // it or a layer before it has parameters
    int64_t size = 4;      // bytes an element of its output
    uint32_t unit = 0;     // whose parameters are gathered together; 0 = outside of blocks
    bool again = false;    // recomputed in backward, with its block
    bool remakes = false;  // its output alone is, for its readers' backward passes
    int32_t readers = 0;   // layers that read its output
    int64_t apart = 1;     // products of which it consists: autocast casts the input for each
    Id output = kNone, gradient = kNone;
    Id whole = kNone;         // its output, gathered of all parts of a sequence
    std::vector<Id> kept;     // dropped after its backward pass
    std::vector<Id> weights;  // half copies under autocast
  };
  /// Of the layers that the device holds, those between them, and what they read.
  class Nodes {
   public:
    Nodes() = default;
    explicit Nodes(const std::vector<Layer>& layers);
    uint32_t begin() const { return begin_; }
    uint32_t end() const { return begin_ + static_cast<uint32_t>(all_.size()); }
    Node& operator[](uint32_t layer) { return all_[layer - begin_]; }
    const Node& operator[](uint32_t layer) const { return all_[layer - begin_]; }

   private:
    uint32_t begin_ = 0;
    std::vector<Node> all_;
  };
  struct Unit {
    uint32_t first = 0, last = 0;       // layers, inclusive
    int64_t parameters = 0, dealt = 0;  // dealt: of experts
    int64_t frozen = 0;                 // bytes of weights that stay as they are
    Id gathered = kNone;
    bool remade = false;
    std::vector<Id> inputs{};         // from outside, kept for making it again
    std::vector<uint32_t> outside{};  // which these are, where they are offloaded
    std::map<uint32_t, Id> saved{};   // layer -> its output, which is not recomputed
    std::vector<Id> gradients{};
  };
  struct Live {  // what is held for one micro-batch
    Nodes node;
    std::vector<Unit> units;
    std::vector<Id> variables;  // of the training loop, while backward runs
  };

  void read_formats();
  void read_units();
  void take_state();
  void take_averaging();
  void take_frozen(const Layer& layer);
  int64_t frozen_size(const Layer& layer, int64_t count) const;
  void make_whole(const Layer& layer, std::vector<Id>& temporary);
  int64_t largest_message() const;
  void forward(uint32_t i, bool again);
  void keep_logits(uint32_t layer);
  int32_t readers_inside(uint32_t i) const;
  Id cast(uint32_t i, uint32_t from, std::vector<Id>& temporary);
  void keep_input(uint32_t i, uint32_t from, Id input, std::vector<Id>& temporary);
  void keep_output(uint32_t i);
  void backward(uint32_t i);
  void input_gradients(uint32_t i);
  void add_gradient(uint32_t to, Id gradient);
  void weight_gradients(uint32_t i);
  void make_again(uint32_t unit);
  void save(uint32_t i);
  Id saved_output(uint32_t i) const;
  void remake(uint32_t i, std::vector<Id>& temporary);
  void gather(uint32_t unit);
  void keep_for_again(Unit& unit, uint32_t from);
  void offload_inputs(uint32_t unit);
  void reload_inputs(uint32_t unit);
  void let_go(uint32_t unit);
  void reduce_unit(uint32_t unit);
  void sum_whole(int64_t count, bool first);
  void step();
  void update();
  void make_state(const Parameter& p);
  void offload_update();
  void read_owners();
  int64_t updated(const Parameter& p) const;
  int64_t own_state(const Parameter& p) const;
  int64_t updated_bytes(const Parameter& p) const;
  void free_gradients();
  void switch_to(uint32_t micro);
  void forward_over(LayerRange layers);
  void backward_over(LayerRange layers);
  void sum_replicas();
  /// The model's inputs, which are there anyway.
  bool given(uint32_t i) const { return layers_[i].type == nullptr && !work_.graph->received(i); }
  /// What other devices go on with.
  bool sent(uint32_t i) const {
    return layers_[i].type != nullptr && node_[i].readers == 0 && !is_loss(i) && i + 1 < layers_.size();
  }
  int64_t parameter_size() const { return half_ && weights_ != MemoryHabits::Weights::fp32 ? 2 : 4; }
  /// Gradients are summed in fp32, with parameters of 2 bytes.
  bool sums_apart() const { return in_.habits.fp32_sums && parameter_size() == 2; }
  int64_t gradient_size() const { return sums_apart() ? 4 : parameter_size(); }
  static int64_t share(int64_t n, int64_t holders) { return (n + holders - 1) / holders; }
  static int64_t times(int64_t count, int64_t size) { return checked_mul(count, size, "a tensor"); }
  /// Of the whole batch.
  int64_t tensor(int64_t elements, int64_t size) const { return (Bytes{elements} * work_.batch * size).n; }
  int64_t bytes(uint32_t i) const { return tensor(elements(layers_[i].output), node_[i].size); }
  /// Whole parameters are there only while a unit needs them.
  bool sharded() const { return sharding_.parameters > 1 || offload_.parameters; }
  bool shards_gradients() const { return sharding_.gradients > 1 && !in_.habits.gradients_whole; }
  bool replica() const { return in_.gathers < 0; }
  bool is_loss(uint32_t i) const { return layers_[i].output.empty() && layers_[i].parameters.empty(); }
  bool autocast() const { return half_ && weights_ == MemoryHabits::Weights::fp32 && !sharded(); }
  bool fused_loss(uint32_t i) const;
  std::vector<Id> own(uint32_t i, OwnTensor::Life life);
  std::vector<Id> own_again(uint32_t i);
  /// Where norms are one kernel.
  bool spared(const OwnTensor& own) const { return in_.habits.fused_kernels && own.composed; }
  bool keeps_input(uint32_t i) const;
  bool gates(uint32_t i) const;

  const WalkInput& in_;
  const Workload& work_;
  const std::vector<Layer>& layers_;
  const Sharding& sharding_;
  const Offload& offload_;
  const bool half_;
  MemoryHabits::Weights weights_;  ///< on the device
  const bool half_updates_;        ///< the optimiser works on parameters of 2 bytes
  Tensors t_;
  Nodes node_;
  std::vector<Unit> units_;
  std::vector<Id> gradients_;      // of parameters, until they are freed
  std::vector<Id> whole_;          // parameters that stay gathered for a step
  std::vector<Id> in_flight_;      // gradients on their way
  std::vector<Id> offloading_;     // inputs of a block on their way to the host
  std::vector<Id> tied_;           // of an output layer, for the embedding's weight
  std::vector<Id> variables_;      // of the training loop, while backward runs
  std::vector<ChunkPass> passes_;  // of a step
  Live fresh_;                     // nothing held yet
  std::map<uint32_t, Live> live_;  // by micro-batch, but for the present one's
  uint32_t micro_ = 0;             // the present one
  std::vector<bool> there_;        // [layer]: gradients of its parameters are
  std::map<const Parameter*, int64_t>
      owned_;  // where devices own keys: elements that the fullest one updates
  bool state_ = false, buckets_ = false, stepped_ = false;
  int64_t parameter_bytes_ = 0, gradient_bytes_ = 0, state_bytes_ = 0, buffer_bytes_ = 0, host_bytes_ = 0;
};

}  // namespace tandem::sim
