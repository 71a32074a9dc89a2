// SPDX-License-Identifier: Apache-2.0
#include "pictures/system_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "pictures/draw.h"
#include "pictures/gnuplot.h"

namespace tandem::pictures {

namespace {

constexpr double kSide = 35, kBottom = 30;  // pixels between the middle of outer boxes and the edge

/// Graphviz orders and spaces what stands in rows; bars over the whole width (switches of the fabric, the
/// network) and courses along a row are our own.
class Layout {
 public:
  explicit Layout(Drawing& d) : d_(d), row_(d.vertices.size(), 0) {
    for (std::size_t v = 0; v < d.vertices.size(); ++v) index_[d.vertices[v].name] = v;
    for (const Drawing::Cable& c : d.cables) {
      next_[index_.at(c.from)].push_back(index_.at(c.to));
      next_[index_.at(c.to)].push_back(index_.at(c.from));
    }
    set_rows();
  }

  void run() {
    place(draw_dot_plain(dot()));
    set_letters();
    for (std::size_t v = 0; v < row_.size(); ++v) {
      if (wide(v)) stretch(v);
    }
    part_bars();
    for (std::size_t c = 0; c < d_.cables.size(); ++c) {
      if (d_.cables[c].course.empty()) d_.cables[c].course = course(d_.cables[c]);
    }
  }

 private:
  const std::string& kind(std::size_t v) const { return d_.vertices[v].kind; }
  bool wide(std::size_t v) const { return kind(v) == "nvswitch" || kind(v) == "network"; }
  Point& at(std::size_t v) { return d_.vertices[v].at; }
  const Point& at(std::size_t v) const { return d_.vertices[v].at; }

  void set_rows() {
    const std::size_t n = d_.vertices.size();
    std::vector<int> hops(n, -1);
    std::vector<std::size_t> open;
    const auto any = [&](std::string_view one, std::string_view other) {
      return std::any_of(d_.vertices.begin(), d_.vertices.end(),
                         [&](const auto& v) { return v.kind == one || v.kind == other; });
    };
    const bool trains = any("gpu", "tpu");
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
    const int cpus = trains ? 2 : 2 + deepest;
    device_row_ = trains ? cpus + deepest + 1 : cpus;
    for (std::size_t v = 0; v < n; ++v) {
      const bool device =
          kind(v) == "gpu" || kind(v) == "tpu" || kind(v) == "more" || (!trains && kind(v) == "cpu");
      row_[v] = device             ? device_row_
                : kind(v) == "cpu" ? cpus
                : kind(v) == "pcie_switch"
                    ? (trains ? cpus + std::max(1, hops[v]) : cpus - std::max(1, hops[v]))
                : kind(v) == "nvswitch" ? device_row_ + 1
                : kind(v) == "network"  ? 0
                                        : 1;
    }
  }

  /// What stands in rows, those of one row on one rank, devices in the order of their names.
  std::string dot() const {
    std::string out =
        "graph {\nnodesep=0.3\nranksep=0.8\nnode [shape=box, width=0.8, height=0.35, fixedsize=true]\n";
    std::map<int, std::string, std::greater<>> ranks;
    std::string devices;
    for (std::size_t v = 0; v < row_.size(); ++v) {
      if (wide(v)) continue;
      ranks[row_[v]] += fmt::format(" n{};", v);
      if (kind(v) == "more") out += fmt::format("n{} [width=2]\n", v);
      if (row_[v] == device_row_) devices += fmt::format("{}n{}", devices.empty() ? "" : " -- ", v);
    }
    for (const auto& [row, members] : ranks) out += fmt::format("{{ rank=same;{} }}\n", members);
    out += devices + " [style=invis, weight=4]\n";
    for (std::size_t i = 0; i < d_.cables.size(); ++i) {
      std::size_t a = index_.at(d_.cables[i].from), b = index_.at(d_.cables[i].to);
      if (wide(a) || wide(b)) continue;
      if (row_[a] < row_[b]) std::swap(a, b);
      if (row_[a] != row_[b]) out += fmt::format("n{} -- n{} [label=\"{}\"]\n", a, b, i);
    }
    return out + "}\n";
  }

