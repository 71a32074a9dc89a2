// SPDX-License-Identifier: Apache-2.0
#include "exec/run/executable.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/comm/ranks.h"
#include "exec/layout/half_gradients.h"
#include "exec/layout/memory.h"
#include "schemes/setup/uneven_batches.h"

namespace tandem::exec {

void refuse(const RunPlan& plan, const std::string& why) {
  throw InputError(fmt::format("{} cannot be executed: {}", plan.execution().job.scheme->name, why));
}

namespace {

/// Whether two chunks of a stage share a weight. Sums of its gradients over micro-batches use the passes of
/// one.
bool ties_chunks(const std::vector<LayerRange>& chunks, const Graph& graph) {
  for (uint32_t i = 0; i < graph.layers().size(); ++i) {
    const auto owner = graph.tied_to(i);
    for (const LayerRange& r : chunks) {
      const auto in = [&](uint32_t layer) { return layer >= r.first && layer < r.end(); };
      if (owner && in(i) != in(*owner) && graph.layers()[*owner].type != nullptr &&
          !graph.layers()[*owner].parameters.empty())
        return true;
    }
  }
  return false;
}

/// For one thread.
class ExecutableCheck {
 public:
  explicit ExecutableCheck(const RunPlan& plan)
      : plan_(plan), execution_(plan.execution()), program_(plan.program()), stages_(plan.stages()) {}
  void run() const;

 private:
  void check_store() const;
  void check_whole_tensors() const;
  void check_ops(uint32_t worker) const;
  void check_average(const Op& op, uint32_t worker) const;
  void check_gradients(const Op& op, uint32_t worker) const;
  void check_compression() const;
  bool gathers_shards(const Op& op, uint32_t worker) const;
  void check_offload(const Op& op, uint32_t worker) const;
  void check_calls(const ExecutionGraph& lowered) const;
  [[noreturn]] void refuse(const std::string& why) const { exec::refuse(plan_, why); }

