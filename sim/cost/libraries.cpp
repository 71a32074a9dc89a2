// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/libraries.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/data.h"
#include "sim/cost/layout.h"
#include "sim/cost/link_pattern.h"
#include "sim/cost/nccl_tuning.h"

namespace tandem::sim {
namespace {

constexpr std::array<std::string_view, kHopClasses> kHopNames{"fabric", "pcie", "host", "network"};

template <typename Read>
void read_per_hop(const Json& json, PerHop& out, Read&& read) {
  json.only({"fabric", "pcie", "host", "network"});
  for (int c = 0; c < kHopClasses; ++c) {
    if (const Json* value = json.find(kHopNames[static_cast<std::size_t>(c)])) {
      out[static_cast<std::size_t>(c)] = read(*value);
    }
  }
}

void read_protocol(const Json& json, Protocol& p) {
  json.only({"name", "base", "step", "efficiency", "copy", "not_on"});
  p.name = json.text("name", p.name);
  if (const Json* base = json.find("base")) p.base = base->as_time().seconds();
  p.copy = json.real("copy", p.copy, 0.01, 1);
  if (const Json* step = json.find("step")) {
    read_per_hop(*step, p.step, [](const Json& j) { return j.as_time().seconds(); });
  }
  if (const Json* efficiency = json.find("efficiency")) {
    read_per_hop(*efficiency, p.efficiency, [](const Json& j) { return j.as_real(0, 1.25); });
  }
}

/// {"fabric": [up to 1 MiB, above], ..., "unseen": the fabric's for generations other than those "of"}.
void read_spread(const Json& json, const std::string& architecture, Library& lib) {
  json.only({"fabric", "pcie", "host", "network", "unseen", "of"});
  const auto& seen = json.at("of").items();
  const bool known =
      std::any_of(seen.begin(), seen.end(), [&](const Json& g) { return g.as_text() == architecture; });
  for (std::size_t c = 0; c < kHopClasses; ++c) {
    const Json& pair = json.at(c == 0 && !known ? std::string_view("unseen") : kHopNames[c]);
    if (pair.items().size() != 2) pair.fail("two factors expected: up to 1 MiB, above");
    for (std::size_t i = 0; i < 2; ++i) lib.spread[c][i] = pair.items()[i].as_real(0, 100);
  }
}

/// The first accelerator of a node, of several kinds of nodes that whose clock is lowest: all wait for it.
Device slowest_clock(const System& system) {
  Device out;
  for (std::size_t kind = 0; kind < system.kinds().size(); ++kind) {
    const auto& accelerators = system.accelerators(kind);
    const int32_t device = accelerators.empty() ? -1 : system.vertices(kind)[accelerators.front()].device;
    if (device < 0) continue;
    const Device& own = system.devices()[static_cast<std::size_t>(device)];
    if (kind == 0 || own.boost_mhz < out.boost_mhz) out = own;
  }
  return out;
}

/// The cables that join an accelerator to the others of its node.
struct Cables {
  LinkInfo first;  ///< to a switch, or to the first of those that it has cables to
  bool switched = false;
  int lanes = 0;  ///< of the accelerator; 0: it has none
};

Cables cables_of(const System& system) {
  Cables out;
  const auto& local = system.accelerators();
  for (std::size_t i = 1; i < local.size(); ++i) {
    const VertexId a = system.vertex(0, local.front()), b = system.vertex(0, local[i]);
    const Route r = system.route(a, b);
    if (hop_class(system, a, b, r) != HopClass::fabric) continue;
    const LinkInfo cable = system.link(r.links.front());
    if (out.lanes == 0) {
      out.first = cable;
      out.switched = r.links.size() > 1;
    }
    if (out.lanes == 0 || r.links.size() == 1) out.lanes += cable.lanes;
  }
  return out;
}

/// What NCCL counts of those cables, as a fraction of what copies reach; 1 without cables.
double counted_of_fabric(const Cables& cables, const std::string& architecture, double speed) {
  if (cables.lanes == 0) return 1;
  const NcclTuning::Generation* known = nccl_tuning().generation(architecture);
  // Without a switch between them 18 of 20 GB/s (src/graph/topo.h SM60_NVLINK_BW; 22 of 25 up to 2.17). The
  // bound is for links that faults leave less than their cables.
  const double whole = cables.first.bandwidth.bytes_per_second;
  const bool counted = known != nullptr && cables.switched;
  const double share = std::min(0.9, counted ? speed * known->cable * cables.first.lanes / whole : 0.9);
  return share * whole / cables.first.usable();
}

/// Thread blocks of NCCL's rings over those cables: twice the channels that its search finds
/// (src/graph/connect.cc), one channel for each cable where its figures are not known.
double ring_blocks(const Cables& cables, const std::string& architecture) {
  const NcclTuning::Generation* known = nccl_tuning().generation(architecture);
  const double found =
      known == nullptr ? 0 : nccl_tuning().channels(*known, known->cable * cables.lanes).count;
  return 2 * (found > 0 ? found : cables.lanes);
}

/// What the entry says about the accelerators' architecture: which protocols the library allows, how start-up
/// and steps between devices scale, and whether switches reduce. Kernels run the protocols, so the times
/// stated for one clock pass in inverse ratio to a device's own; scales by architecture cover the rest.
void apply_architecture(const Json& json, const System& system, double speed, Library& lib) {
  const Device accelerator = slowest_clock(system);
  const std::string& architecture = accelerator.architecture;
  const auto scale = [&](const char* key) {
    const Json* scales = json.find(key);
    return scales == nullptr ? 1 : scales->real(architecture, 1, 0.01, 100);
  };
  const double stated = json.real("boost_mhz", 0, 0, 1e5);
  const double slower = stated > 0 && accelerator.boost_mhz > 0 ? stated / accelerator.boost_mhz : 1;
  const double base = slower * scale("base_scale"), step = slower * scale("step_scale");
  const Cables cables = cables_of(system);
  const double counted =
      json.boolean("of_counted", false) ? counted_of_fabric(cables, architecture, speed) : 1;
  for (Protocol& p : lib.protocols) {
    p.efficiency[0] *= counted;
    p.base *= p.sends_words() ? base : slower;
    p.step[0] *= step;
    p.step[1] *= step;
  }
  for (const Json& p : json.at("protocols").items()) {
    const Json* without = p.find("not_on");
    if (without == nullptr) continue;
    for (const Json& name : without->items()) {
      if (name.as_text() != architecture) continue;
      for (Protocol& mine : lib.protocols) {
        if (mine.name == p.at("name").as_text()) mine.efficiency = {};
      }
    }
  }
  lib.own_rate = speed * json.real("own_copy", 0, 0, 1000) * ring_blocks(cables, architecture) * 1e6 *
                 accelerator.boost_mhz;
  lib.switch_step *= base;
  if (const Json* exchange = json.find("exchange_efficiency"); exchange && exchange->is_object())
    lib.exchange_efficiency = exchange->real(architecture, exchange->at("other").as_real(0.01, 1), 0.01, 1);
  lib.exchange_peer *= slower;
  lib.channel_rate = speed * nccl_tuning().channel_rate(architecture);
  if (const Json* spread = json.find("spread")) read_spread(*spread, architecture, lib);
  if (const Json* reducing = json.find("switch_efficiency")) {
    lib.switch_efficiency = reducing->real(architecture, 0, 0, 1);
    lib.switch_channel_rate = speed * json.at("switch_channel_rate").as_bandwidth().bytes_per_second;
    lib.switch_channels = static_cast<int>(json.at("switch_channels").integer(architecture, 16, 1, 64));
  }
}

Library read_library(const Json& json, const std::string& family) {
  json.only({"from",        "source",          "algorithms",          "protocols",    "pack_rings",
             "own_copy",    "tree_efficiency", "exchange_efficiency", "switch_step",  "switch_efficiency",
             "base_scale",  "step_scale",      "boost_mhz",           "wire",         "message_base",
             "staged_base", "launch",          "turnaround",          "spread",       "held_out",
             "tuned",       "switch_channels", "switch_channel_rate", "tree_as_ring", "window",
             "chain_step",  "of_counted",      "exchange_peer",       "exchange_ll",  "inside",
             "group_launch"});
  Library lib;
  lib.name = family + "-" + json.at("from").as_text();
  lib.source = json.at("source").as_text();
  lib.algorithms = read_algorithms(json.at("algorithms"));
  for (const Json& p : json.at("protocols").items()) read_protocol(p, lib.protocols.emplace_back());
  lib.packs_rings = json.boolean("pack_rings", false);
  lib.tuned = json.boolean("tuned", false);
  if (const Json* wire = json.find("wire")) {
    read_per_hop(*wire, lib.wire, [](const Json& j) { return j.as_real(0, 1); });
  }
  lib.tree_efficiency = json.real("tree_efficiency", 1, 0.01, 1);
  if (const Json* most = json.find("exchange_ll")) lib.exchange_ll = static_cast<double>(most->as_bytes().n);
  lib.window = json.real("window", 0, 0, 1000);
  lib.tree_as_ring = json.boolean("tree_as_ring", false);
  if (const Json* exchange = json.find("exchange_efficiency"); exchange && !exchange->is_object())
    lib.exchange_efficiency = exchange->as_real(0.01, 1);
  for (const auto& [key, value] :
       {std::pair{"switch_step", &lib.switch_step}, std::pair{"chain_step", &lib.chain_step},
        std::pair{"exchange_peer", &lib.exchange_peer}, std::pair{"message_base", &lib.message_base},
        std::pair{"staged_base", &lib.staged_base}, std::pair{"launch", &lib.launch},
        std::pair{"turnaround", &lib.turnaround}}) {
    if (const Json* j = json.find(key)) *value = j->as_time().seconds();
  }
  return lib;
}

/// A system's own measured figures: {"protocols": {"simple": {"step": {...}}}, "algorithms": [...], ...}.
void apply_overrides(const Json& communication, Library& lib) {
  if (const Json* protocols = communication.find("protocols"); protocols && protocols->is_object()) {
    for (const auto& [name, json] : protocols->members()) {
      bool found = false;
      for (Protocol& p : lib.protocols) {
        if (p.name != name) continue;
        read_protocol(json, p);
        found = true;
      }
      if (!found) json.fail(fmt::format("{} has no protocol \"{}\"", lib.name, printable(name)));
    }
  }
  if (const Json* list = communication.find("algorithms"); list && list->is_array())
    lib.algorithms = read_algorithms(*list);
  lib.switch_efficiency = communication.real("switch_efficiency", lib.switch_efficiency, 0, 1);
}

const Json& profile() {
  static const Json json = Json::load(data_root() + "/calibration/profiles/links.json");
  return json;
}

std::string default_family(const System& system) {
  if (system.accelerators().empty()) return "mpi";
  switch (system.vertices()[system.accelerators().front()].kind) {
    case VertexKind::tpu:
      return "xla";
    case VertexKind::gpu:
      return "nccl";
    default:
      return "mpi";
  }
}

}  // namespace

std::vector<std::string> read_algorithms(const Json& json) {
  std::vector<std::string> out;
  for (const Json& name : json.items()) {
    check_algorithm(name.as_text(), name.place());
    out.push_back(name.as_text());
  }
  return out;
}

Library library_of(const System& system, double speed) {
  const Json& communication = system.communication();
  const bool stated = communication.is_object() && communication.find("library") != nullptr;
  const std::string name = stated ? communication.at("library").as_text() : default_family(system);
  const Place place = stated ? communication.at("library").place() : Place{};
  const std::size_t dash = name.find('-');
  const std::string family = name.substr(0, dash);
  const Json& families = profile().at("families");
  const Json* entries = families.find(family);
  if (entries == nullptr) {
    throw InputError(place,
                     fmt::format("no communication library \"{}\".{} Known: {}", printable(family),
                                 did_you_mean(family, families.keys()), fmt::join(families.keys(), ", ")));
  }
  const Json* best = &entries->items().front();
  std::vector<int> wanted{99, 0};
  if (dash == std::string::npos) {
    best = &entries->items().back();
  } else {
    wanted = version_of(std::string_view(name).substr(dash + 1), place);
    for (const Json& e : entries->items()) {
      if (version_of(e.at("from").as_text(), e.place()) <= wanted) best = &e;
    }
  }
  Library lib = read_library(*best, family);
  lib.version = short_version(std::move(wanted));
  if (const Json* group = best->find("group_launch")) {
    group->only({"before", "block", "source"});
    const Json& before = group->at("before");
    if (lib.version < library_version(before.as_text(), before.place()))
      lib.block_start = group->at("block").as_time().seconds();
  }
  apply_architecture(*best, system, speed, lib);
  if (communication.is_object()) apply_overrides(communication, lib);
  return lib;
}

}  // namespace tandem::sim
