// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/stock_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "base/text.h"
#include "models/optimizer.h"
#include "sim/cost/kernel_cost.h"
#include "sim/cost/limited_clocks.h"
#include "sim/cost/network_software.h"
#include "sim/cost/other_chip.h"
#include "topologies/devices/named_device.h"

namespace tandem::sim {

namespace {

/// Host seconds of one eager operation in a tight loop on a core of speed 1 (flagos-ai/Torch-FL#27: 8 us).
constexpr double kPlainOp = 8e-6;

/// Of a host's memory bandwidth that an update reaches whose threads read and write every element once: with
/// 0.22 s for 1 billion parameters (28 bytes each) to 2.57 s for 10 billion, DeepSpeed's CPU-Adam has 0.43 to
/// 0.50 of the 256 GB/s of two Xeon 8168 (Ren et al. 2021, ZeRO-Offload, table 4;
/// recalled).
constexpr double kHostUpdate = 0.5;

/// Accumulating a gradient reads it and the sum and writes the sum; a CPU server's threads reach about half
/// of the memory bandwidth at it.
double reduce_rate(const Device& device) {
  const bool cpu = device.kind == Device::Kind::cpu;
  return device.memory_bandwidth.bytes_per_second * (cpu ? 0.5 : 0.8) / 3;
}

/// On a GPU one kernel reads all gradients of a version and writes their sum (MXNet's ElementwiseSum,
/// TensorFlow's add_n), and an update reads a gradient by itself: passes for each gradient, in those of
/// accumulating it.
double sum_passes(const Store& store) { return store.batch > 1 ? (1.0 + 1.0 / store.batch) / 3 : 0; }

/// What computes of a processor of which `cores` communicate: memory serves the others all the same.
Device without_comm_cores(Device device, int32_t cores) {
  if (device.kind != Device::Kind::cpu || cores == 0) return device;
  if (cores >= device.units)
    throw InputError(fmt::format("comm-cores={} leaves none of the {} core{} of {} to compute with", cores,
                                 device.units, device.units == 1 ? "" : "s", device.name));
  const double left = static_cast<double>(device.units - cores) / device.units;
  for (FlopRate& peak : device.peak) peak.flops_per_second *= left;
  device.units -= cores;
  return device;
}

class StockCosts : public Costs {
 public:
  StockCosts(const CostInput& in, std::shared_ptr<const MachineProfile> measured)
      : Costs(in),
        recipe_(with_updates_of(in.job.scheme->recipe, *in.job.optimizer)),
        measured_(std::move(measured)),
        step_(measured_ ? moved_in_step(program()) : Bytes{}) {
    recipe_.autocast = recipe_.autocast && in.autocast && !measured_;
    if (measured_) measured_device_ = measured_->device();
  }

  Time task(const Task& task, VertexId at, Site site) override {
    return Time::from_seconds(task_seconds(task, at, site == Site::accelerators));
  }

  Time host_task(const Task& task, VertexId at) override {
    const System& system = *input().system;
    double bytes = 0;
    for (const Kernel& k : task.kernels)
      bytes += static_cast<double>((k.read + k.written).n) * static_cast<double>(k.repeat);
    const double rate = system.device(system.host_of(at)).memory_bandwidth.bytes_per_second * kHostUpdate;
    return Time::from_seconds(bytes * static_cast<double>(served_with(at)) / rate / input().speeds.server);
  }

