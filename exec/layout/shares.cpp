// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/shares.h"

#include <algorithm>
#include <map>

#include "exec/comm/collective.h"
#include "exec/lower/arena.h"

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

Slice share_of(const Program& program, const Stages& stages, const std::vector<int32_t>& scattering,
               uint32_t key, uint32_t device) {
  const Bucket& bucket = program.buckets[key];
  if (scattering[key] < 0) return {bucket.first, bucket.elements};
  const GroupMember m =
      member_of(program, stages, program.collectives[static_cast<std::size_t>(scattering[key])], device);
  return part_of(bucket, m.rank, m.ranks);
}

Slice part_of(const Bucket& bucket, uint32_t rank, uint32_t ranks) {
  const int64_t begin = chunk_begin(bucket.elements, ranks, rank);
  return {bucket.first + begin, chunk_begin(bucket.elements, ranks, rank + 1) - begin};
}

PackedLayout kept_state(const Program& program, const Stages& stages, uint32_t device) {
  PackedLayout all;
  all.add(0, stages.lowered(device).parameters(), 0);
  if (program.sharding.state <= 1) return all;
  const std::vector<int32_t> scattering = scattering_collectives(program);
  std::map<int64_t, int64_t> parts;  // first -> elements
  for (const Op& op : program.roles[stages.place(device).role].ops) {
    const bool shared = op.payload == Payload::shard;
    if (op.kind != OpKind::compute || (!shared && op.payload != Payload::parameters)) continue;
    const Bucket& bucket = program.buckets[op.key];
    const Slice part =
        shared ? share_of(program, stages, scattering, op.key, device) : Slice{bucket.first, bucket.elements};
    if (part.elements > 0) parts.emplace(part.first, part.elements);
  }
  PackedLayout out;
  for (const auto& [first, elements] : parts) out.add(first, elements, out.elements());
  return out;
}

namespace {

/// Buckets of the device's role in the order of the flat vector.
std::vector<uint32_t> keys_of(const Program& program, const Stages& stages, uint32_t device) {
  std::vector<uint32_t> out;
  for (uint32_t key = 0; key < program.buckets.size(); ++key) {
    if (program.buckets[key].role == stages.place(device).role) out.push_back(key);
  }
  std::sort(out.begin(), out.end(),
            [&](uint32_t a, uint32_t b) { return program.buckets[a].first < program.buckets[b].first; });
  return out;
}

Held held(const Program& program, const Stages& stages, uint32_t device, const GatherBuffers& rooms,
          bool stays) {
  const std::vector<int32_t> scattering = scattering_collectives(program);
  Held out;
  const std::vector<uint32_t> keys = keys_of(program, stages, device);
  for (const uint32_t key : keys) {
    const Bucket& bucket = program.buckets[key];
    const Slice own = rooms.at[key] == GatherBuffers::kNone
                          ? Slice{bucket.first, bucket.elements}
                          : share_of(program, stages, scattering, key, device);
    const Slice keeps = rooms.at[key] < 0 ? Slice{bucket.first, bucket.elements} : own;
    if (!stays && rooms.at[key] >= 0) continue;
    out.kept.add(keeps.first, keeps.elements, out.kept.elements());
    out.shares += own.elements;
  }
  if (rooms.elements == 0) {
    out.elements = stages.lowered(device).parameters();
    out.kept = {};
    out.kept.add(0, out.elements, 0);
    out.passes = out.kept;
    if (keys.empty()) out.shares = out.elements;
    return out;
  }
  out.elements = arena_aligned(out.kept.elements());  // gather buffers begin here
  for (const uint32_t key : keys) {
    const Bucket& b = program.buckets[key];
    const bool whole = rooms.at[key] < 0;
    out.passes.add(b.first, b.elements,
                   whole ? out.kept.of(b.first, b.elements) : out.elements + rooms.at[key]);
  }
  out.elements += rooms.elements;
  return out;
}

}  // namespace

Held held_parameters(const Program& program, const Stages& stages, uint32_t device, bool offloaded) {
  return held(program, stages, device, stages.gather_buffers(device).parameters, !offloaded);
}

Held held_gradients(const Program& program, const Stages& stages, uint32_t device) {
  return held(program, stages, device, stages.gather_buffers(device).gradients, true);
}

PackedLayout summed_apart(const Program& program, const Stages& stages, uint32_t device) {
  PackedLayout out;
  for (const uint32_t key : keys_of(program, stages, device)) {
    const Bucket& bucket = program.buckets[key];
    if (stages.gather_buffers(device).gradients.at[key] < 0)
      out.add(bucket.first, bucket.elements, out.elements());
  }
  return out;
}

}  // namespace tandem::exec
