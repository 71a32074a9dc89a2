// SPDX-License-Identifier: Apache-2.0
// Models split over a grid of devices: what every stage is given to do, and the volumes that papers state.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "schemes/schedules/pipeline_schedule.h"
#include "schemes/step/model_cuts.h"
#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

constexpr int64_t kLayers = 4, kHidden = 64, kSequence = 32, kBatch = 32;

Program split(const std::string& text, const Cluster& cluster) { return compile(text, small_gpt(), cluster); }

/// Bytes of a kind of collective over an axis of role 0, in one iteration.
int64_t collective_bytes(const Program& p, CollKind kind, Lane lane, std::size_t role = 0) {
  int64_t sum = 0;
  for (const Op& op : p.roles[role].ops) {
    if (op.kind == OpKind::collective && op.lane == lane && p.collectives[op.what].kind == kind)
      sum += op.bytes.n;
  }
  return sum;
}

constexpr int64_t kTensorBytes = 4 * kBatch * kSequence * kHidden;  ///< of b x s x h in fp32

// Shoeybi et al. 2019, section 3; Narayanan et al. 2021, section 3.2: four sums of b s h a layer and
// micro-batch. One more each way where the vocabulary is split: of the embedding's output and of the output
// layer's input.
TEST(Hybrid, TensorParallelSumsFourTimesALayer) {
  for (const int64_t t : {2, 4, 8}) {
    const Program p = split("tensor-parallel", {t, 1, t});
    EXPECT_EQ(collective_bytes(p, CollKind::all_reduce, Lane::comm), (4 * kLayers + 2) * kTensorBytes);
    EXPECT_EQ(collective_bytes(p, CollKind::all_reduce, Lane::reduce), 0);  // one replica
  }
}

// Korthikanti et al. 2022, section 4.2.2: an all-reduce is a reduce-scatter and an all-gather, so that the
// volume is the same; that of the inputs gathered once more for the weights' gradients comes on top, under
// other work.
TEST(Hybrid, SequenceParallelMovesTheSame) {
  const Program p = split("tensor-parallel:sequence=on", {4, 1, 4});
  EXPECT_EQ(collective_bytes(p, CollKind::all_reduce, Lane::comm), 0);
  EXPECT_EQ(collective_bytes(p, CollKind::reduce_scatter, Lane::comm), (4 * kLayers + 2) * kTensorBytes);
  const int64_t again = 2 * kLayers + 1;  // qkv and up of each layer, and the output layer
  const int64_t judged =
      int64_t{4} * 3 * 4 * kBatch * kSequence;  // three numbers of each token from each device
  EXPECT_EQ(collective_bytes(p, CollKind::all_gather, Lane::comm),
            (4 * kLayers + 2 + again) * kTensorBytes + judged);
}

// Rajbhandari et al. 2020, section 7: ZeRO 1 and 2 move what data parallelism moves, a reduce-scatter of the
// gradients and an all-gather of the parameters.
TEST(Hybrid, ShardingMovesGradientsAndParametersOnce) {
  const int64_t parameters = small_gpt().parameter_elements();
  const Program plain = split("hybrid", {4, 1, 4}), one = split("hybrid:sharding=1", {4, 1, 4});
  EXPECT_EQ(collective_bytes(plain, CollKind::all_reduce, Lane::reduce), 4 * parameters);
  EXPECT_EQ(collective_bytes(one, CollKind::all_reduce, Lane::reduce), 0);
  EXPECT_EQ(collective_bytes(one, CollKind::reduce_scatter, Lane::reduce), 4 * parameters);
  EXPECT_EQ(collective_bytes(one, CollKind::all_gather, Lane::reduce), 4 * parameters);
  EXPECT_EQ(one.sharding.state, 4);
  EXPECT_EQ(one.sharding.gradients, 1);
  // Stage 2 reduces the gradients of each micro-batch; stage 3 gathers parameters in each, both ways: an
  // embedding's once each way, also for the output layer that is tied to it.
  const Program two = split("hybrid:sharding=2,microbatches=3", {4, 1, 4});
  EXPECT_EQ(collective_bytes(two, CollKind::reduce_scatter, Lane::reduce), 3 * 4 * parameters);
  const Program three = split("hybrid:sharding=3,microbatches=3,keeps=none", {4, 1, 4});
  EXPECT_EQ(collective_bytes(three, CollKind::all_gather, Lane::reduce), 3 * 2 * 4 * parameters);
  EXPECT_EQ(three.sharding.parameters, 4);
}

