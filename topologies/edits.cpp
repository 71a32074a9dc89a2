// SPDX-License-Identifier: Apache-2.0
#include "topologies/edits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"
#include "topologies/devices/device.h"
#include "topologies/import/hardware.h"
#include "topologies/node_kinds.h"
#include "topologies/ranges.h"

namespace tandem::topologies {

namespace {

/// Names of vertices that the cables of a class of links end at.
std::set<std::string> ends_of(const Json& link) {
  std::set<std::string> out;
  const auto add = [&](const Json& pattern) {
    for (const std::string& name : expand_range(pattern.as_text(), pattern.place())) out.insert(name);
  };
  if (const Json* between = link.find("between")) {
    for (const Json& pair : between->items()) {
      for (const Json& end : pair.items()) {
        if (end.is_text()) add(end);
      }
    }
  }
  if (const Json* mesh = link.find("mesh")) {
    for (const Json& pattern : mesh->items()) add(pattern);
  }
  return out;
}

/// Takes out switches that no cable reaches any more.
void drop_lonely_switches(Json& document) {
  const Json* vertices = document.find("vertices");
  if (vertices == nullptr) return;
  std::set<std::string> reached;
  for (const auto& [kind, link] : document.at("links").members()) reached.merge(ends_of(link));
  Json kept = Json::make_object(vertices->place());
  for (const auto& [pattern, spec] : vertices->members()) {
    const std::string& kind = spec.at("kind").as_text();
    const auto names = expand_range(pattern, spec.place());
    const bool lonely = std::none_of(names.begin(), names.end(),
                                     [&](const std::string& name) { return reached.count(name) > 0; });
    if (!lonely || (kind != "nvswitch" && kind != "pcie_switch")) kept.set(pattern, spec);
  }
  document.set("vertices", std::move(kept));
}

void without(Json& document, const std::string& kind, const Place& place) {
  const Json& links = document.at("links");
  if (links.find(kind) == nullptr)
    throw InputError(place, fmt::format("this system has no links \"{}\".{} It has: {}", printable(kind),
                                        did_you_mean(kind, links.keys()), fmt::join(links.keys(), ", ")));
  Json kept = Json::make_object(links.place());
  for (const auto& [name, spec] : links.members()) {
    if (name != kind) kept.set(name, spec);
  }
  document.set("links", std::move(kept));
  drop_lonely_switches(document);
}

/// One accelerator of a node.
struct Card {
  std::string name;   ///< "gpu3"
  std::string model;  ///< "rtx-3090"
};

std::vector<Card> cards_of(const Json& document) {
  std::vector<Card> out;
  for (const auto& [pattern, spec] : document.at("devices").members()) {
    const Json& model = spec.at("model");
    if (Device::load(model.as_text(), model.place()).kind == Device::Kind::cpu) continue;
    for (const std::string& name : expand_range(pattern, spec.place()))
      out.push_back({name, model.as_text()});
  }
  return out;
}

const Card& card_at(const std::vector<Card>& cards, const std::string& number, const Place& place) {
  if (cards.empty()) throw InputError(place, "a node of this system has no accelerators");
  std::size_t i = 0;
  const char* end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, i);
  if (read.ec != std::errc{} || read.ptr != end || i >= cards.size())
    throw InputError(place, fmt::format("there is no device \"{}\": those of a node are 0 to {}",
                                        printable(number), cards.size() - 1));
  return cards[i];
}

/// The cables of a bridge of this model.
int bridge_of(const Card& card, const Place& place) {
  const int cables = bridge_cables(card.model);
  if (cables > 0) return cables;
  const auto models = bridged_models();
  throw InputError(
      place, fmt::format("{} is a {}, which has no connector for an NVLink bridge.{} Cards with one: {}",
                         card.name, card.model, did_you_mean(card.model, models), fmt::join(models, ", ")));
}

void bridges(Json& document, const std::string& list, const Place& place) {
  const std::vector<Card> cards = cards_of(document);
  std::set<std::string> taken;
  for (const auto& [kind, link] : document.at("links").members()) {
    if (kind.starts_with("nvlink")) taken.merge(ends_of(link));
  }
  std::map<std::string, std::vector<std::string>> cables;  // by model: ends as JSON
  for (const std::string& piece : split(list, ',')) {
    const auto ends = split(piece, '-');
    if (ends.size() != 2)
      throw InputError(place,
                       fmt::format("\"{}\" is not a pair of devices, for example 0-1", printable(piece)));
    const Card &a = card_at(cards, ends[0], place), &b = card_at(cards, ends[1], place);
    if (a.name == b.name)
      throw InputError(place, fmt::format("\"{}\": a bridge joins two cards", printable(piece)));
    const int count = bridge_of(a, place);
    if (bridge_of(b, place) != count || a.model != b.model)
      throw InputError(place, fmt::format("{} is a {} and {} a {}: a bridge joins two cards of one model",
                                          a.name, a.model, b.name, b.model));
    for (const Card* card : {&a, &b}) {
      if (!taken.insert(card->name).second)
        throw InputError(place,
                         fmt::format("{} has an NVLink already: each card takes one bridge", card->name));
    }
    cables[a.model].push_back(fmt::format("[\"{}\", \"{}\", {}]", a.name, b.name, count));
  }
  Json links = document.at("links");
  for (const auto& [model, pairs] : cables) {
    std::string kind = "nvlink";
    while (links.find(kind) != nullptr) kind += "-bridge";
    const LinkFigures f = cable_figures(Device::load(model));
    links.set(kind,
              Json::parse(fmt::format("{{\"bandwidth\": \"{}\", \"achieved\": {}, \"latency\": \"{}ns\", "
                                      "\"between\": [{}], \"source\": \"bridges of {}\"}}",
                                      rate_text(f.bandwidth.bytes_per_second), f.achieved,
                                      1e9 * f.latency.seconds(), fmt::join(pairs, ", "), model),
                          place.file ? *place.file : "bridges"));
  }
  document.set("links", std::move(links));
}

void swap_device(Json& document, const std::string& model, const Place& place) {
  const Device device = Device::load(model, place);
  if (device.kind == Device::Kind::cpu)
    throw InputError(place, fmt::format("{} is a processor: accelerators are swapped", device.name));
  std::vector<std::string> entries;
  for (const auto& [pattern, spec] : document.at("devices").members()) {
    const Json& own = spec.at("model");
    const Device::Kind kind = Device::load(own.as_text(), own.place()).kind;
    if (kind == Device::Kind::cpu) continue;
    if (kind != device.kind)
      throw InputError(
          place, fmt::format("{} does not go where {} is: GPUs and TPUs are joined by links of other kinds",
                             device.name, own.as_text()));
    entries.push_back(pattern);
  }
  if (entries.empty()) throw InputError(place, "this system has no accelerators to swap");
  for (const std::string& pattern : entries) document.set_path("devices." + pattern + ".model", model, place);
  const bool peers = document.find("peer_access") != nullptr;
  if (peers && !offers_peer_access(device)) document.set_path("peer_access.reach", "none", place, true);
}

void place_on(Json& document, const std::string& list, const Place& place) {
  const std::vector<Card> cards = cards_of(document);
  std::vector<std::string> names;
  for (const std::string& number : split(list, ',')) {
    const Card& card = card_at(cards, number, place);
    if (std::find(names.begin(), names.end(), card.name) != names.end())
      throw InputError(place, fmt::format("device {} is named twice", printable(number)));
    names.push_back(card.name);
  }
  document.set("place", Json::parse(fmt::format("[\"{}\"]", fmt::join(names, "\", \"")),
                                    place.file ? *place.file : "place"));
}

}  // namespace

