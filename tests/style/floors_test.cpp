// The house rules that a compiler does not see: who may include whom, what headers may say, what data files
// may hold. The floor table is the one of ARCHITECTURE.md.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "app/verb.h"
#include "base/json.h"
#include "models/graph.h"
#include "schemes/collectives.h"
#include "schemes/scheme.h"
#include "tests/style/sources.h"
#include "topologies/system.h"

namespace tandem {
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

TEST(Floors, CalibrationSeesNoExecutor) {
  for (const Source& source : sources()) {
    if (source.folder != "calibration") continue;
    for (const std::string& include : includes(source))
      EXPECT_NE(include.rfind("exec/", 0), 0u) << source.path;
  }
}

TEST(Headers, SayPragmaOnceAndWhatTheyAreFor) {
  for (const Source& source : sources()) {
    if (!source.header()) continue;
    ASSERT_GE(source.lines.size(), 3u) << source.path;
    EXPECT_EQ(source.lines[0], "#pragma once") << source.path;
    EXPECT_EQ(source.lines[1].rfind("//", 0), 0u) << source.path << ": the second line says what it is for";
  }
}

TEST(Headers, UseNoNamespaceWhole) {
  const std::regex pattern("^\\s*using\\s+namespace\\b.*");
  for (const Source& source : sources()) {
    if (!source.header()) continue;
    for (const std::string& line : source.lines) EXPECT_FALSE(std::regex_match(line, pattern)) << source.path;
  }
}

TEST(Files, AreNamedInSnakeCaseAndStayShort) {
  const std::regex pattern("[a-z0-9_]+\\.(h|cpp|cu)");
  for (const Source& source : sources()) {
    EXPECT_TRUE(std::regex_match(fs::path(source.path).filename().string(), pattern)) << source.path;
    EXPECT_LE(source.lines.size(), 600u) << source.path;
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
}  // namespace tandem
