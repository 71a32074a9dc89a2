// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/events.h"

#include "sim/evaluate/event_engine.h"

namespace tandem::sim {

Trace run_events(const BoundProgram& plan, const EvaluateOptions& options) {
  return EventEngine(plan, options).run();
}

}  // namespace tandem::sim