std::string set_option(const std::string& name, const std::string& value) {
  static const std::map<std::string, std::string> options = {{"without", "--without "},
                                                             {"bridges", "--with-bridges "},
                                                             {"device", "--swap device="},
                                                             {"place", "--place "}};
  const auto at = options.find(name);
  return (at != options.end() ? at->second : "--set " + printable(name) + "=") + printable(value);
}

namespace {

using Change = void (*)(Json&, const std::string&, const Place&);

/// Makes the change in nodes of all kinds, which then state what they took from the common description.
/// A kind that has nothing to change is left alone where another has.
void change_kinds(Json& document, Change change, const std::string& value, const Place& place) {
  auto specs = node_specs(document);
  int64_t own = 0;
  Json kinds = document.at("node_kinds");
  for (const auto& [name, kind] : document.at("node_kinds").members()) own += kind.integer("nodes", 0);
  std::optional<InputError> refused;
  bool changed = false;
  for (auto& [name, spec] : specs) {
    if (name.empty() && own >= document.integer("nodes", 1)) continue;  // no node is described by it
    try {
      change(spec, value, place);
      changed = true;
    } catch (const InputError& e) {
      refused = e;
      continue;
    }
    Json kind = name.empty() ? document : kinds.at(name);
    for (const std::string_view key : kKeysOfNodes) {
      if (const Json* stated = spec.find(key)) kind.set(std::string(key), *stated);
    }
    if (name.empty()) {
      kind.set("node_kinds", Json::make_object(place));
      document = std::move(kind);
    } else {
      kinds.set(name, std::move(kind));
    }
  }
  if (!changed && refused) throw *refused;
  document.set("node_kinds", std::move(kinds));
}

}  // namespace

