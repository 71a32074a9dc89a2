// SPDX-License-Identifier: Apache-2.0
// What holds for every machine: more bandwidth never slows a program whose order is resolved, and how devices
// are numbered changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/random.h"
#include "models/graph.h"
#include "models/optimizer.h"
#include "schemes/setup/scheme.h"
#include "tests/sim/prediction.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

Report predict(const Graph& graph, const System& system, const std::string& scheme, int64_t devices) {
  const ResolvedScheme resolved = resolve_scheme(scheme, Place{});
  Request p = prediction_of(graph, system, resolved, devices, 8);
  p.job.input = true;
  p.disturbance = Disturbance{};
  p.check_memory = false;
  return simulate(p);
}

const std::vector<std::string> kStatic = {"allreduce",
                                          "allreduce:algorithm=ring,bucket=1MiB",
                                          "allreduce:algorithm=ring,overlap=off",
                                          "allreduce:algorithm=halving-doubling,bucket=0B",
                                          "pytorch-ddp",
                                          "parameter-averaging:every=3",
                                          "mg-wfbp"};

TEST(MoreBandwidth, NeverSlowsAStaticProgram) {
  const std::vector<std::string> systems = {"v100-pcie-8x",     "dgx1-v100",   "dgx-h100",
                                            "mi300x-8x",        "frontier",    "hkbu-10gbe",
                                            "titan-xp-pcie-4x", "lisa-1080ti", "mi50-4x"};
  const Graph graphs[] = {Graph::load("alexnet"), Graph::load("lenet5")};
  SplitMix64 random(11);
  int sweeps = 0;
  for (int round = 0; round < 400; ++round) {
    const std::string& name = systems[random.next() % systems.size()];
    const std::string& scheme = kStatic[random.next() % kStatic.size()];
    const Graph& graph = graphs[random.next() % 2];
    const System before = System::load(name);
    const int64_t devices = int64_t{1} << (random.next() % 4);
    if (devices > before.accelerator_count()) continue;
    const Json links = System::document(name, {}).at("links");
    const auto& [kind, spec] = links.members()[random.next() % links.members().size()];
    const double now = spec.at("bandwidth").as_bandwidth().bytes_per_second;
    const double factor = 1.05 + 3 * to_unit(random.next());
    const System after =
        System::load(name, {{"links." + kind + ".bandwidth", std::to_string(now * factor) + "B/s"}});
    const Report slow = predict(graph, before, scheme, devices),
                 fast = predict(graph, after, scheme, devices);
    if (slow.evaluation.evaluator == "events" || fast.evaluation.evaluator == "events") continue;
    ++sweeps;
    // A faster collective asks more of the memory. Kernels beside it take longer by what the report counts as
    // slowed; it itself takes longer in the same proportion while they overlap, so by no more than that
    // (sim/cost/overlap.h). A step grows by at most both.
    const double step = 1 / slow.rate.samples_per_second, faster = 1 / fast.rate.samples_per_second;
    const double taken = std::max(0.0, fast.time.slowed * faster - slow.time.slowed * step);
    EXPECT_LE(faster, (step + 2 * taken) * (1 + 1e-9)) << graph.name() << " " << scheme << " on " << devices
                                                       << " of " << name << ", " << kind << " x " << factor;
  }
  EXPECT_GT(sweeps, 60);
}

/// The stock system with its devices declared in another order, so that every number means another device;
/// all links spelled out, in another order too.
System renumbered(const std::string& name, uint64_t seed) {
  using nlohmann::ordered_json;
  const System system = System::load(name);
  const ordered_json shown = ordered_json::parse(system.to_json_text());
  ordered_json file = ordered_json::parse(read_file(find_data("topologies/systems", "system", name)));
  SplitMix64 random(seed);
  const auto shuffle = [&](auto& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.next() % i]);
  };
  std::vector<ordered_json> devices(shown["devices"].begin(), shown["devices"].end());
  shuffle(devices);
  file["devices"] = ordered_json::object();
  for (const auto& d : devices) file["devices"][d["id"]] = {{"model", d["model"]}, {"numa", d["numa"]}};
  std::vector<ordered_json> links;
  for (std::size_t i = 0; i < shown["links"].size(); i += 2) links.push_back(shown["links"][i]);
  shuffle(links);
  for (auto& [kind, spec] : file["links"].items()) {
    spec.erase("mesh");
    spec["between"] = ordered_json::array();
    for (const auto& l : links) {
      if (l["kind"] == kind) spec["between"].push_back({l["from"], l["to"], l["lanes"]});
    }
  }
  return System::from_json(Json::parse(file.dump(), name));
}

TEST(Renumbering, ChangesNothing) {
  const Graph graph = Graph::load("alexnet");
  for (const char* name :
       {"v100-pcie-8x", "dgx1-v100", "dgx-h100", "mi300x-8x", "titan-xp-pcie-4x", "3090-pcie"}) {
    const System system = System::load(name);
    const int64_t all = system.accelerator_count();
    for (const char* scheme : {"allreduce:algorithm=auto", "parameter-server:mode=async"}) {
      const double rate = predict(graph, system, scheme, all).rate.samples_per_second;
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        EXPECT_NEAR(predict(graph, renumbered(name, seed), scheme, all).rate.samples_per_second / rate, 1,
                    1e-6)
            << scheme << " on " << name << ", order " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests
