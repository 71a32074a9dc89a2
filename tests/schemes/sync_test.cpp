// SPDX-License-Identifier: Apache-2.0
// What each scheme compiles to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "schemes/step/training.h"
#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

/// Variants of every scheme worth a golden of its own; each registered scheme must stand here.
const std::vector<std::pair<std::string, std::string>> kGoldens{
    {"allreduce", "allreduce:bucket=64KiB"},
    {"allreduce_no_overlap", "allreduce:overlap=off,algorithm=ring"},
    {"allreduce_accumulate", "allreduce:accumulate=3,compression=fp16"},
    {"allreduce_int8", "allreduce:bucket=64KiB,compression=int8"},
    {"allreduce_topk", "allreduce:compression=topk,error-feedback=off"},
    {"allreduce_powersgd", "allreduce:bucket=64KiB,compression=powersgd,rank=4"},
    {"allreduce_priority", "allreduce:priority=on,partition=4MiB,bucket=0B"},
    {"parameter-server", "parameter-server:bucket=64KiB"},
    {"parameter-server_gpu", "parameter-server:server=gpu,bucket=64KiB"},
    {"parameter-server_whole", "parameter-server:server=gpu,placement=largest-first,bucket=0B"},
    {"parameter-server_async", "parameter-server:mode=async,overlap=off,server=gpu"},
    {"parameter-server_ssp_node", "parameter-server:mode=ssp,slack=2,push=node,server=nodes,shards=3"},
    {"parameter-server_topk", "parameter-server:compression=topk,bucket=64KiB"},
    {"parameter-server_priority", "parameter-server:push=node,priority=on,partition=4MiB,bucket=0B"},
    {"parameter-server_softsync", "parameter-server:mode=softsync,n=2"},
    {"parameter-server_separate", "parameter-server:mode=async,pull=separate,bucket=64KiB"},
    {"parameter-server_backup", "parameter-server:mode=backup,backup=1"},
    {"parameter-averaging", "parameter-averaging:every=5,state=params+optimizer"},
    {"parameter-averaging_cpu", "parameter-averaging:every=10,through=cpu"},
    {"local-sgd", "local-sgd"},
    {"diloco", "diloco"},
    {"bmuf", "bmuf"},
    {"async-diloco", "async-diloco:every=4"},
    {"async-diloco_node", "async-diloco:worker=node,server=nodes,bucket=64KiB"},
    {"elastic-averaging", "elastic-averaging"},
    {"elastic-averaging_async", "elastic-averaging:mode=async,every=4"},
    {"post-local-sgd", "post-local-sgd:bucket=64KiB"},
    {"delayed-allreduce", "delayed-allreduce:delay=2,bucket=64KiB"},
    {"gossip", "gossip"},
    {"hogwild", "hogwild"},
    {"gossip_ring", "gossip:partner=ring,overlap=off"},
    {"hierarchical-local-sgd", "hierarchical-local-sgd:every=2,rounds=3"},
    {"data-parallel-master", "data-parallel-master"},
    {"one-weird-trick", "one-weird-trick"},
    {"zero", "zero:bucket=64KiB"},
    {"zero_gradients", "zero:stage=2,overlap=off"},
    {"zero_parameters", "zero:stage=3,bucket=64KiB"},
    {"zero_accumulate", "zero:stage=3,accumulate=3,bucket=64KiB"},
    {"zero_node", "zero:stage=3,accumulate=2,sharding-group=node,bucket=64KiB"},
};

/// Of models that are split, of small_gpt() on four devices.
const std::vector<std::pair<std::string, std::string>> kSplitGoldens{
    {"hybrid", "hybrid:tensor=2,pipeline=2,sharding=1,microbatches=2"},
    {"hybrid_powersgd", "hybrid:tensor=2,microbatches=2,compression=powersgd"},
    {"hybrid_priority", "hybrid:pipeline=2,microbatches=2,bucket=1MiB,partition=256KiB,priority=on"},
    {"hybrid_node", "hybrid:microbatches=2,sharding=2,sharding-group=node"},
    {"pipeline", "pipeline:microbatches=4"},
    {"pipeline_interleaved", "hybrid:pipeline=2,schedule=interleaved,microbatches=2,sharding=2"},
    {"layer-split", "layer-split"},
    {"tensor-parallel", "tensor-parallel:sequence=on"},
};

