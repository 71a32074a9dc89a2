// SPDX-License-Identifier: Apache-2.0
// Recipes: what a framework makes of kernels.
#include "schemes/setup/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include <fstream>

#include "models/graph.h"
#include "schemes/step/training.h"

namespace tandem::tests {
namespace {

Task update_of(const char* name) { return {0, 1, Pass::update, {update_kernel(optimizer(name), 1000)}}; }

TEST(Recipe, AnOptimiserWithoutAKernelOfItsOwnIsWrittenInOperations) {
  const Recipe recipe = load_recipe("tensorflow");
  const auto launched = [&](const char* name) {
    const Task task = update_of(name);
    return launches(with_updates_of(recipe, optimizer(name)), task.kernels[0]);
  };
  const auto issued = [&](const char* name) {
    return issue_time(with_updates_of(recipe, optimizer(name)), update_of(name), Precision::fp32,
                      optimizer(name));
  };
  EXPECT_EQ(launched("adam"), 1);
  EXPECT_EQ(launched("adamw"), recipe.composed_updates.at("adamw").traffic);
  EXPECT_EQ(issued("adamw").ps, issued("adam").ps * recipe.composed_updates.at("adamw").kernels);
}

TEST(Recipe, ClippingEachMicroBatchTakesOperationsBesideTheSum) {
  const Recipe plain = load_recipe("mxnet"), composed = load_recipe("tensorflow");
  const Task task{0, 1, Pass::backward_weights, {accumulation_kernel(1000, 4)}};
  const Kernel& sum = task.kernels[0];
  const auto issued = [&](const Recipe& recipe, Precision precision) {
    return issue_time(recipe, task, precision, optimizer("lamb"));
  };
  EXPECT_EQ(launches(plain, sum, Precision::fp16), 1);
  EXPECT_EQ(issued(plain, Precision::fp16), Time{}) << "issued with the gradient";
  const Recipe::Accumulation& each = composed.accumulation;
  EXPECT_EQ(launches(composed, sum, Precision::fp32), each.plain.traffic);
  EXPECT_EQ(launches(composed, sum, Precision::fp16), each.plain.traffic + each.mixed.traffic);
  EXPECT_EQ(issued(composed, Precision::tf32), composed.host.update[0] * each.plain.kernels);
  EXPECT_EQ(issued(composed, Precision::bf16),
            composed.host.update[0] * (each.plain.kernels + each.mixed.kernels));
}

TEST(Recipe, KernelByKernelUpdatesMoveTheirStateMoreOften) {
  const Recipe loop = load_recipe("pytorch-loop"), fused = load_recipe("pytorch");
  for (const char* name : {"sgd", "momentum", "adam"}) {
    const Optimizer& o = optimizer(name);
    const Task task = update_of(name);
    EXPECT_EQ(launches(with_updates_of(loop, o), task.kernels[0]), 1 + o.state) << name;
    EXPECT_EQ(launches(with_updates_of(fused, o), task.kernels[0]), 1) << name;
  }
}

TEST(Recipe, ALayerOfExpertsIsIssuedMoreSlowly) {
  const Recipe core = load_recipe("megatron-core"), eager = load_recipe("megatron");
  Kernel k;
  k.kind = KernelKind::elementwise;
  const auto issued = [&](const Recipe& recipe, Pass pass, bool routed) {
    k.pass = pass;
    k.routed = routed;
    return issue_time(recipe, {0, 1, pass, {k}}, Precision::fp32, optimizer("adam"));
  };
  EXPECT_EQ(issued(core, Pass::forward, true), core.host.experts[0]);
  EXPECT_EQ(issued(core, Pass::backward_data, true), core.host.experts[1]);
  EXPECT_EQ(issued(core, Pass::forward, false), core.host.forward);
  EXPECT_EQ(issued(eager, Pass::forward, true), eager.host.forward) << "where nothing is said";
}

TEST(Recipe, CastingOperandsToFp8TakesTheHostTime) {
  const Recipe core = load_recipe("megatron-core");
  Kernel k;
  k.kind = KernelKind::gemm;
  k.shape = {1, 8, 8, 8};
  const auto issued = [&](Pass pass, Precision precision) {
    k.pass = pass;
    return issue_time(core, {0, 1, pass, {k}}, precision, optimizer("adam"));
  };
  EXPECT_EQ(issued(Pass::backward_data, Precision::fp8), core.host.backward + core.host.fp8);
  EXPECT_EQ(issued(Pass::backward_data, Precision::bf16), core.host.backward);
  EXPECT_EQ(issued(Pass::forward, Precision::fp8) - issued(Pass::forward, Precision::bf16), core.host.fp8);
  k.half = true;  // logits stay in 2 bytes
  EXPECT_EQ(issued(Pass::backward_data, Precision::fp8), core.host.backward);
}

TEST(Recipe, ABiasIsAKernelOfItsOwnWhereTheProductDoesNotAddIt) {
  const Graph graph = Graph::load("bert-base");
  const Recipe loop = load_recipe("pytorch-loop"), fused = load_recipe("pytorch");
  int64_t products = 0, biases = 0;
  for (const Lowered& layer : graph.lower(2, Precision::fp16)) {
    for (const Kernel& k : layer.forward) {
      EXPECT_TRUE(bias_after(fused, k).shape.empty());
      const Kernel bias = bias_after(loop, k);
      products += k.kind == KernelKind::gemm;
      if (bias.shape.empty()) continue;
      ++biases;
      EXPECT_EQ(bias.shape[0], k.shape[0] * k.shape[1] * k.shape[2]);
      EXPECT_EQ(bias.read.n, 2 * bias.shape[0]);
      EXPECT_EQ(bias.written.n, 2 * bias.shape[0]);
    }
  }
  EXPECT_EQ(biases, products);
  EXPECT_EQ(products, 12 * 4 + 4);  // of the encoders; pooler, next sentence, transform and vocabulary
}

TEST(Recipe, OperationsThatAreKeptInFp32MoveTwiceTheBytesOfHalfPrecision) {
  const Graph graph = Graph::load("bert-base");
  const Recipe tensorflow = load_recipe("tensorflow"), compiled = load_recipe("tensorflow-xla");
  const auto upcast = [&](const Recipe& recipe, Precision precision) {
    int64_t count = 0;
    for (const Lowered& layer : graph.lower(2, precision))
      for (const Kernel& k : layer.forward) count += upcasts(recipe, k, precision);
    return count;
  };
  EXPECT_EQ(upcast(tensorflow, Precision::fp16),
            12 * 5 + 6);  // GELU, two dropouts, two norms; of the head too, and two losses
  EXPECT_EQ(upcast(tensorflow, Precision::fp32), 0);
  EXPECT_EQ(upcast(compiled, Precision::fp16), 0);
}

TEST(Recipe, RefusesAnUnknownOptimiserWithItsPlace) {
  const std::string file = testing::TempDir() + "recipe.json";
  std::ofstream(file) << R"({"name": "x", "summary": "x", "source": "x",
    "composed_updates": {"adamv": {"kernels": 2, "traffic": 2}},
    "host": {"forward": "1us", "backward": "1us", "update": ["1us", "1us", "1us"]}})";
  try {
    load_recipe(file);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("recipe.json:2"));
    EXPECT_THAT(e.what(), testing::HasSubstr("Did you mean adamw"));
  }
}

