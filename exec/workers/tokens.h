// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens on their way between devices that hold different experts, or a part of each: collectives whose parts
// are as long as the router made them. Counts go first, then the tokens, in messages of their own. Internal
// to exec.
#include "exec/workers/handler.h"
#include "exec/workers/pass_plan.h"

namespace tandem::exec {

/// What it binds runs on the threads of its collectives' lanes.
class Tokens : public OpHandler {
 public:
  Tokens(const Workplace& place, const PassPlan& plan) : OpHandler(place), plan_(plan) {}
  Act bind(uint32_t index) override;

 private:
  const PassPlan& plan_;
};

}  // namespace tandem::exec
