// SPDX-License-Identifier: Apache-2.0
#include "exec/run/execution.h"

#include "base/random.h"

namespace tandem::exec {

Program make_program(const Execution& e) {
  Job job = e.job;
  job.input = e.data != nullptr;
  return compile(job, e.cluster);
}

const Execution& executable(const Execution& e) {
  if (e.job.offload.activations)
    throw InputError(
        "activations are offloaded in predictions alone; a run offloads optimizer, gradients and parameters");
  return e;
}

int integer_gradient(uint32_t worker, uint32_t iteration, int64_t element) {
  return static_cast<int>(draw_bits(0x9a4dULL, worker, iteration, static_cast<uint64_t>(element)) % 16) - 8;
}

}  // namespace tandem::exec
