// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/scheme.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/data.h"
#include "base/kept.h"
#include "schemes/setup/memory_habits.h"

namespace tandem::schemes {

namespace {

constexpr std::string_view kPresets = "schemes/presets";

Overheads read_overheads(const Json& json) {
  json.only({"iteration", "collective", "cycle", "agreement", "single_process", "unmeasured", "several_error",
             "one_launcher", "replicate", "feed", "compute_slowdown", "norm_stall", "interference",
             "copies_per_byte", "merge", "link_efficiency"});
  Overheads out;
  const auto time = [&](std::string_view key, Time& to) {
    if (const Json* value = json.find(key)) to = value->as_time();
  };
  time("iteration", out.iteration);
  time("collective", out.collective);
  time("replicate", out.replicate);
  out.single_process = json.boolean("single_process", false);
  // Of presets that no published rate on several devices was held against.
  constexpr double kUnmeasured = 0.1;
  const bool unmeasured = json.boolean("unmeasured", false);
  out.several_error = json.real("several_error", unmeasured ? kUnmeasured : out.several_error, 0, 3);
  out.one_launcher = json.boolean("one_launcher", false);
  out.compute_slowdown = json.real("compute_slowdown", 0, 0, 10);
  out.norm_stall = json.real("norm_stall", 0, 0, 100);
  out.interference = json.real("interference", 0, 0, 1);
  out.copies_per_byte = json.real("copies_per_byte", 0, 0, 100);
  out.merge = json.boolean("merge", false);
  if (const Json* how = json.find("agreement")) {
    if (how->as_text() != "bits" && how->as_text() != "lists")
      how->fail("ranks agree by \"bits\" or \"lists\"");
    out.agreement = how->as_text() == "bits" ? Overheads::Agreement::bits : Overheads::Agreement::lists;
  }
  out.link_efficiency = json.real("link_efficiency", 1, 0.01, 1);
  if (const Json* rate = json.find("feed")) out.feed = rate->as_bandwidth();
  return out;
}

/// What stands in the options of a scheme that has such: how often a coordinator looks.
void take_cycle(ResolvedScheme& resolved) {
  const auto& options = resolved.scheme->options;
  if (std::any_of(options.begin(), options.end(), [](const OptionSpec& o) { return o.name == "cycle"; }))
    resolved.overheads.cycle = resolved.options.time("cycle");
}

/// Text as a command line would have it: presets may write counts and flags bare.
std::string setting(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::text:
      return value.as_text();
    case Json::Kind::integer:
      return std::to_string(value.as_int());
    case Json::Kind::real:
      return fmt::format("{}", value.as_real());
    case Json::Kind::boolean:
      return value.as_bool() ? "on" : "off";
    default:
      value.fail("an option's value must be text, a number, true or false");
  }
}

/// Micro-batches of a step are "accumulate" where each is an iteration, "microbatches" where they go through
/// a pipeline; who has one of them understands the other. Both are refused where they differ.
std::vector<std::pair<std::string, std::string>> understood(const Selection& selection, const Scheme& scheme,
                                                            const Place& place) {
  constexpr std::string_view kNames[] = {"accumulate", "microbatches"};
  auto out = selection.settings;
  const auto has = [&](std::string_view name) {
    return std::any_of(scheme.options.begin(), scheme.options.end(),
                       [&](const OptionSpec& o) { return o.name == name; });
  };
  for (const std::string_view own : kNames) {
    const std::string_view other = own == kNames[0] ? kNames[1] : kNames[0];
    if (!has(own) || has(other)) continue;
    const auto find = [&](std::string_view name) {
      return std::find_if(out.begin(), out.end(), [&](const auto& s) { return s.first == name; });
    };
    const auto meant = find(other), said = find(own);
    if (meant == out.end()) continue;
    if (said != out.end() && said->second != meant->second)
      throw InputError(place, fmt::format("{}: {}={} and {}={} are the same thing: give one of them",
                                          printable(selection.name), own, printable(said->second), other,
                                          printable(meant->second)));
    if (said != out.end())
      out.erase(meant);
    else
      meant->first = own;
  }
  return out;
}

ResolvedScheme from_preset(const std::string& path, const Selection& selection, const Place& place) {
  static base::Kept<Json> kept;
  const auto held = kept.get(path, [](const std::string& file) { return Json::load(file); });
  const Json& json = *held;
  json.only({"name", "summary", "scheme", "options", "recipe", "overheads", "network", "fitted", "memory",
             "recompute", "source"});
  const Json& base = json.at("scheme");
  const Scheme& scheme = sync_registry().at(base.as_text(), base.place());
  std::vector<std::pair<std::string, std::string>> settings;
  const Json* overheads = json.find("overheads");
  if (overheads != nullptr && overheads->find("cycle") != nullptr)  // where it stood before it was an option
    settings.emplace_back("cycle", setting(*overheads->find("cycle")));
  if (const Json* options = json.find("options")) {
    for (const auto& [key, value] : options->members()) settings.emplace_back(key, setting(value));
    // The file's own settings are held against the scheme first, so that their errors name the file.
    Options(scheme.options, settings, std::string(scheme.name), options->place());
  }
  const auto own = understood(selection, scheme, place);
  settings.insert(settings.end(), own.begin(), own.end());
  ResolvedScheme out{
      &scheme, selection.name, Options(scheme.options, settings, selection.name, place), {}, {}, {}, {}};
  if (overheads != nullptr) out.overheads = read_overheads(*overheads);
  out.overheads.network = json.text("network", "");
  take_cycle(out);
  if (const Json* memory = json.find("memory")) {
    for (const auto& [key, value] : memory->members()) out.memory.emplace_back(key, setting(value));
    memory_habits(out.memory, "memory of " + selection.name, memory->place());
  }
  out.source = json.text("source", "");
  if (const Json* again = json.find("recompute"))
    out.recompute = parse_recompute(again->as_text(), again->place());
  const Json* recipe = json.find("recipe");
  out.recipe = recipe != nullptr ? load_recipe(recipe->as_text(), recipe->place())
                                 : load_recipe(std::string(kDefaultRecipe));
  return out;
}

}  // namespace

