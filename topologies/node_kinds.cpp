// SPDX-License-Identifier: Apache-2.0
#include "topologies/node_kinds.h"

namespace tandem::topologies {

std::vector<std::pair<std::string, Json>> node_specs(const Json& document) {
  std::vector<std::pair<std::string, Json>> out = {{"", document}};
  const Json* kinds = document.find("node_kinds");
  if (kinds == nullptr) return out;
  for (const auto& [name, own] : kinds->members()) {
    Json spec = document;
    for (const std::string_view key : kKeysOfNodes) {
      if (const Json* stated = own.find(key)) spec.set(std::string(key), *stated);
    }
    out.emplace_back(name, std::move(spec));
  }
  return out;
}

}  // namespace tandem::topologies
