// Predictions against the published timings in calibration/data/collectives. The bounds lie somewhat above
// what calibration/fit_collectives.py reports, so that they move only when the model or a machine's data
// does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>

#include "base/text.h"
#include "sim/cost/link_cost.h"

namespace tandem {
namespace {

struct Machine {
  System system;
  LinkCost links;
  Machine(const std::string& folder, const std::string& name, const std::string& sets)
      : system(System::load(name.ends_with(".json") ? folder + "systems/" + name : name, pairs(sets))),
        links(system, {}) {}
  static std::vector<std::pair<std::string, std::string>> pairs(const std::string& sets) {
    std::vector<std::pair<std::string, std::string>> out;
    for (const std::string& set : split(sets, ';')) {
      if (set.empty()) continue;
      out.emplace_back(set.substr(0, set.find('=')), set.substr(set.find('=') + 1));
    }
    return out;
  }
};

/// |predicted / measured - 1| of every row of the table with least <= bytes <= most.
std::vector<double> errors(const std::string& table, double least, double most) {
  const std::string folder = std::string(TANDEM_ROOT) + "/calibration/data/collectives/";
  std::ifstream file(folder + table + ".csv");
  std::map<std::string, std::unique_ptr<Machine>> machines;
  std::vector<double> out;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("system,")) continue;
    const auto cell = split(line, ',');
    const double bytes = std::stod(cell[4]);
    if (bytes < least || bytes > most) continue;
    auto& machine = machines[cell[0] + cell[1]];
    if (!machine) machine = std::make_unique<Machine>(folder, cell[0], cell[1]);
    std::vector<VertexId> members;
    for (int64_t i = 0; i < std::stoll(cell[3]); ++i) members.push_back(machine->system.accelerator(i));
    for (int k = 0; k < kCollKinds; ++k) {
      const auto kind = static_cast<CollKind>(k);
      if (name(kind) != cell[2]) continue;
      const Transfer t = machine->links.collective(kind, "auto", {std::llround(bytes)}, members);
      out.push_back(std::abs(t.alone(machine->links.capacity()).seconds() * 1e6 / std::stod(cell[5]) - 1));
    }
  }
  return out;
}

void expect_median(const std::string& table, double least, double most, double bound, std::size_t rows) {
  auto e = errors(table, least, most);
  ASSERT_GE(e.size(), rows) << table;
  std::nth_element(e.begin(), e.begin() + static_cast<std::ptrdiff_t>(e.size() / 2), e.end());
  EXPECT_LT(e[e.size() / 2], bound) << table << ", " << least << " to " << most << " bytes";
}

constexpr double kSmall = 65536, kMiddle = 4 << 20, kAny = 1e18;

TEST(PublishedCollectives, NvlinkSwitchNodes) {
  expect_median("nvswitch", 0, kSmall, 0.11, 200);
  expect_median("nvswitch", kSmall + 1, kMiddle, 0.11, 200);
  expect_median("nvswitch", kMiddle + 1, kAny, 0.08, 200);
}
TEST(PublishedCollectives, ServersOnInfiniband) {
  expect_median("azure_ndv4", kSmall + 1, kMiddle, 0.14, 30);
  expect_median("azure_ndv4", kMiddle + 1, kAny, 0.06, 40);
}
TEST(PublishedCollectives, PcieBoxes) {
  expect_median("deepbench", 0, kMiddle, 0.06, 15);
  expect_median("deepbench", kMiddle + 1, kAny, 0.07, 80);
}
TEST(PublishedCollectives, Clusters) {
  expect_median("clusters", kSmall + 1, kMiddle, 0.2, 60);
  expect_median("clusters", kMiddle + 1, kAny, 0.16, 100);
}

}  // namespace
}  // namespace tandem
