// SPDX-License-Identifier: Apache-2.0
#include "app/pictures/link_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "app/console/report_text.h"
#include "app/pictures/gnuplot.h"
#include "base/json.h"

namespace tandem::app {

namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr double kWidth = 1000, kHeight = 600;  // pixels of the plot area, about
constexpr double kLane = 3.2;                   // pixels between the middle of a cable and its two lanes
constexpr int kSamples = 24;                    // of a cable's course
constexpr std::size_t kMostLabels = 40;
constexpr std::size_t kMostVertices = 64;  // more would not fit beside each other

struct Point {
  double x = 0, y = 0;
};
using Ends = std::pair<std::string, std::string>;

struct Cable {
  Ends ends;
  std::string kind;
  bool half_duplex = false;
};

/// One node's vertices and cables, with "network" where there is one.
struct Drawing {
  std::vector<std::pair<std::string, std::string>> vertices;  ///< name, kind
  std::vector<Cable> cables;
  std::vector<std::string> ports;
};

Drawing drawing_of(const System& system) {
  const Json document = Json::parse(system.to_json_text(), system.name());
  Drawing out;
  for (const char* list : {"devices", "vertices"}) {
    for (const Json& v : document.at(list).items())
      out.vertices.emplace_back(v.at("id").as_text(), v.at("kind").as_text());
  }
  const auto& links = document.at("links").items();
  for (std::size_t i = 0; i + 1 < links.size(); i += 2) {
    out.cables.push_back({{links[i].at("from").as_text(), links[i].at("to").as_text()},
                          links[i].at("kind").as_text(),
                          links[i].at("duplex").as_text() == "half"});
  }
  if (const Json* network = document.find("network"); network != nullptr && system.nodes() > 1) {
    out.vertices.emplace_back("network", "network");
    for (const Json& port : network->at("ports").items()) {
      out.ports.push_back(port.as_text());
      out.cables.push_back({{port.as_text(), "network"}, "network"});
    }
  }
  return out;
}

/// An end of a link as reports name it ("node2/gpu0>plx0", "node1/port0>leaf3") -> the vertex drawn for it;
/// what is not in a node belongs to the network.
std::string vertex_of(const std::string& end, const Drawing& d) {
  const auto slash = end.find('/');
  std::string name = slash == std::string::npos ? end : end.substr(slash + 1);
  for (const auto& [vertex, kind] : d.vertices) {
    if (vertex == name) return name;
  }
  for (std::size_t p = 0; p < d.ports.size(); ++p) {
    // A torus names its nodes alone: each has one port.
    if (name == fmt::format("port{}", p) || (slash == std::string::npos && end.rfind("node", 0) == 0))
      return d.ports[p];
  }
  return "network";
}

std::map<Ends, double> use_of(const Report& report, const Drawing& d) {
  std::map<Ends, double> out;
  for (const LinkUse& use : report.links) {
    const auto arrow = use.name.find('>');
    if (arrow == std::string::npos) continue;  // storage, decoding cores
    const std::string from = vertex_of(use.name.substr(0, arrow), d);
    std::string to = vertex_of(use.name.substr(arrow + 1), d);
    if (from == to) to = "network";  // from node to node of a torus
    double& busy = out[{from, to}];
    busy = std::max(busy, use.busy);
  }
  return out;
}

/// Where vertices stand and cables run, in pixels of the plot area.
struct Layout {
  std::vector<Point> at;                   ///< [vertex], the middle of its box
  std::vector<double> half_width;          ///< [vertex]
  std::vector<std::vector<Point>> course;  ///< [cable]: four control points
};

/// Rows from the bottom: the network; NICs and memory; CPUs; PCIe switches by their hops from a CPU; devices;
/// switches of the fabric.
class RowLayout {
 public:
  explicit RowLayout(const Drawing& d) : d_(d), row_(d.vertices.size(), 0) {
    for (std::size_t v = 0; v < d.vertices.size(); ++v) index_[d.vertices[v].first] = v;
    for (const Cable& c : d.cables) {
      const std::size_t a = index_.at(c.ends.first), b = index_.at(c.ends.second);
      next_[a].push_back(b);
      next_[b].push_back(a);
    }
    set_rows();
  }

