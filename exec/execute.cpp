// SPDX-License-Identifier: Apache-2.0
#include "exec/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <latch>
#include <thread>

#include "base/random.h"
#include "exec/comm/ranks.h"
#include "exec/data/loader.h"
#include "exec/results/power.h"
#include "exec/results/summary.h"
#include "exec/run/executable.h"
#include "exec/workers/memory.h"

namespace tandem::exec {

namespace {

std::string failure_text(const std::exception_ptr& why, uint32_t worker, Lane lane) {
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& error) {
    return fmt::format("worker {}, lane {}: {}", worker, name(lane), error.what());
  } catch (...) {
    return fmt::format("worker {}, lane {}: failed", worker, name(lane));
  }
}

/// Runs every lane of every worker in a thread of its own and waits for all.
class Threads {
 public:
  explicit Threads(Run& run) : run_(run) {}

  void run(std::vector<std::unique_ptr<Worker>>& workers) {
    std::ptrdiff_t lanes = 0;
    for (const auto& w : workers) {
      for (int l = 0; l < kLanes; ++l) lanes += w->needs_thread(static_cast<Lane>(l)) ? 1 : 0;
    }
    ready_ = std::make_unique<std::latch>(lanes);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      for (int l = 0; l < kLanes; ++l) {
        const auto lane = static_cast<Lane>(l);
        if (workers[i]->needs_thread(lane))
          start(*workers[i], run_.plan().first_here() + static_cast<uint32_t>(i), lane);
      }
    }
    for (std::thread& t : threads_) t.join();
    if (StoreLinks* const links = run_.links()) {
      if (!run_.abort().failed()) meet_ranks();  // others may still push to servers of this process
      links->stop();                             // a reply that nobody waited for
    }
    if (const auto why = run_.abort().why()) {
      run_.network().stop();  // it may still write to the workers' buffers
      for (const auto& w : workers) w->drain();
      std::rethrow_exception(why);
    }
  }

 private:
  /// A thread that the system refuses fails the run like a worker that fails.
  void start(Worker& worker, uint32_t index, Lane lane) {
    try {
      threads_.emplace_back([this, &worker, index, lane] { serve(worker, index, lane); });
    } catch (const std::exception&) {
      run_.abort().fail(std::make_exception_ptr(
          DeviceError(failure_text(std::current_exception(), index, lane) + " (no thread for it)")));
      ready_->count_down();
    }
  }

  void serve(Worker& worker, uint32_t index, Lane lane) {
    bool arrived = false;
    try {
      run_.cores().bind(index, lane);
      if (lane == Lane::compute) worker.open();
      arrived = true;
      ready_->arrive_and_wait();
      run_.abort().check();
      worker.run(lane);
    } catch (const Stopped&) {
    } catch (const InputError&) {
      run_.abort().fail(std::current_exception());
    } catch (...) {
      const auto why = std::current_exception();
      run_.abort().fail(std::make_exception_ptr(DeviceError(failure_text(why, index, lane))));
    }
    if (arrived && run_.abort().failed()) run_.communicators().stop_library();
    if (!arrived) ready_->count_down();
  }

  Run& run_;
  std::unique_ptr<std::latch> ready_;
  std::vector<std::thread> threads_;
};

}  // namespace

