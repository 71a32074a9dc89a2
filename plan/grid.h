// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the power comes from: grids of countries and buildings as data (plan/grids.json).
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/estimate.h"

namespace tandem::plan {

/// The grid of a country, average of what is generated.
struct Grid {
  std::string name;      ///< "France"
  double grams_per_kwh;  ///< of CO2 equivalent
  /// USD/kWh that households pay, where known: industry pays less.
  std::optional<double> household_price;
  std::string source;
};

/// A building or fleet of them, and its power usage effectiveness: all energy over that of its machines.
struct Building {
  std::string name;  ///< "google"
  double pue;
  std::string source;
};

/// Sorted by name.
std::vector<Grid> list_grids();
std::vector<Building> list_buildings();
/// Throw InputError at `place` with the nearest names.
Grid find_grid(const std::string& name, const Place& place = {});
Building find_building(const std::string& name, const Place& place = {});

/// Kilograms of CO2 equivalent for joules at the wall of the machines, in a building of that PUE.
Estimate carbon(const Grid& grid, const Estimate& joules, const Estimate& pue);

}  // namespace tandem::plan
