// SPDX-License-Identifier: Apache-2.0
// What layers keep for backward, against torch 2.15.0 and transformers 5.24 on a CPU: bytes under
// torch.autograd.graph.saved_tensors_hooks, each storage once, weights apart, as the difference of two depths
// or two batches.
#include <gtest/gtest.h>

#include "sim/memory/memory.h"

namespace tandem::tests {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Kept {
  Precision precision = Precision::fp32;
  Settings habits = {};
  int64_t batch = 16;
  std::string scheme = "allreduce";
  int64_t devices = 1;
  const char* optimizer = "none";
};

MemoryUse memory(const std::string& model, const Kept& k) {
  const Graph graph = Graph::load(model);
  const Workload work = make_workload(graph, k.batch, k.precision, optimizer(k.optimizer), false);
  const ResolvedScheme scheme = resolve_scheme(k.scheme, {});
  Settings settings = scheme.memory;
  settings.insert(settings.end(), k.habits.begin(), k.habits.end());
  const Program program = scheme.scheme->compile(work, {k.devices, 1, k.devices}, scheme.options);
  return device_memory(work, Device::load("h200-sxm"), program, memory_habits(settings, "memory", {}));
}

int64_t held(const MemoryUse& m) { return m.activations.n + m.gradients.n; }

/// Bytes of a block, in multiples of the elements of its input.
double of_block(const std::string& model, int64_t elements, const Kept& k) {
  const auto at = [&](int layers) { return held(memory(model + ",layers=" + std::to_string(layers), k)); };
  return static_cast<double>(at(12) - at(8)) / static_cast<double>(4 * k.batch * elements);
}

/// Of a sample, in MB.
double of_sample(const std::string& model, Kept k) {
  k.batch = 16;
  const int64_t few = held(memory(model, k));
  k.batch = 32;
  return static_cast<double>(held(memory(model, k)) - few) / 16e6;
}

const Settings kHalf = {{"weights", "half"}}, kCompiled = {{"kernels", "fused"}},
               kCompiledHalf = {{"weights", "half"}, {"kernels", "fused"}};
const std::string kLlama =
    "llama2-7b:hidden=512,heads=4,kv_heads=4,head_dim=128,feed=2048,sequence=512,vocabulary=512";

TEST(SavedTensors, LlamaBlock) {
  const auto block = [](Precision precision, const Settings& habits) {
    return of_block(kLlama, int64_t{512} * 512, {precision, habits});
  };
  EXPECT_NEAR(block(Precision::bf16, kHalf), 56.07, 0.1);
  EXPECT_NEAR(block(Precision::fp32, {}), 104.07, 0.2);
  EXPECT_NEAR(block(Precision::bf16, kCompiledHalf), 40.07, 0.1);
  EXPECT_NEAR(block(Precision::fp32, kCompiled), 80.07, 0.2);
  // Autocast casts the input of q, k and v each, and of gate and up. Beside that it keeps a copy of the
  // weights, 16 h x h of 2 bytes for 16 x 512 tokens.
  EXPECT_NEAR(block(Precision::bf16, {}), 66.07 + 2, 0.3) << "multi-head, feed 4 h";
}

/// NewGELUActivation of transformers: five tensors of the feed-forward's width where GELU in one kernel has
/// two.
TEST(SavedTensors, ComposedGelu) {
  const auto more = [](Precision precision, const Settings& habits) {
    const std::string gpt = "gpt2:hidden=256,heads=4,sequence=256,vocabulary=512,new_gelu=";
    const Kept k{precision, habits};
    return of_block(gpt + "1", 256 * 256, k) - of_block(gpt + "0", 256 * 256, k);
  };
  EXPECT_NEAR(more(Precision::fp32, {}), 112.08 - 64.08, 0.01);
  EXPECT_NEAR(more(Precision::bf16, kHalf), 56.1 - 32.1, 0.01);
  EXPECT_NEAR(more(Precision::bf16, {}), 60.1 - 36.1, 0.01);
  EXPECT_NEAR(more(Precision::fp32, kCompiled), 0, 0.01);
}

TEST(SavedTensors, ImageModels) {
  EXPECT_NEAR(of_sample("resnet50", {}), 86.1, 0.9);
  EXPECT_NEAR(of_sample("resnet50", {.habits = kCompiled}), 80.5, 1.7);
  EXPECT_NEAR(of_sample("mobilenet-v2", {}), 78.2, 1.6);
  EXPECT_NEAR(of_sample("mobilenet-v2", {.habits = kCompiled}), 53.2, 1.6);
}

/// 64 x 56 x 56 places of maxima, 8 bytes each; cuDNN keeps the output, which the next convolution does
/// anyway.
TEST(SavedTensors, MaxPoolKeepsPlaces) {
  const double more = of_sample("resnet50", {}) - of_sample("resnet50", {.habits = {{"operators", "cudnn"}}});
  EXPECT_NEAR(more, 1.605632, 0.07);
}

/// relu_, leaky_relu_ and elu_ tell the gradient by their output; of hardtanh_ and clamp_ a copy stays.
TEST(SavedTensors, InPlaceOnlyWhereTheOutputTells) {
  const auto kept = [](const std::string& activation) {
    const Graph graph = Graph::from_json(Json::parse(
        R"({"name": "chain", "summary": "", "inputs": {"x": [1024]}, "layers": [
        {"type": "linear", "features": 1024}, )" +
            activation + R"(, {"type": "linear", "features": 1024}, {"type": "mse"}]})",
        "test.json"));
    const Workload work = make_workload(graph, 1024, Precision::fp32, optimizer("none"), false);
    const ResolvedScheme scheme = resolve_scheme("allreduce", {});
    const Program program = scheme.scheme->compile(work, {1, 1, 1}, scheme.options);
    return held(device_memory(work, Device::load("h200-sxm"), program, {})) >> 20;
  };
  const int64_t relu = kept(R"({"type": "relu"})");
  EXPECT_EQ(kept(R"({"type": "leaky-relu"})"), relu);
  EXPECT_EQ(kept(R"({"type": "relu6"})"), relu + 4);
  EXPECT_EQ(kept(R"({"type": "clip"})"), relu + 4);
  EXPECT_EQ(kept(R"({"type": "swish"})"), relu + 4);
  EXPECT_EQ(kept(R"({"type": "swish", "in_place": true})"), relu + 4) << "the copy is in the input's place";
}