double accuracy(const Graph& graph, const Backend& backend, const Dataset& data,
                const ExecutionResult& trained) {
  const ExecutionGraph n(graph, data.samples(), false);
  const auto device = backend.open({0, Precision::fp32, 1});
  float* inputs = device->allocate(n.input_elements());
  float* arena = device->allocate(n.arena());
  float *learned = device->allocate(n.parameters()), *frozen = device->allocate(n.frozen_words());
  device->upload(learned, trained.parameters.data(), n.parameters());
  device->upload(frozen, n.stored(trained.frozen).data(), n.frozen_words());
  device->upload(inputs + n.tensors()[n.inputs()[0]].offset, data.values.data(),
                 static_cast<int64_t>(data.values.size()));
  const float* buffer = trained.buffers.data();
  for (const Tensor& t : n.tensors()) {
    if (t.kind != TensorKind::buffer) continue;
    device->upload(arena + t.offset, buffer, t.elements);
    buffer += t.elements;
  }
  for (uint32_t layer = 0; layer < graph.layers().size(); ++layer) {
    for (const Call& c : n.forward(layer)) {
      if (c.function == Function::cross_entropy) continue;
      std::vector<float*> operands;
      for (const TensorId id : c.operands) {
        const Tensor& t = n.tensors()[id];
        operands.push_back((t.kind == TensorKind::input       ? inputs
                            : t.kind == TensorKind::parameter ? learned
                            : t.kind == TensorKind::frozen    ? frozen
                                                              : arena) +
                           t.offset);
      }
      device->launch(device->prepare(c), operands, {}, Lane::compute);
    }
  }
  device->synchronize(Lane::compute);
  std::vector<float> logits(static_cast<std::size_t>(n.tensors()[n.logits()].elements));
  device->download(logits.data(), arena + n.tensors()[n.logits()].offset,
                   static_cast<int64_t>(logits.size()));
  const auto classes = static_cast<int64_t>(logits.size()) / data.samples();
  int64_t right = 0;
  for (int64_t i = 0; i < data.samples(); ++i) {
    const auto row = logits.begin() + i * classes;
    right += std::max_element(row, row + classes) - row == data.labels[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(data.samples());
}

namespace {

/// The loss must be over single classes, enough for all of the data set.
template <typename Fail>
void check_labels(const ExecutionGraph& n, int64_t classes, const Fail& fail) {
  if (n.labels().size() != 1) fail("it needs exactly one loss with labels");
  const Tensor& label = n.tensors()[n.labels()[0]];
  if (!label.integer || label.elements != n.batch()) fail("its loss is not one class a sample");
  if (n.values(n.labels()[0]) < classes) fail(fmt::format("it has {} classes", n.values(n.labels()[0])));
}

/// A data set must fit the model: one input of its size.
void check_data(const ExecutionGraph& n, const Dataset& data) {
  const int64_t size = elements(data.shape);
  const auto fail = [&](const std::string& why) {
    throw InputError(fmt::format("data set {} ({} values a sample, {} classes) does not fit {}: {}",
                                 data.name, size, data.classes, n.graph().name(), why));
  };
  if (n.inputs().size() != 1) fail("it has more than one input");
  const Tensor& in = n.tensors()[n.inputs()[0]];
  if (in.integer) fail("it takes tokens");
  if (in.elements / n.batch() != size) fail(fmt::format("its input has {} values", in.elements / n.batch()));
  check_labels(n, data.classes, fail);
}

void check_stored(const ExecutionGraph& n, const StoredImages& stored) {
  image_shape(n);
  check_labels(n, stored.classes(), [&](const std::string& why) {
    throw InputError(fmt::format("{} ({} classes) does not fit {}: {}", printable(stored.path()),
                                 stored.classes(), n.graph().name(), why));
  });
}

}  // namespace

void check_cores(const Execution& e) {
  if (!e.backend->on_processors) return;
  const int32_t comm_cores = make_program(e).comm_cores;
  const auto here = static_cast<uint32_t>(std::max<int64_t>(1, e.cluster.devices / ranks().size));
  if (comm_cores > 0) assign_cores(e.available_processors(), {e.bind, here, e.threads, comm_cores});
}

ExecutionResult execute(const Execution& execution, const Keep& keep) {
  const std::string missing = execution.backend->missing();
  if (!missing.empty()) throw DeviceError(fmt::format("backend {}: {}", execution.backend->name, missing));
  if (execution.iterations < 1)
    throw InputError(fmt::format("{} iterations: at least 1 is needed", execution.iterations));
  if (execution.cluster.devices > 1024)
    throw InputError("at most 1024 workers can be executed on one machine");
  if (execution.job.batch < 1)
    throw InputError(fmt::format("a batch of {} samples: at least 1 is needed", execution.job.batch));
  if (execution.backend->asynchronous && !execution.throttle.empty())
    throw InputError(fmt::format("backend {}: its workers cannot be throttled", execution.backend->name));
  const RunPlan plan(execution, keep);
  check_executable(plan);
  check_memory(execution, keep, plan.program(), plan.stages(), plan.first_here(), plan.here());
  Run run(plan);
  if (execution.data != nullptr) check_data(plan.execution_graph(), *execution.data);
  if (execution.stored != nullptr) check_stored(plan.execution_graph(), *execution.stored);
  if (execution.tokens != nullptr)
    TANDEM_CHECK(execution.tokens->sequence() == token_sequence(*execution.job.graph));
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < plan.here(); ++i)
    workers.push_back(std::make_unique<Worker>(run, plan.first_here() + i));
  const std::unique_ptr<Meter> meter = meter_of(plan);
  Threads(run).run(workers);
  if (meter) meter->stop();
  if (run.server() != nullptr) run.server()->fetch();
  return summarise(run, workers, meter.get());
}

}  // namespace tandem::exec
