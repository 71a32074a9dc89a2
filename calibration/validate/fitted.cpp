// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/fitted.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/data.h"
#include "base/json.h"

namespace tandem::calibration {

namespace {

constexpr std::string_view kPresets = "schemes/presets", kSystems = "topologies/systems",
                           kRecipes = "schemes/recipes", kProfiles = "calibration/profiles";

Json load(std::string_view folder, const std::string& name) {
  return Json::load(find_data(folder, "file", name));
}

/// The "fitted" entry of a file; `inside`: the object that has each name which the file itself has not, empty
/// = not checked.
void add_entry(std::vector<FittedConstant>& out, std::string_view folder, const std::string& name,
               const Json& document, std::string_view inside) {
  const Json* fitted = document.find("fitted");
  if (fitted == nullptr) return;
  for (const auto& [constant, rows] : fitted->members()) {
    const bool own = inside.empty() || document.find(constant) != nullptr;
    if (!own && document.at(inside).find(constant) == nullptr)
      rows.fail(fmt::format("\"{}\" has no \"{}\"", inside, printable(constant)));
    out.push_back({fmt::format("{}/{}.json", folder, name),
                   own ? constant : fmt::format("{}.{}", inside, constant), rows.as_text()});
  }
}

/// One line per architecture and arithmetic: its efficiencies and sizes, with the number of measurements.
void add_curves(std::vector<FittedConstant>& out) {
  const Json stock = load(kProfiles, "stock");
  for (const auto& [architecture, a] : stock.at("architectures").members()) {
    for (const char* arithmetic : {"fp32", "matrix"}) {
      const Json& curve = a.at(arithmetic);
      const int64_t measurements = curve.at("measurements").as_int(0);
      if (measurements == 0) continue;                           // figures of its neighbours
      const std::size_t constants = curve.members().size() - 2;  // but the error and the count
      out.push_back({"calibration/profiles/stock.json",
                     fmt::format("{}, {}: {} figures", architecture, arithmetic, constants),
                     fmt::format("{} kernels and steps of calibration/data/kernels", measurements)});
    }
  }
}

/// Factors of a recipe on the curves, which calibration/fit/fit_stock.py fits together with them.
void add_recipes(std::vector<FittedConstant>& out) {
  for (const std::string& name : list_data(kRecipes)) {
    const Json recipe = load(kRecipes, name);
    add_entry(out, kRecipes, name, recipe, "host");
    if (recipe.find("copied_convolution") != nullptr)
      out.push_back({fmt::format("{}/{}.json", kRecipes, name), "copied_convolution",
                     "taken over from nvidia-pytorch's matrix.convolution"});
    for (const char* arithmetic : {"fp32", "matrix"}) {
      const Json* gains = recipe.find(arithmetic);
      if (gains == nullptr) continue;
      for (const auto& [gain, value] : gains->members()) {
        if (gain == "attention" || gain == "scores" || gain == "softmax") continue;  // a paper's, or counted
        out.push_back({fmt::format("{}/{}.json", kRecipes, name), fmt::format("{}.{}", arithmetic, gain),
                       "steps of calibration/data/kernels that ran under it"});
      }
    }
  }
}

void add_libraries(std::vector<FittedConstant>& out) {
  const Json links = load(kProfiles, "links");
  for (const auto& [family, versions] : links.at("families").members()) {
    for (const Json& version : versions.items()) {
      if (version.at("source").as_text().find("not fitted") != std::string::npos) continue;
      out.push_back(
          {"calibration/profiles/links.json",
           fmt::format("{} from {}: start-up, steps and efficiencies", family, version.at("from").as_text()),
           "rows of calibration/data/collectives that its source names"});
    }
  }
}

/// Figures of what devices and machines draw.
void add_power(std::vector<FittedConstant>& out) {
  const std::string devices = "topologies/power/devices.json", machines = "plan/power/draw.json";
  const std::function<void(const std::string&, const Json&)> add = [&](const std::string& name,
                                                                       const Json& entry) {
    if (const Json* rows = entry.find("rows")) {
      out.push_back({devices, name, rows->as_text()});
      return;
    }
    if (entry.find("source") != nullptr) return;
    for (const auto& [key, below] : entry.members())
      if (key != "summary" && key != "of") add(name.empty() ? key : fmt::format("{}.{}", name, key), below);
  };
  add("", Json::load(data_root() + "/" + devices));
  const Json draw = Json::load(data_root() + "/" + machines);
  for (const auto& [name, entry] : draw.members())
    if (name != "summary" && entry.boolean("fitted", false))
      out.push_back({machines, name, entry.at("source").as_text()});
}

}  // namespace

std::vector<FittedConstant> fitted_constants() {
  std::vector<FittedConstant> out;
  for (const std::string& name : list_data(kPresets))
    add_entry(out, kPresets, name, load(kPresets, name), "overheads");
  for (const std::string& name : list_data(kSystems))
    add_entry(out, kSystems, name, load(kSystems, name), "");
  add_recipes(out);
  add_curves(out);
  add_libraries(out);
  add_power(out);
  return out;
}

std::string fitted_markdown() {
  const std::vector<FittedConstant> all = fitted_constants();
  const auto count = [&](std::string_view folder) {
    return std::count_if(all.begin(), all.end(),
                         [&](const FittedConstant& c) { return c.file.starts_with(folder); });
  };
  std::string out = fmt::format(
      "\n## Fitted constants\n\nAll figures of the data files that were fitted to published rates (`tandem "
      "list "
      "constants`): {} of presets, {} of systems, the curves of kernels and libraries. Every other figure "
      "has its own source, or is marked as recalled or assumed in its\nfile.\n\n| file | constant | fitted "
      "to "
      "|\n"
      "| --- | --- | --- |\n",
      count(kPresets), count(kSystems));
  for (std::size_t i = 0; i < all.size();) {  // one line for neighbours that were fitted to the same rows
    const FittedConstant& c = all[i];
    std::string names = c.name;
    for (++i; i < all.size() && all[i].file == c.file && all[i].rows == c.rows; ++i)
      names += ", " + all[i].name;
    out +=
        fmt::format("| [{}]({}) | {} | {} |\n", c.file.substr(c.file.rfind('/') + 1), c.file, names, c.rows);
  }
  return out;
}

}  // namespace tandem::calibration
