// SPDX-License-Identifier: Apache-2.0
#include "sim/link_uses.h"

#include <algorithm>
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

/// "node12/gpu0" -> "node*/gpu0"; what is in no node loses all its numbers.
std::string end_group(std::string_view end) {
  const auto slash = std::min(end.find('/'), end.size());
  return without_numbers(end.substr(0, slash)) + std::string(end.substr(slash));
}

std::vector<LinkGroup> groups_of(const std::vector<LinkUse>& links, bool several_nodes) {
  std::map<std::string, LinkGroup> groups;
  for (const LinkUse& l : links) {
    LinkGroup& g = groups[several_nodes ? link_group(l.name) : l.name];
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

std::string link_group(std::string_view link) {
  const auto arrow = link.find('>');
  if (arrow == std::string_view::npos) return without_numbers(link);
  const std::string_view from = link.substr(0, arrow), to = link.substr(arrow + 1);
  // "node2/gpu0>plx1" names its node once; "node2/port0>leaf1" leaves it.
  const bool within = from.find('/') != std::string_view::npos && to.find('/') == std::string_view::npos &&
                      from.find("/port") == std::string_view::npos;
  return end_group(from) + ">" + (within ? std::string(to) : end_group(to));
}

void add_links(Report& report, const Plan& plan, const Trace& trace, int64_t nodes) {
  const double wall = trace.makespan.seconds();
  std::vector<LinkUse>& links = report.links;
  for (std::size_t i = 0; i < trace.link_bytes.size(); ++i) {
    const double bytes = trace.link_bytes[i];
    if (bytes <= 0) continue;
    links.push_back({plan.link_name(static_cast<uint32_t>(i)), std::min(1.0, bytes / plan.capacity[i] / wall),
                     Bytes{std::llround(bytes)}});
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const LinkUse& a, const LinkUse& b) { return a.busy > b.busy; });
  if (links.size() <= kMostLinks) return;
  report.link_groups = groups_of(links, nodes > 1);
  links.resize(kMostLinks);
}

}  // namespace tandem::sim
