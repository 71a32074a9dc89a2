// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace tandem::exec {

namespace {

/// Coordinate of an instance on the axis of that name, and the axis's length.
struct Coordinate {
  uint32_t at = 0, size = 1;
};
/// Over several axes: in the mesh of only these.
Coordinate coordinate(const Mesh& mesh, uint32_t instance, std::initializer_list<std::string_view> axes) {
  Coordinate out;
  for (std::size_t a = mesh.axes.size(); a-- > 0;) {
    const auto size = static_cast<uint32_t>(mesh.axes[a].size);
    if (std::find(axes.begin(), axes.end(), mesh.axes[a].name) != axes.end()) {
      out.at += instance % size * out.size;
      out.size *= size;
    }
    instance /= size;
  }
  return out;
}

[[noreturn]] void refuse(const Execution& e, const std::string& why) {
  throw InputError(fmt::format("{} cannot be executed: {}", e.job.scheme->name, why));
}

/// Whether the role ends each pass over a chunk before it begins another, except passes for weight gradients.
bool passes_alone(const Program& program, const Role& role) {
  using Visit = std::tuple<uint32_t, bool, std::size_t>;  // micro-batch, forward?, chunk
  std::set<Visit> ended;
  Visit last{UINT32_MAX, false, 0};
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::compute || op.payload != Payload::none) continue;
    const Task& task = program.tasks[op.what];
    if (task.parts && task.pass == Pass::backward_weights) continue;
    std::size_t chunk = 0;
    while (chunk + 1 < role.slice.ranges.size() && task.layer >= role.slice.ranges[chunk].end()) ++chunk;
    const Visit visit{op.micro, task.pass == Pass::forward, chunk};
    if (visit == last) continue;
    if (!ended.insert(visit).second) return false;
    last = visit;
  }
  return true;
}

/// Whether gradients of parameters are computed after backward has moved on to lower layers.
bool delays_weights(const Program& program, const Role& role) {
  std::map<uint16_t, uint32_t> lowest;  // [micro-batch]: the layer that backward has reached
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::compute || op.payload != Payload::none) continue;
    const Task& task = program.tasks[op.what];
    if (task.pass == Pass::forward || task.again) continue;
    const auto [at, first] = lowest.try_emplace(op.micro, task.layer + task.layers);
    if (!task.parts || task.pass == Pass::backward_data)
      at->second = std::min(at->second, task.layer);
    else if (task.layer + task.layers > at->second + 1)
      return true;
  }
  return false;
}

SliceUse use_of(const Program& program, const Role& role, uint32_t partner) {
  SliceUse use;
  use.partner = partner;
  use.chunks = role.slice.ranges;
  use.passes_alone = passes_alone(program, role);
  use.parts = delays_weights(program, role);
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::send || op.payload != Payload::activations) continue;
    for (const uint32_t layer : program.channels[op.what].key_layers[op.key]) use.sent.push_back(layer);
  }
  std::sort(use.sent.begin(), use.sent.end());
  use.sent.erase(std::unique(use.sent.begin(), use.sent.end()), use.sent.end());
  return use;
}

/// For a model that is not split.
SliceUse plain_use(const Execution& e) {
  SliceUse use;
  use.fuses = e.backend->fuses_norms && e.job.recompute.fuses_norms();
  use.recompute = e.job.recompute;
  return use;
}

/// A micro-batch takes the slot that has been free longest when its first op comes up in program order, and
/// releases it after its last op. One slot more than needed at once lets a message arrive while the last pass
/// before it still runs.
Slots slots_of(const Role& role, int32_t micros) {
  std::vector<int32_t> left(static_cast<std::size_t>(micros));
  bool receives = false;
  for (const Op& op : role.ops) {
    left[op.micro] += of_micro_batch(op) ? 1 : 0;
    receives = receives || op.kind == OpKind::recv;
  }
  Slots out;
  out.of_micro.assign(left.size(), -1);
  out.count = 0;
  std::deque<int32_t> free;
  if (receives && micros > 1) free.push_back(out.count++);
  for (const Op& op : role.ops) {
    if (!of_micro_batch(op)) continue;
    int32_t& slot = out.of_micro[op.micro];
    if (slot < 0) {
      if (free.size() < (receives && micros > 1 ? 2U : 1U)) free.push_back(out.count++);
      slot = free.front();
      free.pop_front();
    }
    if (--left[op.micro] == 0) free.push_back(slot);
  }
  return out;
}

