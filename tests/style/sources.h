// SPDX-License-Identifier: Apache-2.0
#pragma once
// The source files that the tests of style read, and the floors they lie on.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/rooms.h"

namespace tandem::tests {

namespace fs = std::filesystem;

inline const std::map<std::string, int> kFloors = {
    {"include", 0},     {"base", 0},     {"models", 1},  {"topologies", 1}, {"schemes", 2},
    {"sim", 3},         {"exec", 3},     {"answers", 4}, {"plan", 5},       {"sweep", 5},
    {"calibration", 6}, {"pictures", 7}, {"app", 8},     {"python", 8},     {"tests", 9}};

/// The floors of the folders inside a room. The room's own folder is on top of these, unless it is named
/// here. Folders that are not named hold components and count with the room's own folder.
inline const std::map<std::string, int> kInnerFloors = {
    {"exec/lower", 0},
    {"exec/device", 1},
    {"exec/data", 1},
    {"exec/comm", 2},
    {"exec/request", 3},
    {"exec/layout", 4},
    {"exec/run", 5},
    {"exec/workers", 6},
    {"exec/results", 7},
    {"sim/bound", 0},
    {"sim/network", 1},
    {"sim/cost", 1},
    {"sim/memory", 1},
    {"sim/bind", 2},
    {"sim/evaluate", 2},
    {"calibration/logs", 0},
    {"calibration/traces", 0},
    {"calibration/fit", 1},
    {"calibration/validate", 2},
    {"app/console", 0},
    {"app/analysis", 1},
    {"app/measure", 2},
    {"app/page", 2},
    {"app/serve", 3},
    {"app/show", 3},
    {"models/import", 1},
    {"schemes/program", 0},
    {"schemes/collectives", 1},
    {"schemes/schedules", 1},
    {"schemes/setup", 2},
    {"schemes/step", 3},
    {"schemes/sync", 4},
    {"schemes/learning", 1},
    {"schemes/report", 3},
    {"models/layers", 0},
    {"topologies/blocks", 0},
    {"topologies/devices", 0},
    {"topologies/import", 1},
    {"topologies", 2},
    {"topologies/export", 3},
};

struct Source {
  std::string path;    ///< from the root, "sim/cost/kernel_cost.h"
  std::string folder;  ///< "sim"
  std::vector<std::string> lines;
  bool header() const { return path.ends_with(".h"); }
};

/// Every source file of the house. Read once.
inline const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> out;
    for (const auto& [folder, floor] : kFloors) {
      const fs::path root = fs::path(TANDEM_ROOT) / folder;
      if (!fs::exists(root)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(root)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
        Source source{fs::relative(entry.path(), TANDEM_ROOT).string(), folder, {}};
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) source.lines.push_back(line);
        out.push_back(std::move(source));
      }
    }
    return out;
  }();
  return all;
}

}  // namespace tandem::tests
