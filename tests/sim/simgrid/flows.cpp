// SPDX-License-Identifier: Apache-2.0
// The random transfers of tests/sim/flow_workloads.h through SimGrid and through Tandem: times both in one
// run and writes SimGrid's finish times. Not part of the build: README.md says how it is compiled.
#include <simgrid/s4u.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>

#include "tests/sim/flow_workloads.h"

namespace sg4 = simgrid::s4u;
using tandem::tests::workloads::FlowNetwork;
using tandem::tests::workloads::FlowStart;

namespace {

/// Of this process's CPU, so that other programs on the machine do not count.
double seconds(std::clock_t since) { return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC; }

std::vector<sg4::Host*> make_platform(const FlowNetwork& network, const std::vector<FlowStart>& flows) {
  auto* zone = sg4::create_full_zone("zone");
  std::vector<sg4::Host*> hosts;
  std::vector<const sg4::Link*> links;
  for (uint32_t h = 0; h < tandem::tests::workloads::kHosts; ++h)
    hosts.push_back(zone->create_host("h" + std::to_string(h), 1e9));
  for (std::size_t l = 0; l < network.capacity().size(); ++l) {
    links.push_back(
        zone->create_link("l" + std::to_string(l), network.capacity()[l])->set_latency(0)->seal());
  }
  std::set<std::pair<uint32_t, uint32_t>> known;
  for (const FlowStart& f : flows) {
    if (!known.emplace(f.from, f.to).second) continue;
    std::vector<sg4::LinkInRoute> route;
    for (const uint32_t l : network.route(f.from, f.to)) route.emplace_back(links[l]);
    zone->add_route(hosts[f.from]->get_netpoint(), hosts[f.to]->get_netpoint(), nullptr, nullptr, route,
                    false);
  }
  zone->seal();
  return hosts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "flows KIND SPINES FLOWS ARRIVALS(0|1) [CSV]\n"), 2;
  const FlowNetwork network(argv[1], static_cast<uint32_t>(std::atoi(argv[2])));
  const auto flows = tandem::tests::workloads::random_flows(
      network, static_cast<uint32_t>(std::atoi(argv[3])), argv[4][0] == '1');
  std::vector<const char*> words = {argv[0],
                                    "--cfg=network/model:CM02",
                                    "--cfg=network/crosstraffic:0",
                                    "--cfg=network/TCP-gamma:0",
                                    "--cfg=network/latency-factor:1",
                                    "--cfg=network/bandwidth-factor:1",
                                    "--cfg=network/weight-S:0",
                                    "--cfg=surf/precision:1e-12",
                                    "--log=root.threshold:error"};
  int count = static_cast<int>(words.size());
  sg4::Engine engine(&count, const_cast<char**>(words.data()));
  const auto hosts = make_platform(network, flows);
  std::vector<double> finish(flows.size());
  sg4::Actor::create("source", hosts[0], [&] {
    std::vector<sg4::CommPtr> running;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const double at = static_cast<double>(flows[i].at) * 1e-12;
      if (at > sg4::Engine::get_clock()) sg4::this_actor::sleep_until(at);
      running.push_back(sg4::Comm::sendto_async(hosts[flows[i].from], hosts[flows[i].to],
                                                static_cast<uint64_t>(flows[i].bytes)));
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      running[i]->wait();
      finish[i] = running[i]->get_finish_time();
    }
  });
  const std::clock_t start = std::clock();
  engine.run();
  const double theirs = seconds(start);
  const std::clock_t again = std::clock();
  const auto mine = tandem::tests::workloads::run_flows(network.capacity(), flows);
  const double ours = seconds(again);
  double most = 0, sum = 0;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(mine[i]) * 1e-12 - finish[i]));
    sum += finish[i];
  }
  std::printf(
      "%s %s, %s flows, arrivals %s: makespan %.9f sum %.6f; furthest apart %.3g s; SimGrid %.4f s, "
      "Tandem %.4f s, %.1f times as fast\n",
      argv[1], argv[2], argv[3], argv[4], *std::max_element(finish.begin(), finish.end()), sum, most, theirs,
      ours, theirs / ours);
  if (argc > 5) {
    std::FILE* out = std::fopen(argv[5], "w");
    std::fprintf(out, "flow,finish_seconds\n");
    for (std::size_t i = 0; i < flows.size(); ++i) std::fprintf(out, "%zu,%.9f\n", i, finish[i]);
    std::fclose(out);
  }
  return 0;
}
