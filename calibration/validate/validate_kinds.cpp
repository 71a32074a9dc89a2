// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/validate_kinds.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/json_writer.h"
#include "calibration/validate/validation_statistics.h"
#include "sim/met_kinds.h"

namespace tandem::calibration {

namespace {

using FamilyKind = std::tuple<std::string, std::string, std::string>;  ///< family, architecture, width
using RecipeKind = std::pair<std::string, std::string>;                ///< recipe, width

/// The files that have a row of each.
struct Kinds {
  std::map<FamilyKind, std::set<std::string>> families;
  std::map<RecipeKind, std::set<std::string>> recipes;
};

FamilyKind family_kind(const ValidationRow& r) { return {r.family, r.generation, r.width}; }
RecipeKind recipe_kind(const ValidationRow& r) { return {r.recipe_run, r.width}; }

Kinds kinds_of(const std::vector<ValidationRow>& rows) {
  Kinds out;
  for (const ValidationRow& r : rows) {
    if (!r.error.empty() || !r.doubtful.empty() || r.relative) continue;
    out.families[family_kind(r)].insert(r.file);
    out.recipes[recipe_kind(r)].insert(r.file);
  }
  return out;
}

/// Of some rows: how far predictions are off, and how far their intervals reach.
struct KindErrors {
  int64_t rows = 0, inside = 0;
  double square = 0, width = 0;
  std::set<std::string> files;
  void add(const ValidationRow& r) {
    const double error = std::log(r.rate.samples_per_second / r.published);
    const double sigma = std::log(r.rate.interval.high / r.rate.interval.low) / (2 * 1.645);
    ++rows;
    inside += r.published >= r.rate.interval.low && r.published <= r.rate.interval.high ? 1 : 0;
    square += error * error;
    width += sigma * sigma;
    files.insert(r.file);
  }
  std::string cells() const {
    const auto n = static_cast<double>(std::max<int64_t>(1, rows));
    return fmt::format("{} | {} | {:.2f} | {:.2f} | {:.0f} %", rows, files.size(), std::sqrt(square / n),
                       std::sqrt(width / n), 100 * static_cast<double>(inside) / n);
  }
};

}  // namespace

std::string kinds_json(const std::vector<ValidationRow>& rows) {
  const Kinds kinds = kinds_of(rows);
  std::map<std::string, std::map<std::string, JsonWriter>> families;
  std::map<std::string, JsonWriter> recipes;
  const auto put = [](JsonWriter& to, const std::string& width) { to.push_back(width); };
  for (const auto& [kind, files] : kinds.families) {
    if (files.size() < 2) continue;
    const auto& [family, architecture, width] = kind;
    put(families[family].try_emplace(architecture, JsonWriter::array()).first->second, width);
  }
  for (const auto& [kind, files] : kinds.recipes) {
    if (files.size() < 2) continue;
    put(recipes.try_emplace(kind.first, JsonWriter::array()).first->second, kind.second);
  }
  JsonWriter by_family = JsonWriter::object(), by_recipe = JsonWriter::object();
  for (const auto& [family, architectures] : families) {
    JsonWriter own = JsonWriter::object();
    for (const auto& [architecture, widths] : architectures) own[architecture] = widths;
    by_family[family] = own;
  }
  for (const auto& [recipe, widths] : recipes) by_recipe[recipe] = widths;
  const JsonWriter out{
      {"summary", "Kinds of training of which two sources in calibration/data/published have a rate"},
      {"written_by", "tandem validate --kinds json"},
      {"families", by_family},
      {"recipes", by_recipe}};
  return out.dump(1) + "\n";
}

std::string kinds_markdown(const std::vector<ValidationRow>& rows) {
  const Kinds kinds = kinds_of(rows);
  KindErrors met, family, recipe, either;
  for (const ValidationRow& r : rows) {
    if (!r.held_out || !has_rate(r)) continue;
    const bool first = kinds.families.at(family_kind(r)).size() < 2,
               own = kinds.recipes.at(recipe_kind(r)).size() < 2;
    if (first) family.add(r);
    if (own) recipe.add(r);
    (first || own ? either : met).add(r);
  }
  return fmt::format(
      "\n## Kinds that one source alone has\n\n"
      "Held-out rates without anchor. A kind is a family of models in a width on an architecture, or a "
      "recipe in a "
      "width.\nError and standard error are of the rates' logarithms, root mean squares. What no other "
      "source has is "
      "predicted\nwith {:.1f} more, in quadrature.\n\n"
      "| kind | rows | sources | error | standard error | inside |\n| --- | ---: | ---: | ---: | ---: | ---: "
      "|\n"
      "| another source has it | {} |\n| no other has the family there | {} |\n| no other has the recipe | "
      "{} |\n"
      "| no other has one of the two | {} |\n",
      sim::kUnmet, met.cells(), family.cells(), recipe.cells(), either.cells());
}

}  // namespace tandem::calibration
