// SPDX-License-Identifier: Apache-2.0
#include "app/console/version.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <boost/version.hpp>
#include <nlohmann/json.hpp>

namespace tandem::app {

std::string version() { return TANDEM_VERSION; }

std::string version_page() {
  return fmt::format(
      "tandem {}\ncompiler {}\nBoost {}.{}.{}, Eigen {}.{}.{}, fmt {}.{}.{}, nlohmann-json {}.{}.{}\n",
      version(), TANDEM_COMPILER, BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100,
      EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION, FMT_VERSION / 10000,
      FMT_VERSION / 100 % 100, FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
      NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace tandem::app