namespace {

/// Of an entry of "devices": one entry for each name, so that they may differ.
std::vector<std::pair<std::string, Json>> apart(const std::string& pattern, const Json& spec) {
  std::vector<std::pair<std::string, Json>> out;
  const Json* numa = spec.find("numa");
  for (const std::string& name : expand_range(pattern, spec.place())) {
    Json own = spec;
    if (numa != nullptr && numa->is_array() && out.size() < numa->items().size())
      own.set("numa", numa->items()[out.size()]);
    out.emplace_back(name, std::move(own));
  }
  return out;
}

/// Sets the limit in the entries of "devices" of a description of nodes and counts the devices that have it.
/// `names`: empty for all accelerators.
int64_t limit_devices(Json& node, const std::set<std::string>& names, const Json& watts) {
  if (node.find("devices") == nullptr) return 0;
  const Json devices = node.at("devices");
  Json out = Json::make_object(devices.place());
  int64_t limited = 0;
  for (const auto& [pattern, spec] : devices.members()) {
    const Json& model = spec.at("model");
    if (names.empty() && Device::load(model.as_text(), model.place()).kind == Device::Kind::cpu) {
      out.set(pattern, spec);
      continue;
    }
    const auto all = apart(pattern, spec);
    const auto count = std::count_if(
        all.begin(), all.end(), [&](const auto& one) { return names.empty() || names.contains(one.first); });
    limited += count;
    if (count == 0 || count == static_cast<int64_t>(all.size())) {
      Json own = spec;
      if (count > 0) own.set("power_limit", watts);
      out.set(pattern, std::move(own));
      continue;
    }
    for (auto [name, own] : all) {
      if (names.contains(name)) own.set("power_limit", watts);
      out.set(name, std::move(own));
    }
  }
  node.set("devices", std::move(out));
  return limited;
}

/// Of "devices.WHO.power_limit": WHO.
std::optional<std::string> with_limit(std::string_view path) {
  constexpr std::string_view kFirst = "devices.", kLast = ".power_limit";
  if (!path.starts_with(kFirst) || !path.ends_with(kLast) || path.size() <= kFirst.size() + kLast.size())
    return {};
  return std::string(path.substr(kFirst.size(), path.size() - kFirst.size() - kLast.size()));
}

void limit_power(Json& document, const std::string& who, const std::string& value, const Place& place) {
  std::set<std::string> names;
  if (who != "*") {
    for (const std::string& name : expand_range(who, place)) names.insert(name);
  }
  const Json watts = Json::make_text(value, place);
  int64_t limited = limit_devices(document, names, watts);
  if (document.find("node_kinds") != nullptr) {
    Json kinds = document.at("node_kinds");
    for (const auto& [name, kind] : document.at("node_kinds").members()) {
      Json own = kind;
      limited += limit_devices(own, names, watts);
      kinds.set(name, std::move(own));
    }
    document.set("node_kinds", std::move(kinds));
  }
  if (limited > 0) return;
  std::vector<std::string> valid = document.at("devices").keys();
  if (who == "*")
    throw InputError(place, fmt::format("there is no accelerator to set a power limit of: the system has {}",
                                        fmt::join(valid, ", ")));
  throw InputError(place, fmt::format("there is no device \"{}\" to set a power limit of.{} It has: {}; all "
                                      "accelerators are \"*\"",
                                      printable(who), did_you_mean(who, valid), fmt::join(valid, ", ")));
}

}  // namespace

bool edit(Json& document, std::string_view name, const std::string& value, const Place& place) {
  static const std::map<std::string_view, Change> changes = {
      {"without", without}, {"bridges", bridges}, {"device", swap_device}, {"place", place_on}};
  if (const auto who = with_limit(name)) {
    limit_power(document, *who, value, place);
    return true;
  }
  const auto change = changes.find(name);
  if (change == changes.end()) return false;
  if (document.find("node_kinds") != nullptr) {
    change_kinds(document, change->second, value, place);
  } else {
    change->second(document, value, place);
  }
  return true;
}

}  // namespace tandem::topologies
