// SPDX-License-Identifier: Apache-2.0
// Traces as recorded: every figure of an evaluation, of small plans whose arrival order decides.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/json.h"
#include "sim/evaluate/events.h"
#include "tests/sim/random_plan.h"

namespace tandem::tests {
namespace {

using workloads::parameter_server;
using workloads::RandomPlan;
using workloads::ServerSetting;

struct Case {
  std::string name;
  BoundProgram plan;
  EvaluateOptions options{.iterations = 5, .kept_iterations = 2, .kept_instances = 2};
};

Disturbance noise() {
  Disturbance d;
  d.compute_sigma = 0.2;
  d.network_sigma = 0.3;
  d.slow = {{1, 1.7}};
  return d;
}

/// Workers whose messages share one link, with noise.
Case served(std::string name, ServerSetting s) {
  s.message.bytes = 1000;
  s.message.latency = Time{70'000};
  s.message.uses = {{0, 1}, {1, 0.25F}};
  s.apply = Time{30'000};
  Case c{std::move(name), parameter_server(s)};
  c.plan.capacity = {1e9, 0.2e9};
  c.plan.disturbance = noise();
  return c;
}

/// Workers that push what they have to a peer drawn at random, and take what came two iterations ago.
Case gossip() {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 4}}});
  const uint32_t channel = b.channel(w, w, Address::same_index, {Bytes{8}, Bytes{16}});
  OpHandle step = w.compute({}, "step");
  w.send(channel, 1, Bytes{16}, "push").after(step);
  w.send(channel, 0, Bytes{8}, "push");
  step.after_last(w.recv(channel, 0, "pull").on(Lane::host), 2);
  step.after_last(w.recv(channel, 1, "pull").on(Lane::host));
  Case c{"peers", {}};
  c.plan.program = std::make_shared<Program>(b.finish());
  c.plan.roles = {{{}, {std::vector<Time>(5, Time{900'000})}, {std::vector<int32_t>(5, -1)}}};
  c.plan.messages =
      std::make_shared<workloads::UniformMessages>(Transfer{Time{1'000'000}, 100, 1e8, {}}, Time{});
  c.plan.disturbance = noise();
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  out.push_back(served("asynchronous", {.workers = 3, .shards = 2, .keys = 2}));
  ServerSetting s{.workers = 4, .shards = 2, .keys = 2, .gate = true};
  s.store = {.batch = 4, .quorum = 4};
  out.push_back(served("synchronous", s));
  s.store = {.batch = 3, .quorum = 3, .drop_late = true};
  out.push_back(served("backup worker", s));
  s.store = {.batch = 1, .quorum = 4, .slack = 2};
  out.push_back(served("bounded staleness", s));
  s.store = {.batch = 2, .quorum = 2, .shares = 2};
  out.push_back(served("nodes that push as one", s));
  s = {.workers = 4, .shards = 1, .keys = 3};
  s.store.batch = 2;
  out.push_back(served("softsync", s));
  out.push_back(served("links that serve in turn", {.workers = 70, .shards = 60}));
  out.back().options.iterations = 2;
  out.push_back(gossip());
  for (const uint64_t seed : {3, 7, 11, 19}) {
    out.push_back({fmt::format("random {}", seed),
                   RandomPlan(seed, {.noisy = seed % 2 == 0 || seed > 10, .links = seed > 5}).make()});
  }
  return out;
}

std::string list(const std::vector<int64_t>& numbers) {
  std::string out;
  for (const int64_t n : numbers) out += fmt::format(" {}", n);
  return out;
}

std::string of_span(const Span& s) {
  return fmt::format("  {}.{} iteration {} op {}: {} {} {} {}\n", s.role, s.instance, s.iteration, s.op,
                     s.ready.ps, s.start.ps, s.end.ps, s.last);
}

std::string told(const Trace& t) {
  const auto times = [](const auto& all) {
    std::vector<int64_t> out;
    for (const Time& time : all) out.push_back(time.ps);
    return list(out);
  };
  std::string out = fmt::format("  makespan {} ends{}\n", t.makespan.ps, times(t.iteration_end));
  out += fmt::format("  busy{} exposed{} moved{}\n", times(t.busy), times(t.exposed), times(t.moved));
  for (const auto& [worker, time] : t.awaited) out += fmt::format("  awaits {} {}\n", worker, time.ps);
  out += fmt::format("  iterations {} versions {} dropped {} events {} fingerprint {:x}\n",
                     t.worker_iterations, t.versions, t.dropped, t.events, t.fingerprint);
  for (const Histogram& h : t.staleness_by_worker) out += fmt::format(" {:.6g} of {}", h.mean(), h.count());
  for (const double bytes : t.link_bytes) out += fmt::format(" {:.9g} bytes", bytes);
  out += '\n';
  for (std::size_t i = 0; i < std::min<std::size_t>(t.spans.size(), 30); ++i) out += of_span(t.spans[i]);
  return out + fmt::format("  {} spans\n", t.spans.size());
}

TEST(Traces, AreAsRecorded) {
  std::string now;
  for (const Case& c : cases()) now += c.name + '\n' + told(run_events(c.plan, c.options));
  const std::string path = TANDEM_ROOT "/tests/golden/predictions/traces.txt";
  if (std::getenv("TANDEM_UPDATE_GOLDENS") != nullptr) write_file(path, now);
  EXPECT_EQ(read_file(path), now) << "rewrite with TANDEM_UPDATE_GOLDENS=1 and explain the change";
}

}  // namespace
}  // namespace tandem::tests
