// SPDX-License-Identifier: Apache-2.0
// How a system's file says what is broken in it.
#include <fmt/format.h>

#include "topologies/system_impl.h"

namespace tandem::topologies {

void SystemReader::slow_down(int64_t node, const Fault& fault, const Struck& struck) {
  if (struck.device == UINT32_MAX) return;
  const auto known = out_->speed.emplace(std::make_pair(node, struck.device), fault.left);
  if (!known.second) known.first->second *= fault.left;
}

void SystemReader::note_fault(const Fault& fault) {
  out_->faults.push_back(fault.left == 0 ? fault.name + " is down"
                                         : fmt::format("{} at {:.3g} %", fault.name, 100 * fault.left));
}

void SystemReader::strike_all() {
  std::vector<Fault> rest;
  for (Fault& fault : read_faults(document_)) {
    if (fault.node >= out_->nodes)
      throw InputError(fault.place, fmt::format("\"{}\": there is no node {}, only {}", printable(fault.name),
                                                fault.node, out_->nodes));
    if (out_->nodes == 1 && fault.node == 0) fault.node = -1;
    bool known = false;
    each_kind([&] {
      const Struck struck = fault.node < 0 ? strike(node(), fault) : Struck{};
      slow_down(-1 - static_cast<int64_t>(at_), fault, struck);
      known = known || struck.known;
    });
    if (known) {
      note_fault(fault);
    } else {
      rest.push_back(std::move(fault));
    }
  }
  faults_ = std::move(rest);
}

void SystemReader::strike_single() {
  std::map<uint64_t, double> left;
  for (const Fault& fault : faults_) {
    Struck struck;
    if (fault.node >= 0) {
      auto odd = out_->odd.find(fault.node);
      if (odd == out_->odd.end())
        odd = out_->odd.emplace(fault.node, System::Impl::OddNode{unfinished(out_->node_at(fault.node)), {}})
                  .first;
      struck = strike(odd->second.node, fault);
      slow_down(fault.node, fault, struck);
    }
    if (!struck.known && out_->network && out_->nodes > 1) {
      for (const uint64_t id : links_between(*out_->network, fault)) {
        struck.known = true;
        const auto known = left.emplace(id, fault.left);
        if (!known.second) known.first->second *= fault.left;
      }
    }
    if (!struck.known) {
      std::vector<std::string> names;
      for (const Vertex& v : node().vertices) names.push_back(v.name);
      throw InputError(fault.place,
                       fmt::format("there is nothing called \"{}\" that could fail.{} Valid: a vertex "
                                   "(gpu0), the ends of a cable (gpu0:cpu0) or of a network link as "
                                   "tandem show system names it, each with node2/ for one node",
                                   printable(fault.name), did_you_mean(fault.from, names)));
    }
    note_fault(fault);
    out_->uniform = false;
  }
  if (!left.empty()) out_->network = faulty_network(std::move(out_->network), std::move(left));
  for (auto& [at_node, odd] : out_->odd) {
    at_ = out_->kind_at(at_node);
    odd.node.finish();
    check(odd.node, at_node);
    odd.port_of = ports(odd.node, at_node);
  }
  at_ = 0;
}

}  // namespace tandem::topologies