/// Kernels of the first layer of `model` whose type has that name, forward.
std::vector<Kernel> forward_of(const char* model, std::string_view type) {
  const Graph graph = Graph::load(model);
  const std::vector<Lowered> lowered = graph.lower(1, Precision::bf16);
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    if (graph.layers()[i].type != nullptr && graph.layers()[i].type->name == type) return lowered[i].forward;
  }
  return {};
}

TEST(Recipe, EagerPyTorchMovesLogitsInFp32KernelByKernel) {
  const Recipe eager = load_recipe("pytorch"), compiled = load_recipe("pytorch-compiled");
  const std::vector<Kernel> loss = forward_of("gpt2", "cross-entropy");
  ASSERT_EQ(loss.size(), 1U);
  EXPECT_TRUE(upcasts(eager, loss[0], Precision::bf16));
  EXPECT_FALSE(upcasts(eager, loss[0], Precision::fp32));
  EXPECT_FALSE(upcasts(compiled, loss[0], Precision::bf16));
  EXPECT_EQ(launches(eager, loss[0]), 2);
  EXPECT_EQ(launches(compiled, loss[0]), 1);
}

TEST(Recipe, EagerPyTorchComposesWhatItHasNoKernelOf) {
  const Recipe eager = load_recipe("pytorch"), compiled = load_recipe("pytorch-compiled");
  const Kernel rms = forward_of("llama3.2-1b", "rms-norm").at(0);
  const Kernel turning = forward_of("llama3.2-1b", "attention").at(0);
  const Kernel layer_norm = forward_of("gpt2", "layer-norm").at(0), gelu = forward_of("gpt2", "gelu").at(0);
  const Kernel new_gelu = forward_of("gpt2:new_gelu=1", "gelu").at(0);
  for (const Kernel& k : {rms, turning, new_gelu}) {
    EXPECT_EQ(launches(eager, k), k.parts);
    EXPECT_GT(k.parts, 1);
    EXPECT_EQ(launches(compiled, k), 1);
  }
  for (const Kernel& k : {layer_norm, gelu}) EXPECT_EQ(launches(eager, k), 1);
  EXPECT_TRUE(upcasts(eager, rms, Precision::bf16)) << "its sums are made in fp32";
  EXPECT_FALSE(upcasts(eager, rms, Precision::fp32));
  EXPECT_FALSE(upcasts(compiled, rms, Precision::bf16));
  EXPECT_FALSE(upcasts(eager, turning, Precision::bf16));
}