  HostTimes host(uint32_t r, VertexId at) override {
    const Role& role = program().roles[r];
    if (!host_issues(at, role.site)) return {};
    const CostInput& in = input();
    Time sum = in.cluster.devices > 1 && role.works()
                   ? Time::from_seconds(overheads().iteration.seconds() /
                                        (static_cast<double>(program().micro_batches) * in.speeds.launch))
                   : Time{};
    HostTimes out;
    out.issued.reserve(role.ops.size());
    std::vector<Time> known(program().tasks.size(), Time{-1});
    std::vector<bool> begun;  // [micro-batch]
    for (const OpList::Part& part : role.ops.parts()) {
      for (uint32_t i = 0; i < part.count; ++i) {
        const Op& op = role.ops.stored(part, i);
        if (launched(op)) sum += begin_micro_batch(op, part.routine < 0 ? op.micro : part.micro, begun, at);
        sum += issued_by(op, known, at);
        out.issued.push_back(sum);
        if (!awaits(op, part.routine < 0 ? op.micro : part.micro)) continue;
        out.awaited.resize(role.ops.size());
        out.awaited[part.first + i] = true;
      }
    }
    // The process that drives all devices gathers their outputs before it goes on.
    const bool by_streams = recipe_.host.overlaps_chunks && role.slice.ranges.size() > 1;
    out.awaits_messages = recipe_.host.awaits_messages && !by_streams;
    out.awaits_sends = recipe_.host.awaits_sends && !by_streams;
    out.runs_ahead = recipe_.host.runs_ahead && !overheads().single_process;
    return out;
  }

  Beside beside(const Op& op, const Transfer& collective, double seconds, const Task& task,
                VertexId at) override {
    const Device& device = input().system->device(at);
    if (device.kind == Device::Kind::cpu) {
      Beside both = beside_on_processor(
          program().comm_cores > 0, links().polls(),
          links().busy(collective, seconds, at) + copying(overheads(), op, device) / seconds);
      if (program().comm_cores == 0) both.lost = overheads().interference;
      return both;
    }
    const Taken share = taken(collective, seconds, device);
    const KernelCost& cost = kernel_cost(at);
    double alone = 0, kernels = 0, collectives = 0;
    for (const Kernel& k : task.kernels) {
      KernelCost::Needs needs;
      double kernel = cost.seconds(k, &needs);
      if (measured(at)) kernel = kernel_seconds(k, at);
      const Beside both = sim::beside(share, needs.product, needs.memory);
      alone += kernel;
      kernels += kernel * both.kernel;
      collectives += kernel * both.kernel / both.collective;
    }
    if (alone <= 0) return {};
    return {kernels / alone, kernels / collectives, overheads().interference};
  }
  bool interferes() const override { return devices() > 1; }

  const Transfer& message(const Channel&, VertexId from, VertexId to, Bytes bytes) override {
    if (from == to || bytes.n <= 0) return free_;
    return way(from, to, bytes).transfer;
  }

  Time merge(const Store& store, VertexId at, Bytes size) override {
    const Device& device = input().system->device(at);
    const Optimizer& optimizer = *input().job.optimizer;
    const double speed = input().speeds.server;
    const auto bytes = static_cast<double>(size.n);
    // Stated for the cores of the first kind of nodes.
    const double handled = links().software().handling * core_speed(at) / input().system->host().core_speed;
    if (handled > 0 && device.kind == Device::Kind::cpu) return Time::from_seconds(bytes / handled / speed);
    const double rate = reduce_rate(device);
    if (!optimizer.updates()) return Time::from_seconds(bytes / rate);
    if (store.averaging.rule != Averaging::Rule::none) return Time::from_seconds(bytes / rate / speed);
    // One update per `batch` gradients: reads and writes parameter and state besides the gradient.
    const double passes = (3.0 + 2.0 * static_cast<double>(optimizer.state)) / 3.0 / store.batch;
    if (device.kind == Device::Kind::gpu)
      return Time::from_seconds(bytes / rate * (sum_passes(store) + passes));
    return Time::from_seconds(bytes / rate * (1 + passes) / speed);
  }

