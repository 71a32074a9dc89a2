// SPDX-License-Identifier: Apache-2.0
#include "pictures/system_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json.h"
#include "pictures/draw.h"
#include "pictures/gnuplot.h"
#include "pictures/system_layout.h"

namespace tandem::pictures {

namespace {

constexpr std::size_t kMostVertices = 64;  // more do not fit side by side
constexpr std::size_t kHub = 16;           // a vertex of more cables joins groups, and belongs to none
constexpr std::size_t kFirstGroups = 3;    // that are drawn of many equal ones, besides the last

/// Adds a node as the listing has it; `prefix` stands before its vertices' names. Boxes of processors alone
/// say it: there are few in a row.
void add_node(Drawing& out, const Json& node, const std::string& prefix) {
  for (const char* list : {"devices", "vertices"}) {
    for (const Json& v : node.at(list).items()) {
      const std::string name = v.at("id").as_text(), kind = v.at("kind").as_text();
      out.vertices.push_back({prefix + name, kind, {}, 0, kind == "cpu" ? prefix + name : name});
    }
  }
  const auto& links = node.at("links").items();
  for (std::size_t i = 0; i + 1 < links.size(); i += 2) {
    out.cables.push_back({prefix + links[i].at("from").as_text(), prefix + links[i].at("to").as_text(),
                          links[i].at("kind").as_text(),
                          links[i].at("bandwidth_bytes_per_second").as_real(0, 1e300),
                          links[i].at("duplex").as_text() == "half"});
  }
}

/// A node of each kind, and the network that joins them.
Drawing node_of(const System& system) {
  const Json document = Json::parse(system.to_json_text(), system.name());
  Drawing out;
  std::vector<std::pair<std::string, const Json*>> nodes;  // prefix, where its ports are listed
  if (const Json* kinds = document.find("node_kinds")) {
    for (const Json& kind : kinds->items()) {
      out.first_nodes.push_back(kind.at("first_node").as_int());
      nodes.emplace_back(fmt::format("node{}/", out.first_nodes.back()), &kind);
    }
  } else {
    nodes.emplace_back("", document.find("network"));
  }
  for (const auto& [prefix, node] : nodes) add_node(out, prefix.empty() ? document : *node, prefix);
  if (const Json* network = document.find("network"); network != nullptr && system.nodes() > 1) {
    out.vertices.push_back({"network", "network", {}, 0, "network"});
    const double bandwidth = network->at("bandwidth_bytes_per_second").as_real(0, 1e300);
    for (const auto& [prefix, node] : nodes) {
      for (const Json& port : node->at("ports").items()) {
        out.ports.push_back(prefix + port.as_text());
        out.cables.push_back({prefix + port.as_text(), "network", "network", bandwidth});
      }
    }
  }
  return out;
}

/// Vertices that cables join when hubs are left out; the members in the order of the drawing.
struct Group {
  std::vector<std::string> members;
  std::string looks;  ///< the same for equal groups: kinds of members and their cables
};

std::vector<Group> groups_of(const Drawing& d) {
  std::map<std::string, std::vector<const Drawing::Cable*>> cables;
  for (const Drawing::Cable& c : d.cables) {
    cables[c.from].push_back(&c);
    cables[c.to].push_back(&c);
  }
  const auto hub = [&](const Drawing::Vertex& v) {
    return v.kind == "network" || v.kind == "nvswitch" || cables[v.name].size() > kHub;
  };
  std::map<std::string, std::size_t> group;  // of vertices that are no hub: the first number that is joined
  for (std::size_t i = 0; i < d.vertices.size(); ++i) {
    if (!hub(d.vertices[i])) group[d.vertices[i].name] = i;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Drawing::Cable& c : d.cables) {
      const auto a = group.find(c.from), b = group.find(c.to);
      if (a == group.end() || b == group.end() || a->second == b->second) continue;
      a->second = b->second = std::min(a->second, b->second);
      changed = true;
    }
  }
  std::map<std::size_t, Group> out;
  for (const Drawing::Vertex& v : d.vertices) {
    const auto at = group.find(v.name);
    if (at == group.end()) continue;
    Group& g = out[at->second];
    g.members.push_back(v.name);
    g.looks += v.kind + ":";
    for (const Drawing::Cable* c : cables[v.name]) g.looks += fmt::format("{} {} ", c->kind, c->bandwidth);
  }
  std::vector<Group> list;
  for (auto& [first, g] : out) list.push_back(std::move(g));
  return list;
}

/// Leaves out groups between the first few and the last of equal ones, where there are many.
void fold(Drawing& d) {
  std::map<std::string, std::vector<Group>> by_looks;
  for (Group& g : groups_of(d)) by_looks[g.looks].push_back(std::move(g));
  for (const auto& [looks, groups] : by_looks) {
    if (groups.size() <= kFirstGroups + 2) continue;
    const Group& last = groups.back();
    for (std::size_t i = kFirstGroups; i + 1 < groups.size(); ++i) {
      for (std::size_t k = 0; k < last.members.size(); ++k)
        d.stands_for[groups[i].members[k]] = last.members[k];
    }
    const std::size_t rest = groups.size() - kFirstGroups - 1;
    const auto before = std::find_if(d.vertices.begin(), d.vertices.end(),
                                     [&](const auto& v) { return v.name == last.members[0]; });
    const std::string more = fmt::format("... {} more ...", rest);
    d.vertices.insert(before, {more, "more", {}, 0, more});
    d.left_out +=
        fmt::format("{}of {} equal groups (that of {}, ...) {} are drawn", d.left_out.empty() ? "" : "; ",
                    groups.size(), groups[0].members[0], kFirstGroups + 1);
  }
  std::erase_if(d.vertices, [&](const auto& v) { return d.stands_for.contains(v.name); });
  std::erase_if(d.cables,
                [&](const auto& c) { return d.stands_for.contains(c.from) || d.stands_for.contains(c.to); });
}

/// Number of the series whose colour cables of a kind have: what has one name has one colour in all pictures.
std::size_t series_of_kind(const std::string& kind, std::size_t others_before) {
  constexpr std::pair<std::string_view, std::size_t> kKinds[] = {
      {"nvlink", 3}, {"xgmi-host", 6}, {"xgmi", 3},   {"ici", 3},
      {"pcie", 1},   {"socket", 2},    {"memory", 7}, {"network", 5}};
  for (const auto& [start, series] : kKinds) {
    if (kind.starts_with(start)) return series;
  }
  constexpr std::size_t kOthers[] = {4, 6, 8};
  return kOthers[others_before % std::size(kOthers)];
}

}  // namespace

