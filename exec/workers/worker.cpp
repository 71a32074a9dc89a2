// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/worker.h"

#include "exec/device/throttled.h"
#include "exec/run/stream_driver.h"
#include "exec/workers/averages.h"
#include "exec/workers/collectives.h"
#include "exec/workers/offload.h"
#include "exec/workers/passes.h"
#include "exec/workers/stage_messages.h"
#include "exec/workers/store_messages.h"
#include "exec/workers/tokens.h"

namespace tandem::exec {

/// In the order of construction: each uses those before it.
struct Worker::Handlers {
  explicit Handlers(Bench& bench)
      : memory(bench),
        copies(bench, memory),
        place{bench, memory, copies},
        pass_plan(bench.plan.program(), bench.plan.stages(), bench.instance),
        sums(bench, memory),
        input(place),
        passes(place, pass_plan, sums, input),
        updates(place),
        averages(place),
        offload(place),
        half(place),
        compression(place, pass_plan),
        collectives(place, {pass_plan, sums, half, compression, updates}),
        tokens(place, pass_plan),
        stage_messages(place),
        store_messages(place, averages, compression) {}

  /// The handler of the op; null: nothing to do.
  OpHandler* of(const RunPlan& plan, const Op& op) {
    switch (op.kind) {
      case OpKind::compute:
        return of_compute(plan, op);
      case OpKind::copy:
        if (op.lane == Lane::offload || op.lane == Lane::reload) return &offload;
        // Gradients in transit are copied by their senders.
        return of_input(plan.program().copies[op.what].kind) ? &input : nullptr;
      case OpKind::collective:
        if (plan.carries_tokens(op)) return &tokens;
        return &collectives;
      case OpKind::send:
      case OpKind::recv:
        if (of_layers(op.payload)) return &stage_messages;
        return &store_messages;
      default:
        throw InputError("workers neither apply nor gate");
    }
  }
  OpHandler* of_compute(const RunPlan& plan, const Op& op) {
    const bool updates_parameters = op.payload == Payload::parameters || op.payload == Payload::shard;
    const bool travels = op.payload == Payload::gradients || op.payload == Payload::compressed;
    if (op.lane == Lane::host && (updates_parameters || op.payload == Payload::gradients)) return &offload;
    if (travels && !plan.program().stores.empty()) return &compression;
    if (travels) return plan.compresses() ? static_cast<OpHandler*>(&compression) : &half;
    if (!updates_parameters) return &passes;
    const bool averages_them = plan.program().tasks[op.what].averaging.rule != Averaging::Rule::none;
    return averages_them ? static_cast<OpHandler*>(&averages) : &updates;
  }

  ModelMemory memory;
  ParameterCopies copies;
  Workplace place;
  PassPlan pass_plan;
  GradientSums sums;
  Input input;
  Passes passes;
  Updates updates;
  Averages averages;
  Offload offload;
  HalfFormats half;
  GradientCompression compression;
  Collectives collectives;
  Tokens tokens;
  StageMessages stage_messages;
  StoreMessages store_messages;
};

Worker::Worker(Run& run, uint32_t instance) : bench_(run, instance) {
  bench_.bytes.resize(run.plan().role(instance).ops.size());
}

Worker::~Worker() = default;

bool Worker::needs_thread(Lane lane) const {
  return exec::needs_thread(*bench_.plan.execution().backend, bench_.lanes, lane);
}

void Worker::open() {
  const RunPlan& plan = bench_.plan;
  const Execution& e = plan.execution();
  bench_.device =
      e.backend->open({plan.device_index(bench_.instance), e.job.precision, e.threads, true, e.route});
  for (const auto& [worker, factor] : e.throttle) {
    if (worker == bench_.instance) bench_.device = throttled(std::move(bench_.device), factor);
  }
  bench_.driver = make_lane_driver({bench_.run, bench_.instance, bench_.lanes, *bench_.device});
  handlers_ = std::make_unique<Handlers>(bench_);
  for (int l = 0; l < kLanes; ++l) {
    for (LaneOp& op : bench_.lanes[static_cast<Lane>(l)].ops) {
      OpHandler* const handler = handlers_->of(plan, plan.role(bench_.instance).ops[op.op]);
      op.act = handler != nullptr ? handler->bind(op.op) : OpHandler::nothing();
    }
  }
  handlers_->collectives.coordinate();
}

void Worker::run(Lane lane) {
  if (lane == Lane::compute) handlers_->collectives.join_groups();
  if (lane != Lane::compute) bench_.device->join();
  bench_.driver->run(lane);
  if (lane == Lane::compute && bench_.plan.keep().calls) handlers_->collectives.ask_library();
}

void Worker::drain() noexcept {
  for (int l = 0; bench_.device && l < kLanes; ++l) {
    try {
      bench_.device->synchronize(static_cast<Lane>(l));
    } catch (const std::exception&) {  // an earlier failure is reported
    }
  }
}

double Worker::estimate(uint32_t op) const { return handlers_->collectives.estimate(op); }
double Worker::in_row(uint32_t op) const { return handlers_->collectives.in_row(op); }
std::vector<float> Worker::parameters() const { return handlers_->memory.parameters_now(); }
std::vector<float> Worker::state() const { return handlers_->memory.state_now(); }
std::vector<float> Worker::averaging() const { return handlers_->averages.now(); }
const std::vector<GradientNorms>& Worker::norms() const { return handlers_->collectives.norms(); }

std::vector<float> Worker::values(TensorId t) const {
  const ExecutionGraph& graph = bench_.plan.stages().lowered(bench_.instance);
  return handlers_->memory.read(handlers_->memory.tensor(t), graph.tensors()[t].elements);
}

std::vector<GradientNorms> mean_norms(const std::vector<std::unique_ptr<Worker>>& workers,
                                      std::size_t first) {
  std::vector<GradientNorms> out;
  for (std::size_t step = first; step < workers[0]->norms().size(); ++step) {
    GradientNorms mean;
    for (const auto& w : workers) {
      mean.small += w->norms()[step].small / static_cast<double>(workers.size());
      mean.big += w->norms()[step].big / static_cast<double>(workers.size());
    }
    out.push_back(mean);
  }
  return out;
}

}  // namespace tandem::exec