// Zhang et al., MiCS, VLDB 2022: of M bytes of gradients each of the n devices of a node scatters all of them
// within it, once a micro-batch, and sums M / n with the other nodes, once a step. Parameters never leave a
// node.
TEST(Hybrid, ShardingWithinNodesSumsAShardBetweenThem) {
  const int64_t parameters = small_gpt().parameter_elements();
  for (const int64_t level : {1, 2, 3}) {
    for (const int64_t per_node : {2, 4, 8}) {
      const std::string text =
          fmt::format("hybrid:microbatches=3,keeps=none,sharding={},sharding-group=", level);
      const Program p = split(text + "node", {8, 8 / per_node, per_node});
      EXPECT_EQ(p.sharding.state, per_node);
      EXPECT_EQ(p.sharding.gradients, level >= 2 ? per_node : 1);
      EXPECT_EQ(p.sharding.parameters, level >= 3 ? per_node : 1);
      EXPECT_EQ(replicas(p), 8);
      if (per_node == 8) {
        EXPECT_EQ(print(p), print(split(text + "all", {8, 1, 8})));
        continue;
      }
      int64_t shards = 0;
      for (const Bucket& b : p.buckets) shards += 4 * ((b.elements + per_node - 1) / per_node);
      EXPECT_EQ(collective_bytes(p, CollKind::all_reduce, Lane::comm), shards);
      EXPECT_EQ(collective_bytes(p, CollKind::reduce_scatter, Lane::reduce),
                (level >= 2 ? 3 : 1) * 4 * parameters);
      EXPECT_EQ(collective_bytes(p, CollKind::all_gather, Lane::reduce),
                (level >= 3 ? 3 * 2 : 1) * 4 * parameters);
      const auto& axes = p.roles[0].mesh.axes;
      ASSERT_EQ(axes[0].name, "node");
      for (const Collective& c : p.collectives)
        EXPECT_EQ(c.axes & 1U, c.kind == CollKind::all_reduce ? 1U : 0U);
    }
  }
}

