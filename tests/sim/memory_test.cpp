// SPDX-License-Identifier: Apache-2.0
// What a device must hold, by hand.
#include "sim/memory/memory.h"

#include <gtest/gtest.h>

#include "models/adapter.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

constexpr int64_t kDevices = 8, kMiB = 1 << 20;

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Asked {
  const char* scheme = "allreduce";
  Precision precision = Precision::fp32;
  int64_t devices = 1;
  const char* optimizer = "adamw";
  Settings habits = {};
  Recompute recompute = {};
  int64_t batch = 1;
  const char* device = "h100-sxm";
  const char* offload = "off";
};

std::vector<RoleMemory> roles(const Graph& graph, const Asked& a, bool over_step = false) {
  const Workload work = make_workload(graph, a.batch, a.precision, optimizer(a.optimizer), false, a.recompute,
                                      parse_offload(a.offload, {}));
  const ResolvedScheme scheme = resolve_scheme(a.scheme, {});
  Settings settings = scheme.memory;
  settings.insert(settings.end(), a.habits.begin(), a.habits.end());
  return memory_by_role(work, Device::load(a.device),
                        scheme.scheme->compile(work, {a.devices, 1, a.devices}, scheme.options),
                        memory_habits(settings, "memory", {}), kAnyMemory, over_step);
}

MemoryUse memory(const Graph& graph, const Asked& a) { return largest(roles(graph, a)); }
MemoryUse memory(const char* model, const Asked& a) { return memory(Graph::load(model), a); }

int64_t parameters(const char* model = "gpt2") { return Graph::load(model).parameter_elements(); }

/// Equal but for a rounding of each tensor's share.
void expect_share(int64_t bytes, int64_t of, int64_t holders) {
  EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(of) / static_cast<double>(holders), 1e4);
}

/// 1 MiB and 4 MiB of weights; a, gelu(a) and y take 4 MiB each.
Graph chain() {
  return Graph::from_json(Json::parse(R"({"name": "chain", "summary": "", "inputs": {"x": [256]}, "layers": [
    {"type": "linear", "features": 1024, "bias": false}, {"type": "gelu"},
    {"type": "linear", "features": 1024, "bias": false}, {"type": "mse"}]})",
                                      "test.json"));
}

/// The peak is where the second layer's backward has made both its gradients: weights 5, a, gelu(a), y (which
/// a variable holds) and the gradients of y, gelu(a) and the weights 4 each.
TEST(Memory, PeakOfAChainByHand) {
  const Graph graph = chain();
  const auto peak = [&](const Asked& a) { return memory(graph, a).total().n / kMiB; };
  Asked a{.optimizer = "none", .batch = 1024, .device = "generic-cpu"};
  EXPECT_EQ(peak(a), 5 + 6 * 4);
  a.habits = {{"logits", "dropped"}};
  EXPECT_EQ(peak(a), 5 + 5 * 4);
  a.habits = {{"gradients", "zeroed"}};  // of the step before, beside the new ones
  EXPECT_EQ(peak(a), 5 + 6 * 4 + 5);
  a.habits = {};
  a.scheme = "allreduce:accumulate=2";
  EXPECT_EQ(peak(a), 5 + 6 * 4 + 5);
  a.scheme = "allreduce";
  a.optimizer = "adamw";
  EXPECT_EQ(peak(a), 5 + 6 * 4 + 10);
  a.batch =
      1;  // now the update's temporaries decide: weights, gradients, state, and once more all parameters
  EXPECT_EQ(peak(a), 5 + 5 + 10 + 5);
  a.habits = {{"update", "fused"}};
  EXPECT_EQ(peak(a), 5 + 5 + 10);
}

/// Weights 5; then a, gelu(a) and y in forward; in backward, beside y, which a variable holds, the gradient
/// of y (mse); those of gelu(a) and of 4 of weights; that of a once gelu(a) and the gradient of y are gone;
/// then, without a and the gradient of gelu(a), that of 1 of weights. The update finds weights and their
/// gradients.
TEST(Memory, OverAStepOfAChainByHand) {
  const Graph graph = chain();
  const Asked a{.optimizer = "none", .batch = 1024, .device = "generic-cpu"};
  const auto rows = roles(graph, a, true);
  std::vector<std::tuple<std::string, std::string, int64_t>> found;
  for (const MemoryPoint& p : rows.at(0).over_step) found.emplace_back(p.pass, p.layer, p.bytes.n / kMiB);
  const auto name = [&](std::size_t i) { return graph.layers()[i + 1].name; };
  const std::vector<std::tuple<std::string, std::string, int64_t>> expected = {
      {"forward", name(0), 5 + 4},   {"forward", name(1), 5 + 8},   {"forward", name(2), 5 + 12},
      {"forward", name(3), 5 + 12},  {"backward", name(3), 5 + 16}, {"backward", name(2), 5 + 24},
      {"backward", name(1), 5 + 20}, {"backward", name(0), 5 + 13}, {"update", "", 10}};
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(roles(graph, a).at(0).over_step.empty()) << "unless asked for";
}

TEST(Memory, OverAStepReachesThePeak) {
  for (const char* model : {"resnet50", "gpt2", "lstm-ptb-small"}) {
    for (const char* scheme : {"allreduce", "zero:stage=3", "hybrid:pipeline=2,microbatches=600"}) {
      const auto rows = roles(Graph::load(model), {.scheme = scheme, .devices = 2, .batch = 2}, true);
      int64_t most = 0, told = 0;
      for (const RoleMemory& row : rows) {
        if (row.over_step.empty()) continue;
        ++told;
        EXPECT_LE(row.over_step.size(), 400U);
        for (const MemoryPoint& p : row.over_step) most = std::max(most, p.bytes.n);
        EXPECT_EQ(most, row.memory.total().n) << model << " " << scheme;
      }
      EXPECT_EQ(told, 1) << "of the role that needs most";
    }
  }
}

TEST(Memory, PartsAddUpToThePeak) {
  for (const char* model : {"resnet18", "gpt2", "lstm-ptb-small"}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const MemoryUse m = memory(model, {.precision = precision, .batch = 4});
      EXPECT_GE(m.activations.n, 0);
      EXPECT_GE(m.reserved, m.total());
      EXPECT_GT(m.nvidia_smi, m.reserved);
      EXPECT_LT(m.capacity.n, 80LL << 30);
    }
  }
}

/// Rajbhandari et al. 2020, figure 1: 2 bytes a parameter, 2 of gradient, 12 of fp32 copy and Adam's moments.
TEST(Memory, EachStageOfZeroSpreadsMore) {
  const int64_t p = parameters();
  const auto at = [](const char* scheme) {
    return memory("gpt2", {scheme, Precision::bf16, kDevices, "adamw", {{"weights", "master"}}});
  };
  const MemoryUse whole = at("allreduce"), one = at("zero:stage=1"), two = at("zero:stage=2"),
                  three = at("zero:stage=3");
  EXPECT_EQ(whole.parameters.n, 6 * p);
  EXPECT_EQ(whole.gradients.n, 2 * p);
  EXPECT_EQ(whole.optimizer.n, 8 * p);
  expect_share(one.parameters.n - 2 * p, 4 * p, kDevices);
  EXPECT_EQ(one.gradients.n, 2 * p);
  expect_share(one.optimizer.n, 8 * p, kDevices);
  EXPECT_EQ(two.parameters, one.parameters);
  expect_share(two.gradients.n, 2 * p, kDevices);
  expect_share(three.parameters.n, 4 * p, kDevices);  // FSDP shards the fp32 parameters and gathers halves
  EXPECT_EQ(three.optimizer, one.optimizer);
  EXPECT_GT(whole.total(), one.total());
  EXPECT_GT(one.total(), two.total());
}

/// Where devices own keys, each keeps the state of its own: the fullest one counts.
TEST(Memory, OwnersHoldTheStateOfTheirKeys) {
  const Graph graph = Graph::load("vgg16");
  const auto state = [&](const char* text, int64_t devices) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const Workload work = make_workload(graph, 8, Precision::fp32, optimizer("adam"), false);
    const Program p = scheme.scheme->compile(work, {devices, 1, devices}, scheme.options);
    return device_memory(work, Device::load("h100-sxm"), p, {}).optimizer.n;
  };
  constexpr int64_t kLargest = 25088 * 4096;
  EXPECT_EQ(state("allreduce", 8), 8 * graph.parameter_elements());
  EXPECT_EQ(state("parameter-server:server=gpu,bucket=0B,placement=largest-first", 8), 8 * kLargest);
  EXPECT_EQ(state("parameter-server:server=gpu,bucket=0B,placement=largest-first,shards=1", 8),
            8 * graph.parameter_elements());
}

TEST(Memory, FormatsOfWeights) {
  const int64_t p = parameters();
  const auto at = [&](Precision precision, const char* weights) {
    return memory("gpt2", {"allreduce", precision, 1, "adamw", {{"weights", weights}}});
  };
  EXPECT_EQ(at(Precision::fp32, "auto").parameters.n, 4 * p);
  EXPECT_EQ(at(Precision::bf16, "auto").parameters.n, 4 * p);  // autocast
  EXPECT_EQ(at(Precision::bf16, "half").parameters.n, 2 * p);
  EXPECT_EQ(at(Precision::bf16, "half").optimizer.n, 4 * p);
  EXPECT_EQ(at(Precision::fp32, "half").total(), at(Precision::fp32, "auto").total());
}

/// With many devices little more than two blocks and what lies outside of them is there at a time.
TEST(Memory, GatheredUnitsComeAndGo) {
  const auto at = [](int64_t devices) {
    return memory("gpt2:layers=48", {.scheme = "pytorch-fsdp",
                                     .precision = Precision::bf16,
                                     .devices = devices,
                                     .optimizer = "sgd",
                                     .habits = {{"update", "fused"}, {"loss", "fused"}},
                                     .recompute = {.blocks = true}})
        .total();
  };
  const Bytes few = at(64), many = at(1024);
  EXPECT_GT(few, many);
  EXPECT_LT(many.n, parameters("gpt2:layers=48") * 2) << "less than all halves";
}

TEST(Memory, OneDeviceSpreadsNothing) {
  EXPECT_EQ(memory("gpt2", {"zero:stage=3", Precision::bf16}).total(),
            memory("gpt2", {"allreduce", Precision::bf16}).total());
}

/// Between two blocks lies one tensor of the hidden width, where all else is made again.
TEST(Memory, RecomputationKeepsOneTensorABlock) {
  const auto total = [](const char* model, bool recompute) {
    return static_cast<double>(
        memory(model, {"allreduce", Precision::fp32, 1, "none", {}, {.blocks = recompute}, 8}).total().n);
  };
  const double hidden = 8.0 * 4 * 1024 * 768, weights = 4.0 * (12 * 768 * 768 + 13 * 768);
  EXPECT_NEAR(total("gpt2:layers=24", true) - total("gpt2", true), 12 * (hidden + weights),
              0.04 * 12 * (hidden + weights));
  EXPECT_GT(total("gpt2:layers=24", false) - total("gpt2", false), 5 * 12 * (hidden + weights));
  EXPECT_EQ(total("lenet5", true), total("lenet5", false)) << "it has no repeated blocks";
}

/// In bf16 a composed RMS norm keeps 2 bytes an element of its normalised rows and 4 of its input; one that
/// is a single kernel keeps 2 of its input. A block has two, of the hidden width. A gate that is one kernel
/// does not keep its activation, 2 bytes.
TEST(Memory, FusedKernelsKeepTheirInputs) {
  const auto of_blocks = [](const char* kernels) {
    const auto at = [&](int layers) {
      const std::string name = "llama3.2-1b:sequence=512,vocabulary=1024,layers=" + std::to_string(layers);
      const Settings habits{{"kernels", kernels}, {"weights", "half"}};
      return memory(name.c_str(), {"allreduce", Precision::bf16, 1, "none", habits, {}, 16}).total().n;
    };
    return at(12) - at(6);
  };
  const int64_t norms = int64_t{2} * 2048 * (2 + 4 - 2), gate = int64_t{8192} * 2;
  EXPECT_EQ(of_blocks("eager") - of_blocks("fused"), 6 * 16 * 512 * (norms + gate));
}

/// What is kept less in each block, by hand: outputs of both norms; the activated gate and its product with
/// the other half; of attention that is not fused all that it makes for itself.
TEST(Memory, SelectiveRecomputationKeepsWhatItNames) {
  const auto of_blocks = [](const std::string& model, Recompute recompute) {
    const auto at = [&](int layers) {
      const std::string name = model + std::to_string(layers);
      return memory(name.c_str(), {"allreduce", Precision::fp32, 1, "none", {}, recompute, 16}).total().n;
    };
    return at(12) - at(6);
  };
  const std::string llama = "llama3.2-1b:sequence=512,vocabulary=1024,layers=";
  const int64_t tokens = int64_t{16} * 512 * 4 * 6, hidden = tokens * 2048, feed = tokens * 8192;
  const int64_t all = of_blocks(llama, {});
  EXPECT_EQ(all - of_blocks(llama, {.norms = true}), 2 * hidden);
  EXPECT_EQ(all - of_blocks(llama, {.activations = true}), 2 * feed);
  EXPECT_EQ(all - of_blocks(llama, {.norms = true, .activations = true}), 2 * (hidden + feed));

  const std::string gpt = "gpt2:sequence=512,vocabulary=1024,fused=0,layers=";
  const Graph graph = Graph::load(gpt + "1");
  int64_t own = 0;
  const auto lowered = graph.lower(1, Precision::fp32);
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    if (graph.layers()[i].type != nullptr && graph.layers()[i].type->name == "attention")
      own += own_kept_bytes(lowered[i], 4);
  }
  EXPECT_GT(own, int64_t{12} * 512 * 512 * 4);  // scores of 12 heads at least
  EXPECT_EQ(of_blocks(gpt, {}) - of_blocks(gpt, {.attention = true}), 6 * 16 * own);
}

/// torch.nn.DataParallel keeps parameters, summed gradients and the optimiser on device 0 (the PRACE guide's
/// GAN: 15.5 GB there, 12 GB on the others): the others hold a replica and its gradients for one step.
TEST(Memory, TheMasterHoldsTheOptimiser) {
  const Asked asked{"pytorch-dataparallel", Precision::fp32, 8, "adam"};
  const auto all = roles(Graph::load("vgg16"), asked);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].role, "master");
  EXPECT_EQ(all[0].devices, 1);
  EXPECT_EQ(all[1].devices, 7);
  const double extra = static_cast<double>(all[0].memory.total().n - all[1].memory.total().n);
  const double p = 4.0 * static_cast<double>(parameters("vgg16"));
  EXPECT_NEAR(extra, 3 * p, 0.15 * p);
  EXPECT_EQ(all[1].memory.optimizer.n, 0);
  EXPECT_EQ(roles(Graph::load("vgg16"), {"pytorch-dataparallel"}).size(), 1U) << "one device is no master";
  for (const char* equal : {"allreduce", "zero:stage=3", "one-weird-trick"})
    EXPECT_EQ(roles(Graph::load("vgg16"), {equal, Precision::fp32, 8}).size(), 1U) << equal;
}

/// Eight layers of 4 MiB: weights and buckets, and beside them all gradients or the one that is being made.
TEST(Memory, BucketsHoldASecondCopyOfTheGradients) {
  const Graph graph = Graph::from_json(Json::parse(
      R"({"name": "stack", "summary": "", "inputs": {"x": [1024]}, "layers": [
      {"repeat": 8, "layers": [{"type": "linear", "features": 1024, "bias": false}]}, {"type": "mse"}]})",
      "test.json"));
  const auto at = [&](const char* buckets) {
    const Asked a{.scheme = "pytorch-ddp",
                  .devices = 2,
                  .optimizer = "none",
                  .habits = {{"buckets", buckets}},
                  .device = "generic-cpu"};
    return memory(graph, a).total().n / kMiB;
  };
  EXPECT_EQ(at("copies"), 3 * 32);
  EXPECT_EQ(at("views"), 2 * 32 + 4);
}

/// The logits of a large vocabulary: fp32 log-probabilities and two gradients beside the halves, or none of
/// them.
TEST(Memory, TheLossWorksInFp32) {
  const auto at = [](const char* loss) {
    return static_cast<double>(
        memory("gpt2:layers=1",
               {"allreduce", Precision::bf16, 1, "none", {{"loss", loss}, {"weights", "half"}}, {}, 16})
            .total()
            .n);
  };
  const double logits = 16.0 * 1024 * 50257;
  EXPECT_NEAR(at("eager") - at("fused"), logits * 12, logits * 12 * 0.02);
}

/// An allocator gives cached segments back before it fails; what a card offers is less than its name says.
TEST(Memory, FitsWhatTheCardOffers) {
  const Device device = Device::load("a100-sxm-40gb");
  EXPECT_LT(device.usable, device.memory);
  bool before = true;
  for (int64_t batch = 8; batch <= 512; batch *= 2) {
    const MemoryUse m =
        memory("resnet50", {"allreduce", Precision::fp32, 1, "momentum", {}, {}, batch, "a100-sxm-40gb"});
    EXPECT_TRUE(before || !m.fits()) << "a larger batch never fits where a smaller one does not";
    EXPECT_EQ(m.fits(), m.nvidia_smi <= device.usable);
    before = m.fits();
  }
  EXPECT_FALSE(before);
}

