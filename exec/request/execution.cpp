// SPDX-License-Identifier: Apache-2.0
#include "exec/request/execution.h"

#include "base/random.h"
#include "schemes/setup/uneven_batches.h"

namespace tandem::exec {

namespace {

/// No coordinator decides what a device's queues sum: buckets are the scheme's own.
ResolvedScheme without_cycle(const ResolvedScheme& scheme) {
  auto settings = scheme.options.all();
  for (auto& [key, value] : settings) {
    if (key == "cycle") value = "0s";
  }
  ResolvedScheme out = scheme;
  out.options = Options(scheme.scheme->options, settings, scheme.name, {});
  out.overheads.cycle = {};
  return out;
}

}  // namespace

Program make_program(const Execution& e) {
  Job job = e.job;
  std::optional<ResolvedScheme> scheme;
  if (e.backend != nullptr && e.backend->asynchronous && job.scheme->overheads.cycle.ps > 0)
    job.scheme = &scheme.emplace(without_cycle(*job.scheme));
  job.input = e.loads();
  job.loading.decoded = e.stored == nullptr;
  if (e.stored != nullptr && !job.loading.data) job.loading.data = e.stored->describe();
  return compile(job, e.cluster);
}

const Execution& executable(const Execution& e) {
  if (e.job.offload.activations)
    throw InputError(
        "activations are offloaded only in predictions; a run offloads optimizer, gradients and parameters");
  if (e.stored != nullptr && e.job.loading.on_device)
    throw InputError("a device decodes only in predictions; a run decodes on the host");
  check_batches(e.job, e.cluster.devices);
  return e;
}

int integer_gradient(uint32_t worker, uint32_t iteration, int64_t element) {
  return static_cast<int>(draw_bits(0x9a4dULL, worker, iteration, static_cast<uint64_t>(element)) % 16) - 8;
}

}  // namespace tandem::exec