TEST(Hybrid, ShardingWithinNodesCutsTheAxisThatCrossesThem) {
  // Devices that share layers are a node: nothing is left to shard over.
  const Program whole = split("hybrid:tensor=4,sharding=1,sharding-group=node", {8, 2, 4});
  EXPECT_EQ(whole.sharding.state, 1);
  EXPECT_EQ(collective_bytes(whole, CollKind::reduce_scatter, Lane::reduce), 0);
  const Program cut = split("hybrid:tensor=2,sharding=1,sharding-group=node", {16, 2, 8});
  EXPECT_EQ(cut.sharding.state, 4);
  const auto refused = [](const std::string& text, const Cluster& cluster, const char* why) {
    try {
      split(text, cluster);
      FAIL() << text;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  refused("hybrid:sharding=1,sharding-group=node", {6, 2, 0}, "the same number of devices");
  refused("hybrid:tensor=3,sharding=1,sharding-group=node", {12, 3, 4}, "within the axis tensor of 3");
  refused("hybrid:context=4,sharding=1,sharding-group=node", {8, 4, 2}, "within the axis context of 4");
}

// A tied output layer makes gradients of the embedding's weight, first in a micro-batch, whose bucket is the
// last to be scattered.
TEST(Hybrid, ATiedLayerWaitsForTheScatterOfTheWeightItUses) {
  const auto head =
      std::find_if(small_gpt().layers().begin(), small_gpt().layers().end(),
                   [](const Layer& l) { return l.type != nullptr && l.type->name == "tied-linear"; }) -
      small_gpt().layers().begin();
  for (const char* scheme :
       {"hybrid:sharding=2,microbatches=3,bucket=1KiB", "hybrid:sharding=3,microbatches=3",
        "hybrid:tensor=2,sharding=2,microbatches=3,bucket=1KiB",
        "hybrid:sharding=2,microbatches=3,bucket=1KiB,schedule=zero-bubble"}) {
    const Program p = split(scheme, {4, 1, 4});
    std::map<int, uint32_t> scattered;  // micro-batch -> the scatter of its last bucket
    int waits = 0;
    for (uint32_t i = 0; i < p.roles[0].ops.size(); ++i) {
      const Op& op = p.roles[0].ops[i];
      if (op.kind == OpKind::collective && p.collectives[op.what].kind == CollKind::reduce_scatter &&
          op.payload == Payload::gradients)
        scattered[op.micro] = i;
      if (op.kind != OpKind::compute || op.micro == 0) continue;
      const Task& t = p.tasks[op.what];
      if (t.pass != Pass::backward_weights || head < t.layer || head >= t.layer + t.layers) continue;
      EXPECT_TRUE(depends(p, i, scattered.at(op.micro - 1), 0)) << scheme << ": " << i << "\n" << print(p);
      ++waits;
    }
    EXPECT_GE(waits, 2) << scheme;
  }
}

// What is gathered together is reduced and cut together (FSDP's units): the repeated blocks, and what lies
// before and behind them. The next step's gathers wait for the updates.
TEST(Hybrid, ShardedParametersAreGatheredBlockByBlock) {
  const Program p = split("hybrid:sharding=3", {4, 1, 4});
  ASSERT_EQ(p.buckets.size(), kLayers + 2U);
  const auto& ops = p.roles[0].ops;
  for (uint32_t key = 0; key < p.buckets.size(); ++key) {
    int64_t scattered = 0, waiting = 0;
    for (const Op& op : ops) {
      if (op.kind != OpKind::collective || op.key != key) continue;
      EXPECT_EQ(op.bytes.n, 4 * p.buckets[key].elements);
      scattered += op.payload == Payload::gradients ? 1 : 0;
      waiting += std::count_if(op.deps.begin(), op.deps.end(), [&](const Dep& d) {
        return d.lag == 1 && ops[d.op].payload == Payload::shard && ops[d.op].key == key;
      });
    }
    EXPECT_EQ(scattered, 1);
    EXPECT_EQ(waiting, 1);
  }
}

TEST(Hybrid, EveryMicroBatchGoesThroughEveryPartOnce) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zero-bubble", "zbv", "dualpipev"}) {
    const Program p = split(fmt::format("pipeline:microbatches=4,schedule={}", schedule), {2, 1, 2});
    ASSERT_EQ(p.roles.size(), 2U);
    std::map<std::pair<uint32_t, Pass>, int64_t>
        layers;  // of a micro-batch: passed over by forward and weights
    int64_t sends = 0;
    for (const Role& role : p.roles) {
      for (const Op& op : role.ops) {
        sends += op.kind == OpKind::send && op.payload != Payload::tied_gradients ? 1 : 0;
        if (op.kind != OpKind::compute) continue;
        const Task& t = p.tasks[op.what];
        Flops flops;
        for (const Kernel& k : t.kernels) {
          if (k.pass == Pass::forward) flops += k.flops * k.repeat;
        }
        if (t.pass == Pass::forward) layers[{op.micro, t.pass}] += flops.n;
      }
    }
    const std::string name = schedule;
    const bool v = name == "zbv" || name == "dualpipev";  // whose parts in the middle are on one stage
    const int64_t parts = name == "interleaved" || v ? 4 : 2;
    EXPECT_EQ(sends, 2 * 4 * (parts - (v ? 2 : 1))) << schedule;
    Flops all;
    for (const Lowered& l : workload(small_gpt()).layers) {
      for (const Kernel& k : l.forward) all += k.flops * k.repeat;
    }
    ASSERT_EQ(layers.size(), 4U) << schedule;
    for (const auto& [micro, flops] : layers) EXPECT_EQ(flops, all.n) << schedule;
    EXPECT_EQ(samples_per_step(p) * replicas(p), 4 * kBatch);
  }
}