  KernelTime kernel(const Kernel& kernel, VertexId at) override {
    double distance = 0;
    const double seconds = kernel_seconds(kernel, at, &distance);
    return {seconds * under_limit(kernel, at) * compute_scale(), distance};
  }
  CostError error(VertexId at, double distance) override {
    if (!measured(at)) return {kernel_cost(at).relative_error(), {}, clocks_.speed(at)};
    const OtherChip* other = other_chip(at);
    return {
        std::hypot(measured_->error(distance), other == nullptr ? 0 : other->error()), {}, clocks_.speed(at)};
  }
  /// Steps of each device differ as those of the measured one did.
  std::optional<Disturbance> disturbance(double compute_seconds) const override {
    if (!measured_) return {};
    Disturbance d;
    d.iteration_sigma = measured_->disturbance(1, compute_seconds, true).iteration_sigma;
    return d;
  }
  std::vector<std::string> extrapolates() const override { return extrapolates_; }

 protected:
  Transfer collective_alone(const Op& op, std::span<const VertexId> members) override {
    return over_links(op, members);
  }

  /// Lists: rank 0 reads the size and then the list of every rank, one after the other. Bits: two reductions
  /// along a tree of the nodes, for all gradients at once, so that only what is awaited waits for them.
  double agreement(bool awaited) const override {
    using Agreement = Overheads::Agreement;
    const Cluster& cluster = input().cluster;
    if (cluster.nodes == 1) return 0;
    const auto tree = static_cast<double>(std::bit_width(static_cast<uint64_t>(cluster.nodes - 1)));
    const double messages = overheads().agreement == Agreement::lists  ? 2 * devices()
                            : overheads().agreement == Agreement::bits ? (awaited ? 4 * tree : 0)
                                                                       : 0;
    return messages * control_message(*input().system);
  }

  /// Hosts issue what GPUs compute. CPUs issue to themselves, TPUs run whole graphs.
  bool host_issues(VertexId at, Site site) const override {
    return !measured_ && site == Site::accelerators && input().system->device(at).kind == Device::Kind::gpu;
  }

 private:
  /// Servers on hosts are described all the same.
  bool measured(VertexId at) const {
    return measured_ && input().system->device(at).kind == Device::Kind::gpu;
  }
  double under_limit(const Kernel& kernel, VertexId at) {
    return clocks_.slowdown(kernel, at, [&](const Kernel& k, VertexId v) { return kernel_seconds(k, v); });
  }
  double kernel_seconds(const Kernel& kernel, VertexId at, double* distance = nullptr) {
    if (!measured(at)) return kernel_cost(at).seconds(kernel);
    double far = 0;
    const OtherChip* other = other_chip(at);
    const double seconds =
        measured_->seconds(kernel, 1, step_, &far) * (other == nullptr ? 1 : other->ratio(kernel));
    if (far >= KernelNeighbours::kFar) note_far(kernel, extrapolates_);
    if (distance != nullptr) *distance = far;
    return seconds;
  }

  /// Null: kernels take what they took on the measured GPU.
  const OtherChip* other_chip(VertexId v) {
    const Device& here = input().system->device(v);
    const int32_t model = input().system->info(v).device;
    const auto found = others_.find(model);
    if (found != others_.end()) return found->second ? &*found->second : nullptr;
    std::optional<OtherChip>& other = others_[model];
    if (measured_device_.empty()) {
      const std::vector<std::string> words = lower_words(here.name),
                                     number = lower_words(model_number(measured_->machine()));
      if (std::search(words.begin(), words.end(), number.begin(), number.end()) == words.end())
        extrapolates_.push_back(fmt::format("kernels take what they took on the measured {}, not on {}",
                                            model_number(measured_->machine()), here.name));
      return nullptr;
    }
    const Device there = Device::load(measured_device_);
    const Precision format = measured_->origin().format, wanted = input().job.precision;
    if (same_prices(there, here) && format == wanted) return nullptr;
    other.emplace(there, format, here, wanted);
    extrapolates_.insert(extrapolates_.end(), other->extrapolates().begin(), other->extrapolates().end());
    if (format != wanted)
      extrapolates_.push_back(
          fmt::format("kernels were measured in {} on {}; in {} on {} their times are scaled by the stock "
                      "curves of both",
                      name(format), there.name, name(wanted), here.name));
    else
      extrapolates_.push_back(fmt::format(
          "kernels were measured on {}; for {} their times are scaled by the stock curves of both",
          there.name, here.name));
    return &*other;
  }