TEST(Sync, SplitProgramsAreAsRecorded) {
  for (const auto& [file, text] : kSplitGoldens) {
    const std::string path = std::string(TANDEM_ROOT) + "/tests/golden/programs/" + file + ".txt";
    const std::string now = "# " + text + "\n" + print(compile(text, small_gpt(), {4, 2, 2}));
    if (std::getenv("TANDEM_UPDATE_GOLDENS") != nullptr) write_file(path, now);
    EXPECT_EQ(now, read_file(path)) << "rewrite with TANDEM_UPDATE_GOLDENS=1 and explain the change";
  }
}

TEST(Sync, ProgramsAreAsRecorded) {
  for (const auto& [file, text] : kGoldens) {
    const bool one_node = file == "data-parallel-master" || file == "hogwild";
    const Cluster cluster = one_node ? Cluster{4, 1, 4} : Cluster{4, 2, 2};
    const std::string path = std::string(TANDEM_ROOT) + "/tests/golden/programs/" + file + ".txt";
    const std::string now = "# " + text + "\n" + print(compile(text, small_mlp(), cluster));
    if (std::getenv("TANDEM_UPDATE_GOLDENS") != nullptr) write_file(path, now);
    EXPECT_EQ(now, read_file(path)) << "rewrite with TANDEM_UPDATE_GOLDENS=1 and explain the change";
  }
}

TEST(Sync, EverySchemeHasAGolden) {
  for (const Scheme& s : sync_registry().all()) {
    const auto is = [&](const auto& g) { return g.first == s.name; };
    EXPECT_TRUE(std::any_of(kGoldens.begin(), kGoldens.end(), is) ||
                std::any_of(kSplitGoldens.begin(), kSplitGoldens.end(), is))
        << s.name;
    EXPECT_FALSE(s.summary.empty());
    for (const OptionSpec& o : s.options) EXPECT_FALSE(o.help.empty()) << s.name << " " << o.name;
  }
}

TEST(Sync, OneDeviceCommunicatesNothing) {
  for (const auto& [file, text] : kGoldens) {
    const Program p = compile(text, small_mlp(), {1, 1, 1});
    EXPECT_EQ(p.roles.size(), 1U) << text;
    EXPECT_TRUE(is_static(p)) << text;
    EXPECT_EQ(count(p, OpKind::collective), 0) << text;
    EXPECT_GT(count(p, OpKind::compute), 3) << text;
  }
}

TEST(Sync, EveryParameterIsSummedOnceAndUpdatedOnce) {
  const Graph& g = small_mlp();
  for (const char* bucket : {"0B", "1KiB", "1MiB", "25MiB", "1TiB"}) {
    const Program p = compile(std::string("allreduce:bucket=") + bucket, g, {4, 1, 4});
    int64_t bytes = 0, updated = 0;
    for (const Op& op : p.roles[0].ops) {
      if (op.kind == OpKind::collective) bytes += op.bytes.n;
      if (op.kind != OpKind::compute || p.tasks[op.what].pass != Pass::update) continue;
      for (const Kernel& k : p.tasks[op.what].kernels) updated += k.shape[0] * k.repeat;
    }
    EXPECT_EQ(bytes, 4 * g.parameter_elements()) << bucket;
    EXPECT_EQ(updated, g.parameter_elements()) << bucket;
  }
  EXPECT_EQ(count(compile("allreduce:bucket=0B", g, {4, 1, 4}), OpKind::collective),
            4);  // two weights, two biases
  EXPECT_EQ(count(compile("allreduce:bucket=1TiB", g, {4, 1, 4}), OpKind::collective), 1);
}

