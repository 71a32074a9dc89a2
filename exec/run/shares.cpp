// SPDX-License-Identifier: Apache-2.0
#include "exec/run/shares.h"

#include <algorithm>

namespace tandem::exec {

GroupMember member_of(const Program& program, const Stages& stages, const Collective& collective,
                      uint32_t device) {
  const auto& axes = program.roles[stages.place(device).role].mesh.axes;
  GroupMember m;
  uint32_t rest = stages.place(device).instance, stride = 1, group_stride = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto size = static_cast<uint32_t>(axes[a].size);
    const uint32_t index = rest % size;
    rest /= size;
    if ((collective.axes >> a & 1U) != 0) {
      m.rank += index * stride;
      stride *= size;
    } else {
      m.group += index * group_stride;
      group_stride *= size;
    }
  }
  m.ranks = stride;
  m.group += stages.place(device).role * group_stride;
  // The last axis counts the devices of a node.
  if (!stages.split() && axes.size() == 2 && (collective.axes >> 1 & 1U) != 0)
    m.local = static_cast<uint32_t>(axes[1].size);
  return m;
}

std::vector<int32_t> scattering_collectives(const Program& program) {
  std::vector<int32_t> out(program.buckets.size(), -1);
  for (const Role& role : program.roles) {
    for (const Op& op : role.ops) {
      if (op.kind == OpKind::collective && op.payload == Payload::gradients &&
          program.collectives[op.what].kind == CollKind::reduce_scatter)
        out[op.key] = static_cast<int32_t>(op.what);
    }
  }
  return out;
}

Slice part_of(const Bucket& bucket, uint32_t rank, uint32_t ranks) {
  const auto begin = [&](int64_t r) {
    return bucket.elements / ranks * r + std::min<int64_t>(bucket.elements % ranks, r);
  };
  return {bucket.first + begin(rank), begin(int64_t{rank} + 1) - begin(rank)};
}

std::vector<Slice> kept_state(const Program& program, const Stages& stages, uint32_t device) {
  const std::vector<Slice> all{{0, stages.lowered(device).parameters()}};
  if (program.sharding.state <= 1) return all;
  const std::vector<int32_t> scattering = scattering_collectives(program);
  std::vector<Slice> out;
  for (const Op& op : program.roles[stages.place(device).role].ops) {
    if (op.kind == OpKind::collective && op.payload == Payload::state) return all;
    const bool shared = op.payload == Payload::shard;
    if (op.kind != OpKind::compute || (!shared && op.payload != Payload::parameters)) continue;
    const Bucket& bucket = program.buckets[op.key];
    const int32_t by = shared ? scattering[op.key] : -1;
    const GroupMember m =
        by < 0 ? GroupMember{}
               : member_of(program, stages, program.collectives[static_cast<std::size_t>(by)], device);
    const Slice part = part_of(bucket, m.rank, m.ranks);
    if (part.elements > 0) out.push_back(part);
  }
  std::sort(out.begin(), out.end(), [](const Slice& a, const Slice& b) { return a.first < b.first; });
  const auto same = [](const Slice& a, const Slice& b) { return a.first == b.first; };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  return out;
}

int64_t kept_elements(const std::vector<Slice>& parts) {
  int64_t sum = 0;
  for (const Slice& s : parts) sum += s.elements;
  return sum;
}

}  // namespace tandem::exec
