// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/offload.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "schemes/setup/job.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

TEST(Offload, IsReadAsItIsWritten) {
  for (const char* text : {"off", "optimizer", "optimizer+gradients", "optimizer+parameters", "activations",
                           "optimizer+gradients+parameters+activations"})
    EXPECT_EQ(parse_offload(text, {}).text(), text);
  EXPECT_EQ(parse_offload("activations+optimizer", {}).text(), "optimizer+activations");
}

std::string refusal(std::string_view text) {
  try {
    parse_offload(text, {});
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Offload, RefusesUnknownWordsWithTheNearest) {
  EXPECT_THAT(refusal("optimiser"), HasSubstr("Did you mean optimizer?"));
  EXPECT_THAT(refusal(""),
              HasSubstr("Valid: off, or some of optimizer, gradients, parameters and activations"));
  EXPECT_THAT(refusal("parameters"), HasSubstr("Say optimizer+parameters"));
  EXPECT_THAT(refusal("gradients"), HasSubstr("Say optimizer+gradients"));
}

class Offloading : public testing::Test {
 protected:
  Program program(const std::string& scheme, int64_t devices, std::string_view offload,
                  const char* optimizer_name = "adam", Precision precision = Precision::fp32,
                  Recompute recompute = {}) {
    scheme_ = resolve_scheme(scheme, {});
    Job job{&graph_,
            &scheme_,
            4,
            precision,
            &optimizer(optimizer_name),
            false,
            recompute,
            parse_offload(offload, {})};
    return compile(job, {devices, 1, devices});
  }
  std::string refusal(const std::string& scheme, int64_t devices, std::string_view offload,
                      const char* optimizer_name = "adam") {
    try {
      program(scheme, devices, offload, optimizer_name);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }
  static int64_t moved(const Program& p, Lane lane) {
    int64_t sum = 0;
    p.roles[0].ops.each_distinct([&](const Op& op, int64_t) {
      if (op.kind == OpKind::copy && op.lane == lane) sum += op.bytes.n;
    });
    return sum;
  }
  int64_t parameters() const { return graph_.parameter_elements(); }
  const Graph graph_ = Graph::load("transformer-tiny");
  ResolvedScheme scheme_ = resolve_scheme("allreduce", {});
};

/// Ren et al. 2021, ZeRO-Offload, section 4: with M parameters 2M bytes of 16-bit gradients go down in a step
/// and 2M of parameters come up; of N devices each moves its N-th part.
TEST_F(Offloading, MovesWhatZeroOffloadMoves) {
  const Program one = program("zero:stage=2,gradients=auto", 1, "optimizer", "adam", Precision::bf16);
  EXPECT_EQ(moved(one, Lane::offload), 2 * parameters());
  EXPECT_EQ(moved(one, Lane::reload), 2 * parameters());
  const Program four = program("zero:stage=2,gradients=auto", 4, "optimizer", "adam", Precision::bf16);
  const auto buckets = static_cast<double>(four.buckets.size());
  EXPECT_NEAR(static_cast<double>(moved(four, Lane::offload)), static_cast<double>(parameters()) / 2,
              8 * buckets);
  EXPECT_NEAR(static_cast<double>(moved(four, Lane::reload)), static_cast<double>(parameters()) / 2,
              8 * buckets);
}

/// Parameters come up twice a step, for forward and for backward, but for those between the two.
TEST_F(Offloading, BringsParametersUpForEachPass) {
  const Program p = program("zero:stage=3,bucket=0B", 1, "optimizer+parameters");
  const int64_t last = p.buckets.front().elements;  // forward ends with it and backward begins
  EXPECT_EQ(moved(p, Lane::offload), 4 * parameters());
  EXPECT_EQ(moved(p, Lane::reload), 4 * (2 * parameters() - last));
}

TEST_F(Offloading, UpdatesOnTheHostBehindTheGradients) {
  for (const auto& [scheme, devices] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"allreduce", 1},
                                                              {"allreduce", 2},
                                                              {"zero", 2},
                                                              {"hybrid:data=2,sharding=2", 2},
                                                              {"pipeline", 1}}) {
    const Program p = program(scheme, devices, "optimizer");
    const auto& ops = p.roles[0].ops;
    int updates = 0;
    for (const Op& op : ops) {
      if (op.kind != OpKind::compute || p.tasks[op.what].pass != Pass::update) continue;
      ++updates;
      EXPECT_EQ(op.lane, Lane::host) << scheme;
      EXPECT_TRUE(std::any_of(op.deps.begin(), op.deps.end(), [&](const Dep& d) {
        return ops[d.op].lane == Lane::offload && ops[d.op].key == op.key && d.lag == 0;
      })) << scheme;
      EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [&](const Op& up) {
        return up.lane == Lane::reload && up.key == op.key;
      })) << scheme;
    }
    EXPECT_EQ(updates, static_cast<int>(p.buckets.size())) << scheme;
  }
}