/// Splits that are only simulated.
void check_split(const Execution& e, const Role& role) {
  if (role.slice.experts > 1 && element_bytes(e.job.precision) != 4)
    refuse(e, "tokens travel to their experts in 4 bytes (precision fp32)");
  if (role.slice.ways > 1 && e.job.precision != Precision::fp32)
    refuse(e, "sums inside shared layers are made in fp32");
}

/// Partners that each have a part of the outputs must compute the loss together.
void check_losses(const Execution& e, const Graph& slice) {
  const auto& layers = slice.layers();
  std::vector<Lowered> lowered;
  for (std::size_t i = 0; i < layers.size() && slice.shared_by() > 1; ++i) {
    const Layer& l = layers[i];
    if (l.type == nullptr || !l.output.empty()) continue;
    if (lowered.empty()) lowered = slice.lower(e.job.batch, e.job.precision);
    for (const uint32_t from : l.inputs) {
      Shape whole = e.job.graph->layers()[from].output;
      if (slice.sharing().context > 1) whole[0] /= slice.sharing().context;
      if (layers[from].output != whole && lowered[i].forward_exchanges.empty())
        refuse(e,
               fmt::format("the loss \"{}\" of outputs divided between devices is only simulated", l.name));
    }
  }
}

/// Partners gather the parts of a sequence.
void check_sequence(const Execution& e, const Graph& slice) {
  if (!slice.divides_sequence()) return;
  const auto& layers = slice.layers();
  const std::vector<Lowered> lowered = slice.lower(e.job.batch, e.job.precision);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const uint32_t from : layers[i].inputs) {
      if (lowered[i].input_join != Join::gather ||
          layers[from].output[0] * slice.sharing().context < e.job.graph->layers()[from].output[0])
        continue;
      refuse(e,
             fmt::format("layer \"{}\" reads a whole sequence, which devices divide only after an embedding "
                         "with \"split\": \"vocabulary\"",
                         layers[i].name));
    }
  }
}

}  // namespace

bool of_micro_batch(const Op& op) {
  return op.lane != Lane::read && op.lane != Lane::decode && op.payload != Payload::gradients &&
         op.payload != Payload::compressed && op.payload != Payload::parameters &&
         op.payload != Payload::shard && op.payload != Payload::state &&
         op.payload != Payload::tied_gradients && op.payload != Payload::sequence_gradients;
}

Stages::Stages(const Execution& e, const Program& program)
    : synced_(synced_graph(e.job, e.cluster)),
      whole_(synced_ ? *synced_ : *e.job.graph, e.job.batch, true, e.job.precision,
             program.grid.axes.empty() ? plain_use(e) : SliceUse{}),
      stage_of_role_(program.roles.size()) {
  find_places(program);
  if (program.grid.axes.empty()) {
    maps_ = {{{0, 0, whole_.parameters()}}};
    frozen_maps_ = {{{0, 0, whole_.frozen_elements()}}};
    lower_batches(e);
    find_gather_buffers(e, program);
    return;
  }
  for (const Role& role : program.roles) {
    for (const Op& op : role.ops) micros_ = std::max(micros_, uint32_t{op.micro} + 1);
  }
  for (uint32_t r = 0; r < program.roles.size(); ++r) {
    if (program.roles[r].works()) add_stage(e, program, r);
  }
  find_gather_buffers(e, program);
}

void Stages::find_gather_buffers(const Execution& e, const Program& program) {
  gather_buffers_.resize(program.roles.size());
  for (uint32_t r = 0; r < program.roles.size(); ++r) {
    if (!devices_of_[r].empty())
      gather_buffers_[r] =
          shared_gather_buffers(program, r, lowered(devices_of_[r][0]), e.job.offload.parameters);
  }
}

