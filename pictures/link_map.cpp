// SPDX-License-Identifier: Apache-2.0
#include "pictures/link_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "answers/labels.h"
#include "base/error.h"
#include "pictures/gnuplot.h"
#include "pictures/system_drawing.h"

namespace tandem::pictures {

namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr double kLane = 3.2;   // pixels between the middle of a cable and its two lanes
constexpr double kNumber = 10;  // size of the shares, in points
constexpr double kLine = 17;    // pixels that a line of that size is high

using Ends = std::pair<std::string, std::string>;

/// What stands before the names of the drawn node that is of the same kind as "node12", or as all of
/// "node8*"; nothing if all nodes are equal.
std::string drawn_node(const std::string& node, const Drawing& d) {
  int64_t number = -1, first = -1;
  if (node.starts_with("node")) std::from_chars(node.data() + 4, node.data() + node.size(), number);
  for (const int64_t f : d.first_nodes) first = f <= number ? f : first;
  return first < 0 ? "" : fmt::format("node{}/", first);
}

/// An end of a link as reports name it ("node2/gpu0", "node1/port0", "leaf3", "node*/gpu0") -> the vertex
/// drawn for it; what is not in a node belongs to the network. `node`: of the link's other end, for one that
/// names it once ("node2/gpu0>plx0").
std::string vertex_of(const std::string& end, const std::string& node, const Drawing& d) {
  const auto slash = end.find('/');
  const auto drawn = [&](const std::string& name) {
    const auto other = d.stands_for.find(name);
    return other == d.stands_for.end() ? name : other->second;
  };
  const bool is_node = slash == std::string::npos && end.starts_with("node");
  const std::string prefix = drawn_node(slash != std::string::npos ? end.substr(0, slash)
                                        : is_node                  ? end
                                                                   : node,
                                        d),
                    name = slash == std::string::npos ? end : end.substr(slash + 1);
  const std::string whole_name = drawn(prefix + name);
  for (const Drawing::Vertex& v : d.vertices) {
    if (v.name == whole_name) return whole_name;
  }
  std::size_t number = 0;
  for (const std::string& port : d.ports) {
    if (!port.starts_with(prefix)) continue;
    // A torus names its nodes alone: each has one port.
    if (name == fmt::format("port{}", number++) || is_node) return drawn(port);
  }
  return "network";
}

/// Of all links at one place of the drawing, or of one kind.
struct UseOfEnds {
  int64_t links = 0;
  double sum = 0, most = 0;  ///< of the shares of time that they were busy
  void add(const LinkGroup& g) {
    links += g.links;
    sum += g.busy_mean * static_cast<double>(g.links);
    most = std::max(most, g.busy_max);
  }
};

/// By the ends of what is drawn; links between switches of the network are from "network" to "network".
std::map<Ends, UseOfEnds> use_of(const Report& report, const Drawing& d) {
  std::vector<LinkGroup> groups = report.network.groups;
  if (groups.empty()) {
    for (const LinkUse& l : report.network.links) groups.push_back({l.name, 1, l.busy, l.busy, l.bytes});
  }
  std::map<Ends, UseOfEnds> out;
  for (const LinkGroup& g : groups) {
    const auto arrow = g.name.find('>');
    if (arrow == std::string::npos) continue;  // storage, decoding cores
    const std::string first = g.name.substr(0, arrow), second = g.name.substr(arrow + 1);
    const std::string from = vertex_of(first, "", d);
    std::string to = vertex_of(second, first.substr(0, first.find('/')), d);
    if (from == to) to = "network";  // from node to node of a torus
    out[{from, to}].add(g);
  }
  return out;
}

const Drawing::Cable* cable_between(const Drawing& d, const Ends& ends) {
  const auto at = std::find_if(d.cables.begin(), d.cables.end(), [&](const Drawing::Cable& c) {
    return Ends{c.from, c.to} == ends || Ends{c.to, c.from} == ends;
  });
  return at == d.cables.end() ? nullptr : &*at;
}

/// "nvlink: 512 links, mean 3.2 %, most 5.0 %", by kind, the busiest first. Throws where a link is none
/// of the system's.
std::string use_by_kind(const std::map<Ends, UseOfEnds>& use, const Drawing& d, const System& system) {
  std::map<std::string, UseOfEnds> kinds;
  for (const auto& [ends, u] : use) {
    const Drawing::Cable* cable = cable_between(d, ends);
    if (cable == nullptr && ends.first != ends.second)
      throw InputError(
          fmt::format("the report's link {}>{} is not one of {}: name the machine that it was made for "
                      "with --system",
                      ends.first, ends.second, system.name()));
    UseOfEnds& kind = kinds[cable == nullptr ? "network" : cable->kind];
    kind.links += u.links;
    kind.sum += u.sum;
    kind.most = std::max(kind.most, u.most);
  }
  std::vector<std::pair<std::string, UseOfEnds>> sorted(kinds.begin(), kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.most > b.second.most; });
  std::string out;
  for (const auto& [kind, u] : sorted) {
    const std::string count = whole(u.links);
    out +=
        fmt::format("{}{}: {} link{}, mean {:.1f} %, most {:.1f} %", out.empty() ? "" : "  ·  ", kind, count,
                    u.links == 1 ? "" : "s", 100 * u.sum / static_cast<double>(u.links), 100 * u.most);
  }
  return out;
}