/// Gemma's norm multiplies by 1 + w in fp32; Cohere's is of operations in fp32; values of GPT-NeoX and Phi-3
/// are a view of the packed projection.
TEST(SavedTensors, WhatLayersSayOfThemselves) {
  const auto block = [](const char* norm, const char* attention) {
    const auto at = [&](int layers) {
      const Graph graph = Graph::from_json(Json::parse(
          std::string(R"({"name": "m", "summary": "", "inputs": {"tokens": [256]}, "layers": [
          {"type": "embedding", "vocabulary": 256, "width": 256}, {"repeat": )") +
              std::to_string(layers) + R"(, "layers": [)" + norm +
              R"(, {"type": "linear", "features": 768}, {"type": "attention", "heads": 4, "rotary": true)" +
              attention + R"(}, {"type": "linear", "features": 256}]}, {"type": "linear", "features": 256},
          {"type": "cross-entropy"}]})",
          "test.json"));
      const Workload work = make_workload(graph, 16, Precision::bf16, optimizer("none"), false);
      const ResolvedScheme scheme = resolve_scheme("allreduce", {});
      const Program program = scheme.scheme->compile(work, {1, 1, 1}, scheme.options);
      MemoryHabits habits;
      habits.weights = MemoryHabits::Weights::half;
      return held(device_memory(work, Device::load("h200-sxm"), program, habits));
    };
    return static_cast<double>(at(12) - at(8)) / (4.0 * 16 * 256 * 256);
  };
  const char* plain = R"({"type": "rms-norm"})";
  EXPECT_NEAR(block(R"({"type": "rms-norm", "fp32_scale": true})", "") - block(plain, ""), 2, 0.02);
  EXPECT_NEAR(
      block(R"({"type": "layer-norm", "composed": true})", "") - block(R"({"type": "layer-norm"})", ""),
      12 - 2, 0.02);
  EXPECT_NEAR(block(plain, R"(, "values_in_place": true)") - block(plain, ""), 2 * 2, 0.02);
}

/// Megatron's main_grad and nanotron's accumulator: 4 bytes of a parameter of 2, in the one buffer that
/// travels.
TEST(SavedTensors, SumsInFp32) {
  const std::string model = "gpt2";
  const int64_t parameters = Graph::load(model).parameter_elements();
  const Kept plain{Precision::bf16, {{"sums", "parameters"}}, 1, "megatron", 2, "adamw"},
      sums{Precision::bf16, {}, 1, "megatron", 2, "adamw"};
  const MemoryUse half = memory(model, plain), fp32 = memory(model, sums);
  EXPECT_EQ(fp32.gradients.n, 4 * parameters);
  EXPECT_EQ(fp32.gradients.n - half.gradients.n, 2 * parameters);
  EXPECT_LE(fp32.buffers.n, half.buffers.n);
}

/// torch._foreach_*: SGD adds in place; its decay needs as many temporaries as there are parameters.
TEST(SavedTensors, SgdHasTemporariesForDecayAlone) {
  const auto peak = [](const char* rule, const Settings& habits) {
    return memory("mlp", {.habits = habits, .batch = 1, .optimizer = rule}).total().n;
  };
  const int64_t parameters = 4 * Graph::load("mlp").parameter_elements();
  for (const char* rule : {"sgd", "momentum"}) {
    const int64_t more = peak(rule, {{"decay", "on"}}) - peak(rule, {});
    EXPECT_GT(more, parameters / 2) << rule;
    EXPECT_EQ(peak(rule, {}), peak(rule, {{"update", "fused"}})) << rule;
  }
  EXPECT_GT(peak("adamw", {}), peak("adamw", {{"update", "fused"}}));
}

/// DTensor's SequenceParallel keeps what it gathered: of eight ranks 10.51 for 7.00 bytes.
TEST(SavedTensors, GatheredInputs) {
  const auto block = [](const char* gathered) {
    return of_block(kLlama + std::string(), int64_t{512} * 512,
                    {Precision::bf16,
                     {{"weights", "half"}},
                     16,
                     std::string("hybrid:tensor=4,sequence=on,gathered-inputs=") + gathered,
                     4});
  };
  EXPECT_NEAR(block("kept") - block("again"), 2 * 2 * (1 - 1 / 4.0), 0.02);
}

}  // namespace
}  // namespace tandem::tests