void Stages::find_places(const Program& program) {
  devices_of_.resize(program.roles.size());
  const bool grid = !program.grid.axes.empty();
  places_.resize(static_cast<std::size_t>(grid ? program.grid.size() : program.roles[0].mesh.size()));
  for (uint32_t r = 0; r < program.roles.size(); ++r) {
    const Role& role = program.roles[r];
    if (grid ? !role.works() : r > 0) continue;
    for (uint32_t i = 0; i < role.mesh.size(); ++i) {
      const auto device = static_cast<uint32_t>(grid_device(program, role, i));
      devices_of_[r].push_back(device);
      if (!grid) {
        places_[device] = {.role = r, .instance = i, .replica = i, .holder = i};
        replicas_ = static_cast<uint32_t>(role.mesh.size());
        continue;
      }
      const Coordinate samples = coordinate(role.mesh, i, {"worker", "node", "data", "expert"}),
                       worker = coordinate(role.mesh, i, {"worker"}),
                       data = coordinate(role.mesh, i, {"worker", "node", "data"}),
                       tensor = coordinate(role.mesh, i, {"tensor"}),
                       expert = role.slice.whole_experts ? coordinate(role.mesh, i, {"expert", "tensor"})
                                                         : coordinate(role.mesh, i, {"expert"}),
                       context = coordinate(role.mesh, i, {"context"});
      const bool own = role.slice.samples;  // for each partner
      places_[device] = {r,       i,         own ? tensor.at : samples.at, worker.at, tensor.at, expert.at,
                         data.at, context.at};
      apart_ = worker.size;
      replicas_ = own ? tensor.size : samples.size;
      own_samples_ = own;
      partners_ = tensor.size;
      experts_ = expert.size;
      contexts_ = context.size;
    }
  }
}

/// Losses are means over the device's own samples; scale them so that the sum is a mean over all.
void Stages::lower_batches(const Execution& e) {
  batches_ = e.job.batches;
  for (const int64_t samples : batches_) {
    SliceUse use = plain_use(e);
    use.loss_weight = static_cast<float>(static_cast<double>(samples) / static_cast<double>(e.job.batch));
    use.norm_samples = e.job.batch * devices();
    uneven_.try_emplace(samples, whole_.graph(), samples, true, e.job.precision, use);
  }
}

SampleShare Stages::share(uint32_t replica) const {
  const int64_t batch = whole_.batch();
  if (!uneven()) return even_share(replicas_, replica, batch);
  return {batch * devices(), std::accumulate(batches_.begin(), batches_.begin() + replica, int64_t{0}),
          batches_[replica]};
}

void Stages::add_stage(const Execution& e, const Program& program, uint32_t r) {
  const Role& role = program.roles[r];
  check_split(e, role);
  Stage s;
  s.role = r;
  s.slice = std::make_unique<Graph>(e.job.graph->slice(role.slice));
  check_losses(e, *s.slice);
  check_sequence(e, *s.slice);
  s.slots = slots_of(role, micros());
  for (uint32_t p = 0; p < partners_; ++p) {
    SliceUse use = use_of(program, role, p);
    use.fuses = plain_use(e).fuses;
    use.whole = e.job.graph;
    use.recompute = e.job.recompute;
    use.passes_alone = use.passes_alone && s.slots.count > 1;
    for (use.context = 0; use.context < contexts_; ++use.context)
      s.lowered.emplace_back(*s.slice, e.job.batch, true, e.job.precision, use);
    for (uint32_t x = 0; x < experts_; ++x) {
      maps_.push_back(parameter_map_of(whole_, s.lowered.back(), {p, x, experts_}));
      frozen_maps_.push_back(parameter_map_of(whole_, s.lowered.back(), {p, x, experts_}, true));
    }
  }
  for (const LearnedTensor& l : s.lowered[0].learned()) {
    if (role.slice.experts > 1 && s.slice->layers()[l.layer].parameters[l.index].dealt)
      s.experts_from = std::min(s.experts_from, s.lowered[0].tensors()[l.parameter].offset);
  }
  stage_of_role_[r] = static_cast<uint32_t>(stages_.size());
  stages_.push_back(std::move(s));
}

const ExecutionGraph& Stages::lowered(uint32_t device) const {
  if (uneven()) return uneven_.at(batches_[device]);
  const GridPlace& at = places_[device];
  return split() ? stage(device).lowered[at.partner * contexts_ + at.context] : whole_;
}

bool Stages::dealt(const Bucket& bucket) const {
  return split() && bucket.first >= stages_[stage_of_role_[bucket.role]].experts_from;
}

std::vector<uint32_t> Stages::fed_by(uint32_t device) const {
  const GridPlace& at = places_[device];
  std::vector<uint32_t> out;
  for (const GridPlace& p : places_) {
    if (own_samples_ ||
        (p.role == at.role && p.holder == at.holder && p.partner == at.partner && p.context == at.context))
      out.push_back(p.replica);
  }
  return out;
}

const Slots& Stages::slots(uint32_t device) const { return split() ? stage(device).slots : one_; }

std::size_t Stages::map_of(uint32_t device) const {
  if (!split()) return 0;
  const GridPlace& at = places_[device];
  return (stage_of_role_[at.role] * std::size_t{partners_} + at.partner) * experts_ + at.expert;
}

}  // namespace tandem::exec
