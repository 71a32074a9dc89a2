// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/half_gradients.h"

#include <algorithm>
#include <array>

#include "exec/layout/shares.h"

namespace tandem::exec {

namespace {

bool is_cast(const Program& program, const Op& op) {
  return op.kind == OpKind::compute && op.lane == Lane::compute && op.payload == Payload::gradients &&
         program.compression.kind == Compression::Kind::none;
}

}  // namespace

HalfGradients half_gradients(const Program& program, const Op& op) {
  const bool shard = op.payload == Payload::shard;
  if (!shard && op.payload != Payload::gradients) return {};
  if (op.kind != OpKind::collective && !is_cast(program, op)) return {};
  const Bucket& bucket = program.buckets[op.key];
  if (op.kind != OpKind::collective) return {bucket.elements, 1};
  const auto members = [&](uint32_t collective) {
    return program.roles[bucket.role].mesh.members(program.collectives[collective].axes);
  };
  HalfGradients out{bucket.elements, 1};
  if (const int32_t cut = shard ? scattering_collectives(program)[op.key] : -1; cut >= 0) {
    const int64_t shares = members(static_cast<uint32_t>(cut));
    out.elements = (bucket.elements + shares - 1) / shares;
  }
  if (op.bytes.n != 2 * out.elements) return {};
  if (program.collectives[op.what].kind == CollKind::reduce_scatter) out.parts = members(op.what);
  return out;
}

bool casts_gradients(const Program& program) {
  const auto& ops = program.roles[0].ops;
  return program.stores.empty() &&
         std::any_of(ops.begin(), ops.end(), [&](const Op& op) { return is_cast(program, op); });
}

namespace {

/// The maximum over lanes.
std::array<int64_t, kLanes> words_of_lanes(const Program& program, const Role& role) {
  std::array<int64_t, kLanes> out{};
  for (const Op& op : role.ops) {
    int64_t& most = out[static_cast<std::size_t>(op.lane)];
    most = std::max(most, half_gradients(program, op).words());
  }
  return out;
}

}  // namespace

int64_t half_words(const Program& program, const Role& role) {
  int64_t sum = 0;
  if (!casts_gradients(program)) {
    for (const int64_t words : words_of_lanes(program, role)) sum += words;
    return sum;
  }
  for (const Bucket& b : program.buckets) sum += HalfGradients{b.elements}.words();
  return sum;
}

int64_t half_place(const Program& program, const Role& role, const Op& op) {
  int64_t before = 0;
  if (casts_gradients(program)) {
    for (uint32_t key = 0; key < op.key; ++key)
      before += HalfGradients{program.buckets[key].elements}.words();
    return before;
  }
  const std::array<int64_t, kLanes> words = words_of_lanes(program, role);
  for (std::size_t l = 0; l < static_cast<std::size_t>(op.lane); ++l) before += words[l];
  return before;
}

}  // namespace tandem::exec
