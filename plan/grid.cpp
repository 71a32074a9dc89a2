// SPDX-License-Identifier: Apache-2.0
#include "plan/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/data.h"

namespace tandem::plan {

namespace {

Json grids_document() { return Json::load(data_root() + "/plan/grids.json"); }

template <typename T>
T find_named(const std::vector<T>& all, const std::string& given, std::string_view kind, const Place& place) {
  std::vector<std::string> names;
  for (const T& one : all) names.push_back(one.name);
  const std::string name = spelled_as(given, names);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw InputError(place, fmt::format("no {} \"{}\".{} Valid: {}", kind, printable(given),
                                        did_you_mean(given, names), fmt::join(names, ", ")));
  return all[static_cast<std::size_t>(found - names.begin())];
}

template <typename T>
std::vector<T> sorted_by_name(std::vector<T> all) {
  std::sort(all.begin(), all.end(), [](const T& a, const T& b) { return a.name < b.name; });
  return all;
}

}  // namespace

std::vector<Grid> list_grids() {
  std::vector<Grid> out;
  const Json document = grids_document();
  for (const auto& [name, entry] : document.at("grids").members()) {
    entry.only({"grams_per_kwh", "household_price", "date", "source"});
    Grid grid{name, entry.at("grams_per_kwh").as_real(0, 5000), {}, entry.at("source").as_text()};
    if (const Json* price = entry.find("household_price")) grid.household_price = price->as_real(0, 100);
    out.push_back(std::move(grid));
  }
  return sorted_by_name(std::move(out));
}

std::vector<Building> list_buildings() {
  std::vector<Building> out;
  const Json document = grids_document();
  for (const auto& [name, entry] : document.at("buildings").members()) {
    entry.only({"pue", "date", "source"});
    out.push_back({name, entry.at("pue").as_real(1, 10), entry.at("source").as_text()});
  }
  return sorted_by_name(std::move(out));
}

Grid find_grid(const std::string& name, const Place& place) {
  return find_named(list_grids(), name, "grid", place);
}

Building find_building(const std::string& name, const Place& place) {
  return find_named(list_buildings(), name, "building", place);
}

Estimate carbon(const Grid& grid, const Estimate& joules, const Estimate& pue) {
  return joules * pue * (grid.grams_per_kwh / 1000 / 3.6e6);
}

}  // namespace tandem::plan