  /// Reads Graphviz's "plain" output: "node NAME X Y ..." and "edge TAIL HEAD N X1 Y1 ... XN YN LABEL ...",
  /// in inches, scaled to the drawing.
  void place(const std::string& plain) {
    std::istringstream lines(plain);
    std::vector<Point> inches(row_.size());
    Point low{INFINITY, INFINITY}, top{-INFINITY, -INFINITY};
    std::map<std::size_t, std::vector<Point>> courses;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word, tail, head;
      words >> word;
      if (word == "node") {
        Point p;
        words >> tail >> p.x >> p.y;
        inches.at(std::stoul(tail.substr(1))) = p;
        low = {std::min(low.x, p.x), std::min(low.y, p.y)};
        top = {std::max(top.x, p.x), std::max(top.y, p.y)};
      } else if (word == "edge") {
        std::size_t count = 0;
        words >> tail >> head >> count;
        std::vector<Point> points(count);
        for (Point& p : points) words >> p.x >> p.y;
        if (words >> word && word != "solid" && word != "invis")
          courses[std::stoul(word)] = std::move(points);
      }
    }
    scale(inches, courses, low, top);
  }

  void scale(const std::vector<Point>& inches, const std::map<std::size_t, std::vector<Point>>& courses,
             const Point& low, const Point& top) {
    const bool bar = has_row(device_row_ + 1), network = has_row(0);
    const double foot = kBottom + (network ? 100 : 0), height = room_above() - (bar ? 100 : 0);
    const auto to_pixels = [&](const Point& p) {
      return Point{
          top.x > low.x ? kSide + (p.x - low.x) / (top.x - low.x) * (kDrawingWidth - 2 * kSide)
                        : kDrawingWidth / 2,
          top.y > low.y ? foot + (p.y - low.y) / (top.y - low.y) * (height - foot) : (foot + height) / 2};
    };
    for (std::size_t v = 0; v < row_.size(); ++v) at(v) = to_pixels(inches[v]);
    for (const auto& [cable, points] : courses) {
      const Drawing::Cable& c = d_.cables.at(cable);
      std::size_t a = index_.at(c.from), b = index_.at(c.to);
      const bool up = row_[a] < row_[b];
      if (up) std::swap(a, b);
      std::vector<Point> out;
      for (const Point& p : points) out.push_back(to_pixels(p));
      // Graphviz ends lines at its own boxes, which are larger than ours.
      out.front() = at(a);
      out.back() = at(b);
      if (up) std::reverse(out.begin(), out.end());
      d_.cables[cable].course = std::move(out);
    }
  }

  bool has_row(int row) const { return std::find(row_.begin(), row_.end(), row) != row_.end(); }
  /// The middle of the uppermost row: lower where arcs join devices.
  double room_above() const {
    const bool arcs = std::any_of(d_.cables.begin(), d_.cables.end(), [&](const Drawing::Cable& c) {
      return row_[index_.at(c.from)] == device_row_ && row_[index_.at(c.to)] == device_row_;
    });
    return arcs ? 0.62 * kDrawingHeight : kDrawingHeight - 40;
  }

