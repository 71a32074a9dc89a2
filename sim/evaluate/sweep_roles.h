// SPDX-License-Identifier: Apache-2.0
#pragma once
// The loop that the two sweeps share. Internal to them.
#include <algorithm>
#include <deque>
#include <string>

#include "sim/evaluate/recorder.h"

namespace tandem::sim {

/// Ops that go on at the same time cannot be swept in the order of their lists; nothing else is wrong. For
/// one thread at a time.
class OutOfOrder : public ProgramError {
  using ProgramError::ProgramError;
};

/// Sweeps all roles round robin, each as far as it gets without a message that is not sent yet. A `Sweep` is
/// made of (plan, role, options, recorder, mail) and has advance(), done() and count_transfers(); `mail` is
/// what they have in common. Throws ProgramError where the program is not static, and OutOfOrder.
template <typename Sweep, typename Mail>
Trace sweep_roles(const BoundProgram& plan, const EvaluateOptions& options, std::string evaluator,
                  Mail& mail) {
  if (!is_static(*plan.program)) throw ProgramError("only static programs can be swept");
  Trace trace;
  trace.evaluator = std::move(evaluator);
  Recorder recorder(plan, options, trace);
  std::deque<Sweep> roles;
  for (uint32_t r = 0; r < plan.program->roles.size(); ++r)
    roles.emplace_back(plan, r, options, recorder, mail);
  for (bool moved = true; moved;) {
    moved = false;
    for (Sweep& role : roles) moved = role.advance() || moved;
  }
  if (!std::all_of(roles.begin(), roles.end(), [](const Sweep& role) { return role.done(); }))
    throw OutOfOrder("messages pass each other, so that ops cannot be taken in the order of their lists");
  for (Sweep& role : roles) role.count_transfers();
  recorder.finish();
  return trace;
}

}  // namespace tandem::sim
