// SPDX-License-Identifier: Apache-2.0
#include "answers/swap.h"

#include <fmt/format.h>

#include <set>

#include "answers/elasticity.h"
#include "topologies/devices/device.h"

namespace tandem::answers {

namespace {

/// The entries of the system file that describe accelerators, as paths of --set, with their models.
std::vector<std::pair<std::string, std::string>> accelerators(const Question& q) {
  std::vector<std::pair<std::string, std::string>> out;
  const Json document = q.system.document(q.sets);
  const auto add = [&](const std::string& prefix, const Json& part) {
    const Json* devices = part.find("devices");
    if (devices == nullptr) return;
    for (const auto& [name, spec] : devices->members()) {
      const std::string& model = spec.at("model").as_text();
      if (Device::load(model).kind != Device::Kind::cpu)
        out.emplace_back(fmt::format("{}devices.{}.model", prefix, name), model);
    }
  };
  add("", document);
  if (const Json* kinds = document.find("node_kinds")) {
    for (const auto& [name, kind] : kinds->members()) add("node_kinds." + name + ".", kind);
  }
  return out;
}

/// The machine's only model of accelerators, else "".
std::string only_model(const Question& q) {
  std::set<std::string> models;
  for (const auto& [path, model] : accelerators(q)) models.insert(model);
  return models.size() == 1 ? *models.begin() : "";
}

/// The rate on the question's machine with another model of accelerators.
std::optional<double> rate_with(const Question& q, const std::string& model, int64_t devices) {
  auto sets = q.sets;
  for (const auto& [path, own] : accelerators(q)) sets.emplace_back(path, model);
  try {
    const System system = q.system.with(sets);
    return throughput(request_on(q, system, devices));
  } catch (const InputError&) {
    return std::nullopt;  // no such machine, or the model computes in a format that the device lacks
  }
}

}  // namespace

Swap swap_parts(const ReportPair& pair) {
  const Report &a = pair.a, &b = pair.b;
  const Question *asked_a = pair.asked_a, *asked_b = pair.asked_b;
  if (asked_a == nullptr || asked_b == nullptr) return {};
  for (const Question* q : {asked_a, asked_b})
    if (!quick_to_vary(*q, a) || !quick_to_vary(*q, b)) return {};
  const std::string from = only_model(*asked_a), to = only_model(*asked_b);
  if (from.empty() || to.empty() || from == to) return {};
  const auto over_a = [&](const std::optional<double>& rate) {
    return rate ? std::optional(*rate / a.rate.samples_per_second) : std::nullopt;
  };
  return {over_a(rate_with(*asked_a, to, a.setup.devices)),
          over_a(rate_with(*asked_b, from, b.setup.devices))};
}

}  // namespace tandem::answers