Workload make_workload(const Graph& graph, int64_t batch, Precision precision, const Optimizer& optimizer,
                       bool input, const Recompute& recompute, const Offload& offload,
                       const Loading& loading) {
  std::vector<Lowered> layers = graph.lower(batch, precision);
  for (Lowered& l : layers) {
    for (auto* kernels : {&l.forward, &l.backward_data}) {
      for (Kernel& k : *kernels) k.fused = k.fused && recompute.fuses_norms();
    }
  }
  return {&graph,     std::move(layers),
          batch,      precision,
          &optimizer, input,
          recompute,  {},
          offload,    loading,
          {},         kept_outputs(recompute, graph)};
}

namespace {

/// What a split model's gradients travel in they are summed in, unless its memory habits say otherwise.
ResolvedScheme with_sums(ResolvedScheme scheme) {
  const auto& specs = scheme.scheme->options;
  const bool asks = std::any_of(specs.begin(), specs.end(),
                                [](const OptionSpec& spec) { return spec.name == "gradients"; });
  if (asks && scheme.scheme->pipeline != nullptr && scheme.options.text("gradients") == "fp32")
    scheme.memory.emplace(scheme.memory.begin(), "sums", "fp32");
  return scheme;
}

ResolvedScheme resolve_named(std::string_view text, const Place& place) {
  Selection selection = parse_selection(text, place);
  std::vector<std::string> names = sync_registry().names();
  const std::vector<std::string> presets = list_data(kPresets);
  names.insert(names.end(), presets.begin(), presets.end());
  selection.name = spelled_as(selection.name, names);
  if (const Scheme* scheme = sync_registry().find(selection.name)) {
    ResolvedScheme out{scheme,
                       selection.name,
                       Options(scheme->options, understood(selection, *scheme, place), selection.name, place),
                       {},
                       {},
                       {},
                       {}};
    out.recipe = load_recipe(std::string(kDefaultRecipe));
    take_cycle(out);
    return out;
  }
  const bool file = selection.name.find('/') != std::string::npos || selection.name.ends_with(".json");
  if (!file && std::find(presets.begin(), presets.end(), selection.name) == presets.end()) {
    throw InputError(place, fmt::format("no scheme \"{}\".{} All: tandem list schemes",
                                        printable(selection.name), did_you_mean(selection.name, names)));
  }
  return from_preset(find_data(kPresets, "scheme", selection.name, place), selection, place);
}

}  // namespace

ResolvedScheme resolve_scheme(std::string_view text, const Place& place) {
  return with_sums(resolve_named(text, place));
}

std::vector<SchemeEntry> list_schemes() {
  std::vector<SchemeEntry> out;
  for (const Scheme& s : sync_registry().all()) out.push_back({std::string(s.name), std::string(s.summary)});
  for (const std::string& name : list_data(kPresets)) {
    out.push_back({name, Json::load(find_data(kPresets, "scheme", name)).at("summary").as_text()});
  }
  return out;
}

}  // namespace tandem::schemes