Graph tuned(const char* adapter) {
  return with_adapter(Graph::load("llama3.2-1b:sequence=256"), parse_adapter(adapter, {}), {});
}

TEST(Memory, WeightsThatStayHaveNeitherGradientsNorState) {
  const Graph g = tuned("lora:rank=16,on=attention");
  const Asked half{.precision = Precision::bf16, .habits = {{"weights", "half"}}};
  const MemoryUse m = memory(g, half);
  EXPECT_EQ(m.parameters.n, 2 * (g.parameter_elements() + g.frozen_elements()));
  EXPECT_EQ(m.gradients.n, 2 * g.parameter_elements());
  EXPECT_EQ(m.optimizer.n, 2 * 2 * g.parameter_elements());
  Asked sharded = half;
  sharded.scheme = "pytorch-fsdp";
  sharded.devices = 8;
  const int64_t whole = 2 * (g.parameter_elements() + g.frozen_elements());
  expect_share(memory(g, sharded).parameters.n, whole, 8);
}

/// torch's autocast caches casts of leaves that are learned alone: a block that is made again casts its
/// frozen weights anew, so that no more than a block's are there beside each other.
TEST(Memory, CastsOfFrozenWeightsGoWithTheirBlock) {
  const auto bytes_each = [](bool blocks) {  // of a frozen weight in a block
    const auto at = [&](const char* layers) {
      const Graph g = with_adapter(Graph::load("llama3.2-1b:sequence=16,layers=" + std::string(layers)),
                                   parse_adapter("lora:rank=4,on=attention", {}), {});
      Asked asked{.precision = Precision::bf16};
      asked.recompute.blocks = blocks;
      return std::pair(memory(g, asked).total().n, g.frozen_elements());
    };
    const auto few = at("8"), many = at("16");
    return static_cast<double>(many.first - few.first) / static_cast<double>(many.second - few.second);
  };
  EXPECT_NEAR(bytes_each(false), 4 + 2, 0.2) << "backward waits for the half copy";
  EXPECT_NEAR(bytes_each(true), 4, 0.2);
}

/// The embedding, whose weight the output layer uses too, is the largest tensor of all.
TEST(Memory, FrozenTablesHaveNoGradientsEither) {
  const Graph whole = Graph::load("llama3.2-1b:sequence=16,layers=1"),
              g = with_adapter(whole, parse_adapter("lora:rank=1,on=down", {}), {});
  const Asked half{.precision = Precision::bf16, .habits = {{"weights", "half"}, {"logits", "dropped"}}};
  const int64_t table = int64_t{2} * 128256 * 2048;
  EXPECT_LT(memory(g, half).total().n, 2 * g.frozen_elements() + table / 2);
}

TEST(Memory, StoredWeightsTakeTheirBits) {
  const Graph g = tuned("qlora:rank=16,on=attention");
  int64_t stored = 0, whole = g.parameter_elements();
  for (const Layer& l : g.layers()) (l.frozen_bits > 0 ? stored : whole) += l.frozen_elements();
  const MemoryUse m = memory(g, {.precision = Precision::bf16, .habits = {{"weights", "half"}}});
  EXPECT_NEAR(static_cast<double>(m.parameters.n),
              2 * static_cast<double>(whole) + static_cast<double>(stored) * (4 + 0.125 + 1.0 / 512) / 8,
              1e3);
}

TEST(Memory, OptimisersKeepWhatTheirPapersSay) {
  const auto state = [](const char* name) { return memory("gpt2", {.optimizer = name}).optimizer.n; };
  EXPECT_EQ(state("adamw"), 8 * parameters());
  // A byte for each moment of an element and 4 for each 256 of them; small tensors in fp32: eight of each
  // layer, and the last norm's.
  const int64_t small = 12 * 9984 + 2 * 768;
  EXPECT_EQ(state("adamw-8bit"), 2 * (parameters() - small) * 260 / 256 + 8 * small);
  EXPECT_EQ(state("adamw-paged"), 0);
  // Rows and columns of twelve layers' four matrices and of two tables.
  EXPECT_EQ(state("adafactor"), 4 * (12 * 12288 + 50257 + 768 + 1024 + 768 + small));
}

TEST(Memory, UpdatesInTheBackwardPassHoldNoGradients) {
  const auto peak = [](const char* update) {
    return memory("gpt2:sequence=64", {.habits = {{"update", update}}}).total().n;
  };
  EXPECT_GT(peak("fused") - peak("backward"), 4 * parameters("gpt2:sequence=64") / 2);
}

