// SPDX-License-Identifier: Apache-2.0
#pragma once
// Boxes and the lines between them, placed on a picture.
#include <map>
#include <string>
#include <vector>

#include "base/rooms.h"

namespace tandem::pictures {

/// In pixels of a plot area of kDrawingWidth x kDrawingHeight, y upwards.
struct Point {
  double x = 0, y = 0;
};
inline constexpr double kDrawingWidth = 1000, kDrawingHeight = 600, kBoxHalfHeight = 13;

struct Drawing {
  struct Vertex {
    std::string name;
    std::string kind;  ///< as `show system --format json` has it; "network"; "more" for what is left out
    Point at = {};     ///< the middle of its box
    double half_width = 0;
    std::string text = {};  ///< what stands in its box
  };
  struct Cable {
    std::string from, to, kind;
    double bandwidth = 0;  ///< bytes/s, one direction
    bool half_duplex = false;
    std::vector<Point> course = {};  ///< 3n + 1 control points of Bezier curves, from `from` to `to`
  };
  std::vector<Vertex> vertices;
  std::vector<Cable> cables;
  std::vector<std::string> ports;  ///< the vertices that the network joins
  /// Of several kinds of nodes, of each of which one is drawn: its number, which stands before the names of
  /// its vertices ("node8/gpu0"). Empty where all are equal.
  std::vector<int64_t> first_nodes;
  double letters = 12;  ///< size of the names, in points
  /// Of many equal groups of vertices the first few and the last are drawn; a vertex that is not -> the one
  /// of the last group that stands for it.
  std::map<std::string, std::string> stands_for;
  std::string left_out;  ///< that in words; empty where all is drawn
};

/// `count` + 1 points along each Bezier curve of a course, moved to the right of its direction by `aside`.
std::vector<Point> along(const std::vector<Point>& course, double aside, int count = 24);

/// Rows of a gnuplot data block: x, y, half width, half height, colour, name, 0 where no box is drawn about
/// it.
std::vector<std::vector<std::string>> box_cells(const Drawing& drawing);

}  // namespace tandem::pictures
