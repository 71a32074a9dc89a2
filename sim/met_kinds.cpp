// SPDX-License-Identifier: Apache-2.0
#include "sim/met_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/data.h"
#include "base/json.h"
#include "sim/cost/machine.h"

namespace tandem::sim {

namespace {

struct Met {
  std::set<std::tuple<std::string, std::string, std::string>> families;  ///< family, architecture, width
  std::set<std::pair<std::string, std::string>> recipes;                 ///< recipe, width
};

Met read_met() {
  const Json json = Json::load(find_data("calibration/profiles", "profile", "met"));
  json.only({"summary", "written_by", "families", "recipes"});
  Met out;
  for (const auto& [family, architectures] : json.at("families").members()) {
    for (const auto& [architecture, widths] : architectures.members()) {
      for (const Json& width : widths.items()) out.families.insert({family, architecture, width.as_text()});
    }
  }
  for (const auto& [recipe, widths] : json.at("recipes").members()) {
    for (const Json& width : widths.items()) out.recipes.insert({recipe, width.as_text()});
  }
  return out;
}

const Met& met() {
  static const Met read = read_met();
  return read;
}

std::string plural(const std::string& family) {
  return family == "cnn"         ? "CNNs"
         : family == "other"     ? "other models"
         : family == "recurrent" ? "recurrent networks"
                                 : family + "s";
}

std::string_view in_words(std::string_view width) {
  return width == "half" ? "half precision" : width == "single" ? "single precision" : width;
}

}  // namespace

std::string family_of(const models::Graph& graph) {
  bool conv = false, attention = false, recurrent = false;
  for (const models::Layer& l : graph.layers()) {
    if (l.type == nullptr) continue;
    conv = conv || l.type->name.find("conv") != std::string_view::npos;
    attention = attention || l.type->name == "attention";
    recurrent = recurrent || l.type->name == "lstm" || l.type->name == "gru" || l.type->name == "rnn";
  }
  return attention ? "transformer" : recurrent ? "recurrent" : conv ? "cnn" : "other";
}

std::string_view width_of(Precision precision) {
  if (precision == Precision::fp16 || precision == Precision::bf16) return "half";
  if (precision == Precision::fp32 || precision == Precision::tf32) return "single";
  return name(precision);
}

std::vector<std::string> unmet_kinds(const Request& p, const std::vector<DeviceSort>& sorts) {
  const ResolvedScheme& scheme = *p.job.scheme;
  const bool divided =
      scheme.scheme->replica_devices != nullptr && scheme.scheme->replica_devices(scheme.options) > 1;
  if (divided) return {};
  // A measured GPU knows its own architecture, under the executor.
  std::string measured;
  if (p.profile != "stock") {
    const auto machine = MachineProfile::find(p.profile, p.job.precision);
    if (machine == nullptr || !machine->apart() || machine->device().empty()) return {};
    measured = Device::load(machine->device()).architecture;
  }
  const std::string width(width_of(p.job.precision)), family = family_of(*p.job.graph);
  std::vector<std::string> out;
  std::set<std::string> architectures;
  for (const DeviceSort& sort : sorts) architectures.insert(p.system->device(sort.first).architecture);
  architectures.erase(measured);
  for (const std::string& architecture : architectures) {
    if (!met().families.contains({family, architecture, width}))
      out.push_back(fmt::format("{} in {} on {}", plural(family), in_words(width), printable(architecture)));
  }
  if (measured.empty() && !met().recipes.contains({scheme.recipe.name, width}))
    out.push_back(fmt::format("the recipe {} in {}", printable(scheme.recipe.name), in_words(width)));
  return out;
}

}  // namespace tandem::sim
