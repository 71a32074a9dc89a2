// SPDX-License-Identifier: Apache-2.0
#include "exec/run/lanes.h"

#include "exec/run/memory.h"

namespace tandem::exec {

Lanes::Lanes(Run& run) {
  for (LaneState& lane : lanes_) run.abort().watch(&lane.passed);
  add_ops(run);
  add_dependencies(run);
  load_ahead(run.program());
  for (LaneState& lane : lanes_)
    lane.executed.reserve(lane.ops.size() * static_cast<std::size_t>(run.expected()));
}

void Lanes::add_ops(const Run& run) {
  const auto& ops = run.program().roles[0].ops;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    LaneState& lane = (*this)[op.lane];
    position_.push_back(static_cast<uint32_t>(lane.ops.size()));
    LaneOp& bound = lane.ops.emplace_back();
    bound.op = i;
    bound.every = op.every;
    const bool over_links = run.has_transport() && op.kind == OpKind::collective &&
                            op.lane != Lane::compute && !run.library_made(op.what);
    lane.pushes = lane.pushes || op.kind == OpKind::send;
    lane.exchanges = lane.exchanges || op.kind == OpKind::send || op.kind == OpKind::recv || over_links;
  }
}

void Lanes::add_dependencies(const Run& run) {
  const auto& ops = run.program().roles[0].ops;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    LaneOp& bound = (*this)[ops[i].lane].ops[position_[i]];
    for (const Dep& d : ops[i].deps) {
      const Op& other = ops[d.op];
      if (other.lane == ops[i].lane) continue;  // lanes are in order
      const auto lane_ops = static_cast<uint32_t>((*this)[other.lane].ops.size());
      bound.deps.push_back({other.lane, d.op, position_[d.op], lane_ops, d.lag, other.every});
    }
  }
}

/// A copy lane that does nothing but load input.
void Lanes::load_ahead(const Program& program) {
  LaneState& copy = (*this)[Lane::copy];
  copy.ahead = copy.ops.empty() ? 0 : kInputBatches - 1;
  for (const LaneOp& bound : copy.ops) {
    const Op& op = program.roles[0].ops[bound.op];
    if (op.kind != OpKind::copy || program.copies[op.what].kind != CopyKind::input) copy.ahead = 0;
  }
}

}  // namespace tandem::exec
