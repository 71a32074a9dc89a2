// SPDX-License-Identifier: Apache-2.0
// What rounds into one port add to predictions: nothing unless the system says that packets are lost.
#include "sim/cost/incast_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schemes/setup/scheme.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

System cluster(const System::Sets& more = {}) {
  System::Sets sets = {{"nodes", "4"}, {"network.bandwidth", "1Gbit/s"}};
  sets.insert(sets.end(), more.begin(), more.end());
  return System::load("ethernet-cluster", sets);
}

const System::Sets kLossy = {{"network.transport.loss", "tcp"}, {"network.transport.buffer", "64KB"}};

Report predicted(const System& system, const std::string& scheme, int64_t devices = 32) {
  static const Graph graph = Graph::load("resnet50");
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  return simulate(prediction_of(graph, system, resolved, devices));
}

TEST(IncastRounds, ChangeNothingWhereNothingIsLost) {
  const System plain = cluster(), said = cluster({{"network.transport.loss", "lossless"}}),
               paused = cluster({{"network.transport.loss", "pfc"}});
  for (const std::string scheme : {"parameter-server", "parameter-server:server=gpu", "allreduce"}) {
    const Report a = predicted(plain, scheme), b = predicted(said, scheme), c = predicted(paused, scheme);
    EXPECT_EQ(a.rate.samples_per_second, b.rate.samples_per_second) << scheme;
    EXPECT_EQ(a.rate.samples_per_second, c.rate.samples_per_second) << scheme;
    EXPECT_EQ(a.rate.interval.low, c.rate.interval.low) << scheme;
    EXPECT_TRUE(a.network.incast.empty() && b.network.incast.empty()) << scheme;
    EXPECT_EQ(c.network.incast.empty(), scheme == "allreduce") << "rings have one sender for each port";
  }
}

TEST(IncastRounds, SlowParameterServersAndDirectSumsButNoRings) {
  const System plain = cluster(), lossy = cluster(kLossy);
  for (const std::string scheme : {"parameter-server", "parameter-server:server=gpu"}) {
    const Report before = predicted(plain, scheme), after = predicted(lossy, scheme);
    ASSERT_FALSE(after.network.incast.empty()) << scheme;
    EXPECT_LT(after.rate.samples_per_second, before.rate.samples_per_second) << scheme;
    EXPECT_GT(after.network.incast[0].timeouts, 0) << scheme;
    EXPECT_LT(after.network.incast[0].goodput, 1) << scheme;
    const auto timeouts =
        std::find_if(after.rate.errors.begin(), after.rate.errors.end(),
                     [](const ErrorSource& e) { return e.source.starts_with("timeouts on "); });
    ASSERT_NE(timeouts, after.rate.errors.end()) << scheme;
    EXPECT_GT(timeouts->sigma, 0) << scheme;
    EXPECT_NE(incast_text(after.network.incast[0]).find("62.5 KiB"), std::string::npos)
        << incast_text(after.network.incast[0]);
  }
  EXPECT_EQ(predicted(plain, "allreduce").rate.samples_per_second,
            predicted(lossy, "allreduce").rate.samples_per_second);
}

TEST(IncastRounds, CountWhoSendsToAPortFromOtherNodes) {
  const Report r = predicted(cluster(kLossy), "parameter-server");
  ASSERT_EQ(r.network.incast.size(), 2U);
  EXPECT_EQ(r.network.incast[0].what, "worker to server");
  EXPECT_EQ(r.network.incast[0].senders, 3 * 8);  // one server on each node, eight workers on each other
  EXPECT_EQ(r.network.incast[1].what, "server to worker");
  EXPECT_EQ(r.network.incast[1].senders, 3 * 8);  // three servers, to eight workers behind the same port
  EXPECT_EQ(r.network.incast[0].ports, 4);
}

TEST(IncastRounds, LeavePushesAloneThatComeAtAnyTime) {
  const Report r = predicted(cluster(kLossy), "parameter-server:mode=async");
  ASSERT_EQ(r.network.incast.size(), 1U);
  EXPECT_EQ(r.network.incast[0].what, "server to worker");
  EXPECT_EQ(r.network.incast[0].senders, 3);  // a worker pulls alone, from all servers
}

TEST(IncastRounds, CountANodesDevicesAsOneWhereTheyPushAsOne) {
  const Report each = predicted(cluster(kLossy), "parameter-server"),
               node = predicted(cluster(kLossy), "parameter-server:push=node");
  ASSERT_EQ(node.network.incast.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(node.network.incast[i].senders, 3);
    EXPECT_NEAR(static_cast<double>(node.network.incast[i].bytes.n),
                static_cast<double>(each.network.incast[i].bytes.n), 1e3);
    EXPECT_LT(node.network.incast[i].timeouts, each.network.incast[i].timeouts);
  }
}

TEST(IncastRounds, EndWithAnEnoughBuffer) {
  const Report plain = predicted(cluster(), "parameter-server");
  const Report deep =
      predicted(cluster({{"network.transport.loss", "tcp"}, {"network.transport.buffer", "100GB"}}),
                "parameter-server");
  EXPECT_EQ(deep.rate.samples_per_second, plain.rate.samples_per_second);
}

}  // namespace
}  // namespace tandem::tests
