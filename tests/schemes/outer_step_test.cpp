// SPDX-License-Identifier: Apache-2.0
// Workers of several devices that train apart and average now and then.
#include "schemes/step/outer_step.h"

#include <gtest/gtest.h>

#include <map>

#include "schemes/step/compression.h"
#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

/// Bytes of collectives that run every so many iterations, and of all others.
std::pair<int64_t, int64_t> traffic(const Program& p, uint16_t every) {
  std::pair<int64_t, int64_t> out;
  for (const Op& op : p.roles[0].ops) {
    if (op.kind == OpKind::collective) (op.every == every ? out.first : out.second) += op.bytes.n;
  }
  return out;
}

int64_t shares(const Program& p, int64_t holders) {
  int64_t sum = 0;
  for (const Bucket& b : p.buckets) sum += (b.elements + holders - 1) / holders;
  return sum;
}

// Jaghouar et al. 2024, INTELLECT-1, section 2: a worker is a node, whose devices share out the model (FSDP);
// each of them averages its share with those of the same place on other nodes, in 8 bits.
TEST(OuterStep, NodesAverageWhatEachDeviceHolds) {
  const Cluster cluster{12, 3, 4};
  const Program p = compile("diloco:every=5,worker=node,sharding=3", small_gpt(), cluster);
  EXPECT_EQ(replicas(p), 12);
  EXPECT_EQ(p.sharding.parameters, 4);
  EXPECT_EQ(averaging_vectors(p), 2);
  EXPECT_EQ(traffic(p, 5).first, 4 * shares(p, 4));
  EXPECT_EQ(traffic(p, 5).second, traffic(compile("hybrid:sharding=3", small_gpt(), {4, 1, 4}), 5).second);
  for (const Op& op : p.roles[0].ops) {
    if (op.kind != OpKind::collective) continue;
    const bool between = p.collectives[op.what].axes == 1;  // the first axis: workers
    EXPECT_EQ(between, op.every == 5);
    EXPECT_EQ(p.roles[0].mesh.members(p.collectives[op.what].axes), between ? 3 : 4);
  }
  const Program small =
      compile("diloco:every=5,worker=node,sharding=3,compression=int8", small_gpt(), cluster);
  int64_t words = 0;
  for (const Bucket& b : small.buckets)
    words += CompressedBucket({Compression::Kind::int8}, (b.elements + 3) / 4).message();
  EXPECT_EQ(traffic(small, 5).first, 4 * words);
  EXPECT_EQ(print(parse_program(print(small))), print(small));
}

TEST(OuterStep, WorkersMayBeSplitAndMadeByCount) {
  const Cluster cluster{16, 2, 8};
  for (const char* inside : {"workers=2,tensor=2,pipeline=2,microbatches=2", "workers=2,sharding=1",
                             "workers=4,sharding=2,microbatches=3", "workers=8,pipeline=2,sharding=1"}) {
    for (const char* scheme :
         {"diloco:", "bmuf:", "local-sgd:", "parameter-averaging:state=params+optimizer,"}) {
      const std::string text = fmt::format("{}every=4,{}", scheme, inside);
      SCOPED_TRACE(text);
      const Program p = compile(text, small_gpt(), cluster);
      EXPECT_GT(traffic(p, 4).first, 0);
      EXPECT_EQ(p.grid.axes.front().name, "worker");
    }
  }
  // The next forward pass waits for what was averaged.
  const Program whole = compile("local-sgd:every=4,workers=2,tensor=8", small_gpt(), cluster);
  const auto& ops = whole.roles[0].ops;
  int64_t waits = 0;
  for (const Op& op : ops) {
    for (const Dep& d : op.deps) waits += d.lag == 1 && ops[d.op].every == 4 ? 1 : 0;
  }
  EXPECT_GE(waits, static_cast<int64_t>(whole.buckets.size()));
}

TEST(OuterStep, ADeviceIsAWorkerUnlessToldOtherwise) {
  const Cluster cluster{4, 2, 2};
  EXPECT_EQ(print(compile("diloco:workers=4", small_gpt(), cluster)),
            print(compile("diloco", small_gpt(), cluster)));
  // A single worker averages with nobody.
  const Program alone = compile("diloco:workers=1,sharding=1", small_gpt(), cluster);
  EXPECT_EQ(traffic(alone, 100).first, 0);
}

TEST(OuterStep, SaysWhatDoesNotDivide) {
  const auto why = [](const char* scheme, const Cluster& cluster) -> std::string {
    try {
      compile(scheme, small_gpt(), cluster);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(why("diloco:workers=3", {4, 2, 2}).find("no equal workers"), std::string::npos);
  EXPECT_NE(why("diloco:worker=node,workers=4", {4, 2, 2}).find("makes 2 workers, not 4"), std::string::npos);
  EXPECT_NE(why("diloco:worker=node", {3, 2, 0}).find("different numbers of devices"), std::string::npos);
  EXPECT_NE(why("diloco:compression=int8", {4, 2, 2}).find("worker=node"), std::string::npos);
  EXPECT_NE(why("local-sgd:worker=node,through=cpu", {4, 2, 2}).find("through=cpu"), std::string::npos);
}

}  // namespace
}  // namespace tandem::tests