// Krizhevsky 2014, section 4: of the linear layers (9216, 4096 and 4096 inputs) the activations of all
// samples travel, and the gradients of all but the first pixels; of the convolutions the parameters'
// gradients.
TEST(Sync, LinearLayersExchangeActivationsRatherThanGradients) {
  const Graph alexnet = Graph::load("alexnet");
  int64_t convolutions = 0;
  for (const Layer& l : alexnet.layers())
    convolutions += l.type != nullptr && l.type->name == "conv" ? l.parameter_elements() : 0;
  for (const int64_t n : {2, 4}) {
    const Program p = compile("one-weird-trick", alexnet, {n, 1, n});
    EXPECT_EQ(samples_per_step(p) * replicas(p), 32 * n);
    std::map<CollKind, int64_t> bytes;
    for (const Op& op : p.roles[0].ops) {
      if (op.kind == OpKind::collective) bytes[p.collectives[op.what].kind] += op.bytes.n;
    }
    const int64_t activations = 4 * 32 * n * (9216 + 4096 + 4096), judged = 3 * 4 * n * 32 * n;
    EXPECT_EQ(bytes[CollKind::all_gather], activations + judged);
    EXPECT_EQ(bytes[CollKind::reduce_scatter], activations);
    EXPECT_EQ(bytes[CollKind::all_reduce], 4 * convolutions);
  }
  const Program p = compile("one-weird-trick", small_mlp(), {4, 1, 4});  // nothing learns before the first
  for (const Op& op : p.roles[0].ops) {
    if (op.kind == OpKind::collective && p.collectives[op.what].kind == CollKind::reduce_scatter)
      EXPECT_EQ(op.bytes.n, 4 * 32 * 4 * 2048);
  }
  EXPECT_THROW(compile("one-weird-trick", small_gpt(), {4, 1, 4}), InputError);  // attention needs all heads
  EXPECT_THROW(compile("one-weird-trick", alexnet, {3, 1, 3}), InputError);      // 4096 features
}

TEST(Sync, WithoutAnOptimizerNoKernelUpdates) {
  for (const char* text : {"allreduce", "data-parallel-master", "local-sgd", "zero", "one-weird-trick",
                           "parameter-server:server=gpu"}) {
    const ResolvedScheme s = resolve_scheme(text, {});
    Workload none = workload(small_mlp());
    none.optimizer = &optimizer("none");
    const Program p = s.scheme->compile(none, {4, 1, 4}, s.options);
    EXPECT_EQ(count(p, OpKind::collective), count(compile(text, small_mlp(), {4, 1, 4}), OpKind::collective))
        << text;
    for (const Task& task : p.tasks) {
      for (const Kernel& k : task.kernels) EXPECT_NE(k.kind, KernelKind::optimizer) << text;
    }
  }
}

TEST(Sync, ReducesOverlapBackwardAndUpdatesFollowAllOfIt) {
  const Program on = compile("allreduce:bucket=1KiB", small_mlp(), {4, 1, 4});
  const uint32_t reduce = find(on, "all-reduce fc2"), backward1 = find(on, "backward fc1");
  EXPECT_LT(reduce, backward1);
  EXPECT_TRUE(depends(on, reduce, find(on, "backward fc2"), 0));
  EXPECT_LT(backward1, find(on, "update fc2"));
  EXPECT_TRUE(depends(on, find(on, "update fc2"), reduce, 0));
  const Program off = compile("allreduce:bucket=1KiB,overlap=off", small_mlp(), {4, 1, 4});
  EXPECT_TRUE(depends(off, find(off, "all-reduce fc2"), find(off, "backward fc1"), 0));
}

TEST(Sync, UpdatesOfOneStepWaitForAllSums) {
  const auto waits_for = [](const char* text) {
    const Program p = compile(text, small_mlp(), {4, 1, 4});
    return p.labels[p.roles[0].ops[p.roles[0].ops[find(p, "update fc2")].deps.at(0).op].label];
  };
  EXPECT_EQ(waits_for("allreduce:bucket=1KiB"), "all-reduce fc2");
  EXPECT_EQ(waits_for("allreduce:bucket=1KiB,update=all"), "all-reduce fc1");
}

TEST(Sync, BucketsOfAWorkloadReplaceTheRule) {
  Workload work = workload(small_mlp());
  const auto sizes = [&] {
    const ResolvedScheme scheme = resolve_scheme("allreduce:bucket=1GiB", {});
    const Program p = scheme.scheme->compile(work, {4, 1, 4}, scheme.options);
    std::vector<int64_t> out;
    for (const Bucket& bucket : p.buckets) out.push_back(bucket.elements);
    return out;
  };
  ASSERT_EQ(sizes().size(), 1U);
  work.buckets = {1};
  const std::vector<int64_t> tensors = sizes();
  ASSERT_GT(tensors.size(), 3U);
  work.buckets = {tensors[0] + tensors[1]};
  std::vector<int64_t> two_first(tensors.begin() + 1, tensors.end());
  two_first[0] += tensors[0];
  EXPECT_EQ(sizes(), two_first);
}

TEST(Sync, TheFirstLayerMakesNoInputGradient) {
  const Workload w = workload(small_mlp());
  Builder b;
  RoleBuilder r = b.role("worker", {{{"device", 1}}});
  const Training t(r, w, {});
  ASSERT_EQ(t.segments().size(), 2U);
  for (const Kernel& k : t.segments()[0].backward) {
    // The relu behind fc1 passes its gradient back; fc1 itself makes only those of its parameters.
    EXPECT_TRUE(k.kind != KernelKind::gemm || k.pass == Pass::backward_weights);
  }
  int data = 0;
  for (const Kernel& k : t.segments()[1].backward)
    data += k.kind == KernelKind::gemm && k.pass == Pass::backward_data ? 1 : 0;
  EXPECT_EQ(data, 1);
}

TEST(Sync, InputIsPrefetchedTwoIterationsDeep) {
  const Program p = compile("allreduce", small_mlp(), {4, 1, 4});
  const uint32_t input = find(p, "input"), forward = find(p, "forward fc1");
  EXPECT_TRUE(depends(p, forward, input, 0));
  EXPECT_TRUE(depends(p, input, forward, 2));
}

/// Micro-batches are iterations: more of them make no longer program. What a stage of ZeRO spreads is
/// gathered and reduced in each of them; all else waits for the last.
TEST(Sync, MicroBatchesReduceAsOftenAsTheirGradientsAreSpread) {
  for (const int64_t count : {2, 4096}) {
    const auto every = [&](const std::string& scheme, const char* label) {
      const Program p =
          compile(scheme + ",bucket=1KiB,accumulate=" + std::to_string(count), small_mlp(), {4, 1, 4});
      EXPECT_EQ(p.roles[0].ops.size(),
                compile(scheme + ",bucket=1KiB", small_mlp(), {4, 1, 4}).roles[0].ops.size());
      EXPECT_EQ(p.micro_batches, count);
      EXPECT_EQ(samples_per_step(p), 32 * count);
      return int64_t{p.roles[0].ops[find(p, label)].every};
    };
    EXPECT_EQ(every("allreduce:overlap=on", "all-reduce fc1"), count);
    EXPECT_EQ(every("allreduce:overlap=on", "update fc1"), count);
    EXPECT_EQ(every("zero:stage=1", "reduce-scatter fc1"), count);
    for (const char* spread : {"zero:stage=2", "zero:stage=3"}) {
      EXPECT_EQ(every(spread, "reduce-scatter fc1"), 1);
      EXPECT_EQ(every(spread, "update fc1"), count);
    }
    EXPECT_EQ(every("zero:stage=2", "all-gather fc1"), count);
    EXPECT_EQ(every("zero:stage=3", "all-gather fc1"), 1);
  }
  EXPECT_THROW(compile("allreduce:accumulate=4097", small_mlp(), {4, 1, 4}), InputError);
}

// Zhang et al., MiCS, VLDB 2022: parameters never leave a node, each micro-batch is summed within it, and a
// device sums its shard with those of the other nodes once a step.
TEST(Sync, ShardsWithinNodesAreSummedBetweenThemOnceAStep) {
  const auto compiled = [](int64_t stage, const char* group, Cluster cluster) {
    return compile(
        "zero:bucket=1KiB,accumulate=3,stage=" + std::to_string(stage) + ",sharding-group=" + group,
        small_mlp(), cluster);
  };
  for (const int64_t stage : {1, 2, 3}) {
    const Program p = compiled(stage, "node", {8, 4, 2});
    EXPECT_EQ(p.sharding.state, 2);
    EXPECT_EQ(p.sharding.gradients, stage >= 2 ? 2 : 1);
    EXPECT_EQ(p.sharding.parameters, stage >= 3 ? 2 : 1);
    std::map<CollKind, int64_t> bytes;
    for (const Op& op : p.roles[0].ops) {
      if (op.kind != OpKind::collective) continue;
      const Collective& c = p.collectives[op.what];
      bytes[c.kind] += op.bytes.n;
      EXPECT_EQ(p.roles[0].mesh.axes[c.axes == 1 ? 0 : 1].name,
                c.kind == CollKind::all_reduce ? "node" : "local");
      if (c.kind == CollKind::all_reduce) EXPECT_EQ(op.every, 3);
    }
    int64_t shards = 0;
    for (const Bucket& b : p.buckets) shards += 4 * ((b.elements + 1) / 2);
    EXPECT_EQ(bytes[CollKind::all_reduce], shards);
    EXPECT_EQ(bytes[CollKind::reduce_scatter], 4 * small_mlp().parameter_elements());
    EXPECT_EQ(print(compiled(stage, "node", {4, 1, 4})), print(compiled(stage, "all", {4, 1, 4})));
    EXPECT_THROW(compiled(stage, "node", {4, 4, 1}), InputError);  // nobody to shard with
    EXPECT_THROW(compiled(stage, "node", {6, 2, 0}), InputError);
  }
}