TEST_F(Offloading, SumsMicroBatchesOnTheHostOrOnTheDevice) {
  const auto copies = [](const Program& p, uint16_t every) {
    int count = 0;
    p.roles[0].ops.each_distinct(
        [&](const Op& op, int64_t) { count += op.lane == Lane::offload && op.every == every ? 1 : 0; });
    return count;
  };
  const Program device = program("zero:stage=2,accumulate=4", 2, "optimizer");
  EXPECT_EQ(copies(device, 4), static_cast<int>(device.buckets.size()));
  const Program host = program("zero:stage=2,accumulate=4", 2, "optimizer+gradients");
  EXPECT_EQ(copies(host, 1), static_cast<int>(host.buckets.size()));
}

/// What surely has ended when an op begins: what it waits for, what stands in front of it on its lane, and
/// what those wait for in turn, in this iteration and the one before.
class Before {
 public:
  Before(const OpList& ops, uint32_t op) : ops_(ops), seen_(2 * ops.size()) { add(op, 0); }
  bool has(uint32_t op, int back) const { return seen_[static_cast<std::size_t>(back) * ops_.size() + op]; }

 private:
  void add(uint32_t op, int back) {
    std::vector<std::pair<uint32_t, int>> open{{op, back}};
    while (!open.empty()) {
      const auto [i, at] = open.back();
      open.pop_back();
      const auto reach = [&](uint32_t to, int behind) {
        if (behind > 1 || ops_[to].every != 1) return;  // not in each iteration
        auto&& known = seen_[static_cast<std::size_t>(behind) * ops_.size() + to];
        if (!known) open.emplace_back(to, behind);
        known = true;
      };
      for (const Dep& d : ops_[i].deps) reach(d.op, at + d.lag);
      const auto count = static_cast<uint32_t>(ops_.size());
      for (uint32_t k = 1; k <= count; ++k) {  // the one in front of it on its lane
        const uint32_t to = (i + count - k) % count;
        if (ops_[to].lane != ops_[i].lane || ops_[to].every != 1) continue;
        reach(to, at + (to >= i ? 1 : 0));
        break;
      }
    }
  }
  const OpList& ops_;
  std::vector<bool> seen_;
};

/// Do passes of these layers make gradients of the bucket: of their own weights, or of one that they use?
bool makes_gradients(const Graph& graph, const Task& task, const Bucket& bucket) {
  int64_t first = 0;  // of the flat vector, in which the last layer comes first
  for (auto i = static_cast<uint32_t>(graph.layers().size()); i-- > 0;) {
    const int64_t end = first + graph.layers()[i].parameter_elements();
    const bool in_it = first < bucket.first + bucket.elements && bucket.first < end;
    for (uint32_t user = i; in_it && user < graph.layers().size(); ++user) {
      if ((user == i || graph.tied_to(user) == i) && user >= task.layer && user < task.layer + task.layers)
        return true;
    }
    first = end;
  }
  return false;
}

