// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/averages.h"

#include <algorithm>

#include "exec/device/averaging.h"

namespace tandem::exec {

Needs Averages::needs(const Asked& a) {
  return {{kept_state(a.program, a.stages, a.worker).elements() * averaging_vectors(a.program),
           &MemoryUse::optimizer}};
}

Averages::Averages(const Workplace& place)
    : UpdateHandler(place), averaging_(place.bench.allocate(needs(place.bench.asked())[0])) {
  start();
}

/// The anchor starts at the start values and the velocity at 0, unless there is a checkpoint.
void Averages::start() {
  if (averaging_vectors(plan_.program()) == 0) return;
  const std::vector<float>& from =
      run_.start().averaging.empty() ? run_.start().parameters : run_.start().averaging;
  std::vector<float> own;
  take_mapped(plan_.stages().parameter_map(instance_), from, plan_.execution_graph().parameters(), own,
              graph().parameters());
  const std::vector<float> kept = memory_.kept_state().take(own, graph().parameters());
  device_->upload(averaging_, kept.data(), static_cast<int64_t>(kept.size()));
}

std::vector<float> Averages::now() const {
  const int64_t words = memory_.kept_state().elements() * averaging_vectors(plan_.program());
  return memory_.kept_state().give(memory_.read(averaging_, words), graph().parameters());
}

/// The mean is where the parameters were averaged, or in separate memory if these stay.
OpHandler::Act Averages::bind(uint32_t index) {
  const Op& op = role().ops[index];
  const Slice part = updated(index);
  if (part.elements == 0) return nothing();
  const Averaging& rule = plan_.program().tasks[op.what].averaging;
  const auto& ops = role().ops;
  const bool beside = std::any_of(ops.begin(), ops.end(),
                                  [&](const Op& o) { return o.payload == Payload::mean && o.key == op.key; });
  Call call = average_call(rule, part.elements);
  call.kernels = plan_.program().tasks[op.what].kernels;
  Launch l;
  l.prepared = device_->prepare(call);
  l.time = driver_->timed(call);
  float *const x = own_parameters(part.first), *const anchor = averaging_ + memory_.kept_state().of(
                                                                                part.first, part.elements);
  l.operands = {{x, beside ? memory_.gradients() + part.first : x, anchor}};
  if (averaging_vectors(plan_.program()) > 1)
    l.operands[0].push_back(anchor + memory_.kept_state().elements());
  return [this, list = std::vector<Launch>{l}, copies = copied(part)](int32_t iteration) {
    driver_->launch(list, 0, plan_.state(instance_, iteration));
    renew(copies, Lane::compute);
    return int64_t{0};
  };
}

}  // namespace tandem::exec
