// SPDX-License-Identifier: Apache-2.0
#pragma once
// One node of a system as boxes and lines: what `show system` and the map of link use draw.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "topologies/system.h"

namespace tandem::app {

/// In pixels of a plot area of kDrawingWidth x kDrawingHeight, y upwards.
struct Point {
  double x = 0, y = 0;
};
inline constexpr double kDrawingWidth = 1000, kDrawingHeight = 600, kBoxHalfHeight = 13;

struct Drawing {
  struct Vertex {
    std::string name,
        kind;       ///< as `show system --format json` has them; "network"; "more" for what is left out
    Point at = {};  ///< the middle of its box
    double half_width = 0;
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
  double letters = 12;             ///< size of the names, in points
  /// Of many alike groups of vertices the first few and the last are drawn; a vertex that is not -> the one
  /// of the last group that stands for it.
  std::map<std::string, std::string> stands_for;
  std::string left_out;  ///< that in words; empty where all is drawn
};

/// Rows from the bottom: network; NICs and memory; CPUs; PCIe switches by their hops from a CPU; devices;
/// switches of the fabric. Within the rows Graphviz places them. Throws InputError when Graphviz is absent,
/// or for a node that is too large to draw though alike parts are left out.
Drawing drawing_of(const System& system);

/// `count` + 1 points along each Bezier curve of a course, moved to the right of its direction by `aside`.
std::vector<Point> along(const std::vector<Point>& course, double aside, int count = 24);

/// Rows of a gnuplot data block: x, y, half width, half height, colour, name, 0 where no box is drawn about
/// it.
std::vector<std::vector<std::string>> box_cells(const Drawing& drawing);

/// Draws the system, its cables coloured by kind, to a .png or .svg file. Throws InputError when the path has
/// another ending, and as drawing_of() and Gnuplot::draw().
void draw_system(const System& system, const std::string& path);

}  // namespace tandem::app