  const KernelCost& kernel_cost(VertexId v) {
    const CostInput& in = input();
    const int32_t model = in.system->info(v).device;
    auto found = kernels_.find(model);
    if (found == kernels_.end()) {
      const Device device = without_comm_cores(in.system->device(v), program().comm_cores);
      found =
          kernels_
              .emplace(model, KernelCost(device, in.job.precision, measured_ ? "stock" : in.profile, recipe_))
              .first;
      const auto& notes = found->second.extrapolates();
      extrapolates_.insert(extrapolates_.end(), notes.begin(), notes.end());
    }
    return found->second;
  }

  double task_seconds(const Task& task, VertexId v, bool worker) {
    const Overheads& o = overheads();
    const CostInput& in = input();
    if (copies_module(task)) {
      return o.replicate.seconds() * static_cast<double>(in.job.graph->layers().size()) * devices() /
             in.speeds.launch;
    }
    double seconds = measured(v) ? measured_->op_overhead() / in.speeds.launch : 0;
    const double stall = in.job.precision == Precision::fp16 ? 1 + o.norm_stall * std::log2(devices()) : 1;
    for (const Kernel& k : task.kernels) {
      seconds +=
          kernel_seconds(k, v) * under_limit(k, v) * (worker && k.kind == KernelKind::norm ? stall : 1);
    }
    if (!worker) return seconds / in.speeds.server;
    if (issued_late(task) && host_issues(v, Site::accelerators))
      seconds = std::max(seconds, issue_seconds(task, v) / in.compute_scale);
    return seconds * compute_scale() * (devices() > 1 ? 1 + o.compute_slowdown : 1);
  }

  static bool counts(const Task& task) {
    return std::any_of(task.kernels.begin(), task.kernels.end(), [](const Kernel& k) { return k.counts; });
  }

  /// The host takes a step's samples from the loader before it issues its work, and reads how many tokens
  /// each expert gets.
  bool awaits(const Op& op, uint32_t micro) const {
    if (op.kind == OpKind::copy) return micro == 0 && program().copies[op.what].kind == CopyKind::input;
    return launched(op) && recipe_.host.awaits_counts && counts(program().tasks[op.what]);
  }

  /// An update that the host issues when its gradients are summed: nothing hides that.
  bool issued_late(const Task& task) const {
    return task.pass == Pass::update && recipe_.host.awaits_sums && input().cluster.devices > 1;
  }

  /// What the host does before the first work of each micro-batch.
  Time begin_micro_batch(const Op& op, uint32_t micro, std::vector<bool>& begun, VertexId at) {
    if (program().tasks[op.what].pass == Pass::update) return {};
    if (begun.size() <= micro) begun.resize(micro + 1U);
    if (begun[micro]) return {};
    begun[micro] = true;
    return Time::from_seconds(host_seconds(recipe_.host.micro_batch, at));
  }

  /// Of an op, averaged over the iterations; `known`: of tasks, or -1.
  Time issued_by(const Op& op, std::vector<Time>& known, VertexId at) {
    double seconds = 0;
    if (launched(op)) {
      const Task& task = program().tasks[op.what];
      if (op.every == 1 && known[op.what].ps >= 0) return known[op.what];
      if (!copies_module(task) && !issued_late(task)) seconds = issue_seconds(task, at) / op.every;
      const Time time = Time::from_seconds(seconds);
      if (op.every == 1) known[op.what] = time;
      return time;
    }
    if (op.kind == OpKind::collective) seconds = host_seconds(recipe_.host.collective, at) / op.every;
    if (op.kind == OpKind::recv && !of_layers(op.payload)) seconds = unpack_seconds(at) / op.every;
    return Time::from_seconds(seconds);
  }

