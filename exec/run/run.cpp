// SPDX-License-Identifier: Apache-2.0
#include "exec/run/run.h"

#include "exec/run/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

#include "base/random.h"
#include "exec/comm/scheduled_group.h"
#include "exec/layout/half_gradients.h"
#include "exec/layout/memory.h"
#include "schemes/uneven_batches.h"

namespace tandem::exec {

namespace {

/// Of the program, for that number of steps.
int32_t all_iterations(const Execution& e, const Program& program) {
  const int64_t all = checked_mul(e.iterations, program.micro_batches, "the iterations to run");
  if (all > INT32_MAX)
    throw InputError(fmt::format("{} iterations of {} micro-batches: at most {} micro-batches are run",
                                 e.iterations, program.micro_batches, INT32_MAX));
  return static_cast<int32_t>(all);
}

/// Start of the c-th of n even cuts; the same as a collective's chunks.
int64_t cut(int64_t elements, int64_t n, int64_t c) { return elements / n * c + std::min(elements % n, c); }

/// Start values as LearnedTensor says, drawn by counter: the same for every worker and thread count.
std::vector<float> start_values(const ExecutionGraph& lowered, const Execution& e, bool frozen) {
  std::vector<float> out(static_cast<std::size_t>(frozen ? lowered.frozen_elements() : lowered.parameters()));
  for (const LearnedTensor& l : frozen ? lowered.frozen() : lowered.learned()) {
    const Layer& layer = lowered.graph().layers()[l.layer];
    const int64_t begin = frozen ? l.first : lowered.tensors()[l.parameter].offset;
    for (int64_t i = 0; i < (frozen ? layer.frozen : layer.parameters)[l.index].elements; ++i) {
      const double u = 2 * to_unit(draw_bits(e.seed, l.layer, l.index, static_cast<uint64_t>(i))) - 1;
      out[static_cast<std::size_t>(begin + i)] = l.constant + l.bound * static_cast<float>(u);
    }
  }
  if (e.integer_gradients && !frozen) std::fill(out.begin(), out.end(), 0.0F);
  return out;
}

}  // namespace

Run::Run(const Execution& e, const Keep& k)
    : execution_(executable(e)),
      keep_(k),
      program_(make_program(e)),
      stages_(e, program_),
      optimizer_state_(*e.job.optimizer, stages_.whole()),
      expected_(all_iterations(e, program_)),
      micro_batches_(program_.micro_batches),
      warmup_(e.warmup * program_.micro_batches) {
  workers_ = stages_.devices();
  cuts_ = scattering_collectives(program_);
  abort_.watch(&captured_);
  check_executable();
  here_ = workers_ / static_cast<uint32_t>(ranks().size);
  first_here_ = here_ * static_cast<uint32_t>(ranks().rank);
  if (workers_ == 1) here_ = 1, first_here_ = 0;
}

void Run::open() {
  const Execution& e = execution_;
  make_cores();
  make_iterations();
  make_watch();
  check_route();
  // Spinning only pays if the awaited thread runs at the same time.
  spins_ = here_ <= std::thread::hardware_concurrency() ? 2000 : 20;
  start_ = start_values(execution_graph(), e, false);
  frozen_ = start_values(execution_graph(), e, true);
  start_state_.resize(static_cast<std::size_t>(optimizer_state_.words()));
  if (e.start != nullptr) take_checkpoint(*e.start);
  const BoundThread messages(communicating());  // starts the transports' threads
  make_transport();
  make_peers();
  make_groups();
  make_store();
}

void Run::take_checkpoint(const Checkpoint& saved) {
  start_ = saved.parameters;
  start_state_ = saved.state;
  first_iteration_ = saved.iteration * micro_batches_;
  std::size_t buffers = 0;
  for (const Tensor& t : execution_graph().tensors())
    buffers += t.kind == TensorKind::buffer ? static_cast<std::size_t>(t.elements) : 0;
  if (saved.buffers.size() != buffers) throw InputError("the checkpoint holds other buffers than the model");
  const auto kept = static_cast<std::size_t>(averaging_vectors(program_)) * start_.size();
  if (kept == 0 || saved.averaging.empty()) return;  // starts afresh
  if (saved.averaging.size() != kept)
    throw InputError("the checkpoint holds what another scheme keeps for averaging");
  start_averaging_ = saved.averaging;
}

/// Groups of free-running workers that meet in collectives; else, or if a group has members in other
/// processes, everybody in one group.
void Run::make_iterations() {
  counted_in_.assign(here_, 0);
  uint32_t groups = 1;
  if (free_running(program_)) {
    Collective meeting;
    meeting.axes = meeting_axes(program_);
    std::map<uint32_t, uint32_t> members;
    for (uint32_t i = 0; i < here_; ++i) ++members[member(meeting, first_here_ + i).group];
    const bool own = std::all_of(members.begin(), members.end(), [&](const auto& group) {
      return group.second == member(meeting, first_here_).ranks;
    });
    for (uint32_t i = 0; i < here_ && own; ++i) {
      const auto at = members.find(member(meeting, first_here_ + i).group);
      counted_in_[i] = static_cast<uint32_t>(std::distance(members.begin(), at));
    }
    if (own) groups = static_cast<uint32_t>(members.size());
  }
  iterations_ = std::make_unique<Iterations>(execution_.iterations, micro_batches_, groups, abort_);
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

}  // namespace

void Run::check_executable() const {
  if (!execution_.job.optimizer->executed())
    refuse(fmt::format("the optimizer \"{}\" is only predicted so far", execution_.job.optimizer->name));
  if (execution_.rate.by_staleness && program_.stores.empty() && workers_ > 1)
    refuse(
        "a rate divided by staleness needs servers that count versions: parameter-server with mode=async, "
        "ssp or softsync");
  if (stages_.split() && workers_ > 1 && workers_ % static_cast<uint32_t>(ranks().size) != 0)
    refuse(fmt::format("{} devices do not divide among {} processes", workers_, ranks().size));
  if (!execution_.job.batches.empty()) {
    check_takes_uneven(program_, execution_.job.scheme->name);
    if (averages_models(program_)) refuse("models that are averaged have all been trained on equal batches");
  }
  check_store();
  check_whole_tensors();
  for (const Channel& c : program_.channels) {
    const bool peers = c.address == Address::same_index && !c.key_layers.empty();
    if (c.address != Address::shards && c.address != Address::reply && !peers && !own_models())
      refuse("messages between peers are only simulated");
  }
  for (uint32_t w = 0; w < workers_; ++w) {
    if (stages_.place(w).instance > 0) continue;
    if (ties_chunks(role(w).slice.ranges, stages_.lowered(w).graph()))
      refuse("a weight that two chunks of a stage use is only simulated");
    check_ops(w);
    check_calls(stages_.lowered(w));
  }
}

void Run::check_store() const {
  if (exchanges_parameters() && execution_.rate.by_staleness)
    refuse("its workers update with their own gradients, whose rate no server divides by staleness");
  if (program_.stores.empty() || compresses()) return;
  const Store& store = program_.stores[0];
  for (const Channel& c : program_.channels) {
    for (std::size_t key = 0; c.to_role == store.role && key < c.key_bytes.size(); ++key) {
      if (c.key_bytes[key].n < 4 * (program_.buckets[key].elements / store.shares))
        refuse("gradients for servers travel as fp32 (gradients=fp32 is executed)");
    }
  }
}

void Run::check_whole_tensors() const {
  const Optimizer& rule = *execution_.job.optimizer;
  const auto averages = [](const Op& op) { return op.payload == Payload::state; };
  if ((!rule.flat() || rule.paged) && std::any_of(role(0).ops.begin(), role(0).ops.end(), averages))
    refuse(fmt::format("the optimizer \"{}\" has no state in vectors of fp32 that workers could average",
                       rule.name));
  if (!rule.by_tensor()) return;
  const auto needs = [&](const std::string& why) {
    refuse(fmt::format("the optimizer \"{}\" works on whole tensors, and {}", rule.name, why));
  };
  if (spreads()) needs("its workers update a share of each bucket");
  for (uint32_t w = 0; w < workers_; ++w) {
    const ExecutionGraph& own = stages_.lowered(w);
    const OptimizerState state(rule, own);
    for (std::size_t k = 0; k < own.learned().size() && stages_.split(); ++k) {
      const UpdatedTensor& t = state.tensors()[k];
      if (t.elements > 0 && !whole_here(stages_.parameter_map(w), t, optimizer_state_))
        needs(fmt::format("devices hold parts of those of layer \"{}\"",
                          own.graph().layers()[own.learned()[k].layer].name));
    }
    if (stages_.place(w).instance == 0 && cuts_exchanged(program_, stages_.place(w).role, state))
      needs("its buckets, which travel one by one, are parts of them");
    if (!stages_.split()) break;
  }
}

void Run::refuse(const std::string& why) const {
  throw InputError(fmt::format("{} cannot be executed: {}", execution_.job.scheme->name, why));
}

void Run::check_ops(uint32_t worker) const {
  int64_t parameters = 0;
  for (const Bucket& b : program_.buckets)
    parameters += b.role == stages_.place(worker).role ? b.elements : 0;
  TANDEM_CHECK(parameters == stages_.lowered(worker).parameters());
  for (const Op& op : role(worker).ops) {
    if (op.kind == OpKind::compute && op.payload == Payload::gradients && op.lane == Lane::compute &&
        compresses())
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
void Run::check_average(const Op& op, uint32_t worker) const {
  if (op.payload != Payload::parameters && op.payload != Payload::state) return;
  const int64_t vectors = op.payload == Payload::state ? 1 + execution_.job.optimizer->state : 1;
  if (op.bytes.n < 4 * vectors * share(op.key, worker).elements)
    refuse(
        "what workers of several devices moved travels in 8 bits in the simulator only (compression=none "
        "is executed)");
}

/// In 2 bytes where collectives sum them; in fp16, times the loss scale, if all workers see all sums and so
/// have the same scale, and no iteration begins before they are used.
void Run::check_gradients(const Op& op, uint32_t worker) const {
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
  if (c.kind != CollKind::all_reduce || stages_.split() || member(c, 0).ranks != workers_ || late)
    refuse(
        "in fp16 gradients travel in 2 bytes where every worker sums all of them before its update: they "
        "carry "
        "the loss's scale, on which all must agree (gradients=fp32 and bf16 are executed)");
}

void Run::check_compression() const {
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
bool Run::gathers_shards(const Op& op, uint32_t worker) const {
  const Collective& c = program_.collectives[op.what];
  if (member(c, worker).ranks == workers_) return true;
  const int32_t cut = cuts_[op.key];
  return !stages_.split() && cut >= 0 && program_.collectives[static_cast<std::size_t>(cut)].axes == c.axes;
}

void Run::check_offload(const Op& op, uint32_t worker) const {
  if (op.bytes.n < 4 * share(op.key, worker).elements)
    refuse("gradients go down to the host as fp32 (gradients=fp32 is executed)");
}

void Run::check_calls(const ExecutionGraph& lowered) const {
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

/// The route of copies between workers: "" if there is no choice.
std::string Run::route() const {
  auto* const reaches = execution_.backend->reaches;
  if (reaches == nullptr || here_ < 2) return "";
  if (execution_.route != PeerRoute::automatic) return std::string(name(execution_.route));
  bool all = true, any = false;
  for (uint32_t a = 0; a < here_; ++a) {
    for (uint32_t b = 0; b < here_; ++b) {
      if (a == b) continue;
      const bool direct = reaches(device_index(first_here_ + a), device_index(first_here_ + b));
      all = all && direct;
      any = any || direct;
    }
  }
  return all ? "peer" : any ? "peer where devices reach each other, else staged" : "staged";
}

void Run::check_route() const {
  auto* const reaches = execution_.backend->reaches;
  if (execution_.route == PeerRoute::automatic) return;
  if (reaches == nullptr)
    throw InputError(
        fmt::format("route {}: workers on backend {} have the same memory, so there is no choice",
                    name(execution_.route), execution_.backend->name));
  for (uint32_t a = first_here_; execution_.route == PeerRoute::peer && a < first_here_ + here_; ++a) {
    for (uint32_t b = first_here_; b < first_here_ + here_; ++b) {
      if (a != b && !reaches(device_index(a), device_index(b)))
        throw InputError(fmt::format(
            "route peer: the device of worker {} does not reach the memory of worker {}'s (tandem doctor "
            "shows who reaches whom); auto and staged go through host memory",
            a, b));
    }
  }
}

Run::Member Run::member(const Collective& collective, uint32_t instance) const {
  return member_of(program_, stages_, collective, instance);
}

IterationState Run::state(uint32_t instance, int32_t iteration, int32_t micro) const {
  const int64_t step = (first_iteration_ + iteration) / micro_batches_;
  IterationState s;
  s.seed = execution_.seed;
  s.instance = stages_.place(instance).replica;
  s.iteration = static_cast<uint32_t>((first_iteration_ + iteration) * stages_.micros() + micro);
  s.micro = static_cast<uint32_t>(micro);
  s.learning_rate =
      execution_.integer_gradients ? 1.0F : learning_rate(execution_.rate, step, stages_.replicas());
  const bool alone = first_iteration_ + iteration >= int64_t{sums_until_};
  s.gradient_scale = execution_.integer_gradients || alone ? 1.0F : gradient_scale_;
  s.updates = step + 1;
  return s;
}

Slice Run::slice(uint32_t key, uint32_t instance, uint32_t shard) const {
  const Bucket& bucket = program_.buckets[key];
  if (own_models()) return {bucket.first, bucket.elements, shard};
  const int64_t rank = instance % local_, all = bucket.elements * exchanged_vectors_;
  const int64_t begin = cut(all, local_, rank), end = cut(all, local_, rank + 1);
  const auto held = shards_of(key);
  const int64_t parts = held.size(), part = shard - held.front();
  const int64_t from = begin + cut(end - begin, parts, part), to = begin + cut(end - begin, parts, part + 1);
  return {bucket.first + from, to - from, shard};
}

std::ranges::iota_view<uint32_t, uint32_t> Run::shards_of(uint32_t key) const {
  const Role& servers = program_.roles[program_.stores[0].role];
  const Instances held =
      holders(program_.channels[static_cast<std::size_t>(servers.on_channel)], key, int64_t{shards_});
  return std::views::iota(held.first, held.first + held.count);
}

Slice Run::share(uint32_t key, uint32_t instance) const {
  return share_of(program_, stages_, cuts_, key, instance);
}

Slice Run::cut_bucket(uint32_t key, uint32_t rank, uint32_t ranks) const {
  return part_of(program_.buckets[key], rank, ranks);
}

std::vector<Slice> Run::summed_whole(uint32_t instance) const {
  std::vector<Slice> out;
  if (micro_batches_ * stages_.micros() == 1 || sums_on_host()) return out;
  if (!sums_shares_) return {{0, stages_.lowered(instance).parameters()}};
  for (uint32_t key = 0; key < program_.buckets.size(); ++key) {
    const Bucket& b = program_.buckets[key];
    if (b.role == stages_.place(instance).role && cuts_[key] < 0) out.push_back({b.first, b.elements});
  }
  return out;
}

}  // namespace tandem::exec
