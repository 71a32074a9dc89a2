// SPDX-License-Identifier: Apache-2.0
// The house rules that a compiler does not see: who may include whom, what headers may say, what data files
// may hold. The floor table is the one of ARCHITECTURE.md.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "app/console/cli.h"
#include "base/json.h"
#include "models/graph.h"
#include "schemes/collectives/collectives.h"
#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/setup/scheme.h"
#include "sim/cost/layout.h"
#include "tests/style/sources.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

/// The quoted includes of a file.
std::vector<std::string> includes(const Source& source) {
  static const std::regex pattern("^\\s*#\\s*include\\s+\"([^\"]+)\".*");
  std::vector<std::string> out;
  for (const std::string& line : source.lines) {
    std::smatch match;
    if (std::regex_match(line, match, pattern)) out.push_back(match[1]);
  }
  return out;
}

TEST(Floors, IncludesOnlyGoDown) {
  ASSERT_GT(sources().size(), 50u);
  for (const Source& source : sources()) {
    for (const std::string& include : includes(source)) {
      const std::string folder = include.substr(0, include.find('/'));
      // A test may share a helper with its neighbours.
      const bool sibling = source.folder == "tests" && include.find('/') == std::string::npos;
      if (sibling && fs::exists((fs::path(TANDEM_ROOT) / source.path).parent_path() / include)) continue;
      ASSERT_TRUE(kFloors.count(folder)) << source.path << " includes \"" << include
                                         << "\": quoted includes start with a folder of the house";
      EXPECT_TRUE(folder == source.folder || kFloors.at(folder) < kFloors.at(source.folder))
          << source.path << " (floor " << kFloors.at(source.folder) << ") includes \"" << include
          << "\" (floor " << kFloors.at(folder) << ")";
      EXPECT_TRUE(fs::exists(fs::path(TANDEM_ROOT) / include))
          << source.path << " includes \"" << include << "\"";
    }
  }
}

/// Who asks may stand anywhere, so the door knows neither executor nor data's readers.
TEST(Floors, AnswersSeeNoExecutor) {
  int files = 0;
  for (const Source& source : sources()) {
    const std::set<std::string> who = {"answers", "plan", "sweep", "python"};
    if (who.count(source.folder) == 0) continue;
    ++files;
    for (const std::string& include : includes(source))
      EXPECT_NE(include.substr(0, include.find('/')), "exec") << source.path << " includes " << include;
  }
  EXPECT_GT(files, 20);
}

/// The folder that a path lies in, as deep as kInnerFloors names it: "exec/device" for
/// exec/device/cpu/gemm.cpp, "sim".
std::string inner_folder(const std::string& path) {
  const std::size_t room = path.find('/');
  const std::string inner = path.substr(0, path.find('/', room + 1));
  return kInnerFloors.count(inner) != 0 ? inner : path.substr(0, room);
}

TEST(Floors, IncludesOnlyGoDownInsideRoomsToo) {
  int arrows = 0;
  for (const Source& source : sources()) {
    const std::string from = inner_folder(source.path);
    for (const std::string& include : includes(source)) {
      const std::string to = inner_folder(include);
      if (include.substr(0, include.find('/')) != source.folder || from == to) continue;
      ++arrows;
      const auto above = kInnerFloors.find(from), below = kInnerFloors.find(to);
      // What lies in the room's own folder stands on its inner ones.
      EXPECT_TRUE(below != kInnerFloors.end() &&
                  (above == kInnerFloors.end() || below->second < above->second))
          << source.path << " includes \"" << include << "\"";
    }
  }
  EXPECT_GT(arrows, 50);
}

/// x.h and x.cpp are one unit, "sim/x"; a header of a class's insides, x_impl.h, belongs to it.
std::string unit_of(const std::string& path) {
  std::string out = path.substr(0, path.rfind('.'));
  if (out.ends_with("_impl")) out.resize(out.size() - 5);
  return out;
}