/// One block of GPT-2 for one sequence: where tensors have 4 bytes, and what is cast between them and
/// products.
TEST(Recipe, AutocastKeepsResidualsWideAndCastsWhatProductsRead) {
  const Graph graph = Graph::load("gpt2:layers=1,hidden=64,heads=2,sequence=8,vocabulary=96");
  const std::vector<Lowered> lowered = graph.lower(1, Precision::bf16);
  const Recipe eager = load_recipe("pytorch"), compiled = load_recipe("pytorch-compiled");
  constexpr int64_t kRow = 8 * 64;
  const auto casts = [](const std::vector<Kernel>& kernels) {
    int64_t sum = 0;
    for (const Kernel& k : kernels) sum += k.casts;
    return sum;
  };
  int64_t products = 0, norms = 0, sums = 0;
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    const Layer& layer = graph.layers()[i];
    if (layer.type == nullptr || layer.output.empty()) continue;
    const std::string_view type = layer.type->name;
    const Kernel& first = lowered[i].forward.front();
    if (type == "layer-norm" || type == "add") {
      EXPECT_TRUE(upcasts(eager, first, Precision::bf16)) << layer.name;
      EXPECT_FALSE(upcasts(eager, first, Precision::fp32)) << layer.name;
      EXPECT_FALSE(upcasts(compiled, first, Precision::bf16)) << layer.name;
      (type == "add" ? sums : norms) += 1;
    }
    if (type == "gelu") EXPECT_FALSE(first.wide) << "it reads what a product made";
    if (type != "linear") continue;
    ++products;
    const bool behind_norm = graph.layers()[layer.inputs[0]].type->name == "layer-norm";
    int64_t weights = 0;
    for (const Parameter& p : layer.parameters) weights += p.elements;
    EXPECT_EQ(casts(lowered[i].forward), weights + (behind_norm ? kRow : 0)) << layer.name;
    EXPECT_EQ(casts(lowered[i].backward_weights), weights) << layer.name;
    EXPECT_EQ(cast_beside(eager, first, Precision::bf16).read.n, 4 * first.casts);
    EXPECT_TRUE(cast_beside(eager, first, Precision::fp32).shape.empty());
  }
  EXPECT_EQ(std::tuple(products, norms, sums), std::tuple(4, 3, 2));
}

TEST(Recipe, AutocastLeavesConvolutionalNetworksNarrow) {
  for (const Lowered& layer : Graph::load("resnet18").lower(1, Precision::fp16)) {
    for (const Kernel& k : layer.forward) EXPECT_FALSE(k.wide);
  }
}

}  // namespace
}  // namespace tandem::tests