TEST(Hybrid, RecomputationGoesForwardTwice) {
  const ResolvedScheme s = resolve_scheme("tensor-parallel", {});
  Workload work = workload(small_gpt());
  const auto forward = [&] {
    const Program p = s.scheme->compile(work, {2, 1, 2}, s.options);
    return collective_bytes(p, CollKind::all_reduce, Lane::comm);
  };
  const int64_t once = forward();
  work.recompute = {.blocks = true};
  EXPECT_EQ(forward() - once, 2 * kLayers * kTensorBytes);  // with the sums of the blocks' forward
}

/// Ops of a stage that work on tied gradients, with the label of each.
std::vector<std::pair<const Op*, std::string>> tied_ops(const Program& p, std::size_t role) {
  std::vector<std::pair<const Op*, std::string>> out;
  for (const Op& op : p.roles[role].ops) {
    if (op.payload == Payload::tied_gradients) out.push_back({&op, p.labels[op.label]});
  }
  return out;
}

// The embedding's weight is on the first stage and, for the output layer, on the last: their gradients are
// summed, after the sum over the replicas and in front of the update of a bucket that holds nothing else.
TEST(Hybrid, CopiesOfATiedWeightAddTheirGradients) {
  const int64_t table = 256 * kHidden;
  for (const auto& [text, share] : std::map<std::string, int64_t>{
           {"hybrid:pipeline=2,microbatches=2", 1},
           {"hybrid:pipeline=2,microbatches=2,sharding=1", 2},
           {"hybrid:pipeline=2,microbatches=2,schedule=interleaved,sharding=2", 2}}) {
    SCOPED_TRACE(text);
    const Program p = split(text, {4, 1, 4});
    for (const std::size_t role : {0U, 1U}) {
      const auto ops = tied_ops(p, role);
      ASSERT_EQ(ops.size(), 2U);
      const Op &send = *ops[0].first, &recv = *ops[1].first;
      EXPECT_EQ(send.kind, OpKind::send);
      EXPECT_EQ(send.bytes.n, 4 * table / share);
      EXPECT_EQ(p.channels[send.what].from_role, role);
      EXPECT_EQ(recv.kind, OpKind::recv);
      const auto& all = p.roles[role].ops;
      ASSERT_EQ(send.deps.size(), 1U);
      const Op& reduced = all[send.deps[0].op];
      EXPECT_EQ(reduced.payload, Payload::gradients);
      EXPECT_EQ(p.buckets[reduced.key].elements, table);
      ASSERT_EQ(recv.deps.size(), 1U);
      EXPECT_EQ(&all[recv.deps[0].op], &send);
      const auto received = static_cast<uint32_t>(&recv - &*all.begin());
      const auto updated = std::find_if(all.begin(), all.end(), [&](const Op& op) {
        return op.kind == OpKind::compute && op.payload != Payload::none && op.key == reduced.key;
      });
      ASSERT_NE(updated, all.end());
      ASSERT_EQ(updated->deps.size(), 1U);
      EXPECT_EQ(updated->deps[0].op, received);
    }
  }
  EXPECT_TRUE(tied_ops(split("hybrid:tensor=2", {4, 1, 4}), 0).empty());
  EXPECT_TRUE(tied_ops(split("hybrid:pipeline=4", {4, 1, 4}), 1).empty());  // in the middle
}

/// Computing that waits for a message to have left.
int64_t waits_for_sends(const Program& p) {
  int64_t count = 0;
  for (const Role& role : p.roles) {
    const OpList& ops = role.ops;
    for (const Op& op : ops) {
      if (op.kind != OpKind::compute || op.payload != Payload::none) continue;
      for (const Dep& d : op.deps)
        count += d.lag == 0 && ops[d.op].kind == OpKind::send && ops[d.op].lane == Lane::send ? 1 : 0;
    }
  }
  return count;
}

