// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/half_formats.h"

#include <algorithm>

#include "exec/layout/memory.h"

namespace tandem::exec {

namespace {

Slice half_part(const HalfGradients& form, uint32_t part) {
  const auto parts = static_cast<uint32_t>(form.parts);
  const int64_t begin = chunk_begin(form.elements, parts, part);
  return {begin, chunk_begin(form.elements, parts, part + 1) - begin};
}

}  // namespace

Needs HalfFormats::needs(const Asked& a) {
  int64_t narrowed = 0;
  for (const Op& op : a.role().ops) narrowed = std::max(narrowed, narrowed_words(a.program, op));
  return {{narrowed, &MemoryUse::workspace}, {half_words(a.program, a.role()), &MemoryUse::workspace}};
}

HalfFormats::HalfFormats(const Workplace& place) : OpHandler(place) {
  const Needs need = needs(place.bench.asked());
  narrowed_ = place.bench.allocate(need[0]);
  half_ = place.bench.allocate(need[1]);
}

float* HalfFormats::memory_of(const Op& op) const { return half_ + half_place(plan_.program(), role(), op); }

void HalfFormats::narrow_gradients(const HalfGradients& form, float* words, std::span<const float> from,
                                   Lane lane) const {
  for (uint32_t part = 0; part < form.parts; ++part) {
    const Slice s = half_part(form, part);
    device_->narrow_gradients(words + part * form.each(), from.data() + s.first,
                              std::min(s.elements, std::ssize(from) - s.first), lane);
  }
}

void HalfFormats::upcast_gradients(const HalfGradients& form, uint32_t rank, std::span<float> to,
                                   const float* words, Lane lane) const {
  const uint32_t part = form.parts > 1 ? rank : 0;
  const Slice s = half_part(form, part);
  device_->upcast_gradients(to.data() + s.first, words + part * form.each(),
                            std::min(s.elements, std::ssize(to) - s.first), lane);
}

void HalfFormats::narrow_share(uint32_t key, float* words, Lane lane) const {
  const Slice own = plan_.share(key, instance_);
  if (own.elements > 0) device_->narrow(words, parameters_at(own.first), own.elements, lane);
}

void HalfFormats::upcast_shares(uint32_t key, const GroupMember& m, const float* words, int64_t each,
                                Lane lane) const {
  for (uint32_t rank = 0; rank < m.ranks; ++rank) {
    const Slice other = part_of(plan_.program().buckets[key], rank, m.ranks);
    if (rank != m.rank && other.elements > 0)
      device_->upcast(parameters_at(other.first), words + rank * each, other.elements, lane);
  }
}

OpHandler::Act HalfFormats::bind(uint32_t index) {
  const Op& op = role().ops[index];
  const HalfGradients form = half_gradients(plan_.program(), op);
  float* const words = memory_of(op);
  const std::span gradients(gradients_at(plan_.program().buckets[op.key].first),
                            static_cast<std::size_t>(form.elements));
  const bool back = plan_.program().tasks[op.what].pass == Pass::update;
  return [=, this, lane = op.lane](int32_t) {
    if (back)
      upcast_gradients(form, 0, gradients, words, lane);
    else
      narrow_gradients(form, words, gradients, lane);
    return int64_t{0};
  };
}

}  // namespace tandem::exec
