// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/chunk_passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tandem::sim {

namespace {

using Key = std::pair<uint32_t, uint32_t>;  // micro-batch, chunk

std::vector<ChunkPass> all_passes(const Program& program, const Role& role,
                                  const std::vector<LayerRange>& chunks) {
  std::map<Key, std::size_t> back;  // where its backward pass is, so far
  std::set<Key> begun;
  std::vector<std::pair<ChunkPass, bool>> passes;  // and whether it counts
  for (const Op& op : role.ops) {
    const Task* task = op.kind == OpKind::compute ? &program.tasks[op.what] : nullptr;
    if (task == nullptr || task->pass == Pass::update) continue;
    uint32_t c = 0;
    while (c + 1 < chunks.size() && task->layer >= chunks[c].end()) ++c;
    const Key key{op.micro, c};
    const bool forward = task->pass == Pass::forward;
    if (forward && !begun.insert(key).second) continue;
    if (!forward) {
      const auto [at, first] = back.emplace(key, passes.size());
      if (!first) passes[std::exchange(at->second, passes.size())].second = false;
    }
    passes.push_back({{forward, op.micro, chunks[c]}, true});
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
