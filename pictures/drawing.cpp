// SPDX-License-Identifier: Apache-2.0
#include "pictures/drawing.h"

#include <algorithm>
#include <cmath>

#include "pictures/gnuplot.h"

namespace tandem::pictures {

namespace {

std::string colour_of(const std::string& kind) {
  if (kind == "gpu" || kind == "tpu") return "0xCFE8CF";
  return kind == "cpu" ? "0xCFDCF0" : kind == "more" ? "0xFFFFFF" : "0xEEEEEE";
}

}  // namespace

std::vector<std::vector<std::string>> box_cells(const Drawing& d) {
  std::vector<std::vector<std::string>> out;
  for (const Drawing::Vertex& v : d.vertices) {
    out.push_back({cell(v.at.x), cell(v.at.y), cell(v.half_width), cell(kBoxHalfHeight), colour_of(v.kind),
                   v.text, v.kind == "more" ? "0" : "1"});
  }
  return out;
}

std::vector<Point> along(const std::vector<Point>& course, double aside, int count) {
  std::vector<Point> out;
  for (std::size_t piece = 0; piece + 3 < course.size(); piece += 3) {
    const Point* const c = &course[piece];
    for (int s = piece == 0 ? 0 : 1; s <= count; ++s) {
      const double t = static_cast<double>(s) / count, u = 1 - t;
      const auto at = [&](double Point::*v) {
        return u * u * u * c[0].*v + 3 * u * u * t * c[1].*v + 3 * u * t * t * c[2].*v + t * t * t * c[3].*v;
      };
      const auto slope = [&](double Point::*v) {
        return u * u * (c[1].*v - c[0].*v) + 2 * u * t * (c[2].*v - c[1].*v) + t * t * (c[3].*v - c[2].*v);
      };
      const double dx = slope(&Point::x), dy = slope(&Point::y), length = std::max(1e-9, std::hypot(dx, dy));
      out.push_back({at(&Point::x) + aside * dy / length, at(&Point::y) - aside * dx / length});
    }
  }
  return out;
}

}  // namespace tandem::pictures
