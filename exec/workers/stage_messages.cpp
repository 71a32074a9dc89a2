// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/stage_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/layout/memory.h"
#include "exec/layout/shares.h"

namespace tandem::exec {

Needs StageMessages::needs(const Asked& a) {
  return {{tied_words(a.program, a.role()), &MemoryUse::workspace}};
}

StageMessages::StageMessages(const Workplace& place)
    : OpHandler(place), tied_(place.bench.allocate(needs(place.bench.asked())[0])) {}

OpHandler::Act StageMessages::bind(uint32_t index) {
  return role().ops[index].kind == OpKind::send ? send(index) : receive(index);
}

/// The tensors that a message between stages carries, at their host addresses. `arrives`: at this end.
std::vector<MessagePart> StageMessages::message(const Op& op, bool arrives) const {
  if (op.payload == Payload::tied_gradients) return tied_message(op, arrives);
  std::vector<MessagePart> out;
  const Channel& channel = plan_.program().channels[op.what];
  const auto parts = static_cast<uint32_t>(channel.parts);
  const uint32_t own = parts > 1 ? plan_.stages().place(instance_).partner : 0;
  for (const uint32_t layer : channel.key_layers[op.key]) {
    const SliceTensors& s = graph().slice(layer);
    const TensorId t = op.payload == Payload::activations ? s.output : arrives ? s.arriving : s.gradient;
    if (t == kNoTensor)
      throw InputError(
          fmt::format("layer \"{}\" is handed on by a stage that neither makes nor reads it: "
                      "only simulated",
                      graph().graph().layers()[layer].name));
    const Slice part = tandem::exec::part_of({0, graph().tensors()[t].words()}, own, parts);
    out.push_back({tensor(t, slot(op)) + part.first, part.elements});
  }
  return out;
}

/// Where the gradients of a weight are that another stage has a copy of: its own bucket, or this replica's
/// share.
Slice StageMessages::tied_share(const Op& op) const {
  const auto& layers = plan_.program().channels[op.what].key_layers[op.key];
  const uint32_t layer = layers.at(op.kind == OpKind::send ? 0 : 1),
                 role = plan_.stages().place(instance_).role;
  const auto& learned = graph().learned();
  const auto weight = std::find_if(learned.begin(), learned.end(),
                                   [&](const LearnedTensor& l) { return l.layer == layer && l.index == 0; });
  const auto& buckets = plan_.program().buckets;
  const auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) {
    return b.role == role && weight != learned.end() && b.first == graph().tensors()[weight->gradient].offset;
  });
  TANDEM_CHECK(bucket != buckets.end());
  if (!plan_.spreads()) return {bucket->first, bucket->elements};
  return plan_.share(static_cast<uint32_t>(bucket - buckets.begin()), instance_);
}

/// Shorter shares are padded by one element for the transfer.
std::vector<MessagePart> StageMessages::tied_message(const Op& op, bool arrives) const {
  const int64_t words = plan_.program().channels[op.what].key_bytes[op.key].n / 4;
  const Slice own = tied_share(op);
  if (own.elements > words || own.elements + 1 < words)
    throw InputError("gradients travel as fp32 (gradients=fp32 is executed)");
  if (arrives) return {{tied_, words}};
  std::vector<MessagePart> out{
      {memory_.gradients() + memory_.held_gradients().kept.of(own.first, own.elements), own.elements}};
  if (own.elements < words) out.push_back({memory_.gradients(), words - own.elements});
  return out;
}

OpHandler::Act StageMessages::send(uint32_t index) {
  const Op& op = role().ops[index];
  const std::vector<MessagePart> parts = message(op, false);
  std::vector<MessagePart> host = parts;
  for (MessagePart& p : host) {
    p.at = driver_->host_memory(p.at, p.elements);
    bench_.bytes[index] += 4 * p.elements;
  }
  return
      [this, parts, host, pair = run_.stage_paths().of(op.what, op.key, instance_), lane = op.lane](int32_t) {
        for (std::size_t k = 0; k < parts.size(); ++k)
          driver_->to_host(host[k].at, parts[k].at, parts[k].elements, lane);
        run_.stage_paths().links().send(pair, host);
        return int64_t{0};
      };
}

OpHandler::Act StageMessages::receive(uint32_t index) {
  const Op& op = role().ops[index];
  const std::vector<MessagePart> parts = message(op, true);
  std::vector<MessagePart> host = parts;
  for (MessagePart& p : host) p.at = driver_->host_memory(p.at, p.elements);
  const Slice sum = op.payload == Payload::tied_gradients ? tied_share(op) : Slice{};
  return [this, parts, host, sum, pair = run_.stage_paths().of(op.what, op.key, instance_),
          lane = op.lane](int32_t) {
    const int64_t arrived = run_.stage_paths().links().receive(pair, host);
    for (std::size_t k = 0; k < parts.size(); ++k)
      driver_->to_device(parts[k].at, host[k].at, parts[k].elements, lane);
    if (sum.elements > 0) device_->accumulate(own_gradients(sum.first), tied_, sum.elements, lane);
    device_->synchronize(lane);
    return arrived;
  };
}

}  // namespace tandem::exec