  /// As large as the closest neighbours of a row allow.
  void set_letters() {
    std::map<int, std::vector<std::size_t>> rows;
    for (std::size_t v = 0; v < row_.size(); ++v) {
      if (!wide(v)) rows[row_[v]].push_back(v);
    }
    for (auto& [row, members] : rows) {
      std::sort(members.begin(), members.end(),
                [&](std::size_t a, std::size_t b) { return at(a).x < at(b).x; });
      for (std::size_t i = 1; i < members.size(); ++i) {
        const std::string& wider = std::max(d_.vertices[members[i - 1]].text, d_.vertices[members[i]].text,
                                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
        d_.letters = fitting_size(wider, d_.letters, at(members[i]).x - at(members[i - 1]).x - 10);
      }
    }
    for (Drawing::Vertex& v : d_.vertices) v.half_width = text_width(v.text, d_.letters) / 2 + 3;
  }

  /// A bar as wide as what it joins.
  void stretch(std::size_t v) {
    double low = INFINITY, top = -INFINITY;
    for (const std::size_t o : next_[v]) {
      if (wide(o)) continue;
      low = std::min(low, at(o).x - d_.vertices[o].half_width);
      top = std::max(top, at(o).x + d_.vertices[o].half_width);
    }
    if (low > top) low = kSide, top = kDrawingWidth - kSide;
    d_.vertices[v].half_width = std::clamp((top - low) / 2, 100.0, kDrawingWidth / 2);
    const double half = d_.vertices[v].half_width;
    at(v) = {std::clamp((low + top) / 2, half, kDrawingWidth - half),
             kind(v) == "network" ? kBottom : room_above()};
  }

  /// Bars of one row that would lie on each other share their width.
  void part_bars() {
    std::vector<std::size_t> bars;
    for (std::size_t v = 0; v < row_.size(); ++v) {
      if (kind(v) == "nvswitch") bars.push_back(v);
    }
    const auto lap = [&](std::size_t a, std::size_t b) {
      return std::abs(at(a).x - at(b).x) < d_.vertices[a].half_width + d_.vertices[b].half_width + 10;
    };
    bool over = false;
    for (std::size_t i = 1; i < bars.size(); ++i) over = over || lap(bars[i - 1], bars[i]);
    if (!over) return;
    const double each = (kDrawingWidth - 2 * kSide) / static_cast<double>(bars.size());
    for (std::size_t i = 0; i < bars.size(); ++i) {
      at(bars[i]).x = kSide + each * (static_cast<double>(i) + 0.5);
      d_.vertices[bars[i]].half_width = each / 2 - 5;
    }
  }

  /// Straight to bars and between neighbours of the CPUs' row, else an arc above the row.
  std::vector<Point> course(const Drawing::Cable& c) const {
    const std::size_t a = index_.at(c.from), b = index_.at(c.to);
    Point from = at(a), to = at(b);
    const auto onto = [&](Point& end, std::size_t bar, const Point& other) {
      const double half = d_.vertices[bar].half_width - 8;
      end.x = std::clamp(other.x, end.x - half, end.x + half);
    };
    if (wide(a) && !wide(b)) onto(from, a, to);
    if (wide(b) && !wide(a)) onto(to, b, from);
    if (wide(b) && blocked(a, b)) {  // next to what is in between
      const double x = from.x + d_.vertices[a].half_width + 40;
      return {from, {x, from.y}, {x, from.y}, {x, (from.y + to.y) / 2}, {x, to.y}, {x, to.y}, {x, to.y}};
    }
    if (row_[a] != row_[b] || wide(a) || (row_[a] != device_row_ && neighbours(a, b))) {
      const auto between = [&](double t) {
        return Point{from.x + t * (to.x - from.x), from.y + t * (to.y - from.y)};
      };
      return {from, between(1.0 / 3), between(2.0 / 3), to};
    }
    const double apart = std::abs(to.x - from.x),
                 side = (to.x > from.x ? 1 : -1) * std::min(22.0, 0.03 * apart), rise = 25 + 0.3 * apart;
    return {{from.x + side, from.y},
            {from.x + 2 * side, from.y + rise},
            {to.x - 2 * side, to.y + rise},
            {to.x - side, to.y}};
  }

  /// A box stands between `a` and the bar below or above it.
  bool blocked(std::size_t a, std::size_t bar) const {
    const auto [low, top] = std::minmax(at(a).y, at(bar).y);
    for (std::size_t v = 0; v < row_.size(); ++v) {
      if (at(v).y > low && at(v).y < top && std::abs(at(v).x - at(a).x) < d_.vertices[v].half_width)
        return true;
    }
    return false;
  }

  bool neighbours(std::size_t a, std::size_t b) const {
    const auto [low, top] = std::minmax(at(a).x, at(b).x);
    for (std::size_t v = 0; v < row_.size(); ++v) {
      if (row_[v] == row_[a] && at(v).x > low && at(v).x < top) return false;
    }
    return true;
  }

  Drawing& d_;
  std::map<std::string, std::size_t> index_;
  std::map<std::size_t, std::vector<std::size_t>> next_;
  std::vector<int> row_;
  int device_row_ = 0;
};

}  // namespace

void lay_out(Drawing& drawing) { Layout(drawing).run(); }

}  // namespace tandem::pictures