/// Each backward pass against each offload and scatter of gradients that it makes; how many such pairs.
int check_readers(const Graph& graph, const Program& p, const std::string& what) {
  const OpList& ops = p.roles[0].ops;
  int pairs = 0;
  for (uint32_t w = 0; w < ops.size(); ++w) {
    if (ops[w].kind != OpKind::compute || ops[w].lane != Lane::compute) continue;
    const Task& task = p.tasks[ops[w].what];
    if (task.pass != Pass::backward_weights || task.again) continue;
    const Before before(ops, w);
    for (uint32_t r = 0; r < ops.size(); ++r) {
      const bool scatters = ops[r].kind == OpKind::collective && ops[r].payload == Payload::gradients &&
                            p.collectives[ops[r].what].kind == CollKind::reduce_scatter;
      if ((ops[r].lane != Lane::offload && !scatters) || ops[r].every != 1) continue;
      if (!makes_gradients(graph, task, p.buckets[ops[r].key])) continue;
      ++pairs;
      const std::string of =
          fmt::format("{}: {} and {}", what, p.labels[ops[w].label], p.labels[ops[r].label]);
      EXPECT_TRUE(Before(ops, r).has(w, 0)) << of << '\n' << print(p);
      EXPECT_TRUE(before.has(r, 1)) << of << '\n' << print(p);
    }
  }
  return pairs;
}

/// A micro-batch's gradients are not written over before those of the one before have left the device, and
/// they leave when the last layer has made its part: a tied output layer makes some of the embedding's.
TEST(OffloadedGradients, AreReadBetweenWhatWritesThem) {
  const std::string llama =
      "llama3.2-1b:layers=2,hidden=16,heads=2,kv_heads=1,head_dim=8,feed=32,vocabulary=40,sequence=8";
  for (const std::string& model : {std::string("gpt2:layers=2,hidden=16,heads=2,vocabulary=40,sequence=8"),
                                   llama, std::string("lenet5")}) {
    const Graph graph = Graph::load(model);
    for (const char* name :
         {"zero:stage=2,accumulate=3,bucket=1KiB", "zero:stage=2,accumulate=3,bucket=1KiB,overlap=off",
          "zero:stage=3,accumulate=3,bucket=1KiB"}) {
      for (const int64_t devices : {1, 2}) {
        const ResolvedScheme scheme = resolve_scheme(name, {});
        const Job job{&graph,
                      &scheme,
                      4,
                      Precision::fp32,
                      &optimizer("adam"),
                      false,
                      {},
                      parse_offload("optimizer+gradients", {})};
        const Program p = compile(job, {devices, 1, devices});
        EXPECT_GT(check_readers(graph, p, fmt::format("{} of {} on {}", name, model, devices)), 0);
      }
    }
  }
}

TEST_F(Offloading, BringsUpWhatBlocksKeep) {
  const Program p =
      program("allreduce", 1, "activations", "adam", Precision::fp32, Recompute{.blocks = true});
  EXPECT_GT(moved(p, Lane::offload), 0);
  EXPECT_EQ(moved(p, Lane::offload), moved(p, Lane::reload));
}

TEST_F(Offloading, IsRefusedInOneMessage) {
  EXPECT_THAT(
      refusal("data-parallel-master", 2, "optimizer"),
      HasSubstr("data-parallel-master cannot offload optimizer: it leaves nothing in the host's memory; "
                "allreduce, zero, hybrid"));
  EXPECT_THAT(refusal("zero:stage=2", 2, "optimizer+parameters"), HasSubstr("zero with stage=3"));
  EXPECT_THAT(refusal("allreduce:accumulate=2", 2, "optimizer+gradients"),
              HasSubstr("with these options it can offload optimizer+activations"));
  EXPECT_THAT(refusal("hybrid:pipeline=2", 2, "optimizer+parameters"), HasSubstr("can offload optimizer ("));
  EXPECT_THAT(refusal("zero", 2, "optimizer", "none"), HasSubstr("makes no update"));
  EXPECT_THAT(refusal("zero", 2, "optimizer", "adamw-paged"), HasSubstr("keeps its state there by itself"));
  EXPECT_THAT(refusal("allreduce", 1, "activations"), HasSubstr("--recompute blocks"));
}

}  // namespace
}  // namespace tandem::tests