  const RunPlan& plan_;
  const Execution& execution_;
  const Program& program_;
  const Stages& stages_;
};

void ExecutableCheck::run() const {
  if (!execution_.job.optimizer->executed())
    refuse(fmt::format("the optimizer \"{}\" is only predicted so far", execution_.job.optimizer->name));
  if (execution_.rate.by_staleness && program_.stores.empty() && plan_.workers() > 1)
    refuse(
        "a rate divided by staleness needs servers that count versions: parameter-server with mode=async, "
        "ssp or softsync");
  if (stages_.split() && plan_.workers() > 1 && plan_.workers() % static_cast<uint32_t>(ranks().size) != 0)
    refuse(fmt::format("{} devices do not divide among {} processes", plan_.workers(), ranks().size));
  if (!execution_.job.batches.empty()) {
    check_takes_uneven(program_, execution_.job.scheme->name);
    if (averages_models(program_)) refuse("models that are averaged have all been trained on equal batches");
  }
  check_store();
  check_whole_tensors();
  for (const Channel& c : program_.channels) {
    const bool peers = c.address == Address::same_index && !c.key_layers.empty();
    if (c.address != Address::shards && c.address != Address::reply && !peers &&
        !plan_.shards().hold_models())
      refuse("messages between peers are only simulated");
  }
  for (uint32_t w = 0; w < plan_.workers(); ++w) {
    if (stages_.place(w).instance > 0) continue;
    if (ties_chunks(plan_.role(w).slice.ranges, stages_.lowered(w).graph()))
      refuse("a weight that two chunks of a stage use is only simulated");
    check_ops(w);
    check_calls(stages_.lowered(w));
  }
}

void ExecutableCheck::check_store() const {
  if (plan_.shards().exchange_parameters() && execution_.rate.by_staleness)
    refuse("its workers update with their own gradients, whose rate no server divides by staleness");
  if (program_.stores.empty() || plan_.compresses()) return;
  const Store& store = program_.stores[0];
  for (const Channel& c : program_.channels) {
    for (std::size_t key = 0; c.to_role == store.role && key < c.key_bytes.size(); ++key) {
      if (c.key_bytes[key].n < 4 * (program_.buckets[key].elements / store.shares))
        refuse("gradients for servers travel as fp32 (gradients=fp32 is executed)");
    }
  }
}

void ExecutableCheck::check_whole_tensors() const {
  const Optimizer& rule = *execution_.job.optimizer;
  const auto averages = [](const Op& op) { return op.payload == Payload::state; };
  if ((!rule.flat() || rule.paged) &&
      std::any_of(plan_.role(0).ops.begin(), plan_.role(0).ops.end(), averages))
    refuse(fmt::format("the optimizer \"{}\" has no state in vectors of fp32 that workers could average",
                       rule.name));
  if (!rule.by_tensor()) return;
  const auto needs = [&](const std::string& why) {
    refuse(fmt::format("the optimizer \"{}\" works on whole tensors, and {}", rule.name, why));
  };
  if (plan_.spreads()) needs("its workers update a share of each bucket");
  for (uint32_t w = 0; w < plan_.workers(); ++w) {
    const ExecutionGraph& own = stages_.lowered(w);
    const OptimizerState state(rule, own);
    for (std::size_t k = 0; k < own.learned().size() && stages_.split(); ++k) {
      const UpdatedTensor& t = state.tensors()[k];
      if (t.elements > 0 && !whole_here(stages_.parameter_map(w), t, plan_.optimizer_state()))
        needs(fmt::format("devices hold parts of those of layer \"{}\"",
                          own.graph().layers()[own.learned()[k].layer].name));
    }
    if (stages_.place(w).instance == 0 && cuts_exchanged(program_, stages_.place(w).role, state))
      needs("its buckets, which travel one by one, are parts of them");
    if (!stages_.split()) break;
  }
}

void ExecutableCheck::check_ops(uint32_t worker) const {
  int64_t parameters = 0;
  for (const Bucket& b : program_.buckets)
    parameters += b.role == stages_.place(worker).role ? b.elements : 0;
  TANDEM_CHECK(parameters == stages_.lowered(worker).parameters());
  for (const Op& op : plan_.role(worker).ops) {
    if (op.kind == OpKind::compute && op.payload == Payload::gradients && op.lane == Lane::compute &&
        plan_.compresses())
      check_compression();
    if (op.lane == Lane::offload) check_offload(op, worker);
    if (op.kind != OpKind::collective || of_layers(op.payload)) continue;
    const int64_t elements = op.key < program_.buckets.size() ? program_.buckets[op.key].elements : 0;
    check_gradients(op, worker);
    const Collective& c = program_.collectives[op.what];
    const bool half = c.kind == CollKind::all_gather && gathers_shards(op, worker) &&
                      element_bytes(execution_.job.precision) == 2 && op.bytes.n == 2 * elements;
    if (op.payload == Payload::mean && op.bytes.n != 4 * elements) refuse("parameters travel as fp32");
    if (stages_.apart() > 1 && c.kind == CollKind::all_reduce) {
      check_average(op, worker);
      continue;
    }
    if (op.payload == Payload::parameters && op.bytes.n != 4 * elements && !half)
      refuse("parameters travel as fp32, or are gathered in 2 bytes from those that have a share each");
  }
}

/// Among groups of devices that train separately: each device averages its share, in place.
void ExecutableCheck::check_average(const Op& op, uint32_t worker) const {
  if (op.payload != Payload::parameters && op.payload != Payload::state) return;
  const int64_t vectors = op.payload == Payload::state ? 1 + execution_.job.optimizer->state : 1;
  if (op.bytes.n < 4 * vectors * plan_.share(op.key, worker).elements)
    refuse(
        "what workers of several devices moved travels in 8 bits in the simulator only (compression=none "
        "is executed)");
}

/// In 2 bytes where collectives sum them; in fp16, times the loss scale, if all workers see all sums and so
/// have the same scale, and no iteration begins before they are used.
void ExecutableCheck::check_gradients(const Op& op, uint32_t worker) const {
  if (op.payload != Payload::gradients && op.payload != Payload::shard &&
      op.payload != Payload::sequence_gradients)
    return;
  const bool halves = half_gradients(program_, op).elements > 0;
  if (!halves && op.payload == Payload::gradients && op.bytes.n != 4 * program_.buckets[op.key].elements)
    refuse("gradients travel as fp32, or in 2 bytes to be summed");
  if (op.payload == Payload::sequence_gradients) {
    int64_t elements = 0;
    for (const Slice& s : in_parts(stages_.lowered(worker))) elements += s.elements;
    if (op.bytes.n != 4 * elements)
      refuse("gradients of parts of a sequence travel as fp32 (gradients=fp32 is executed)");
  }
  if (!halves) return;
  if (execution_.job.scheme->overheads.cycle.ps > 0 && !execution_.backend->asynchronous)
    refuse("a coordinator of processors sums gradients of 4 bytes (gradients=fp32 is executed)");
  if (execution_.job.precision != Precision::fp16) return;
  const Collective& c = program_.collectives[op.what];
  const auto& ops = program_.roles[0].ops;
  const bool late =
      program_.delay > 0 || std::any_of(ops.begin(), ops.end(), [](const Op& o) {
        return o.payload == Payload::parameters && o.kind == OpKind::compute &&
               std::any_of(o.deps.begin(), o.deps.end(), [](const Dep& d) { return d.lag > 0; });
      });
  if (c.kind != CollKind::all_reduce || stages_.split() || plan_.member(c, 0).ranks != plan_.workers() ||
      late)
    refuse(
        "in fp16 gradients travel in 2 bytes where every worker sums all of them before its update: they "
        "carry "
        "the loss's scale, on which all must agree (gradients=fp32 and bf16 are executed)");
}

void ExecutableCheck::check_compression() const {
  Call call;
  call.function = Function::compress;
  if (!execution_.backend->supports(call, execution_.job.precision))
    refuse(fmt::format("backend {} does not compress gradients", execution_.backend->name));
  const auto larger = [](const Bucket& b) { return b.elements > INT32_MAX; };  // 32 bits say where in it
  if (program_.compression.kind == Compression::Kind::topk &&
      std::any_of(program_.buckets.begin(), program_.buckets.end(), larger))
    refuse("with compression=topk a bucket holds 2,147,483,647 elements at most: give a smaller bucket=");
}

/// From all workers, or from those that a bucket's gradients are scattered over.
bool ExecutableCheck::gathers_shards(const Op& op, uint32_t worker) const {
  const Collective& c = program_.collectives[op.what];
  if (plan_.member(c, worker).ranks == plan_.workers()) return true;
  const int32_t cut = plan_.scattering()[op.key];
  return !stages_.split() && cut >= 0 && program_.collectives[static_cast<std::size_t>(cut)].axes == c.axes;
}

void ExecutableCheck::check_offload(const Op& op, uint32_t worker) const {
  if (op.bytes.n < 4 * plan_.share(op.key, worker).elements)
    refuse("gradients go down to the host as fp32 (gradients=fp32 is executed)");
}

void ExecutableCheck::check_calls(const ExecutionGraph& lowered) const {
  const auto& layers = lowered.graph().layers();
  for (uint32_t layer = 0; layer < layers.size(); ++layer) {
    for (const auto* calls : {&lowered.forward(layer), &lowered.backward(layer)}) {
      for (const Call& c : *calls) {
        if (execution_.backend->supports(c, execution_.job.precision)) continue;
        throw InputError(fmt::format("backend {} has no {} in {} (layer \"{}\")", execution_.backend->name,
                                     name(c.function), name(execution_.job.precision), layers[layer].name));
      }
    }
  }
}

}  // namespace

void check_executable(const RunPlan& plan) { ExecutableCheck(plan).run(); }

}  // namespace tandem::exec
