// SPDX-License-Identifier: Apache-2.0
#include "app/console/report_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "schemes/scheme.h"

namespace tandem::app {

namespace {

using Inputs = std::map<std::string, std::string>;

constexpr std::string_view kSet = "set.", kOption = "scheme.";

/// What differs between reports of one question for several numbers of devices.
bool of_devices(std::string_view key) {
  return key == "devices" || key == "batch_split" || (key.starts_with(kSet) && key.ends_with("nodes"));
}

/// Told by labels of their own.
bool labelled(std::string_view key) {
  constexpr std::string_view kKeys[] = {"model",     "system", "scheme",
                                        "precision", "input",  "batch_per_device"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys) || key.starts_with(kSet) ||
         key.starts_with(kOption);
}

Inputs inputs_of(const Report& report) {
  Inputs out;
  for (const auto& [key, value] : report.inputs) {
    if (!of_devices(key)) out[key] = value;
  }
  return out;
}

/// Values that say by themselves what they are.
std::string word_of(const std::string& key, const std::string& value) {
  constexpr std::string_view kPlain[] = {"optimizer", "recipe"};
  if (std::find(std::begin(kPlain), std::end(kPlain), key) != std::end(kPlain)) return value;
  const auto dot = key.rfind('.');
  return (dot == std::string::npos ? key : key.substr(dot + 1)) + "=" + value;
}

/// Of a scheme of that name when nothing is said of it; empty where there is none.
const Inputs& usual_options(const std::string& scheme) {
  static std::map<std::string, Inputs> known;
  const auto [at, fresh] = known.try_emplace(scheme);
  if (!fresh) return at->second;
  try {
    const ResolvedScheme usual = resolve_scheme(scheme, {});
    for (const auto& [key, value] : usual.options.all()) at->second[key] = value;
  } catch (const InputError&) {  // of a file or of another version
  }
  return at->second;
}

}  // namespace

std::string report_input(const Report& report, std::string_view key) {
  for (const auto& [name, value] : report.inputs) {
    if (name == key) return value;
  }
  return "";
}

std::string report_batch(const Report& report) {
  const bool stages = std::any_of(report.memory_by_role.begin(), report.memory_by_role.end(),
                                  [](const RoleMemory& m) { return m.role.rfind("stage ", 0) == 0; });
  const bool micro = !report_input(report, "scheme.microbatches").empty() || stages;
  const bool mean = !report_input(report, "batch_split").empty();
  return fmt::format("{} sample{} per {}{}", report.batch_per_device, report.batch_per_device == 1 ? "" : "s",
                     micro ? "micro-batch" : "device", mean ? " in the mean" : "");
}

std::string system_label(const Report& report) {
  std::string out = report_input(report, "system");
  bool first = true;
  for (const auto& [key, value] : report.inputs) {
    if (!key.starts_with(kSet) || of_devices(key)) continue;
    out += fmt::format(" {} {}={}", first ? "with" : "and", key.substr(kSet.size()), value);
    first = false;
  }
  return out;
}

std::string scheme_label(const Report& report) {
  std::string out = report_input(report, "scheme");
  const Inputs& usual = usual_options(out);
  char before = ':';
  for (const auto& [key, value] : report.inputs) {
    if (!key.starts_with(kOption)) continue;
    const auto at = usual.find(key.substr(kOption.size()));
    if (at == usual.end() || at->second == value) continue;
    out += before + at->first + "=" + value;
    before = ',';
  }
  return out;
}

std::string report_title(const Report& report) {
  return fmt::format("{} on {}, {}, {}, {}", report_input(report, "model"), system_label(report),
                     scheme_label(report), report_input(report, "precision"), report_batch(report));
}

bool same_but_devices(const Report& a, const Report& b) {
  return a.engine == b.engine && inputs_of(a) == inputs_of(b);
}

std::vector<std::string> further_labels(const std::vector<const Report*>& reports) {
  const auto named = [](const Report& r) {
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", r.engine, report_input(r, "model"), system_label(r),
                       scheme_label(r), report_input(r, "precision"), report_input(r, "input"),
                       report_batch(r));
  };
  std::map<std::string, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < reports.size(); ++i) alike[named(*reports[i])].push_back(i);
  std::vector<std::string> out(reports.size());
  for (const auto& [name, members] : alike) {
    std::map<std::string, std::set<std::string>> values;
    for (const std::size_t i : members) {
      for (const auto& [key, value] : inputs_of(*reports[i])) values[key];
    }
    for (auto& [key, all] : values) {
      for (const std::size_t i : members) all.insert(report_input(*reports[i], key));
    }
    for (const std::size_t i : members) {
      for (const auto& [key, value] : reports[i]->inputs) {
        if (of_devices(key) || labelled(key) || values[key].size() < 2) continue;
        out[i] += (out[i].empty() ? "" : ", ") + word_of(key, value);
      }
    }
  }
  return out;
}

}  // namespace tandem::app