TEST(Sync, PullsHideUnderTheNextForward) {
  const Program p = compile("parameter-server:bucket=1KiB", small_mlp(), {4, 1, 4});
  EXPECT_TRUE(depends(p, find(p, "forward fc1"), find(p, "pull fc1"), 1));
  EXPECT_TRUE(depends(p, find(p, "forward fc2"), find(p, "pull fc2"), 1));
  EXPECT_FALSE(depends(p, find(p, "forward fc1"), find(p, "pull fc2"), 1));
}

TEST(Sync, ASeparatePullIsAskedForWhenEveryPushWasAnswered) {
  const Program p = compile("parameter-server:bucket=1KiB,pull=separate", small_mlp(), {4, 1, 4});
  ASSERT_EQ(p.roles.size(), 3u);
  EXPECT_EQ(p.stores[0].answers(), 2u);
  const auto at = [&](const char* label) { return find(p, label); };
  for (const char* pushed : {"pushed fc1", "pushed fc2"}) {
    EXPECT_LT(at(pushed), at("ask for fc1"));
    EXPECT_LT(at(pushed), at("ask for fc2"));
  }
  for (const char* pulled : {"pull fc1", "pull fc2"})
    EXPECT_TRUE(depends(p, at("forward fc1"), at(pulled), 1)) << "all are awaited by the first";
}

TEST(Sync, ServerRulesFollowTheMode) {
  const auto store = [](const std::string& options, Cluster cluster = {8, 2, 4}) {
    return compile("parameter-server:" + options, small_mlp(), cluster).stores[0];
  };
  EXPECT_EQ(store("mode=sync").batch, 8);
  EXPECT_EQ(store("mode=sync").quorum, 8);
  EXPECT_EQ(store("mode=async").batch, 1);
  EXPECT_EQ(store("mode=async").shares, 1);
  EXPECT_EQ(store("mode=async,push=node").batch, 1);
  EXPECT_EQ(store("mode=async,push=node").shares, 4);
  EXPECT_EQ(store("mode=ssp,slack=5").slack, 5);
  EXPECT_EQ(store("mode=softsync,n=4").batch, 2);
  EXPECT_EQ(store("mode=softsync,n=2,push=node").batch, 1);
  EXPECT_EQ(store("mode=backup,backup=2").batch, 6);
  EXPECT_TRUE(store("mode=backup,backup=2").drop_late);
  EXPECT_THROW(store("mode=backup,backup=8"), InputError);
  EXPECT_THROW(store("mode=softsync,n=9"), InputError);
}

/// Each update stands in front of the forward that needs it and waits for the last iteration's sum.
TEST(Sync, ShardsOnAllDevicesAreADirectAllReduce) {
  const Program p = compile("parameter-server:server=gpu,bucket=64KiB", small_mlp(), {4, 1, 4});
  EXPECT_TRUE(is_static(p));
  EXPECT_EQ(p.collectives[0].algorithm, "direct");
  EXPECT_LT(find(p, "forward fc1"), find(p, "update fc2"));
  EXPECT_LT(find(p, "update fc2"), find(p, "forward fc2"));
  EXPECT_TRUE(depends(p, find(p, "update fc2"), find(p, "push and pull fc2"), 1));
  EXPECT_FALSE(is_static(compile("parameter-server:server=gpu,shards=2", small_mlp(), {4, 1, 4})));
}

