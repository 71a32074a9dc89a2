// SPDX-License-Identifier: Apache-2.0
// Bad systems: one clear message each, with the place, and never a crash or a hang.
#include <gtest/gtest.h>

#include <array>
#include <ostream>

#include "topologies/system.h"

namespace tandem::tests {
namespace {

constexpr const char* kGood = R"({
  "name": "x", "summary": "s", "nodes": 2,
  "devices": {"gpu[0-1]": {"model": "generic", "numa": 0}, "cpu0": {"model": "generic-cpu"}},
  "vertices": {"nic0": {"kind": "nic"}, "mem0": {"kind": "memory"}},
  "links": {
    "pcie": {"bandwidth": "16GB/s", "achieved": 0.8, "latency": "1us", "between": [["gpu[0-1]", "cpu0"], ["nic0", "cpu0"]]},
    "memory": {"bandwidth": "100GB/s", "latency": "100ns", "duplex": "half", "between": [["cpu0", "mem0"]]}},
  "peer_access": {"reach": "switch"},
  "host": {"cores": 8},
  "network": {"block": "single", "bandwidth": "10Gbit/s", "latency": "1us",
              "transport": {"latency": "20us", "gpudirect": "none"}}
})";

std::string message(const std::string& text,
                    const std::vector<std::pair<std::string, std::string>>& sets = {}) {
  try {
    System::from_json(Json::parse(text, "system.json"), sets);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

struct Row {
  const char* from;
  const char* to;
  const char* says;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.from << " -> " << row.to; }

class BadSystem : public testing::TestWithParam<Row> {};

TEST_P(BadSystem, SaysWhatAndWhere) {
  const std::string said = message(changed(GetParam().from, GetParam().to));
  EXPECT_NE(said.find(GetParam().says), std::string::npos) << said;
  EXPECT_NE(said.find("system.json:"), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSystem,
    testing::Values(
        Row{"\"model\": \"generic\"", "\"model\": \"v100-pci\"", "v100-pcie"},
        Row{"\"model\": \"generic\"", "\"modell\": \"generic\"", "model"},
        Row{"16GB/s", "16", "unit is missing"}, Row{"16GB/s", "16GHz", "unknown unit"},
        Row{"16GB/s", "-16GB/s", "negative"}, Row{"16GB/s", "0GB/s", "from 1B/s"},
        Row{"16GB/s", "1e205GB/s", "1B/s"}, Row{"\"1us\", \"between\"", "\"-1us\", \"between\"", "negative"},
        Row{"0.8", "1.5", "1"}, Row{"0.8", "0", "0"}, Row{"0.8", "\"fast\"", "number"},
        Row{"\"half\"", "\"semi\"", "Valid: full, half"}, Row{"\"nodes\": 2", "\"nodes\": 0", "1"},
        Row{"\"nodes\": 2", "\"nodes\": -3", "1"}, Row{"\"nodes\": 2", "\"nodes\": 1000000000000", "1"},
        Row{"\"nodes\": 2", "\"nodes\": 1000000000", "links"},
        Row{"\"nodes\": 2", "\"nodes\": 2.5", "whole number"},
        Row{"\"nodes\": 2", "\"node\": 2", "Did you mean nodes"},
        Row{"gpu[0-1]\": {", "gpu[0-99999999]\": {", "1024"},
        Row{"gpu[0-1]\": {", "gpu[1-0]\": {", "backwards"},
        Row{"\"cpu0\": {", "\"gpu1\": {", "declared twice"},
        Row{"\"nic0\": {", "\"cpu0\": {", "declared twice"},
        Row{"[\"nic0\", \"cpu0\"]", "[\"nic1\", \"cpu0\"]", "Did you mean nic0"},
        Row{"[\"nic0\", \"cpu0\"]", "[\"cpu0\", \"cpu0\"]", "itself"},
        Row{"[\"nic0\", \"cpu0\"]", "[\"nic0\", \"cpu0\"], [\"cpu0\", \"nic0\"]", "linked twice"},
        Row{"[\"nic0\", \"cpu0\"]", "[\"nic0\", \"cpu0\", 0]", "1"},
        Row{"[\"nic0\", \"cpu0\"]", "[\"nic0\"]", "parallel"},
        Row{"[\"nic0\", \"cpu0\"]", "[\"cpu0\", \"gpu[0-1]\"]", "multiple"},
        Row{", [\"nic0\", \"cpu0\"]", "", "no links lead from \"cpu0\" to \"nic0\""},
        Row{"[\"nic0\", \"cpu0\"]", "[\"nic0\", \"gpu0\"]", "do not forward"},
        Row{"[[\"cpu0\", \"mem0\"]]", "5", "a list"},
        Row{"\"between\": [[\"cpu0\", \"mem0\"]]", "\"note\": \"\"", "between"},
        Row{"\"numa\": 0", "\"numa\": [0]", "one each"}, Row{"\"numa\": 0", "\"numa\": -1", "0"},
        Row{"\"kind\": \"nic\"", "\"kind\": \"nick\"", "Did you mean nic"},
        Row{"\"switch\"", "\"swich\"", "Did you mean switch"}, Row{"\"single\"", "\"singel\"", "single"},
        Row{"\"block\": \"single\"", "\"block\": \"single\", \"down\": 4", "down"},
        Row{"\"block\": \"single\"", "\"block\": \"torus\", \"sizes\": [3]", "multiply to 3"},
        Row{"\"block\": \"single\"", "\"block\": \"single\", \"attach\": \"nic7\"", "nic7"},
        Row{"\"block\": \"single\"", "\"block\": \"single\", \"attach\": \"mem0\"", "cannot plug"},
        Row{"\"gpudirect\": \"none\"", "\"gpu_direct\": \"none\"", "gpudirect"},
        Row{"\"kind\": \"nic\"", "\"kind\": \"storage\"", "no NIC"},
        Row{"\"cpu0\": {\"model\": \"generic-cpu\"}", "\"cpu0\": {\"model\": \"generic\"}", "needs a CPU"},
        Row{"\"cores\": 8", "\"cores\": -8", "0"},
        Row{"\"cores\": 8", "\"cores\": 8, \"coers\": 8", "cores"}));

TEST(BadSystems, TheUnchangedOneIsFine) { EXPECT_EQ(message(kGood), ""); }

TEST(BadSystems, NodesNeedANetwork) {
  std::string text = kGood;
  text.resize(text.find(",\n  \"network\""));
  text += "}";
  EXPECT_NE(message(text).find("need a \"network\""), std::string::npos) << message(text);
  EXPECT_EQ(message(text, {{"nodes", "1"}}), "");
}

TEST(BadSystems, UnknownSystemSaysTheNearest) {
  try {
    System::load("dgx1-v10");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("dgx1-v100"), std::string::npos) << e.what();
  }
}

TEST(BadSystems, SetIsCheckedLikeTheFile) {
  for (const auto& [path, value, says] :
       std::vector<std::array<std::string, 3>>{{"links.pci.bandwidth", "1GB/s", "pcie"},
                                               {"links.pcie.bandwith", "1GB/s", "bandwidth"},
                                               {"links.pcie.bandwidth", "fast", "not a bandwidth"},
                                               {"nodes", "1e12", "--set nodes=1e12: expected a whole number"},
                                               {"nodes", "many", "whole number"},
                                               {"node", "4", "nodes"},
                                               {"devices.gpu[0-1].model", "no-such", "no device"},
                                               {"", "4", "set"},
                                               {"nodes.x", "4", "x"}}) {
    const std::string said = message(kGood, {{path, value}});
    EXPECT_NE(said.find(says), std::string::npos) << path << "=" << value << ": " << said;
  }
}

TEST(BadSystems, OddNamesAreShownSafely) {
  const System s = System::from_json(Json::parse(kGood, "system.json"), {{"name", "a\"b\\\xff"}});
  EXPECT_NE(s.dot().find("graph \"a\\\"b\\\\"), std::string::npos) << s.dot();
  EXPECT_NE(s.to_json_text().find("\"devices\""), std::string::npos);
}

/// Sizes at the limits must end quickly, whether accepted or not.
TEST(BadSystems, HostileSizesEndQuickly) {
  const std::string wide =
      changed("gpu[0-1]\": {\"model\": \"generic\", \"numa\": 0}", "gpu[0-900]\": {\"model\": \"generic\"}");
  EXPECT_NE(message(wide).find("gpu2"), std::string::npos) << "not all are linked: " << message(wide);
  std::string mesh = wide;
  mesh.replace(mesh.find("[[\"gpu[0-1]\", \"cpu0\"]"), 21, "[[\"gpu[0-900]\", \"cpu0\"]");
  EXPECT_EQ(message(mesh), "");
  mesh.replace(mesh.find("\"achieved\": 0.8"), 15, "\"mesh\": [\"gpu[0-900]\"]");
  EXPECT_NE(message(mesh).find("links"), std::string::npos);
  std::string torus = changed("\"block\": \"single\"", "\"block\": \"torus\", \"dimensions\": 3");
  EXPECT_EQ(message(torus, {{"nodes", "999983"}}).find("65536") == std::string::npos, false)
      << "a prime has no even sizes";
}

}  // namespace
}  // namespace tandem::tests
