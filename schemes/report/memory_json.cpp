// SPDX-License-Identifier: Apache-2.0
#include "schemes/report/memory_json.h"

namespace tandem::schemes {

Bytes bytes_of(const Json& object, std::string_view key) { return {object.integer(key, 0, 0)}; }

JsonWriter memory_json(const MemoryUse& m) {
  JsonWriter out = {
      {"parameters", m.parameters.n},   {"gradients", m.gradients.n}, {"optimizer", m.optimizer.n},
      {"activations", m.activations.n}, {"workspace", m.workspace.n}, {"buffers", m.buffers.n},
      {"total", m.total().n},           {"reserved", m.reserved.n},   {"nvidia_smi", m.nvidia_smi.n},
      {"capacity", m.capacity.n},       {"fits", m.may_fit()},        {"barely_fits", m.barely_fits()}};
  if (m.within_error()) out["within_error"] = true;
  if (m.host.n > 0) out["host"] = m.host.n;
  return out;
}

JsonWriter roles_json(const std::vector<RoleMemory>& roles) {
  JsonWriter out = JsonWriter::array();
  for (const RoleMemory& role : roles) {
    JsonWriter one = {{"role", role.role}, {"devices", role.devices}, {"memory", memory_json(role.memory)}};
    for (const MemoryPoint& p : role.over_step)
      one["over_step"].push_back(
          {{"pass", p.pass}, {"micro_batch", p.micro_batch}, {"layer", p.layer}, {"bytes", p.bytes.n}});
    out.push_back(std::move(one));
  }
  return out;
}

MemoryUse read_memory(const Json& m) {
  return {bytes_of(m, "parameters"),  bytes_of(m, "gradients"), bytes_of(m, "optimizer"),
          bytes_of(m, "activations"), bytes_of(m, "workspace"), bytes_of(m, "buffers"),
          bytes_of(m, "capacity"),    bytes_of(m, "reserved"),  bytes_of(m, "nvidia_smi"),
          bytes_of(m, "host")};
}

std::vector<RoleMemory> read_roles(const Json& roles) {
  std::vector<RoleMemory> out;
  for (const Json& role : roles.items()) {
    out.push_back({role.at("role").as_text(), role.at("devices").as_int(0), read_memory(role.at("memory"))});
    const Json* points = role.find("over_step");
    if (points == nullptr) continue;
    for (const Json& p : points->items())
      out.back().over_step.push_back({p.at("pass").as_text(), p.integer("micro_batch", 0, 0),
                                      p.text("layer", ""), bytes_of(p, "bytes")});
  }
  return out;
}

}  // namespace tandem::schemes
