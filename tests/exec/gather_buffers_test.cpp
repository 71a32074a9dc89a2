// SPDX-License-Identifier: Apache-2.0
// What a worker of sharded data parallelism has room for: as many buckets as the Program has whole at once.
#include "exec/layout/gather_buffers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/layout/happens_before.h"
#include "exec/layout/memory.h"
#include "exec/layout/shares.h"

namespace tandem::tests {
namespace {

Op op(Lane lane, std::initializer_list<Dep> deps = {}, uint16_t every = 1) {
  Op out;
  out.lane = lane;
  out.every = every;
  for (const Dep& d : deps) out.deps.push_back(d);
  return out;
}

TEST(HappensBefore, FollowsLanesAndDependenciesIntoTheNextIteration) {
  // 0: compute; 1: comm behind 0; 2: compute; 3: compute behind the 1 of the iteration before.
  HappensBefore p(
      OpList{op(Lane::compute), op(Lane::comm, {{0, 0}}), op(Lane::compute), op(Lane::compute, {{1, 1}})});
  EXPECT_TRUE(p.before(0, 1));
  EXPECT_TRUE(p.before(0, 3));
  EXPECT_FALSE(p.before(1, 2));
  EXPECT_FALSE(p.before(1, 3));
  EXPECT_TRUE(p.before(1, 3, true));
  EXPECT_FALSE(p.before(1, 2, true));  // in front of what waits for it
  EXPECT_TRUE(p.before(3, 0, true));   // lanes go round
  EXPECT_FALSE(p.before(0, 0));
  EXPECT_TRUE(p.before(0, 0, true));
}

TEST(HappensBefore, WhatIsLeftOutAtTimesHoldsNothingBack) {
  // 1 is in every third iteration: 2 need not wait for 0.
  HappensBefore p(OpList{op(Lane::comm), op(Lane::host, {{0, 0}}, 3), op(Lane::compute, {{1, 0}})});
  EXPECT_TRUE(p.before(0, 1));
  EXPECT_TRUE(p.before(1, 2));
  EXPECT_FALSE(p.before(0, 2));
}

/// Linear layers of 16 x 16 weights, and one of 16 x 64.
Graph chain() {
  std::string layers;
  for (int i = 0; i < 6; ++i) layers += R"({"type": "linear", "features": 16, "bias": false},)";
  return Graph::from_json(
      Json::parse(R"({"name": "chain", "summary": "", "inputs": {"x": [16]}, "layers": [)" + layers +
                      R"({"type": "linear", "features": 64, "bias": false},
                                          {"type": "mse"}]})",
                  "test.json"));
}

struct Room {
  int64_t parameters, gradients;
};
/// Elements of the rooms of the first worker, with every tensor a bucket.
Room rooms(const std::string& scheme, const Cluster& cluster = {4, 1, 4}, const char* offload = "off") {
  SCOPED_TRACE(scheme);
  const Graph graph = chain();
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &resolved;
  e.job.batch = 4;
  e.job.optimizer = &optimizer("sgd");
  e.job.offload = parse_offload(offload, {});
  e.backend = &backends_registry().at("null");
  e.cluster = cluster;
  const Program program = make_program(e);
  const Stages stages(e, program);
  const Held parameters = held_parameters(program, stages, 0, e.job.offload.parameters),
             gradients = held_gradients(program, stages, 0);
  const int64_t all = stages.whole().parameters();
  EXPECT_EQ(parameters.shares, e.job.offload.parameters          ? 0
                               : program.sharding.parameters > 1 ? all / program.sharding.parameters
                                                                 : all);
  EXPECT_EQ(gradients.shares, program.sharding.gradients > 1 ? all / program.sharding.gradients : all);
  EXPECT_EQ(parameters.passes.elements(), all);
  EXPECT_EQ(gradients.passes.elements(), all);
  return {parameters.elements - parameters.shares, gradients.elements - gradients.shares};
}

TEST(GatherBuffers, AreAsManyAsTheProgramHasWholeAtOnce) {
  const int64_t one = 16 * 16, wide = 16 * 64, all = 6 * one + wide;
  const auto expect = [](const char* scheme, int64_t parameters, int64_t gradients,
                         const Cluster& cluster = {4, 1, 4}, const char* offload = "off") {
    const Room r = rooms(scheme, cluster, offload);
    EXPECT_EQ(r.parameters, parameters) << scheme;
    EXPECT_EQ(r.gradients, gradients) << scheme;
  };
  expect("zero:stage=1,bucket=0B", 0, 0);
  // The wide layer's bucket is the first to be scattered, beside the one behind it, which shares memory with
  // no other and so has its share, one of four, within it.
  const int64_t two = wide + one * 3 / 4;
  expect("zero:stage=2,bucket=0B", 0, two);
  expect("zero:stage=2,bucket=0B,accumulate=3", 0, wide + one);  // sums lie beside them
  expect("zero:stage=3,bucket=0B", two, two);
  expect("zero:stage=3,bucket=0B,accumulate=3", two, wide + one);
  expect("fsdp:bucket=0B", two, two, {4, 2, 2});
  expect("zero:stage=3,sharding-group=node,bucket=0B", wide + one / 2, wide + one / 2, {4, 2, 2});
  // Parameters come when those before them have been used; gradients go when all are made.
  expect("zero:stage=3,bucket=0B,overlap=off", wide, all * 3 / 4);
  expect("zero:stage=2,bucket=0B,overlap=off", 0, all * 3 / 4);
  // A bucket that would share its room with no other has the share within it.
  expect("zero:stage=3", all * 3 / 4, all * 3 / 4);
  expect("zero:stage=3,bucket=0B", wide + one, two, {4, 1, 4}, "optimizer+parameters");
  expect("zero:stage=3,bucket=0B", wide + one, 0, {1, 1, 1}, "optimizer+parameters");
  expect("hybrid:sharding=2,bucket=1B,microbatches=1", 0, two);
  // The last bucket of a micro-batch may still travel when the next one begins.
  expect("hybrid:sharding=2,bucket=1B,microbatches=3", 0, wide + 3 * one);
}

}  // namespace
}  // namespace tandem::tests