Drawing drawing_of(const System& system) {
  Drawing out = node_of(system);
  if (out.vertices.size() > kMostVertices) fold(out);
  if (out.vertices.size() > kMostVertices)
    throw InputError(
        fmt::format("{} has {} vertices a node that differ, more than the {} that a drawing has "
                    "room for",
                    system.name(), out.vertices.size(), kMostVertices));
  lay_out(out);
  return out;
}

Gnuplot draw_system(const System& system) {
  const Drawing d = drawing_of(system);
  // A line of the legend: cables of one kind and bandwidth, the kinds in the order of the system's file.
  using Class = std::tuple<std::size_t, double, bool>;
  std::vector<std::string> kinds;
  std::map<Class, std::vector<const Drawing::Cable*>> classes;
  double least = INFINITY;
  for (const Drawing::Cable& c : d.cables) {
    auto kind = std::find(kinds.begin(), kinds.end(), c.kind);
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), c.kind);
    classes[{kind - kinds.begin(), c.bandwidth, c.half_duplex}].push_back(&c);
    least = std::min(least, c.bandwidth);
  }
  Gnuplot plot("system");
  std::vector<std::vector<std::string>> lines;
  std::size_t number = 0;
  for (const auto& [look, cables] : classes) {
    const auto& [kind, bandwidth, half] = look;
    ++number;
    for (const Drawing::Cable* c : cables) {
      if (!lines.empty()) lines.push_back({});
      for (const Point& p : along(c->course, 0))
        lines.push_back({cell(p.x), cell(p.y), std::to_string(number)});
    }
    plot.set(
        fmt::format("class_{}", number),
        fmt::format("{}: {} {}", kinds[kind], to_text(Bandwidth{bandwidth}), half ? "in all" : "each way"));
    plot.set(fmt::format("class_colour_{}", number), static_cast<double>(series_of_kind(kinds[kind], kind)));
    plot.set(fmt::format("class_width_{}", number), std::min(6.0, 1.6 + 0.8 * std::log2(bandwidth / least)));
  }
  std::string below = fmt::format("{} node{}, {} accelerators", system.nodes(),
                                  system.nodes() == 1 ? "" : "s", system.accelerator_count());
  if (system.nodes() > 1)
    below += system.kinds().size() > 1 ? "; a node of each kind is drawn" : "; one node is drawn";
  if (!d.left_out.empty()) below += "; " + d.left_out;
  plot.heading(fmt::format("{}: {}", system.name(), system.summary()), below);
  plot.set("classes", static_cast<double>(number));
  plot.set("letters", d.letters);
  if (lines.empty()) lines.push_back({"NaN", "NaN", "0"});
  plot.data("lines", lines);
  plot.data("boxes", box_cells(d));
  return plot;
}

}  // namespace tandem::pictures