/// A rectangle in the drawing.
struct Area {
  Point at;
  double half_width = 0, half_height = 0;
  bool laps(const Area& o) const {
    return std::abs(at.x - o.at.x) < half_width + o.half_width &&
           std::abs(at.y - o.at.y) < half_height + o.half_height;
  }
};

struct MapCells {
  Rows used, idle, labels;  ///< lanes of cables that carried something, of the others; shares of the busiest
  std::vector<Area> taken;  ///< by boxes and labels
};

double busy_of(const std::map<Ends, UseOfEnds>& use, const Ends& ends) {
  const auto at = use.find(ends);
  return at == use.end() ? 0.0 : at->second.most;
}

double busier_of(const std::map<Ends, UseOfEnds>& use, const Drawing::Cable& c) {
  return std::max(busy_of(use, {c.from, c.to}), busy_of(use, {c.to, c.from}));
}

/// The directions of a cable as lanes; a half-duplex one has one.
void add_lanes(const Drawing::Cable& c, const std::map<Ends, UseOfEnds>& use, MapCells& out) {
  for (const bool back : {false, true}) {
    if (c.half_duplex && back) break;
    const double busy =
        c.half_duplex ? busier_of(use, c) : busy_of(use, back ? Ends{c.to, c.from} : Ends{c.from, c.to});
    std::vector<Point> course = c.course;
    if (back) std::reverse(course.begin(), course.end());
    Rows& rows = busy > 0 ? out.used : out.idle;
    if (!rows.empty()) rows.insert(rows.end(), 2, {});
    for (const Point& p : along(course, c.half_duplex ? 0 : kLane))
      rows.push_back({cell(p.x), cell(p.y), cell(100 * busy)});
  }
}

/// The share of the busier direction, on the cable where it covers neither a box nor another share; the
/// colour alone says it where there is no such place.
void add_label(const Drawing::Cable& c, double busy, MapCells& out) {
  if (busy < 0.005) return;
  const std::string text = fmt::format("{:.0f}", 100 * busy);
  const std::vector<Point> course = along(c.course, 0);
  for (const double t : {0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8}) {
    const Point& p = course[static_cast<std::size_t>(t * static_cast<double>(course.size() - 1))];
    const Area area{p, text_width(text, kNumber) / 2 + 4, kLine / 2};
    if (std::any_of(out.taken.begin(), out.taken.end(), [&](const Area& a) { return a.laps(area); }))
      continue;
    out.taken.push_back(area);
    out.labels.push_back({cell(p.x), cell(p.y), text});
    return;
  }
}

MapCells cells_of(const Drawing& d, const std::map<Ends, UseOfEnds>& use) {
  MapCells out;
  for (const Drawing::Vertex& v : d.vertices) out.taken.push_back({v.at, v.half_width, kBoxHalfHeight});
  std::vector<std::pair<double, const Drawing::Cable*>> busiest;
  for (const Drawing::Cable& c : d.cables) {
    add_lanes(c, use, out);
    busiest.emplace_back(busier_of(use, c), &c);
  }
  std::stable_sort(busiest.begin(), busiest.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [busy, cable] : busiest) add_label(*cable, busy, out);
  for (Rows* rows : {&out.idle, &out.used}) {
    if (rows->empty()) rows->push_back({"NaN", "NaN", "0"});
  }
  if (out.labels.empty())
    out.labels.push_back({"-99", "-99", " "});  // off the picture: gnuplot 5.4 crashes on none
  return out;
}

}  // namespace

System system_of(const Report& report, const std::string& name_or_file) {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const auto& [key, value] : report.setup.inputs) {
    if (key.rfind("set.", 0) == 0) sets.emplace_back(key.substr(4), value);
  }
  const std::string name = name_or_file.empty() ? report_input(report, "system") : name_or_file;
  return System::load(name, sets);
}

Pictures draw_link_map(const Report& report, const System& system, const std::string& base) {
  const Drawing d = drawing_of(system);
  const auto use = use_of(report, d);
  if (std::none_of(use.begin(), use.end(), [](const auto& u) { return u.second.most > 0; }))
    throw InputError(fmt::format("the report names no link of {} that was used", system.name()));
  const std::string kinds = use_by_kind(use, d, system);
  const MapCells picture = cells_of(d, use);
  const bool several = report.setup.devices > static_cast<int64_t>(system.accelerators().size());
  std::string below = !d.first_nodes.empty()
                          ? "a node of each kind is drawn; colours and numbers are those of its busiest node"
                      : several && system.nodes() > 1
                          ? "one node is drawn; colours and numbers are those of the busiest node"
                          : "";
  if (!d.left_out.empty())
    below += (below.empty() ? "" : "; ") + d.left_out + ", the last for the busiest of the others";
  Gnuplot plot("link_map");
  plot.heading(fmt::format("Link use on {} device{}: {}", report.setup.devices,
                           report.setup.devices == 1 ? "" : "s", report_title(report)),
               below);
  plot.set("kinds", kinds);
  plot.set("kinds_size", fitting_size(kinds, 11, kPictureWidth - 40));
  plot.set("letters", d.letters);
  plot.set("number_size", kNumber);
  plot.data("used", picture.used);
  plot.data("idle", picture.idle);
  plot.data("labels", picture.labels);
  plot.data("boxes", box_cells(d));
  return {{base, std::move(plot)}};
}

}  // namespace tandem::pictures