TEST(Memory, HabitsAreRead) {
  EXPECT_THROW(memory_habits({{"weights", "haf"}}, "memory", {}), InputError);
  EXPECT_THROW(memory_habits({{"wieghts", "half"}}, "memory", {}), InputError);
  EXPECT_EQ(memory_habits({{"update", "each"}}, "memory", {}).update, MemoryHabits::Update::each);
}

/// Every layer of a block runs forward twice.
/// Ren et al. 2021, ZeRO-Offload, section 3: of 16 bytes a parameter under mixed precision 2 stay on the
/// device and 14 go to the host; here gradients there have 4 bytes.
TEST(Memory, OffloadLeavesTwoBytesOfAParameter) {
  const int64_t n = parameters();
  const Settings fused = {{"weights", "master"}, {"update", "fused"}};
  Asked asked{"zero:stage=2", Precision::bf16, 1, "adamw", fused};
  const MemoryUse whole = memory("gpt2", asked);
  EXPECT_EQ(whole.parameters.n + whole.gradients.n + whole.optimizer.n, 16 * n);
  EXPECT_EQ(whole.host.n, 0);
  asked.offload = "optimizer";
  const MemoryUse states = memory("gpt2", asked);
  EXPECT_EQ(states.parameters.n, 2 * n);
  EXPECT_EQ(states.gradients.n, 2 * n);
  EXPECT_EQ(states.optimizer.n, 0);
  EXPECT_EQ(states.host.n, 16 * n);
  asked.offload = "optimizer+gradients";
  const MemoryUse gradients = memory("gpt2", asked);
  EXPECT_EQ(gradients.parameters.n, 2 * n);
  EXPECT_EQ(gradients.gradients.n, 0);
  EXPECT_LE(gradients.total(), states.total());
  asked.devices = 8;
  expect_share(memory("gpt2", asked).host.n, 16 * n, 8);
}

TEST(Memory, OffloadedParametersAreThereWhenTheyAreNeeded) {
  const Asked asked{"zero:stage=3", Precision::bf16, 1, "adamw", {{"weights", "half"}}, {.blocks = true}};
  Asked there = asked;
  there.offload = "optimizer+gradients";
  Asked offloaded = asked;
  offloaded.offload = "optimizer+gradients+parameters";
  const MemoryUse a = memory("gpt2", there), b = memory("gpt2", offloaded);
  EXPECT_EQ(b.parameters.n, 0);
  EXPECT_LT(b.total(), a.total());
  EXPECT_GT(b.total() + Bytes{2 * parameters()}, a.total()) << "a unit of them is there";
}

/// The inputs of all blocks but those that are on their way.
TEST(Memory, OffloadedActivationsAreTheInputsOfBlocks) {
  Asked asked{"allreduce",
              Precision::bf16,
              1,
              "none",
              {{"weights", "half"}, {"logits", "dropped"}, {"loss", "fused"}},
              {.blocks = true},
              8};
  const MemoryUse kept = memory("gpt2", asked);
  asked.offload = "activations";
  const MemoryUse offloaded = memory("gpt2", asked);
  constexpr int64_t kInput = 8 * 1024 * 768 * 2, kBlocks = 12;
  EXPECT_EQ(offloaded.host.n, kBlocks * kInput);
  EXPECT_LE(kept.total() - offloaded.total(), Bytes{kBlocks * kInput});
  EXPECT_GE(kept.total() - offloaded.total(), Bytes{(kBlocks - 2) * kInput});
}

TEST(Memory, RecomputationCostsAForwardPass) {
  const Graph graph = Graph::load("gpt2");
  Workload work = make_workload(graph, 2, Precision::bf16, optimizer("adamw"), false);
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  int64_t flops[2] = {}, again = 0;
  for (const bool recompute : {false, true}) {
    work.recompute = {.blocks = recompute};
    const Program p = scheme.scheme->compile(work, {1, 1, 1}, scheme.options);
    for (const Task& t : p.tasks) {
      for (const Kernel& k : t.kernels) flops[recompute ? 1 : 0] += k.flops.n * k.repeat;
    }
  }
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    if (block_of(graph.layers()[i]).empty()) continue;
    for (const Kernel& k : work.layers[i].forward) again += k.flops.n * k.repeat;
  }
  EXPECT_EQ(flops[1] - flops[0], again);
  EXPECT_GT(again, 0);
}

}  // namespace
}  // namespace tandem::tests