  Layout lay_out() {
    Layout out;
    const std::size_t n = d_.vertices.size();
    out.at.resize(n);
    const int top = *std::max_element(row_.begin(), row_.end());
    const bool arcs = std::any_of(d_.cables.begin(), d_.cables.end(), [&](const Cable& c) {
      return same_row(c) && row_[index_.at(c.ends.first)] == top;
    });
    const double high = arcs ? 0.62 * kHeight : kHeight - 40;
    x_.assign(n, -1);
    // Devices give the columns; what joins them stands below their middle, the rest below that.
    spread(devices_);
    for (int r = device_row_ - 1; r >= 0; --r) settle(r);
    for (int r = device_row_ + 1; r <= top; ++r) settle(r);
    for (std::size_t v = 0; v < n; ++v) {
      out.at[v] = {x_[v], 30 + (high - 30) * row_[v] / std::max(1, top)};
      out.half_width.push_back(half_width(v));
    }
    for (const Cable& c : d_.cables) out.course.push_back(course(c, out));
    return out;
  }

 private:
  const std::string& kind(std::size_t v) const { return d_.vertices[v].second; }
  bool wide(std::size_t v) const { return kind(v) == "nvswitch" || kind(v) == "network"; }
  bool same_row(const Cable& c) const {
    return row_[index_.at(c.ends.first)] == row_[index_.at(c.ends.second)];
  }
  double half_width(std::size_t v) const {
    const double text = 5.2 * static_cast<double>(d_.vertices[v].first.size()) + 7;
    if (!wide(v)) return text;
    double low = x_[v], top = x_[v];
    for (const std::size_t o : next_.contains(v) ? next_.at(v) : std::vector<std::size_t>{})
      low = std::min(low, x_[o]), top = std::max(top, x_[o]);
    const auto of_kind = std::count_if(d_.vertices.begin(), d_.vertices.end(),
                                       [&](const auto& w) { return w.second == kind(v); });
    return std::max(text, (top - low) / 2 / static_cast<double>(of_kind) + (of_kind > 1 ? -10 : 25));
  }

  void set_rows() {
    const std::size_t n = d_.vertices.size();
    std::vector<int> hops(n, -1);
    std::vector<std::size_t> open;
    for (std::size_t v = 0; v < n; ++v) {
      if (kind(v) == "cpu") hops[v] = 0, open.push_back(v);
    }
    int deepest = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
      for (const std::size_t o : next_[open[i]]) {
        if (hops[o] >= 0 || kind(o) != "pcie_switch") continue;
        deepest = hops[o] = hops[open[i]] + 1;
        open.push_back(o);
      }
    }
    const bool network = std::any_of(d_.vertices.begin(), d_.vertices.end(),
                                     [](const auto& v) { return v.second == "network"; });
    const int cpus = network ? 2 : 1;
    const bool trains = std::any_of(d_.vertices.begin(), d_.vertices.end(),
                                    [](const auto& v) { return v.second == "gpu" || v.second == "tpu"; });
    device_row_ = trains ? cpus + deepest + 1 : cpus;
    for (std::size_t v = 0; v < n; ++v) {
      const bool device = kind(v) == "gpu" || kind(v) == "tpu" || (!trains && kind(v) == "cpu");
      row_[v] = device                     ? device_row_
                : kind(v) == "cpu"         ? cpus
                : kind(v) == "pcie_switch" ? cpus + std::max(1, hops[v])
                : kind(v) == "nvswitch"    ? device_row_ + 1
                : kind(v) == "network"     ? 0
                                           : cpus - 1;
      if (device) devices_.push_back(v);
    }
  }