TEST(Floors, NoUnitsIncludeEachOtherInACircle) {
  std::map<std::string, std::set<std::string>> below;
  for (const Source& source : sources()) {
    if (source.folder == "tests") continue;
    for (const std::string& include : includes(source)) {
      if (unit_of(include) != unit_of(source.path)) below[unit_of(source.path)].insert(unit_of(include));
    }
  }
  // Takes away units that include none of the rest, or that none of the rest includes: what is left lies on
  // circles, or between two.
  for (std::size_t before = 0; before != below.size();) {
    before = below.size();
    std::set<std::string> included;
    for (auto& [unit, others] : below) {
      std::erase_if(others, [&](const std::string& other) { return below.count(other) == 0; });
      included.insert(others.begin(), others.end());
    }
    std::erase_if(below,
                  [&](const auto& unit) { return unit.second.empty() || included.count(unit.first) == 0; });
  }
  for (const auto& [unit, others] : below) {
    std::string list;
    for (const std::string& other : others) list += " " + other;
    ADD_FAILURE() << unit << " lies on a circle of includes, by way of" << list;
  }
}

TEST(Floors, CalibrationSeesNoExecutor) {
  for (const Source& source : sources()) {
    if (source.folder != "calibration") continue;
    for (const std::string& include : includes(source))
      EXPECT_NE(include.rfind("exec/", 0), 0u) << source.path;
  }
}

TEST(Files, SayTheirLicence) {
  for (const Source& source : sources()) {
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_EQ(source.lines[0], "// SPDX-License-Identifier: Apache-2.0") << source.path;
  }
}

TEST(Files, UseTheNamespaceOfTheirFolder) {
  const std::regex pattern("^(?:inline )?namespace (tandem[\\w:]*) \\{$");
  for (const Source& source : sources()) {
    const std::string name = fs::path(source.path).filename().string();
    if (source.path == "base/rooms.h" || name == "main.cpp" || name.starts_with("dump_"))
      continue;                                                      // or programs
    if (source.folder == "include" || name == "door.cpp") continue;  // what other programs see
    bool found = false;
    for (const std::string& line : source.lines) {
      std::smatch match;
      if (!std::regex_match(line, match, pattern)) continue;
      const std::string own = "tandem::" + source.folder, space = match[1];
      // A test may add to the room that it tests.
      EXPECT_TRUE(space == own || space.starts_with(own + "::") || source.folder == "tests")
          << source.path << ": " << line;
      EXPECT_NE(space, "tandem") << source.path
                                 << ": each top folder has a namespace of its own (base/rooms.h)";
      found = true;
    }
    EXPECT_TRUE(found || source.folder == "tests") << source.path << ": no namespace " << source.folder;
  }
}

/// A room that a reader can hold in mind. The kernels of a device are many by nature.
TEST(Floors, ExecHasNoFolderOfManyUnits) {
  constexpr std::size_t kMost = 20;
  std::map<std::string, std::set<std::string>> units;
  for (const Source& source : sources()) {
    if (source.folder == "exec" && source.path.find("/cuda/") == std::string::npos)
      units[source.path.substr(0, source.path.rfind('/'))].insert(unit_of(source.path));
  }
  for (const auto& [folder, of] : units) EXPECT_LE(of.size(), kMost) << folder;
}

TEST(Headers, SayPragmaOnceAndWhatTheyAreFor) {
  for (const Source& source : sources()) {
    if (!source.header()) continue;
    ASSERT_GE(source.lines.size(), 4u) << source.path;
    EXPECT_EQ(source.lines[1], "#pragma once") << source.path;
    EXPECT_EQ(source.lines[2].rfind("//", 0), 0u) << source.path << ": the third line says what it is for";
  }
}

