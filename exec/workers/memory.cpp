// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/memory.h"

#include <fmt/format.h>

#include "exec/comm/ranks.h"
#include "exec/workers/averages.h"
#include "exec/workers/collectives.h"
#include "exec/workers/offload.h"
#include "exec/workers/passes.h"
#include "exec/workers/stage_messages.h"
#include "schemes/step/compression.h"

namespace tandem::exec {

namespace {

/// The classes that allocate for a worker.
constexpr Needs (*kNeeds[])(const Asked&) = {
    &ModelMemory::needs, &ParameterCopies::needs, &GradientSums::needs,
    &Input::needs,       &Updates::needs,         &Averages::needs,
    &Offload::needs,     &HalfFormats::needs,     &GradientCompression::needs,
    &Collectives::needs, &StageMessages::needs};

Bytes words_of(int64_t count) { return Bytes{4} * count; }

}  // namespace

MemoryUse worker_memory(const Execution& e, const Program& program, const Stages& stages, uint32_t worker) {
  const Asked asked{e, program, stages, worker};
  MemoryUse m;
  for (const auto needs : kNeeds) {
    for (const Need& need : needs(asked)) {
      for (const Need::Part& part : need.parts) m.*part.use += part.bytes;
    }
  }
  return m;
}

Bytes host_memory(const Execution& e, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers) {
  const Bytes whole = words_of(stages.whole().parameters()),
              state = words_of(OptimizerState(*e.job.optimizer, stages.whole()).words()),
              frozen = words_of(stages.whole().frozen_elements()),
              exchanged = whole * vectors_of_stores(program, *e.job.optimizer);
  Bytes sum = whole + state + frozen;  // start values
  for (uint32_t w = first; w < first + workers; ++w) {
    const MemoryUse m = worker_memory(e, program, stages, w);
    if (!e.backend->asynchronous) sum += m.total();
    sum += m.host;
    if (e.backend->asynchronous && !program.stores.empty()) sum += exchanged * 2;  // to and from the servers
  }
  // With the state, the servers' start is a separate vector.
  if (exchanged > whole) sum += exchanged;
  if (!program.stores.empty()) sum += exchanged * (program.stores[0].batch > 1 ? 2 : 1);
  // Models that others can reach, room for all in each process, and per worker the one that it sent and the
  // one that came back.
  if (!program.stores.empty() && program.stores[0].own_models)
    sum += whole * (program.roles[0].mesh.size() - 1 + 2 * int64_t{workers});
  // Compressed pushes: for each shard the gradient, and from devices the messages.
  if (!program.stores.empty() && program.compression.kind != Compression::Kind::none) {
    sum += whole;
    if (e.backend->asynchronous)
      sum += words_of(compressed_words(program, 0, stages.whole().graph())) * int64_t{workers};
  }
  // Without a lock: what each worker read and what it moved, and its optimiser state.
  if (!program.stores.empty() && !program.stores[0].locked) sum += (whole * 2 + state) * int64_t{workers};
  if (keep.parameters) sum += (whole + state) * 2 + frozen;  // the result, and one worker's copy in transit
  return sum;
}

namespace {

/// A device's memory is separate from the host's.
void check_devices(const Execution& e, const Program& program, const Stages& stages, uint32_t first,
                   uint32_t workers) {
  for (uint32_t w = 0; w < workers; ++w) {
    const std::optional<Bytes> there = device_memory(e, w, workers);
    if (!there) return;
    const MemoryUse m = worker_memory(e, program, stages, first + w);
    if (m.total() <= *there) continue;
    throw InputError(fmt::format(
        "worker {} of {} with batch {} needs {}, of which its device has {} for it: parameters, "
        "gradients and "
        "optimiser {}, activations {}, inputs and collectives {}; a smaller batch{} may fit",
        w, e.job.graph->name(), e.job.batch, to_text(m.total()), to_text(*there),
        to_text(m.parameters + m.gradients + m.optimizer), to_text(m.activations),
        to_text(m.buffers + m.workspace),
        element_bytes(e.job.precision) == 4 ? ", --precision bf16, --recompute blocks or --offload optimizer"
                                            : ", --recompute blocks or --offload optimizer"));
  }
}

}  // namespace

void check_memory(const Execution& e, const Keep& keep, const Program& program, const Stages& stages,
                  uint32_t first, uint32_t workers) {
  check_devices(e, program, stages, first, workers);
  const AvailableMemory available = available_memory();
  const Bytes needed = host_memory(e, keep, program, stages, first, workers);
  if (needed <= available.bytes) return;
  const MemoryUse m = worker_memory(e, program, stages, first);
  uint32_t fit = workers - 1;
  while (fit > 0 && host_memory(e, keep, program, stages, first, fit) > available.bytes) --fit;
  throw InputError(fmt::format(
      "{} worker{} of {} with batch {} need{} {}{}, of which this machine has {} ({}): each "
      "holds parameters, gradients and optimiser {}, activations {}, inputs and collectives {}; {}",
      workers, workers == 1 ? "" : "s", e.job.graph->name(), e.job.batch, workers == 1 ? "s" : "",
      to_text(needed), workers == 1 ? "" : " together", to_text(available.bytes), available.limit,
      to_text(m.parameters + m.gradients + m.optimizer), to_text(m.activations),
      to_text(m.buffers + m.workspace),
      fit > 0 && !stages.split() ? fmt::format("{} would fit", fit)
                                 : std::string("a smaller batch may fit")));
}

void check_memory(const Execution& e, const Keep& keep) {
  const Program program = make_program(executable(e));
  const Stages stages(e, program);
  const uint32_t workers = stages.devices();
  check_memory(e, keep, program, stages, 0, workers == 1 ? 1 : workers / static_cast<uint32_t>(ranks().size));
}

}  // namespace tandem::exec