  /// What the host takes to issue a task of a GPU; an anchor scales what one device shows of it. Where one
  /// process drives all devices, forward holds the interpreter's lock, device after device; backward has a
  /// thread per device that needs none, but what it adds to gradients of other readers takes memory from the
  /// one allocator of the process.
  double issue_seconds(const Task& task, VertexId at) {
    const CostInput& in = input();
    double seconds = issue_time(recipe_, task, in.job.precision, *in.job.optimizer).seconds() +
                     recipe_.host.shard.seconds() * static_cast<double>(parts(task));
    const double driven = overheads().single_process ? devices() : 1;
    if (task.pass == Pass::forward) seconds *= driven;
    if (issued_late(task) && overheads().one_launcher) seconds *= static_cast<double>(in.cluster.per_node);
    if (task.pass == Pass::backward_weights)
      seconds += kPlainOp * (driven - 1) * static_cast<double>(summed(task));
    return host_seconds(Time::from_seconds(seconds), at);
  }

  /// Parts of tensors that are gathered after an update.
  int64_t parts(const Task& task) const {
    const Sharding& cut = program().sharding;
    if (task.pass != Pass::update || cut.state == 1 || cut.parameters > 1) return 0;
    int64_t tensors = 0;
    for (const Kernel& k : task.kernels) tensors += k.pass == Pass::update ? k.repeat : 0;
    return tensors * cut.state;
  }

  double core_speed(VertexId at) const {
    const System& system = *input().system;
    return system.host(system.kind_of(at)).core_speed;
  }

  /// On the cores of the node of `at`.
  double host_seconds(Time of_speed_1, VertexId at) const {
    const CostInput& in = input();
    return of_speed_1.seconds() * in.compute_scale / (core_speed(at) * in.speeds.launch);
  }

  /// What comes back from servers is copied into the layers' tensors, an operation each, as an update
  /// without state. Of one reply.
  double unpack_seconds(VertexId at) const {
    const CostInput& in = input();
    std::size_t tensors = 0;
    for (const Layer& layer : in.job.graph->layers()) tensors += layer.parameters.size();
    const double each =
        recipe_.host.update[0].seconds() * in.compute_scale / (core_speed(at) * in.speeds.launch);
    return each * static_cast<double>(tensors) /
           static_cast<double>(std::max<std::size_t>(1, program().buckets.size()));
  }

  /// Gradients that the layers of `task` add to those of other readers: each input of a layer but the first
  /// gets one. A concat of a concat is one concat of all pieces, as frameworks are given it.
  int64_t summed(const Task& task) {
    const auto& layers = input().job.graph->layers();
    if (pieces_.empty()) {
      for (const Layer& layer : layers) {
        int64_t pieces = 0;
        const bool joins = layer.type != nullptr && layer.type->name == "concat";
        for (const uint32_t in : layer.inputs) {
          const Layer& from = layers[in];
          pieces += joins && from.type == layer.type ? pieces_[in] : 1;
        }
        pieces_.push_back(pieces);
      }
    }
    int64_t sum = 0;
    for (uint32_t l = task.layer; l < task.layer + task.layers; ++l)
      sum += std::max<int64_t>(pieces_[l] - 1, 0);
    return sum;
  }

  Recipe recipe_;
  std::shared_ptr<const MachineProfile> measured_;  ///< null: kernels are described
  Bytes step_;                                      ///< moved_in_step()
  LimitedClocks clocks_{program(), *input().system, input().job.precision};
  Transfer free_ = nothing();
  std::map<int32_t, KernelCost> kernels_;               ///< by device model
  std::string measured_device_;                         ///< in topologies/devices; "": not known
  std::map<int32_t, std::optional<OtherChip>> others_;  ///< by device model
  std::vector<std::string> extrapolates_;
  std::vector<int64_t> pieces_;  ///< per layer: how many gradients its backward makes
};

}  // namespace

std::shared_ptr<Costs> stock_costs(const CostInput& input, std::shared_ptr<const MachineProfile> measured) {
  return std::make_shared<StockCosts>(input, std::move(measured));
}

}  // namespace tandem::sim