TEST(Headers, OfClassesSayWhichThreadsMayCall) {
  // Exceptions are values that are thrown.
  const std::regex begins("^class \\w+[^;]*\\{.*"), exception("^class \\w+ : public std::.*error \\{.*");
  for (const Source& source : sources()) {
    if (!source.header() || source.folder == "tests") continue;
    bool asked = false, said = false;
    for (const std::string& line : source.lines) {
      asked = asked || (std::regex_match(line, begins) && !std::regex_match(line, exception));
      said = said || line.find("thread") != std::string::npos;
    }
    EXPECT_TRUE(said || !asked) << source.path << ": which threads may call its classes?";
  }
}

TEST(Headers, UseNoNamespaceWhole) {
  const std::regex pattern("^\\s*using\\s+namespace\\b.*");
  for (const Source& source : sources()) {
    if (!source.header() || source.path == "base/rooms.h") continue;
    for (const std::string& line : source.lines) EXPECT_FALSE(std::regex_match(line, pattern)) << source.path;
  }
}

TEST(Files, AreNamedInSnakeCase) {
  const std::regex pattern("[a-z0-9_]+\\.(h|cpp|cu)");
  for (const Source& source : sources()) {
    EXPECT_TRUE(std::regex_match(fs::path(source.path).filename().string(), pattern)) << source.path;
  }
}

TEST(Components, HaveNamesAndSummaries) {
  const std::regex name("[a-z0-9][a-z0-9.-]*");
  const auto expect_entries = [&](const auto& entries, const char* kind) {
    EXPECT_FALSE(entries.empty()) << kind;
    for (const auto& e : entries) {
      EXPECT_TRUE(std::regex_match(std::string(e.name), name)) << kind << " " << e.name;
      EXPECT_FALSE(std::string(e.summary).empty()) << kind << " " << e.name;
      EXPECT_EQ(std::string(e.summary).find('\n'), std::string::npos) << kind << " " << e.name;
    }
  };
  expect_entries(list_models(), "model");
  expect_entries(list_systems(), "system");
  expect_entries(list_devices(), "device");
  expect_entries(list_schemes(), "scheme");
  expect_entries(layers_registry().all(), "layer");
  expect_entries(collectives_registry().all(), "collective");
  expect_entries(layouts_registry().all(), "layout");
  expect_entries(schedules_registry().all(), "schedule");
  expect_entries(verbs_registry().all(), "verb");
}

TEST(Components, OptionsOfSchemesAreExplained) {
  for (const Scheme& scheme : sync_registry().all()) {
    for (const OptionSpec& option : scheme.options)
      EXPECT_FALSE(option.help.empty()) << scheme.name << " " << option.name;
    EXPECT_NO_THROW(Options(scheme.options, {}, std::string(scheme.name), Place{}))
        << "defaults of " << scheme.name;
  }
}

/// Keys whose values are quantities: a bare number there would have no unit.
void expect_units(const Json& value, const std::string& key, const std::string& path) {
  static const std::set<std::string> quantities = {"bandwidth",        "latency",  "memory", "launch",
                                                   "stored",           "decoded",  "decode", "forward",
                                                   "memory_bandwidth", "overhead", "storage"};
  if (quantities.count(key) != 0) {
    EXPECT_TRUE(value.kind() != Json::Kind::integer && value.kind() != Json::Kind::real)
        << path << ":" << value.place().line << ": \"" << key << "\" is a number without a unit";
  }
  if (value.is_object()) {
    for (const auto& [name, member] : value.members()) expect_units(member, name, path);
  }
  if (value.is_array()) {
    for (const Json& item : value.items()) expect_units(item, key, path);
  }
}

TEST(Data, CarriesUnitsWithEveryQuantity) {
  int files = 0;
  for (const char* folder :
       {"models/zoo", "models/families", "topologies/devices", "topologies/systems", "schemes/presets"}) {
    const fs::path root = fs::path(TANDEM_ROOT) / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::directory_iterator(root)) {
      if (entry.path().extension() != ".json") continue;
      ++files;
      const std::string path = entry.path().string();
      ASSERT_NO_THROW(expect_units(Json::load(path), "", path)) << path;
    }
  }
  EXPECT_GT(files, 50);
}

}  // namespace
}  // namespace tandem::tests
