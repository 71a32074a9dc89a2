// SPDX-License-Identifier: Apache-2.0
// Which ports of a node its devices reach the network by.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "topologies/system_impl.h"

namespace tandem::topologies {

std::vector<uint32_t> SystemReader::nearest_ports(const NodeTemplate& node, uint32_t v) const {
  std::vector<uint32_t> nearest;
  NodeTemplate::Distance best;
  for (uint32_t p = 0; p < kind().ports.size(); ++p) {
    // Cables and forwarding are the same both ways; from the ports there are fewer trees to grow.
    const auto d = node.distance(kind().ports[p], v);
    if (d.hops < 0) continue;
    const bool closer = best.hops < 0 || d.hops < best.hops || (d.hops == best.hops && d.width > best.width);
    if (closer) nearest.clear();
    if (closer) best = d;
    if (d.hops == best.hops && d.width == best.width) nearest.push_back(p);
  }
  return nearest;
}

std::vector<uint32_t> SystemReader::ports(const NodeTemplate& node, int64_t at_node) const {
  std::vector<uint32_t> port_of(node.vertices.size(), 0);
  std::map<std::pair<VertexKind, std::vector<uint32_t>>, uint32_t> dealt;
  for (uint32_t v = 0; v < node.vertices.size() && !kind().ports.empty(); ++v) {
    const auto nearest = nearest_ports(node, v);
    if (nearest.empty() && out_->nodes > 1 && node.vertices[v].device >= 0)
      throw InputError(document_.at("faults").place(),
                       fmt::format("the faults leave \"{}\"{} no way to the network", node.vertices[v].name,
                                   at_node < 0 ? "" : fmt::format(" of node {}", at_node)));
    if (nearest.empty()) continue;
    uint32_t& turn = dealt[{node.vertices[v].kind, nearest}];
    port_of[v] = nearest[turn++ % nearest.size()];
  }
  return port_of;
}

std::vector<std::vector<uint32_t>> SystemReader::bundles() const {
  std::map<std::vector<uint32_t>, std::vector<std::size_t>> sharing;  // accelerators by their nearest ports
  const auto& accelerators = kind().accelerators;
  for (std::size_t i = 0; i < accelerators.size(); ++i)
    sharing[nearest_ports(node(), accelerators[i])].push_back(i);
  std::vector<std::vector<uint32_t>> out(accelerators.size());
  for (const auto& [ports, of] : sharing) {
    const bool nics = std::all_of(ports.begin(), ports.end(), [&](uint32_t p) {
      return node().vertices[kind().ports[p]].kind == VertexKind::nic;
    });
    const std::size_t each = nics ? ports.size() / of.size() : 0;
    for (std::size_t k = 0; k < of.size(); ++k) {
      for (std::size_t i = 0; i < each; ++i) out[of[k]].push_back(kind().ports[ports[k * each + i]]);
    }
  }
  return out;
}

/// The first NIC of a bundle carries what all do, and their names ("nic0+nic1"): its own links, where no
/// other shares them, are as many times as wide.
void SystemReader::join_ports(const std::vector<std::vector<uint32_t>>& bundles) {
  std::vector<uint32_t> heads;
  std::set<uint32_t> widened;  // the first direction of each link
  std::vector<std::pair<uint32_t, std::string>> names;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    const uint32_t device = kind().accelerators[i];
    const auto links = [&](uint32_t port) {
      std::set<uint32_t> out;
      for (const uint32_t end : {device, kind().host_of[device], kind().stage_of[device]}) {
        for (const uint32_t l : node().path(end, port).links) out.insert(l & ~1U);
      }
      return out;
    };
    std::set<uint32_t> own = links(bundles[i][0]);
    std::string name = node().vertices[bundles[i][0]].name;
    for (uint32_t k = 1; k < bonded_; ++k) {
      for (const uint32_t l : links(bundles[i][k])) own.erase(l);
      name += "+" + node().vertices[bundles[i][k]].name;
    }
    names.emplace_back(bundles[i][0], name);
    widened.merge(own);
    heads.push_back(bundles[i][0]);
  }
  for (const uint32_t l : widened) {
    node().links[l].lanes *= static_cast<int>(bonded_);
    node().links[l ^ 1].lanes *= static_cast<int>(bonded_);
  }
  for (auto& [head, name] : names) node().vertices[head].name = std::move(name);
  kind().ports = std::move(heads);
  node().finish();
}

void SystemReader::bond() {
  const Json* network = document_.find("network");
  if (network == nullptr || out_->nodes < 2 || network->at("block").as_text() == "torus") return;
  std::vector<std::vector<std::vector<uint32_t>>> all;
  std::size_t least = SIZE_MAX;
  std::set<std::string> names;
  each_kind([&] {
    all.push_back(bundles());
    for (const auto& bundle : all.back()) {
      least = std::min(least, bundle.size());
      for (const uint32_t v : bundle) names.insert(node().vertices[v].name);
    }
  });
  // A NIC that fails on one node alone leaves that node, and so all that wait for it, the others' one by one.
  const bool struck = std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.node >= 0 && (names.contains(fault.from) || names.contains(fault.to));
  });
  if (struck || least < 2 || least == SIZE_MAX) return;
  bonded_ = static_cast<uint32_t>(least);
  each_kind([&] { join_ports(all[at_]); });
}

}  // namespace tandem::topologies