  /// In even columns, devices of one host together.
  void spread(std::vector<std::size_t>& row) {
    std::stable_sort(row.begin(), row.end(), [&](std::size_t a, std::size_t b) { return host(a) < host(b); });
    for (std::size_t i = 0; i < row.size(); ++i)
      x_[row[i]] = kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
  }
  /// The first CPU on the way down.
  std::size_t host(std::size_t v) {
    std::vector<std::size_t> open{v};
    std::vector<char> seen(d_.vertices.size(), 0);
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (kind(open[i]) == "cpu") return open[i];
      for (const std::size_t o : next_[open[i]]) {
        if (seen[o] != 0 || row_[o] >= row_[open[i]]) continue;
        seen[o] = 1;
        open.push_back(o);
      }
    }
    return d_.vertices.size();
  }
  /// A row below or above those that stand: each vertex at the middle of its neighbours, apart from the next.
  void settle(int r) {
    std::vector<std::size_t> row;
    for (std::size_t v = 0; v < row_.size(); ++v) {
      if (row_[v] != r) continue;
      row.push_back(v);
      double sum = 0;
      int count = 0;
      for (const std::size_t o : next_[v]) {
        if (x_[o] >= 0 && row_[o] != r) sum += x_[o], ++count;
      }
      x_[v] = count > 0 ? sum / count : kWidth / 2;
    }
    std::stable_sort(row.begin(), row.end(), [&](std::size_t a, std::size_t b) { return x_[a] < x_[b]; });
    push_apart(row);
  }
  void push_apart(const std::vector<std::size_t>& row) {
    if (row.empty()) return;
    const double gap = std::min(kWidth / static_cast<double>(row.size()), wide(row[0]) ? kWidth : 75.0);
    for (int round = 0; round < 200; ++round) {
      for (std::size_t i = 1; i < row.size(); ++i) {
        const double lack = gap - (x_[row[i]] - x_[row[i - 1]]);
        if (lack <= 0) continue;
        x_[row[i - 1]] -= lack / 2;
        x_[row[i]] += lack / 2;
      }
    }
    for (const std::size_t v : row) x_[v] = std::clamp(x_[v], 30.0, kWidth - 30);
  }

  /// Straight between rows and between neighbours, else an arc above the row.
  std::vector<Point> course(const Cable& c, const Layout& l) const {
    std::size_t a = index_.at(c.ends.first), b = index_.at(c.ends.second);
    Point from = l.at[a], to = l.at[b];
    if (wide(a) && !wide(b))
      from.x = std::clamp(to.x, from.x - l.half_width[a] + 8, from.x + l.half_width[a] - 8);
    if (wide(b) && !wide(a))
      to.x = std::clamp(from.x, to.x - l.half_width[b] + 8, to.x + l.half_width[b] - 8);
    const double apart = std::abs(to.x - from.x);
    if (row_[a] != row_[b] || kind(a) == "cpu") {
      const auto between = [&](double t) {
        return Point{from.x + t * (to.x - from.x), from.y + t * (to.y - from.y)};
      };
      return {from, between(1.0 / 3), between(2.0 / 3), to};
    }
    const double side = (to.x > from.x ? 1 : -1) * std::min(22.0, 0.03 * apart), rise = 25 + 0.3 * apart;
    return {{from.x + side, from.y},
            {from.x + 2 * side, from.y + rise},
            {to.x - 2 * side, to.y + rise},
            {to.x - side, to.y}};
  }

  const Drawing& d_;
  std::map<std::string, std::size_t> index_;
  std::map<std::size_t, std::vector<std::size_t>> next_;
  std::vector<int> row_;
  std::vector<double> x_;
  std::vector<std::size_t> devices_;
  int device_row_ = 0;
};

/// The course sampled, moved to its right by `aside`.
std::vector<Point> lane(std::vector<Point> control, double aside, bool back) {
  if (back) std::reverse(control.begin(), control.end());
  std::vector<Point> out;
  for (std::size_t piece = 0; piece + 3 < control.size(); piece += 3) {
    const Point* const c = &control[piece];
    for (int s = piece == 0 ? 0 : 1; s <= kSamples; ++s) {
      const double t = static_cast<double>(s) / kSamples, u = 1 - t;
      const auto at = [&](double Point::*v) {
        return u * u * u * c[0].*v + 3 * u * u * t * c[1].*v + 3 * u * t * t * c[2].*v + t * t * t * c[3].*v;
      };
      const auto along = [&](double Point::*v) {
        return u * u * (c[1].*v - c[0].*v) + 2 * u * t * (c[2].*v - c[1].*v) + t * t * (c[3].*v - c[2].*v);
      };
      const double dx = along(&Point::x), dy = along(&Point::y), length = std::max(1e-9, std::hypot(dx, dy));
      out.push_back({at(&Point::x) + aside * dy / length, at(&Point::y) - aside * dx / length});
    }
  }
  return out;
}

struct Picture {
  Rows used, idle, labels;  ///< lanes of cables that carried something, of the others; shares of the busiest
};

