// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/asking.h"

#include <fmt/format.h>

namespace tandem::calibration {

Question question_of(const Json& row, const std::vector<std::pair<std::string, std::string>>& more) {
  constexpr std::pair<const char*, const char*> kKeys[] = {
      {"model", "model"},         {"system", "system"},       {"scheme", "scheme"},
      {"precision", "precision"}, {"optimizer", "optimizer"}, {"recipe", "recipe"},
      {"recompute", "recompute"}, {"memory", "memory"},       {"batch_norm", "batch-norm"},
      {"adapter", "adapter"},     {"offload", "offload"}};
  Values values;
  for (const auto& [key, option] : kKeys) {
    const Json* value = row.find(key);
    if (value == nullptr || !value->is_text()) continue;
    values.add(option, value->as_text());
    values.stands_at(option, value->place());
  }
  if (const Json* sets = row.find("set")) {
    for (const auto& [path, value] : sets->members()) values.add("set", path + "=" + value.as_text());
    values.stands_at("set", sets->place());
  }
  if (!values.has("recompute")) values.add("recompute", "off");  // whatever a preset does by default
  for (const auto& [option, value] : more) {
    values.set(option, {value});
    values.stands_at(option, row.place());
  }
  Question out = read_located(values);
  out.timeline = false;
  return out;
}

std::vector<std::pair<std::string, std::string>> on_devices(const std::string& system, int64_t devices,
                                                            const Place& place) {
  const System plain = System::load(system, System::Sets(), place);
  const auto each = static_cast<int64_t>(plain.accelerators().size());
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("devices", std::to_string(devices));
  if (devices > plain.accelerator_count())
    out.emplace_back("set", fmt::format("nodes={}", (devices + each - 1) / each));
  return out;
}

}  // namespace tandem::calibration
