// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/stage_messages.h"

#include <algorithm>
#include <utility>

#include "schemes/step/model_cuts.h"
#include "schemes/step/stage.h"

namespace tandem::schemes {

/// Layers whose outputs go from part k of the model to part k + 1.
std::vector<uint32_t> StageMessages::between(int32_t part) const {
  if (part + 1 >= split_.shape.parts()) return {};
  return crossing(whole_, ranges_[static_cast<std::size_t>(part) + 1].first);
}

/// Have devices that share layers the same outputs of all of these?
bool StageMessages::replicated(const std::vector<std::vector<uint32_t>>& layers) const {
  return std::all_of(layers.begin(), layers.end(), [&](const std::vector<uint32_t>& key) {
    return std::all_of(key.begin(), key.end(), [&](uint32_t l) {
      return elements(whole_.layers()[l].output) * split_.size[kContext] ==
             elements(work_.graph->layers()[l].output);
    });
  });
}

/// The longest of that many parts of each tensor.
Bytes StageMessages::message(const std::vector<uint32_t>& layers, int64_t parts) const {
  Bytes out;
  for (const uint32_t layer : layers)
    out += Bytes{(bytes_of_outputs(work_, whole_, {layer}).n + parts - 1) / parts};
  return out;
}

void StageMessages::connect(Builder& builder, std::vector<RoleBuilder> roles) {
  roles_ = std::move(roles);
  for (int32_t s = 0; s < stages(); ++s) {
    for (int32_t part = 0; part + 1 < split_.shape.parts(); ++part) {
      const int32_t to = split_.shape.stage_of(part + 1);
      if (split_.shape.stage_of(part) == s && to != s && ways_.count({s, to}) == 0) join(builder, s, to);
    }
  }
}

/// The keys are the chunks of the sender, whether they go this way or not.
void StageMessages::join(Builder& builder, int32_t from, int32_t to) {
  std::vector<std::vector<uint32_t>> layers;
  for (int32_t c = 0; c < split_.shape.chunks; ++c) {
    const int32_t part = split_.shape.part(from, c);
    const bool goes = part + 1 < split_.shape.parts() && split_.shape.stage_of(part + 1) == to;
    layers.push_back(goes ? between(part) : std::vector<uint32_t>{});
  }
  const bool scattered = split_.scatters && split_.size[kTensor] > 1 && replicated(layers);
  const int64_t senders = scattered ? split_.size[kTensor] : 1;
  std::vector<Bytes> keys;
  for (const auto& key : layers) keys.push_back(message(key, senders));
  const RoleBuilder &a = roles_[static_cast<std::size_t>(from)], &b = roles_[static_cast<std::size_t>(to)];
  const Ways ways{builder.channel(a, b, Address::same_index, keys, layers),
                  builder.channel(b, a, Address::same_index, keys, layers)};
  for (const uint32_t channel : {ways.forward, ways.backward})
    builder.program().channels[channel].parts = static_cast<int32_t>(senders);
  ways_.emplace(std::pair{from, to}, ways);
}

/// The part before this chunk may be held by another stage. `behind`: where the chunk's activations go to,
/// not where they come from.
StageMessages::End StageMessages::end(int32_t stage, int32_t chunk, bool behind, bool backward) const {
  const int32_t part = split_.shape.part(stage, chunk);
  const int32_t sender = behind ? part : part - 1;  // in the forward direction
  if (sender < 0 || sender + 1 >= split_.shape.parts()) return {};
  const int32_t from = split_.shape.stage_of(sender), to = split_.shape.stage_of(sender + 1);
  if (from == to) return {};
  const Ways& w = ways_.at({from, to});
  return {true, backward ? w.backward : w.forward, static_cast<uint32_t>(split_.shape.chunk_of(sender))};
}

OpId StageMessages::receive(int32_t stage, const Slot& slot, bool backward) {
  const End from = end(stage, slot.chunk, backward, backward);
  if (!from.is) return {};
  RoleBuilder& role = roles_[static_cast<std::size_t>(stage)];
  OpId got = role.recv(from.channel, from.key, backward ? "receive gradients" : "receive activations")
                 .on(Lane::recv)
                 .of(backward ? Payload::activation_gradients : Payload::activations, from.key)
                 .micro(slot.micro_batch);
  const Channel channel = role.builder().program().channels[from.channel];
  if (channel.parts == 1) return got;
  const OpId received = got;
  for (const uint32_t layer : channel.key_layers[from.key])
    got = role.collective(CollKind::all_gather, partners_, bytes_of_outputs(work_, whole_, {layer}), "auto",
                          backward ? "gather gradients" : "gather activations")
              .of(backward ? Payload::received_gradients : Payload::received_activations, layer)
              .after(received)
              .micro(slot.micro_batch);
  return got;
}

OpId StageMessages::send(int32_t stage, const Slot& slot, OpId after, bool backward) {
  const End to = end(stage, slot.chunk, !backward, backward);
  if (!to.is) return {};
  RoleBuilder& role = roles_[static_cast<std::size_t>(stage)];
  return role
      .send(to.channel, to.key, role.builder().program().channels[to.channel].key_bytes[to.key],
            backward ? "send gradients" : "send activations")
      .on(Lane::send)
      .of(backward ? Payload::activation_gradients : Payload::activations, to.key)
      .after(after)
      .micro(slot.micro_batch);
}

}  // namespace tandem::schemes
