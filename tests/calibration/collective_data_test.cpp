// SPDX-License-Identifier: Apache-2.0
// Predictions against the published timings in calibration/data/collectives. The bounds lie somewhat above
// what `tandem validate` reports, so that they move only when the model or a machine's data does.
#include "calibration/validate/collective_data.h"

#include <gtest/gtest.h>

#include <cmath>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/text.h"

namespace tandem::tests {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class Published : public testing::Test {
 protected:
  static const std::vector<CollectiveRow>& all() {
    static const std::vector<CollectiveRow> rows = validate_collectives();
    return rows;
  }
  /// Geometric-mean error of the all-reduce rows that `wanted` accepts.
  static double error(std::size_t least_rows, const std::function<bool(const CollectiveRow&)>& wanted) {
    std::vector<double> ratios;
    for (const CollectiveRow& r : all()) {
      if (r.kind == CollKind::all_reduce && wanted(r)) ratios.push_back(r.log_ratio());
    }
    EXPECT_GE(ratios.size(), least_rows);
    return geometric_error(ratios);
  }
  static bool switched(const CollectiveRow& r) {
    return r.table == "nvswitch" || (r.table == "azure_ndv4" && r.devices <= 8) ||
           r.system == "h800-sxm-8x" || r.system == "gb200-nvl72";
  }
};

TEST_F(Published, NvlinkSwitchMachines) {
  EXPECT_LT(error(200, [](const auto& r) { return switched(r) && r.bytes > kMiB; }), 0.15);
  EXPECT_LT(error(200, [](const auto& r) { return switched(r) && r.bytes <= kMiB; }), 0.12);
}
TEST_F(Published, PcieMachines) {
  // The two cards of another host without any known layout are left out here; VALIDATION.md shows them.
  const auto known = [](const CollectiveRow& r) {
    return r.table == "pcie" && !(r.system.starts_with("4090") && r.devices == 2);
  };
  EXPECT_LT(error(30, [&](const auto& r) { return known(r) && r.bytes > kMiB; }), 0.15);
  EXPECT_LT(error(40, [&](const auto& r) { return known(r) && r.bytes <= kMiB; }), 0.2);
}
TEST_F(Published, OlderPcieBoxes) {
  EXPECT_LT(error(90, [](const auto& r) { return r.table == "deepbench"; }), 0.12);
}
TEST_F(Published, ServersOnInfiniband) {
  const auto cluster = [](const CollectiveRow& r) { return r.table == "azure_ndv4" && r.devices > 8; };
  EXPECT_LT(error(30, [&](const auto& r) { return cluster(r) && r.bytes > kMiB; }), 0.12);
}

/// The last two columns of the summary: logs corrected by every second of their sizes, judged on the others.
TEST_F(Published, EverySecondSizeForetellsTheOthers) {
  const std::string text = collectives_markdown(all());
  const auto above = [&](const std::string& group) {
    const std::size_t at = text.find("| " + group + " |");
    EXPECT_NE(at, std::string::npos) << group;
    const auto cells = split(text.substr(at, text.find('\n', at) - at), '|');
    EXPECT_GE(cells.size(), 6u);
    return std::stod(cells.at(5));  // percent, above 1 MiB
  };
  EXPECT_LT(above("one node, NVLink switch"), 5);
  EXPECT_LT(above("one node, PCIe or host memory"),
            6);  // one stall and one log that changes its speed are in it
  EXPECT_LT(above("several nodes"), 5);
}

/// A log of all-reduce corrects the machine's other operations.
TEST_F(Published, AllReduceForetellsTheOthers) {
  const std::string text = collectives_markdown(all());
  const std::size_t from = text.find("| calibrated by all-reduce |");
  ASSERT_NE(from, std::string::npos);
  const std::string table = text.substr(from, text.find("\n\n", from) - from);
  int machines = 0;
  for (const std::string& line : split(table, '\n')) {
    const auto cells = split(line, '|');
    if (cells.size() < 6 || cells.at(5).find('%') == std::string::npos) continue;
    ++machines;
    // Percent, above 1 MiB: 12 are aimed at. Of Azure's log 13 rows count, and their mean misses it.
    EXPECT_LT(std::stod(cells.at(5)), line.find("azure-ndv4") == std::string::npos ? 12 : 13) << line;
    EXPECT_GT(std::stoi(cells.at(5).substr(cells.at(5).find('(') + 1)), 5) << line;
  }
  EXPECT_GE(machines, 8);
}

/// By hand: two operations that are off by the same factor, and one that all-reduce says nothing of.
TEST(CollectiveData, AllReduceCorrectsItsSiblingsAlone) {
  std::vector<CollectiveRow> rows;
  const auto add = [&](CollKind kind, double off) {
    for (int64_t bytes = kMiB / 4; bytes <= 4 * kMiB; bytes *= 2) {
      CollectiveRow r;
      r.table = "nvswitch";
      r.system = "dgx-a100";
      r.sets = "communication.library=nccl-2.27.3";
      r.kind = kind;
      r.devices = 8;
      r.bytes = bytes;
      r.predicted = 1e-9 * static_cast<double>(bytes);
      r.measured = r.predicted * off;
      rows.push_back(r);
    }
  };
  add(CollKind::all_reduce, 1.5);
  add(CollKind::all_gather, 1.5 * 1.1);
  add(CollKind::all_to_all, 3);
  const std::string text = collectives_markdown(rows);
  EXPECT_NE(text.find("| dgx-a100, nccl-2.27.3 | 65.0 % (3) | 65.0 % (2) | 10.0 % (3) | 10.0 % (2) |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Worst above 1 MiB: dgx-a100, nccl-2.27.3, 10.0 %."), std::string::npos) << text;
}

TEST(CollectiveData, GeometricErrorIsThatOfTheMeanLogarithm) {
  EXPECT_EQ(geometric_error({}), 0);
  EXPECT_NEAR(geometric_error({0.1, -0.3}), std::exp(0.2) - 1, 1e-12);
}

TEST(CollectiveData, RefusesBrokenTablesWithFileAndLine) {
  const auto refuses = [](const std::string& line, const std::string& word) {
    const std::string path = testing::TempDir() + "/table.csv";
    std::ofstream(path) << "# comment\nsystem,sets,kind,devices,bytes,us\n" << line << "\n";
    try {
      read_collectives(path);
      ADD_FAILURE() << line;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("table.csv:3"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  refuses("dgx-a100,,all_reduce,8,1024", "six cells");
  refuses("dgx-a100,,all_reduce,8,1024,-3", "positive");
  refuses("dgx-a100,,all_reduce,8,1e3,3", "positive");
  refuses("dgx-a100,,all_raduce,8,1024,3", "no collective");
  refuses("dgx-a100,harness=1x8,all_reduce,8,1024,3", "harness");
}

TEST(CollectiveData, HarnessBoundsSmallMessagesByItsLaunches) {
  const std::string path = testing::TempDir() + "/harness.csv";
  std::ofstream(path) << "dgx-a100,,all_reduce,8,8,30\ndgx-a100,harness=1x8x20,all_reduce,8,8,30\n"
                         "dgx-a100,harness=8x1x5,all_reduce,8,8,30\n";
  auto rows = read_collectives(path);
  predict_collectives(rows, testing::TempDir());
  EXPECT_LT(rows[0].predicted * 1.2, rows[1].predicted);  // eight launches from one thread
  EXPECT_LT(rows[0].predicted * 1.2, rows[2].predicted);  // five iterations share one start and end
}

}  // namespace
}  // namespace tandem::tests
