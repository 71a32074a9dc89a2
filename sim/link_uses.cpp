// SPDX-License-Identifier: Apache-2.0
#include "sim/link_uses.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace tandem::sim {

namespace {

constexpr std::size_t kMostLinks = 400;  // in a report

std::string without_numbers(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) out += c;
    if (digit && (out.empty() || out.back() != '*')) out += '*';
  }
  return out;
}

/// "node12" -> "node*", of several kinds "node8*" where the kind's first node is the eighth; what is no node
/// loses all its numbers.
std::string node_group(std::string_view text, const std::vector<KindOfNode>& kinds) {
  int64_t node = 0;
  const bool is_node = text.starts_with("node") && text.size() > 4 &&
                       std::from_chars(text.data() + 4, text.data() + text.size(), node).ec == std::errc();
  if (kinds.size() < 2 || !is_node) return without_numbers(text);
  int64_t first = 0;
  for (const KindOfNode& kind : kinds) first = kind.first <= node ? kind.first : first;
  return "node" + std::to_string(first) + "*";
}

/// "node12/gpu0" -> "node*/gpu0".
std::string end_group(std::string_view end, const std::vector<KindOfNode>& kinds) {
  const auto slash = std::min(end.find('/'), end.size());
  return node_group(end.substr(0, slash), kinds) + std::string(end.substr(slash));
}

std::vector<LinkGroup> groups_of(const std::vector<LinkUse>& links, const std::vector<KindOfNode>& kinds,
                                 bool several_nodes) {
  std::map<std::string, LinkGroup> groups;
  for (const LinkUse& l : links) {
    LinkGroup& g = groups[several_nodes ? link_group(l.name, kinds) : l.name];
    ++g.links;
    g.busy_mean += l.busy;  // a sum as yet
    g.busy_max = std::max(g.busy_max, l.busy);
    g.bytes.n += l.bytes.n;
  }
  std::vector<LinkGroup> out;
  for (auto& [name, g] : groups) {
    g.name = name;
    g.busy_mean /= static_cast<double>(g.links);
    out.push_back(std::move(g));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const LinkGroup& a, const LinkGroup& b) { return a.busy_max > b.busy_max; });
  return out;
}

}  // namespace

std::string link_group(std::string_view link, const std::vector<KindOfNode>& kinds) {
  const auto arrow = link.find('>');
  const auto space = std::min(link.find(' '), link.size());
  if (arrow == std::string_view::npos)  // "node3 decoding cores"
    return node_group(link.substr(0, space), kinds) + without_numbers(link.substr(space));
  const std::string_view from = link.substr(0, arrow), to = link.substr(arrow + 1);
  // "node2/gpu0>plx1" names its node once; "node2/port0>leaf1" leaves it.
  const bool within = from.find('/') != std::string_view::npos && to.find('/') == std::string_view::npos &&
                      from.find("/port") == std::string_view::npos;
  return end_group(from, kinds) + ">" + (within ? std::string(to) : end_group(to, kinds));
}

void add_links(Report& report, const BoundProgram& plan, const Trace& trace, int64_t nodes,
               const std::vector<KindOfNode>& kinds) {
  const double wall = trace.makespan.seconds();
  std::vector<LinkUse>& links = report.network.links;
  for (std::size_t i = 0; i < trace.link_bytes.size(); ++i) {
    const double bytes = trace.link_bytes[i];
    if (bytes <= 0) continue;
    links.push_back({plan.link_name(static_cast<uint32_t>(i)), std::min(1.0, bytes / plan.capacity[i] / wall),
                     Bytes{std::llround(bytes)}});
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const LinkUse& a, const LinkUse& b) { return a.busy > b.busy; });
  if (links.size() <= kMostLinks) return;
  report.network.groups = groups_of(links, kinds, nodes > 1);
  links.resize(kMostLinks);
}

}  // namespace tandem::sim