// Megatron-Core, schedules.py: forward_backward_pipelining_without_interleaving() waits for each of its
// messages. Of 4 stages with 8 micro-batches every pass waits but a stage's first, those behind the 8
// backward passes of the first stage, and those behind the 8 forward passes of the last.
TEST(Hybrid, PassesOfOneForwardOneBackwardWaitForWhatWasSent) {
  const Cluster four{4, 1, 4};
  EXPECT_EQ(waits_for_sends(split("pipeline:microbatches=8", four)), 8 + 15 + 15 + 7);
  EXPECT_EQ(waits_for_sends(split("pipeline:microbatches=8,overlap-p2p=on", four)), 0);
  for (const char* schedule : {"gpipe", "interleaved", "zero-bubble"}) {
    const std::string text = fmt::format("hybrid:pipeline=4,microbatches=8,schedule={}", schedule);
    EXPECT_EQ(waits_for_sends(split(text, four)), 0) << schedule;
    EXPECT_GT(waits_for_sends(split(text + ",overlap-p2p=off", four)), 0) << schedule;
  }
}

// Narayanan et al. 2021, section 4.1: b s h / t for each device in place of b s h, and a gather.
TEST(Hybrid, DevicesThatShareLayersSendAPartEach) {
  const Cluster four{4, 1, 4};
  const auto check = [&](const std::string& more, int32_t parts, int64_t sent, int64_t gathers) {
    SCOPED_TRACE(more);
    const Program p = split("hybrid:tensor=2,pipeline=2,microbatches=2" + more, four);
    EXPECT_EQ(p.channels[0].parts, parts);
    EXPECT_EQ(p.channels[0].key_bytes[0].n, sent);
    for (const Role& role : p.roles) {
      int64_t found = 0;
      for (const Op& op : role.ops) {
        if (!received(op.payload)) continue;
        ++found;
        EXPECT_EQ(op.bytes.n, kTensorBytes);
        EXPECT_EQ(p.collectives[op.what].kind, CollKind::all_gather);
      }
      EXPECT_EQ(found, gathers);
    }
  };
  check("", 2, kTensorBytes / 2, 2);
  check(",scatter-gather=off", 1, kTensorBytes, 0);
  check(",sequence=on", 1, kTensorBytes / 2, 0);
}

TEST(Hybrid, PlacesAreThoseOfTheGrid) {
  const Program p = split("hybrid:tensor=2,pipeline=2,order=pipeline/data/tensor", {8, 1, 8});
  ASSERT_EQ(p.roles.size(), 2U);
  EXPECT_EQ(p.grid.size(), 8);
  EXPECT_EQ(replicas(p), 2);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(grid_device(p, p.roles[0], i), i);
    EXPECT_EQ(grid_device(p, p.roles[1], i), 4 + i);
  }
  const Program q = split("hybrid:tensor=2,pipeline=2,order=data/tensor/pipeline", {8, 1, 8});
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(grid_device(q, q.roles[0], i), 2 * i);
    EXPECT_EQ(grid_device(q, q.roles[1], i), 2 * i + 1);
  }
}

TEST(Hybrid, ProgramsSurviveTheirText) {
  for (const char* text : {"hybrid:tensor=2,pipeline=2,sharding=1", "pipeline:schedule=zero-bubble",
                           "hybrid:tensor=2,pipeline=2,sequence=on,schedule=interleaved,sharding=3"}) {
    const Program p = split(text, {8, 1, 8});
    EXPECT_EQ(print(parse_program(print(p))), print(p)) << text;
    EXPECT_NO_THROW(check(parse_program(print(p)))) << text;
  }
}

TEST(Hybrid, TwoRolesOnOneDeviceAreRefused) {
  Program p = split("hybrid:pipeline=2", {2, 1, 2});
  p.roles[1].at = p.roles[0].at;
  EXPECT_THROW(check(p), ProgramError);
  p = split("hybrid:pipeline=2", {2, 1, 2});
  p.grid = {};
  EXPECT_THROW(check(p), ProgramError);
}

