// SPDX-License-Identifier: Apache-2.0
#include "app/console/version.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <boost/version.hpp>

#include "base/json_writer.h"
#include "base/version.h"
#include "sweep/database.h"

namespace tandem::app {

std::string version_page(bool json) {
  const std::pair<const char*, std::string> libraries[] = {
      {"Boost",
       fmt::format("{}.{}.{}", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)},
      {"Eigen", fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION)},
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann-json", json_library_version()},
      {"SQLite", sweep::sqlite_version()}};
  JsonWriter document = {
      {"schema", "tandem-version-1"}, {"version", version()}, {"compiler", TANDEM_COMPILER}};
  if (!commit().empty()) document["commit"] = commit();
  std::string names;
  for (const auto& [name, number] : libraries) {
    document["libraries"][name] = number;
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", name, number);
  }
  if (json) return document.dump(2) + "\n";
  return fmt::format("tandem {}\ncompiler {}\n{}\n", build_name(), TANDEM_COMPILER, names);
}

}  // namespace tandem::app
