// SPDX-License-Identifier: Apache-2.0
#include "schemes/step/stage_copies.h"

namespace tandem::schemes {

std::vector<uint32_t> StageCopies::on(int32_t stage) const {
  std::vector<uint32_t> out;
  for (const auto& [owner, holders] : copies_) {
    for (const WeightHolder& h : holders)
      if (h.stage == stage) out.push_back(h.layer);
  }
  return out;
}

void StageCopies::connect(Builder& builder, const std::vector<RoleBuilder>& roles,
                          const std::function<Bytes(const WeightHolder&)>& bytes) {
  const auto role = [&](const WeightHolder& h) { return roles[static_cast<std::size_t>(h.stage)]; };
  for (const auto& [owner, holders] : copies_) {
    for (const WeightHolder& from : holders) {
      for (const WeightHolder& to : holders) {
        if (from == to) continue;
        ways_.push_back({from, to,
                         builder.channel(role(from), role(to), Address::same_index, {bytes(from)},
                                         {{from.layer, to.layer}})});
      }
    }
  }
}

OpId StageCopies::sum(RoleBuilder& role, const WeightHolder& own, const std::string& bucket,
                      OpId made) const {
  for (const bool sends : {true, false}) {
    for (const Way& way : ways_) {
      if ((sends ? way.from : way.to) != own) continue;
      const Bytes bytes = role.builder().program().channels[way.channel].key_bytes[0];
      const OpHandle op = sends
                              ? role.send(way.channel, 0, bytes, "send gradients of " + bucket).on(Lane::send)
                              : role.recv(way.channel, 0, "add gradients of " + bucket).on(Lane::recv);
      made = OpHandle(op).of(Payload::tied_gradients, 0).after(made);
    }
  }
  return made;
}

}  // namespace tandem::schemes