/// The directions of a cable as lanes; a half-duplex one has one.
void add_cable(const Cable& cable, const std::vector<Point>& course, const std::map<Ends, double>& use,
               double labelled, Picture& out) {
  const Ends back{cable.ends.second, cable.ends.first};
  const auto busy_of = [&](const Ends& e) { return use.contains(e) ? use.at(e) : 0.0; };
  const double both = std::max(busy_of(cable.ends), busy_of(back));
  for (const bool reverse : {false, true}) {
    if (cable.half_duplex && reverse) break;
    const double busy = cable.half_duplex ? both : busy_of(reverse ? back : cable.ends);
    Rows& rows = busy > 0 ? out.used : out.idle;
    if (!rows.empty()) rows.insert(rows.end(), 2, {});
    for (const Point& p : lane(course, cable.half_duplex ? 0 : kLane, reverse))
      rows.push_back({cell(p.x), cell(p.y), cell(100 * busy)});
  }
  if (both < labelled) return;
  const auto middle = lane(course, 0, false);
  const Point& p = middle[middle.size() / 2];
  out.labels.push_back({cell(p.x), cell(p.y), fmt::format("{:.0f}", 100 * both)});
}

/// The use from which cables are labelled: that of the busiest few.
double least_labelled(const Drawing& d, const std::map<Ends, double>& use) {
  std::vector<double> all;
  for (const Cable& c : d.cables) {
    double most = 0;
    for (const Ends& e : {c.ends, Ends{c.ends.second, c.ends.first}})
      most = std::max(most, use.contains(e) ? use.at(e) : 0.0);
    all.push_back(most);
  }
  std::sort(all.rbegin(), all.rend());
  return all.size() <= kMostLabels ? 0.005 : std::max(0.005, all[kMostLabels]);
}

}  // namespace

System system_of(const Report& report, const std::string& name_or_file) {
  std::vector<std::pair<std::string, std::string>> sets;
  for (const auto& [key, value] : report.inputs) {
    if (key.rfind("set.", 0) == 0) sets.emplace_back(key.substr(4), value);
  }
  const std::string name = name_or_file.empty() ? report_input(report, "system") : name_or_file;
  return System::load(name, sets);
}

std::vector<std::string> draw_link_map(const Report& report, const System& system, const std::string& base) {
  const Drawing d = drawing_of(system);
  if (d.vertices.size() > kMostVertices)
    throw InputError(fmt::format("{} has {} vertices a node, more than the {} that a drawing has room for",
                                 system.name(), d.vertices.size(), kMostVertices));
  const auto use = use_of(report, d);
  if (std::none_of(use.begin(), use.end(), [](const auto& u) { return u.second > 0; }))
    throw InputError(fmt::format("the report names no link of {} that was used", system.name()));
  for (const auto& [ends, busy] : use) {
    const auto joins = [&, &ends = ends](const Cable& c) {
      return c.ends == ends || (c.ends.first == ends.second && c.ends.second == ends.first);
    };
    if (ends.first == ends.second || std::any_of(d.cables.begin(), d.cables.end(), joins)) continue;
    throw InputError(
        fmt::format("the report's link {}>{} is not one of {}: name the machine that it was made for with "
                    "--system",
                    ends.first, ends.second, system.name()));
  }
  const Layout layout = RowLayout(d).lay_out();
  Picture picture;
  const double labelled = least_labelled(d, use);
  for (std::size_t i = 0; i < d.cables.size(); ++i)
    add_cable(d.cables[i], layout.course[i], use, labelled, picture);
  Rows boxes;
  for (std::size_t v = 0; v < d.vertices.size(); ++v) {
    const auto& [name, kind] = d.vertices[v];
    const char* color = kind == "gpu" || kind == "tpu" ? "0xCFE8CF" : kind == "cpu" ? "0xCFDCF0" : "0xEEEEEE";
    boxes.push_back(
        {cell(layout.at[v].x), cell(layout.at[v].y), cell(layout.half_width[v]), "13", color, name});
  }
  for (Rows* rows : {&picture.idle, &picture.used, &picture.labels}) {
    if (rows->empty()) rows->push_back({"NaN", "NaN", "0"});
  }
  Gnuplot plot("link_map");
  plot.heading(fmt::format("Link use on {} devices: {}", report.devices, report_title(report)));
  plot.data("used", picture.used);
  plot.data("idle", picture.idle);
  plot.data("labels", picture.labels);
  plot.data("boxes", boxes);
  return plot.draw(base);
}

}  // namespace tandem::app
