// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens travelling between devices that hold different experts, or a part of each: collectives whose parts
// have the lengths that the router decides. Counts are sent first, then the tokens, in separate messages.
// Internal to exec.
#include "exec/workers/handler.h"
#include "exec/workers/pass_plan.h"

namespace tandem::exec {

/// Its ops run on the threads of its collectives' lanes.
class Tokens : public OpHandler {
 public:
  Tokens(const Workplace& place, const PassPlan& plan) : OpHandler(place), pass_plan_(plan) {}
  Act bind(uint32_t index) override;

 private:
  const PassPlan& pass_plan_;
};

}  // namespace tandem::exec
