// SPDX-License-Identifier: Apache-2.0
#include "schemes/stage_messages.h"

#include <algorithm>
#include <utility>

#include "schemes/model_cuts.h"
#include "schemes/stage.h"

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

/// The longest of so many parts of each tensor.
Bytes StageMessages::message(const std::vector<uint32_t>& layers, int64_t parts) const {
  Bytes out;
  for (const uint32_t layer : layers)
    out += Bytes{(bytes_of_outputs(work_, whole_, {layer}).n + parts - 1) / parts};
  return out;
}

void StageMessages::connect(Builder& builder, std::vector<RoleBuilder> roles) {
  roles_ = std::move(roles);
  for (int32_t s = 0; s < stages() && stages() > 1; ++s) {
    const int32_t next = (s + 1) % stages();
    if (next == 0 && split_.shape.chunks == 1) break;
    std::vector<std::vector<uint32_t>> layers;
    for (int32_t c = 0; c < split_.shape.chunks; ++c) layers.push_back(between(c * stages() + s));
    const bool scattered = split_.scatters && split_.size[kTensor] > 1 && replicated(layers);
    const int64_t senders = scattered ? split_.size[kTensor] : 1;
    std::vector<Bytes> keys;
    for (const auto& key : layers) keys.push_back(message(key, senders));
    const RoleBuilder &from = roles_[static_cast<std::size_t>(s)],
                      &to = roles_[static_cast<std::size_t>(next)];
    ways_.push_back({builder.channel(from, to, Address::same_index, keys, layers),
                     builder.channel(to, from, Address::same_index, keys, layers)});
    for (const uint32_t channel : {ways_.back().forward, ways_.back().backward})
      builder.program().channels[channel].parts = static_cast<int32_t>(senders);
  }
}

/// The part before this chunk is held by the stage before, or for the first stage the last one's chunk
/// before. `behind`: where the chunk's activations go to, not where they come from.
StageMessages::End StageMessages::end(int32_t stage, int32_t chunk, bool behind, bool backward) const {
  const int32_t part = chunk * stages() + stage;
  const int32_t sender = behind ? part : part - 1;  // in the forward direction
  if (stages() == 1 || sender < 0 || sender + 1 >= split_.shape.parts()) return {};
  const Ways& w = ways_[static_cast<std::size_t>(sender % stages())];
  return {true, backward ? w.backward : w.forward, static_cast<uint32_t>(sender / stages())};
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
