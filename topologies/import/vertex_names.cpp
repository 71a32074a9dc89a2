// SPDX-License-Identifier: Apache-2.0
#include "topologies/import/vertex_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace tandem::topologies {

VertexNames::VertexNames(const Machine& machine) : names_(machine.tree.size()) {
  int switches = 0;
  for (std::size_t i = 0; i < machine.tree.size(); ++i) {
    if (machine.tree[i].kind == Machine::Slot::Kind::bridge) names_[i] = {"plx", switches++};
  }
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    names_[static_cast<std::size_t>(machine.gpus[i].slot)] = {"gpu", static_cast<int>(i)};
  for (std::size_t i = 0; i < machine.nics.size(); ++i)
    names_[static_cast<std::size_t>(machine.nics[i].slot)] = {"nic", static_cast<int>(i)};
}

std::string range_of(const std::string& stem, const std::vector<int>& indices) {
  if (indices.size() == 1) return fmt::format("{}{}", stem, indices[0]);
  std::string out;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    out += out.empty() ? "" : ",";
    out += end - i > 1 ? fmt::format("{}-{}", indices[i], indices[end - 1]) : fmt::format("{}", indices[i]);
    i = end;
  }
  return fmt::format("{}[{}]", stem, out);
}

std::vector<std::tuple<std::string, std::string, int>> group_edges(const std::vector<Edge>& edges) {
  // By stems and count, then by the end that several may share.
  std::map<std::tuple<std::string, std::string, int>, std::map<int, std::vector<int>>> groups;
  for (const Edge& edge : edges)
    groups[{edge.from.stem, edge.to.stem, edge.count}][edge.to.index].push_back(edge.from.index);
  std::vector<std::tuple<std::string, std::string, int>> out;
  for (auto& [key, by_end] : groups) {
    const auto& [from, to, count] = key;
    // The reader deals the first range out evenly over the second, in order.
    std::vector<int> all, ends;
    bool even = true;
    for (auto& [end, starts] : by_end) {
      std::sort(starts.begin(), starts.end());
      even &= starts.size() == by_end.begin()->second.size() && (all.empty() || starts.front() > all.back());
      all.insert(all.end(), starts.begin(), starts.end());
      ends.push_back(end);
    }
    if (even) {
      out.emplace_back(range_of(from, all), range_of(to, ends), count);
      continue;
    }
    for (const auto& [end, starts] : by_end)
      out.emplace_back(range_of(from, starts), range_of(to, {end}), count);
  }
  return out;
}

}  // namespace tandem::topologies
