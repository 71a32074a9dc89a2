// SPDX-License-Identifier: Apache-2.0
#include "topologies/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace tandem::topologies {

namespace {

constexpr uint64_t kMostLinks = 4'000'000;  // of a network that is searched by name or for detours

double read_left(const Json& value) {
  if (!value.is_text()) return value.as_real(1e-6, 1);
  if (value.as_text() == "down") return 0;
  value.fail(fmt::format("\"{}\" is neither what is left (0.5 of the bandwidth or speed) nor \"down\"",
                         printable(value.as_text())));
}

/// "node12/gpu0" -> 12 and "gpu0"; -1 without a node.
int64_t take_node(std::string& name) {
  const auto slash = name.find('/');
  if (slash == std::string::npos || name.rfind("node", 0) != 0 || slash == 4) return -1;
  const std::string digits = name.substr(4, slash - 4);
  if (digits.size() > 9 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return -1;
  name = name.substr(slash + 1);
  return std::stoll(digits);
}

class FaultyNetwork : public Network {
 public:
  FaultyNetwork(std::unique_ptr<Network> whole, std::map<uint64_t, double> left)
      : whole_(std::move(whole)), left_(std::move(left)) {}
  uint64_t link_count() const override { return whole_->link_count(); }
  Bandwidth bandwidth(uint64_t id) const override {
    const auto at = left_.find(id);
    const Bandwidth full = whole_->bandwidth(id);
    return at == left_.end() || at->second == 0 ? full : Bandwidth{full.bytes_per_second * at->second};
  }
  std::string label(uint64_t id) const override { return whole_->label(id); }
  NodeRange below(uint64_t id) const override { return whole_->below(id); }
  std::vector<int64_t> sizes() const override { return whole_->sizes(); }
  void route(Port from, Port to, std::vector<uint64_t>& links) const override {
    const std::size_t before = links.size();
    whole_->route(from, to, links);
    if (before == links.size()) return;
    const auto first = links.begin() + static_cast<std::ptrdiff_t>(before);
    if (std::none_of(first, links.end(), [&](uint64_t id) { return down(id); })) return;
    // The route's own ends name the ports in the block's words.
    const std::string start = ends(links[before]).first, goal = ends(links.back()).second;
    links.resize(before);
    detour(start, goal, links);
  }

 private:
  using Ends = std::pair<std::string, std::string>;

  bool down(uint64_t id) const {
    const auto at = left_.find(id);
    return at != left_.end() && at->second == 0;
  }
  Ends ends(uint64_t id) const {
    const std::string text = label(id);
    const auto arrow = text.find('>');
    return {text.substr(0, arrow), text.substr(arrow + 1)};
  }
  uint32_t number(const std::string& name) const {
    return numbers_.emplace(name, static_cast<uint32_t>(numbers_.size())).first->second;
  }

  void build() const {
    if (link_count() > kMostLinks)
      throw InputError(
          fmt::format("a network of {} links is too large to look for ways round those that are "
                      "down; at most {}",
                      link_count(), kMostLinks));
    for (uint64_t id = 0; id < link_count(); ++id) {
      if (down(id)) continue;
      const auto [from, to] = ends(id);
      const uint32_t a = number(from), b = number(to);
      if (out_.size() < numbers_.size()) out_.resize(numbers_.size());
      out_[a].emplace_back(id, b);
    }
  }

  void detour(const std::string& start, const std::string& goal, std::vector<uint64_t>& links) const {
    std::call_once(built_, [&] { build(); });
    const auto from = numbers_.find(start), to = numbers_.find(goal);
    std::vector<uint64_t> by(out_.size(), UINT64_MAX);
    std::vector<uint32_t> before(out_.size(), UINT32_MAX);
    if (from != numbers_.end() && to != numbers_.end()) {
      std::deque<uint32_t> open{from->second};
      before[from->second] = from->second;
      while (!open.empty() && before[to->second] == UINT32_MAX) {
        const uint32_t at = open.front();
        open.pop_front();
        for (const auto& [id, next] : out_[at]) {
          if (before[next] != UINT32_MAX) continue;
          before[next] = at;
          by[next] = id;
          open.push_back(next);
        }
      }
      if (before[to->second] != UINT32_MAX) {
        std::vector<uint64_t> back;
        for (uint32_t at = to->second; at != from->second; at = before[at]) back.push_back(by[at]);
        links.insert(links.end(), back.rbegin(), back.rend());
        return;
      }
    }
    throw InputError(fmt::format("the faults leave no way through the network from {} to {}", start, goal));
  }

  std::unique_ptr<Network> whole_;
  std::map<uint64_t, double> left_;
  mutable std::once_flag built_;
  mutable std::unordered_map<std::string, uint32_t> numbers_;            ///< of switches and ports, by name
  mutable std::vector<std::vector<std::pair<uint64_t, uint32_t>>> out_;  ///< links that leave each
};

}  // namespace

std::vector<Fault> read_faults(const Json& document) {
  std::vector<Fault> out;
  const Json* faults = document.find("faults");
  if (faults == nullptr) return out;
  for (const auto& [key, value] : faults->members()) {
    Fault f{.from = key, .to = {}, .name = key, .left = read_left(value), .place = value.place()};
    const auto colon = key.find(':');
    if (key.find('>') != std::string::npos)
      value.fail(fmt::format("\"{}\": a cable fails both ways and is named by its ends, as in cpu0:cpu1",
                             printable(key)));
    if (colon != std::string::npos) {
      f.to = key.substr(colon + 1);
      f.from = key.substr(0, colon);
    }
    std::string from = f.from, to = f.to;
    const int64_t node = take_node(from), other = take_node(to);
    // "node0/port1:leaf0" and "node0:node1" are links of the network and stay as written.
    const bool one_node = f.to.empty() || node == other || other == -1;
    if (node >= 0 && one_node && to.rfind("node", 0) != 0) {
      f.node = node;
      f.from = from;
      f.to = to;
    }
    out.push_back(std::move(f));
  }
  return out;
}

Struck strike(NodeTemplate& node, const Fault& fault) {
  const auto find = [&](const std::string& name) {
    const auto at = std::find_if(node.vertices.begin(), node.vertices.end(),
                                 [&](const Vertex& v) { return v.name == name; });
    return static_cast<uint32_t>(at - node.vertices.begin());
  };
  const auto none = static_cast<uint32_t>(node.vertices.size());
  const uint32_t a = find(fault.from), b = fault.to.empty() ? none : find(fault.to);
  if (a == none || (!fault.to.empty() && b == none)) return {};
  const bool computes = node.vertices[a].device >= 0;
  if (fault.to.empty() && computes) {
    if (fault.left == 0)
      throw InputError(fault.place,
                       fmt::format("a device that is down cannot train; leave \"{}\" out by fewer "
                                   "--devices, or give the speed that is left",
                                   fault.name));
    return {true, a};
  }
  bool any = false;
  for (NodeLink& l : node.links) {
    const bool hit = fault.to.empty() ? l.from == a || l.to == a
                                      : (l.from == a && l.to == b) || (l.from == b && l.to == a);
    if (!hit) continue;
    l.left *= fault.left;
    any = true;
  }
  return {any};
}

NodeTemplate unfinished(const NodeTemplate& node) {
  NodeTemplate out;
  out.vertices = node.vertices;
  out.classes = node.classes;
  out.links = node.links;
  out.through_gpus = node.through_gpus;
  return out;
}

std::unique_ptr<Network> faulty_network(std::unique_ptr<Network> whole, std::map<uint64_t, double> left) {
  return std::make_unique<FaultyNetwork>(std::move(whole), std::move(left));
}

std::vector<uint64_t> links_between(const Network& network, const Fault& fault) {
  if (network.link_count() > kMostLinks)
    throw InputError(fault.place, fmt::format("a network of {} links is too large to name one; at most {}",
                                              network.link_count(), kMostLinks));
  // A node's part of the name was taken off where both ends could have been in one node.
  const auto end = [&](const std::string& name) {
    return fault.node < 0 ? name : fmt::format("node{}/{}", fault.node, name);
  };
  std::vector<uint64_t> out;
  for (const std::string& to : {fault.to, end(fault.to)}) {
    const std::string there = end(fault.from) + ">" + to, back = to + ">" + end(fault.from);
    for (uint64_t id = 0; id < network.link_count(); ++id) {
      const std::string label = network.label(id);
      if (label == there || label == back) out.push_back(id);
    }
    if (!out.empty()) break;
  }
  return out;
}

}  // namespace tandem::topologies
