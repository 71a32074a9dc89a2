// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/chunk_passes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tandem::sim {

namespace {

using Key = std::pair<uint32_t, uint32_t>;  // micro-batch, chunk

/// What an op has to do with a chunk.
struct Visit {
  bool forward = true;
  uint32_t chunk = 0;
  bool operator==(const Visit&) const = default;
};

std::optional<Visit> visit_of(const Program& program, const Op& op, const std::vector<LayerRange>& chunks) {
  const bool works = op.kind == OpKind::compute && op.lane == Lane::compute;
  const Task* task = works ? &program.tasks[op.what] : nullptr;
  if (task == nullptr || task->pass == Pass::update) return {};
  uint32_t c = 0;
  while (c + 1 < chunks.size() && task->layer >= chunks[c].end()) ++c;
  return Visit{task->pass == Pass::forward, c};
}

/// Of a call's ops; equal neighbours count as one.
std::vector<Visit> visits(const Program& program, const OpList& ops, const OpList::Part& part,
                          const std::vector<LayerRange>& chunks) {
  std::vector<Visit> out;
  for (uint32_t i = 0; i < part.count; ++i) {
    const auto visit = visit_of(program, ops.stored(part, i), chunks);
    if (visit && (out.empty() || !(out.back() == *visit))) out.push_back(*visit);
  }
  return out;
}

std::vector<ChunkPass> all_passes(const Program& program, const Role& role,
                                  const std::vector<LayerRange>& chunks) {
  std::map<Key, std::size_t> back;  // where its backward pass is, so far
  std::set<Key> begun;
  std::vector<std::pair<ChunkPass, bool>> passes;  // and whether it counts
  const auto add = [&](const Visit& visit, uint32_t micro) {
    const Key key{micro, visit.chunk};
    if (visit.forward && !begun.insert(key).second) return;
    if (!visit.forward) {
      const auto [at, first] = back.emplace(key, passes.size());
      if (!first) passes[std::exchange(at->second, passes.size())].second = false;
    }
    passes.push_back({{visit.forward, micro, chunks[visit.chunk]}, true});
  };
  std::map<int32_t, std::vector<Visit>> known;  // of a routine
  for (const OpList::Part& part : role.ops.parts()) {
    if (part.routine < 0) {
      for (uint32_t i = 0; i < part.count; ++i) {
        const Op& op = role.ops.stored(part, i);
        if (const auto visit = visit_of(program, op, chunks)) add(*visit, op.micro);
      }
      continue;
    }
    auto at = known.find(part.routine);
    if (at == known.end()) at = known.emplace(part.routine, visits(program, role.ops, part, chunks)).first;
    for (const Visit& visit : at->second) add(visit, part.micro);
  }
  std::vector<ChunkPass> out;
  for (const auto& [pass, counts] : passes) {
    if (counts) out.push_back(pass);
  }
  return out;
}

}  // namespace

std::vector<ChunkPass> chunk_passes(const Program& program, uint32_t role, uint32_t layers) {
  const LayerRange all{0, layers};
  std::vector<ChunkPass> passes;
  if (program.grid.axes.empty()) {  // all micro-batches are like the second
    for (int64_t m = 0; m < std::min<int64_t>(2, program.micro_batches); ++m)
      passes.insert(passes.end(), {{true, 0, all}, {false, 0, all}});
    return passes;
  }
  const std::vector<LayerRange>& ranges = program.roles[role].slice.ranges;
  passes = all_passes(program, program.roles[role], ranges.empty() ? std::vector{all} : ranges);
  uint32_t held = 0, most = 0;
  for (const ChunkPass& pass : passes) {
    held += pass.forward ? 1 : -1;
    most = std::max(most, held);
  }
  std::erase_if(passes, [&](const ChunkPass& pass) { return pass.micro >= most + 2; });
  return passes;
}

}  // namespace tandem::sim
