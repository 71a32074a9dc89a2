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

/// Rows, files, errors and their parts' standard errors of the rates that `of` takes.
std::string cells(const std::vector<ValidationRow>& rows, const RowFilter& of, double unmet) {
  std::set<std::string> files;
  const Errors errors = rate_errors(rows, [&](const ValidationRow& r) {
    const bool counts = r.held_out && of(r);
    if (counts) files.insert(r.file);
    return counts;
  });
  double square = 0;
  for (const double e : errors.all) square += std::pow(std::log1p(e), 2);
  const double sigma = errors.width() / (2 * 1.645), n = static_cast<double>(errors.all.size());
  return fmt::format("{} | {} | {:.2f} | {:.2f} | {:.0f} %", errors.all.size(), files.size(),
                     n > 0 ? std::sqrt(square / n) : 0,
                     std::sqrt(std::max(0.0, sigma * sigma - unmet * unmet)), 100 * errors.coverage());
}

}  // namespace

std::string kinds_json(const std::vector<ValidationRow>& rows) {
  const Kinds kinds = kinds_of(rows);
  JsonWriter out{
      {"summary", "Kinds of training of which two sources in calibration/data/published have a rate"},
      {"written_by", "tandem validate --kinds json"},
      {"families", JsonWriter::object()},
      {"recipes", JsonWriter::object()}};
  for (const auto& [kind, files] : kinds.families) {
    const auto& [family, architecture, width] = kind;
    if (files.size() > 1) out["families"][family][architecture].push_back(width);
  }
  for (const auto& [kind, files] : kinds.recipes) {
    if (files.size() > 1) out["recipes"][kind.first].push_back(kind.second);
  }
  return out.dump(1) + "\n";
}

std::string kinds_markdown(const std::vector<ValidationRow>& rows) {
  const Kinds kinds = kinds_of(rows);
  const auto first = [&](const ValidationRow& r) { return kinds.families.at(family_kind(r)).size() < 2; };
  const auto own = [&](const ValidationRow& r) { return kinds.recipes.at(recipe_kind(r)).size() < 2; };
  const auto either = [&](const ValidationRow& r) { return first(r) || own(r); };
  return fmt::format(
      "\n## Kinds that one source alone has\n\n"
      "Held-out rates without anchor. A kind is a family of models in a width on an architecture, or a "
      "recipe in a "
      "width.\nErrors are of the rates' logarithms, root mean squares, next to the standard errors of their "
      "parts. "
      "What no other\nsource has is predicted with {:.1f} more, in quadrature.\n\n"
      "| kind | rows | sources | error | of its parts | inside |\n| --- | ---: | ---: | ---: | ---: | ---: "
      "|\n"
      "| another source has it | {} |\n| no other has the family there | {} |\n"
      "| no other has the recipe | {} |\n| no other has one of the two | {} |\n",
      sim::kUnmet,
      cells(
          rows, [&](const ValidationRow& r) { return !either(r); }, 0),
      cells(rows, first, sim::kUnmet), cells(rows, own, sim::kUnmet), cells(rows, either, sim::kUnmet));
}

}  // namespace tandem::calibration
