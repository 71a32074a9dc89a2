// SPDX-License-Identifier: Apache-2.0
// Keys that one server has whole, and servers that share a device with a worker: times by hand, bytes that
// are neither lost nor doubled.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <numeric>

#include "sim/evaluate/events.h"
#include "tests/sim/prediction.h"
#include "tests/sim/workloads.h"

namespace tandem::tests {
namespace {

/// A message takes the link into the server, or out of it: 2 s and 2 s + 1, of 1 GB/s.
class ServerLinks : public BoundProgram::Messages {
 public:
  ServerLinks(const Program& program, Time apply) : program_(program), apply_(apply) {}
  const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) override {
    const Channel& c = program_.channels[channel];
    const bool replies = c.address == Address::reply;
    const Channel& pushes = program_.channels[0];
    const int64_t parts = holders(pushes, key, program_.roles[pushes.to_role].mesh.size()).count;
    const uint32_t server = replies ? sender : receiver;
    message_ = {Time{}, static_cast<double>(c.key_bytes[key].n / parts), 0, {{2 * server + replies, 1}}};
    return message_;
  }
  Time apply(uint32_t, uint32_t, uint32_t) override { return apply_; }

 private:
  const Program& program_;
  Time apply_;
  Transfer message_;
};

/// Two workers compute for 1 us, push keys of 3000 and 1000 bytes to two servers, and pull them. Op 3 is more
/// to compute, at once or when the pushes have left.
BoundProgram two_keys(std::vector<uint32_t> owners, Time apply = {}, bool later = false) {
  Builder b;
  RoleBuilder worker = b.role("worker", Mesh{{{"data", 2}}});
  RoleBuilder server = b.role("server", Mesh{{{"shard", 2}}}, Site::accelerators);
  const std::vector<Bytes> keys{{3000}, {1000}};
  const uint32_t push = b.channel(worker, server, Address::shards, keys);
  b.program().channels[push].owners = std::move(owners);
  const uint32_t pull = b.channel(server, worker, Address::reply, keys);
  const uint32_t store = b.store(server, {.batch = 2, .quorum = 2});
  OpHandle compute = worker.compute({}, "step");
  OpId pushed;
  for (uint32_t k = 0; k < 2; ++k) pushed = worker.send(push, k, keys[k], "push").after(compute);
  worker.compute({}, "more").after(later ? pushed : compute.id());
  for (uint32_t k = 0; k < 2; ++k) compute.after_last(worker.recv(pull, k, "pull").on(Lane::host));
  server.on(push);
  OpId merged = server.apply(store);
  merged = server.gate(store).after(merged);
  server.reply(pull).after(merged);
  BoundProgram plan;
  plan.program = std::make_shared<Program>(b.finish());
  for (const Role& role : plan.program->roles) {
    plan.roles.push_back(
        {{}, {std::vector<Time>(role.ops.size())}, {std::vector<int32_t>(role.ops.size(), -1)}});
  }
  plan.roles[0].duration[0][0] = Time{1'000'000};
  plan.capacity = {1e9, 1e9, 1e9, 1e9};
  plan.messages = std::make_shared<ServerLinks>(*plan.program, apply);
  return plan;
}

TEST(Owners, TwoKeysOnTwoServersByHand) {
  // At 1 us both workers push the large key to server 0: 6 us. At 7 us its two replies, another 6 us, leave
  // beside the small key's pushes to server 1, 2 us, and its replies.
  const Trace whole = run_events(two_keys({0, 1}), {.iterations = 1});
  EXPECT_EQ(whole.makespan, Time{13'000'000});
  EXPECT_EQ(whole.versions, 2);
  EXPECT_EQ(whole.link_bytes, (std::vector<double>{6000, 6000, 2000, 2000}));
  // On one server the small key's pushes come at 9 us and its replies share the way out: each of four has a
  // quarter until the small ones have left, at 13 us, and the large ones, half done, at 15 us.
  const Trace one = run_events(two_keys({0, 0}), {.iterations = 1});
  EXPECT_EQ(one.makespan, Time{15'000'000});
  EXPECT_EQ(one.link_bytes, (std::vector<double>{8000, 8000, 0, 0}));
  // Spread: 1500 bytes of each worker to each server until 4 us, replies from there on; the small key's
  // halves come at 5 us and leave beside what is left of the large one's, until 7 us; that is there at 8 us.
  const Trace spread = run_events(two_keys({}), {.iterations = 1});
  EXPECT_EQ(spread.makespan, Time{8'000'000});
  EXPECT_EQ(spread.versions, 4);
  EXPECT_EQ(spread.link_bytes, (std::vector<double>{4000, 4000, 4000, 4000}));
}

/// When the first worker has ended its op 3, with servers on the workers' devices.
Time end_of_more(BoundProgram plan, Time duration) {
  plan.roles[0].duration[0][3] = duration;
  plan.roles[1].on_devices = true;
  const Trace t = run_events(plan, {.iterations = 1, .kept_iterations = 1, .kept_instances = 2});
  Time ends[2];
  for (const Span& span : t.spans) {
    if (span.role == 0 && span.op == 3) ends[span.instance] = span.end;
  }
  plan.roles[1].on_devices = false;
  const Trace apart = run_events(plan, {.iterations = 1, .kept_iterations = 1, .kept_instances = 2});
  for (const Span& span : apart.spans) {
    if (span.role == 0 && span.op == 3) EXPECT_EQ(span.end, ends[1]) << "nothing is merged on device 1";
  }
  return ends[0];
}

TEST(Owners, AServerTakesTheDeviceOfTheWorkerThere) {
  // From 1 us on; meanwhile four gradients are merged there, from 7 us on, for 2 us each.
  EXPECT_EQ(end_of_more(two_keys({0, 0}, Time{2'000'000}), Time{20'000'000}), Time{29'000'000});
  // What makes up for two of them is taken from by the other two.
  EXPECT_EQ(end_of_more(two_keys({0, 0}, Time{2'000'000}), Time{9'000'000}), Time{18'000'000});
  EXPECT_EQ(end_of_more(two_keys({0, 0}, Time{2'000'000}), Time{5'000'000}), Time{6'000'000})
      << "ends before";
  // From 9 us on, when the first merge has 1 us left and three more follow.
  EXPECT_EQ(end_of_more(two_keys({0, 0}, Time{3'000'000}, true), Time{1'000'000}), Time{20'000'000});
}

/// The device waits for the host anyway: what servers take of that costs nothing.
TEST(Owners, ServersTakeWhatTheHostLeavesIdleFirst) {
  BoundProgram plan = two_keys({0, 0}, Time{2'000'000});
  plan.roles[0].issued = {std::vector<Time>(6, Time{})};
  for (std::size_t op = 3; op < 6; ++op) plan.roles[0].issued[0][op] = Time{10'000'000};
  plan.roles[0].issue = {Time{10'000'000}};
  // 1 us of work that is issued by 10 us; servers take 4 us of the 9 until then.
  EXPECT_EQ(end_of_more(plan, Time{1'000'000}), Time{10'000'000});
}

/// Of every key all bytes are on their way, to one server or in parts.
TEST(Owners, NoByteIsLostOrDoubled) {
  const Graph graph = Graph::load("vgg16");
  const System machine = System::load("5090-2x", {{"nodes", "8"}});
  double sums[2] = {};
  for (const bool whole : {false, true}) {
    const ResolvedScheme scheme =
        resolve_scheme(fmt::format("parameter-server:server=nodes,shards=3,bucket=0B,placement={}",
                                   whole ? "largest-first" : "spread"),
                       {});
    const BoundProgram plan = make_plan(prediction_of(graph, machine, scheme, 4));
    const Program& p = *plan.program;
    for (uint32_t c = 0; c < p.channels.size(); ++c) {
      const bool replies = p.channels[c].address == Address::reply;
      for (uint32_t key = 0; key < p.buckets.size(); ++key) {
        const Instances servers = holders(p.channels[0], key, 3);
        EXPECT_EQ(servers.count, whole ? 1U : 3U);
        for (uint32_t w = 0; w < 4; ++w) {
          for (uint32_t s = servers.first; s < servers.first + servers.count; ++s)
            sums[whole] += plan.messages->message(c, key, replies ? s : w, replies ? w : s).bytes;
        }
      }
    }
  }
  EXPECT_EQ(sums[1], 2.0 * 4 * 4 * static_cast<double>(graph.parameter_elements()));
  EXPECT_NEAR(sums[0], sums[1], 1e-6 * sums[1]);
}

/// One tensor has three quarters of VGG's bytes: whoever owns it carries them all.
TEST(Owners, ALargeKeyHoldsAllUp) {
  const Graph graph = Graph::load("vgg16");
  for (const char* system : {"dgx-h100", "p3.16xlarge", "2080ti-pcie-8x"}) {
    const System machine = System::load(system);
    const auto predict = [&](const char* placement) {
      const ResolvedScheme scheme =
          resolve_scheme(fmt::format("parameter-server:server=gpu,placement={}", placement), {});
      return simulate(prediction_of(graph, machine, scheme, 8));
    };
    const Report spread = predict("spread");
    for (const char* whole : {"largest-first", "in-order", "round-robin"}) {
      const Report r = predict(whole);
      EXPECT_LT(r.rate.samples_per_second, spread.rate.samples_per_second) << system << ", " << whole;
      EXPECT_EQ(r.staleness.all.max(), 0);
      EXPECT_LE(r.scaling.speedup, 8) << system << ", " << whole;
    }
  }
}

}  // namespace
}  // namespace tandem::tests