void expect_refusal(const std::string& text, const Cluster& cluster, const std::string& why) {
  try {
    split(text, cluster);
    FAIL() << text;
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

TEST(Hybrid, SaysWhatDoesNotDivide) {
  expect_refusal("hybrid:tensor=3,pipeline=2", {8, 1, 8},
                 "3 tensor x 2 pipeline x 1 data are 6 devices, not 8");
  expect_refusal("hybrid:order=data/data/tensor", {2, 1, 2}, "each of data, pipeline, tensor once");
  expect_refusal("tensor-parallel", {16, 1, 16}, "8 heads do not divide over 16 devices");
  expect_refusal("pipeline", {200, 1, 200}, "divides into at most");
  expect_refusal("hybrid:pipeline=2,schedule=interleaved,microbatches=5", {2, 1, 2},
                 "in 2 rounds, which do not divide them");
}

TEST(Hybrid, SaysWhatDoesNotGoWithSumsByNeedOrByACoordinator) {
  const Cluster four{4, 1, 4};
  expect_refusal("hybrid:priority=on,sharding=1", four, "sharding does not");
  expect_refusal("hybrid:priority=on,compression=int8", four, "compression does not");
  expect_refusal("hybrid:priority=on,overlap=on", four, "overlap=on does not");
  expect_refusal("hybrid:partition=1MiB,sharding=2", four, "sharding=none");
  expect_refusal("hybrid:cycle=1ms,sharding=1", four, "sharding=none");
  expect_refusal("hybrid:cycle=1ms,compression=topk", four, "compression=none");
  expect_refusal("hybrid:cycle=1ms,bucket=auto", four, "bucket=64MiB");
}

/// A tensor is cut, and the parts lie one after the other in the flat vector; updates are in front of what
/// reads them, and wait for the step before.
TEST(Hybrid, CutsTensorsAndUpdatesInFrontOfForward) {
  const Program p =
      split("hybrid:pipeline=2,microbatches=2,bucket=0B,partition=64KiB,priority=on", {4, 1, 4});
  for (std::size_t r = 0; r < p.roles.size(); ++r) {
    std::set<uint32_t> updated, summed;
    bool forward = false;
    for (const Op& op : p.roles[r].ops) {
      const bool sums = op.kind == OpKind::collective && op.payload == Payload::gradients;
      if (sums) EXPECT_TRUE(summed.insert(op.key).second);
      if (sums) EXPECT_LE(op.bytes.n, 64 << 10);
      if (op.kind != OpKind::compute) continue;
      const Task& task = p.tasks[op.what];
      forward = forward || task.pass == Pass::forward;
      if (task.pass != Pass::update) continue;
      EXPECT_EQ(summed.size(), 0U) << "it is listed before all of the step's sums";
      EXPECT_TRUE(updated.insert(op.key).second);
      ASSERT_EQ(op.deps.size(), 1U);
      EXPECT_EQ(op.deps[0].lag, 1);
      const Op& last = p.roles[r].ops[op.deps[0].op];
      EXPECT_TRUE(last.key == op.key || last.payload == Payload::tied_gradients);
    }
    EXPECT_TRUE(forward);
    EXPECT_EQ(updated, summed);
    EXPECT_GT(summed.size(), 10U);
  }
}

TEST(ModelCuts, EqualBlocksAreDealtEvenly) {
  const Workload work = workload(small_gpt());
  const auto parts = cut_model(small_gpt(), work.layers, 4);
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[0].first, 0U);
  EXPECT_EQ(parts[3].end(), small_gpt().layers().size());
  for (std::size_t k = 1; k < 4; ++k) {
    EXPECT_EQ(parts[k].first, parts[k - 1].end());
    EXPECT_EQ(block_of(small_gpt().layers()[parts[k].first]), fmt::format("decoder.{}", k));
    EXPECT_EQ(crossing(small_gpt(), parts[k].first).size(), 1U);
  }
}

TEST(ModelCuts, AModelDividesIntoWhatItIsCutInto) {
  for (const char* name : {"gpt2:layers=4", "resnet50", "vgg16"}) {
    const Graph graph = Graph::load(name);
    const auto lowered = graph.lower(1, Precision::bf16);
    bool some = false, none = false;
    for (int64_t parts = 1; parts <= 200; ++parts) {
      const bool divides = divides_into(graph, parts);
      (divides ? some : none) = true;
      if (divides)
        EXPECT_EQ(cut_model(graph, lowered, parts).size(), static_cast<std::size_t>(parts)) << name;
      else
        EXPECT_THROW(cut_model(graph, lowered, parts), InputError) << name << " " << parts;
    }
    EXPECT_TRUE(some && none) << name;
  }
}

/// How many repeated blocks are in each part.
std::vector<int> blocks_of_parts(const Graph& graph, int64_t count = 4, CutBy by = CutBy::automatic) {
  const auto parts = cut_model(graph, graph.lower(1, Precision::bf16), count, by);
  std::vector<int> blocks;
  for (const LayerRange& part : parts) {
    std::set<std::string_view> seen;
    for (uint32_t i = part.first; i < part.end(); ++i) seen.insert(block_of(graph.layers()[i]));
    seen.erase("");
    blocks.push_back(static_cast<int>(seen.size()));
  }
  return blocks;
}

// Every other block sees 128 keys alone, and the output layer is as much work as three blocks.
TEST(ModelCuts, WindowsOfAttentionDoNotCount) {
  EXPECT_EQ(blocks_of_parts(Graph::load("gpt-oss-120b:sequence=4096")), (std::vector<int>{9, 9, 9, 9}));
}

// Megatron-Core's get_num_layers_to_build: 30 layers with embedding and loss accounted for, 31 with the loss,
// and dense layers in front of mixtures like any other.
TEST(ModelCuts, EqualCutsCountBlocksAlone) {
  const auto of = [](const char* layers, int64_t parts) {
    return blocks_of_parts(
        Graph::load(std::string("gpt2:hidden=64,heads=4,sequence=64,vocabulary=4096,layers=") + layers),
        parts, CutBy::equal);
  };
  EXPECT_EQ(of("32", 4), (std::vector<int>{8, 8, 8, 8}));
  EXPECT_EQ(of("30", 4), (std::vector<int>{7, 8, 8, 7}));
  EXPECT_EQ(of("31", 4), (std::vector<int>{8, 8, 8, 7}));
  EXPECT_EQ(of("30", 8), (std::vector<int>{3, 4, 4, 4, 4, 4, 4, 3}));
  const Graph mixed = Graph::load("deepseek-v3:layers=12");
  EXPECT_EQ(blocks_of_parts(mixed, 4, CutBy::equal), (std::vector<int>{3, 3, 3, 3}));
  EXPECT_NE(blocks_of_parts(mixed, 4, CutBy::cost), (std::vector<int>{3, 3, 3, 3}));
  EXPECT_EQ(resolve_scheme("megatron", {}).options.text("cut"), "equal");
}

// Early stages hold more micro-batches, so what cannot be equal is larger behind.
TEST(Cuts, AreAsEvenAsBlocksAllow) {
  std::vector<int> blocks =
      blocks_of_parts(Graph::load("gpt2:layers=10,hidden=512,heads=8,sequence=512,vocabulary=64"));
  EXPECT_EQ(blocks.front(), 2);
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(blocks, (std::vector<int>{2, 2, 3, 3}));
}

// No partition has a smaller largest part: tried against all cuts of a chain into three.
TEST(ModelCuts, UnequalLayersAreBalanced) {
  const Graph graph = Graph::load("alexnet");
  const std::vector<Lowered> lowered = graph.lower(1, Precision::fp32);
  std::vector<int64_t> sums{0};
  for (const Lowered& l : lowered) sums.push_back(sums.back() + matrix_flops(l).n);
  const auto largest = [&](const std::vector<uint32_t>& cuts) {
    int64_t most = 0, from = 0;
    for (const uint32_t c : cuts) {
      most = std::max(most, sums[c] - from);
      from = sums[c];
    }
    return std::max(most, sums.back() - from);
  };
  const auto parts = cut_model(graph, lowered, 3);
  int64_t best = INT64_MAX;
  for (uint32_t a = 1; a < lowered.size(); ++a) {
    for (uint32_t b = a + 1; b < lowered.size(); ++b) {
      if (crossing(graph, a).size() == 1 && crossing(graph, b).size() == 1)
        best = std::min(best, largest({a, b}));
    }
  }
  EXPECT_EQ(largest({parts[1].first, parts[2].first}), best);
}

}  // namespace
}  // namespace tandem::tests