/// fc1.weight has 2048 x 1024 elements, fc2.weight 2048 x 10, the biases 2048 and 10; the buckets begin with
/// the last.
TEST(Sync, WholeBucketsHaveOwners) {
  const auto owners = [](const std::string& options) {
    const Program p = compile("parameter-server:bucket=0B" + options, small_mlp(), {4, 4, 1});
    EXPECT_FALSE(is_static(p));
    EXPECT_EQ(p.buckets.size(), 4U);
    return p.channels[0].owners;
  };
  using Owners = std::vector<uint32_t>;
  EXPECT_EQ(owners(",shards=3"), Owners{});
  EXPECT_EQ(owners(",shards=3,placement=largest-first"), (Owners{2, 1, 2, 0}));
  EXPECT_EQ(owners(",shards=3,placement=in-order"), (Owners{1, 2, 1, 0}));
  EXPECT_EQ(owners(",shards=3,placement=round-robin"), (Owners{0, 2, 1, 0}));
  EXPECT_EQ(owners(",shards=3,placement=in-order,overlap=off"), (Owners{1, 2, 1, 0}));
  EXPECT_EQ(owners(",shards=1,placement=in-order"), Owners{}) << "one server has all";
}

TEST(Sync, NodesPushEachByteOnce) {
  const Program p = compile("parameter-server:push=node", small_mlp(), {8, 2, 4});
  int64_t pushed = 0;
  for (const Op& op : p.roles[0].ops) pushed += op.kind == OpKind::send ? op.bytes.n : 0;
  EXPECT_NEAR(static_cast<double>(pushed), static_cast<double>(small_mlp().parameter_elements()),
              16);  // a quarter of 4 bytes
}

TEST(Sync, UnevenClustersAreServedOrRefused) {
  const Cluster uneven{5, 2, 0};
  EXPECT_NO_THROW(compile("allreduce", small_mlp(), uneven));
  EXPECT_NO_THROW(compile("parameter-server", small_mlp(), uneven));
  EXPECT_THROW(compile("allreduce:algorithm=hierarchical", small_mlp(), uneven), InputError);
  EXPECT_THROW(compile("parameter-server:push=node", small_mlp(), uneven), InputError);
  EXPECT_THROW(compile("data-parallel-master", small_mlp(), {8, 2, 4}), InputError);
}

TEST(Sync, LargeModelsStaySmallPrograms) {
  const auto ops = [](const char* model) {
    const Graph g = Graph::load(model);
    return compile("allreduce", g, {8, 1, 8}).roles[0].ops.size();
  };
  EXPECT_LE(ops("resnet50"), 250U);
  EXPECT_LE(ops("vgg16"), 250U);
  const Graph gpt = Graph::load("gpt3-175b");
  const Program p = compile("allreduce:bucket=1GiB", gpt, {8, 1, 8});
  EXPECT_LE(count(p, OpKind::compute), 400 + count(p, OpKind::collective));
}

TEST(Training, BucketsEndWithTheSegmentOfTheirLastLayer) {
  const Graph graph = Graph::load("vgg16");
  const Workload work = workload(graph);
  for (const int64_t size : {int64_t{0}, int64_t{1} << 20, int64_t{25} << 20, INT64_MAX}) {
    Builder b;
    RoleBuilder w = b.role("worker", {{{"device", 4}}});
    const Training t(w, work, {{size}, {size}});
    for (const GradientBucket& bucket : t.buckets()) {
      const uint32_t last = t.last_segment(bucket);
      const uint32_t end = bucket.layers.end();
      EXPECT_LT(t.segments()[last].layer, end) << bucket.name;
      EXPECT_TRUE(last + 1 == t.segments().size() || t.segments()[last + 1].layer >= end) << bucket.name;
      EXPECT_GE(last, bucket.segment);
    }
  }
}

TEST(WorkerMesh, HasNodesWhereAllHoldEquallyMany) {
  const auto axes = [](const Cluster& cluster) {
    std::string out;
    for (const Axis& a : worker_mesh(cluster).axes) out += fmt::format("{}={} ", a.name, a.size);
    return out;
  };
  EXPECT_EQ(axes({8, 2, 4}), "node=2 local=4 ");
  EXPECT_EQ(axes({3, 1, 3}), "node=1 local=3 ");
  EXPECT_EQ(axes({6, 2, 4}), "device=6 ") << "the second node is half full";
  EXPECT_EQ(axes({6, 2, 0}), "device=6 ");
}

}  // namespace
}  // namespace tandem::tests
