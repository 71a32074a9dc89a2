// SPDX-License-Identifier: Apache-2.0
// Whole models on the CPU: what can be built, that calls realise the model's kernels, that places in the
// arena do not collide, and that training lowers a loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "tests/exec/test_run.h"

namespace tandem::tests {
namespace {

using KernelKey = std::tuple<KernelKind, Pass, std::vector<int64_t>>;

/// Launches of each kernel of a model, and of those that the calls of a network say they realise.
using Launches = std::map<KernelKey, int64_t>;

void count(const std::vector<Kernel>& kernels, Launches& to) {
  for (const Kernel& k : kernels) to[{k.kind, k.pass, k.shape}] += k.repeat;
}

/// What is timed in bf16 is priced in bf16: by as many bytes.
TEST(Zoo, CallsCarryTheKernelsOfTheirPrecision) {
  for (const char* name : {"resnet18", "bert-base:layers=2", "lstm-ptb-small", "densenet121"}) {
    const Graph graph = Graph::load(name);
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const ExecutionGraph lowered(graph, 2, true, precision);
      int64_t wanted = 0, realised = 0;
      const auto add = [](const std::vector<Kernel>& kernels, int64_t& bytes) {
        for (const Kernel& k : kernels) bytes += (k.read.n + k.written.n) * k.repeat;
      };
      for (const Lowered& l : graph.lower(2, precision)) {
        for (const auto* list : {&l.forward, &l.backward_data, &l.backward_weights}) add(*list, wanted);
      }
      for (uint32_t i = 0; i < graph.layers().size(); ++i) {
        for (const auto* list : {&lowered.forward(i), &lowered.backward(i)}) {
          for (const Call& c : *list) add(c.kernels, realised);
        }
      }
      EXPECT_EQ(realised, wanted) << name << " " << base::name(precision);
    }
  }
}

/// Time goes to kernels of the kind that a call is.
bool carries_its_kind(const Call& c) {
  const auto has = [&](KernelKind kind) {
    return std::any_of(c.kernels.begin(), c.kernels.end(), [&](const Kernel& k) { return k.kind == kind; });
  };
  switch (c.function) {
    case Function::gemm:
    case Function::expert_gemm:
    case Function::expert_gemm_weights:
      return has(KernelKind::gemm);
    case Function::conv:
    case Function::conv_backward_data:
    case Function::conv_backward_weights:
      return has(KernelKind::conv);
    case Function::attention:
    case Function::attention_backward:
      return has(KernelKind::attention);
    case Function::recurrent:
    case Function::recurrent_backward:
      return true;
    default:
      return !has(KernelKind::gemm) && !has(KernelKind::conv) && !has(KernelKind::attention);
  }
}

TEST(Zoo, CallsOfEveryModelAreKnownToTheCpuAndRealiseTheModelsKernels) {
  const Backend& cpu = backends_registry().at("cpu");
  for (const ModelEntry& model : list_models()) {
    const std::string& name = model.name;
    const Graph graph = Graph::load(name);
    const ExecutionGraph lowered(graph, 2);
    EXPECT_EQ(lowered.parameters(), graph.parameter_elements()) << name;
    EXPECT_FALSE(lowered.losses().empty()) << name;
    Launches wanted, realised;
    for (const Lowered& l : graph.lower(2, Precision::fp32)) {
      for (const auto* list : {&l.forward, &l.backward_data, &l.backward_weights}) count(*list, wanted);
    }
    for (uint32_t i = 0; i < graph.layers().size(); ++i) {
      for (const auto* list : {&lowered.forward(i), &lowered.backward(i)}) {
        for (const Call& c : *list) {
          EXPECT_TRUE(cpu.supports(c, Precision::fp32)) << name << " " << graph.layers()[i].name;
          EXPECT_EQ(c.layer, i);
          EXPECT_TRUE(carries_its_kind(c))
              << name << " " << graph.layers()[i].name << " " << exec::name(c.function);
          count(c.kernels, realised);
        }
      }
    }
    for (const auto& [key, times] : wanted)
      EXPECT_EQ(realised[key], times) << name << " " << models::name(std::get<0>(key)) << " "
                                      << models::name(std::get<1>(key)) << " " << to_text(std::get<2>(key));
    EXPECT_EQ(wanted.size(), realised.size()) << name;
  }
}

/// What the model says is made in a batch norm's launch is, where the backend can; nothing is where it
/// cannot.
TEST(Zoo, KernelsAreFusedWithNormsAsTheModelSays) {
  int64_t models_with = 0;
  for (const ModelEntry& model : list_models()) {
    const Graph graph = Graph::load(model.name);
    Launches wanted;
    const auto marked = [](std::vector<Kernel> kernels, Launches& to) {
      std::erase_if(kernels, [](const Kernel& k) { return !k.fused; });
      count(kernels, to);
    };
    for (const Lowered& l : graph.lower(2, Precision::fp32)) {
      for (const auto* list : {&l.forward, &l.backward_data, &l.backward_weights}) marked(*list, wanted);
    }
    for (const bool fuses : {true, false}) {
      Launches got, made;
      const ExecutionGraph lowered(graph, 2, true, Precision::fp32, {.fuses = fuses});
      for (uint32_t i = 0; i < graph.layers().size(); ++i) {
        for (const auto* list : {&lowered.forward(i), &lowered.backward(i)}) {
          for (const Call& c : *list) {
            marked(c.kernels, got);
            std::vector<Kernel> others = c.kernels;
            std::erase_if(others, [](const Kernel& k) { return k.kind == KernelKind::norm; });
            if (name(c.function).starts_with("batch-norm")) count(others, made);
          }
        }
      }
      EXPECT_EQ(got, fuses ? wanted : Launches{}) << model.name;
      EXPECT_EQ(made, got) << model.name;
    }
    models_with += wanted.empty() ? 0 : 1;
  }
  EXPECT_GT(models_with, 10);
}

const std::vector<std::string> kTrained{
    "resnet20-cifar:depth=1",
    "gpt2:layers=2,hidden=32,heads=4,vocabulary=60,sequence=12",
    "lstm-ptb:hidden=24,vocabulary=40,sequence=9",
    "mixtral-8x7b:layers=2,hidden=32,heads=4,kv_heads=2,head_dim=8,feed=24,vocabulary=60,sequence=12",
    "qwen3-30b-a3b:layers=2,hidden=32,heads=4,kv_heads=2,head_dim=8,feed=16,vocabulary=60,sequence=12,"
    "experts=8,active=3",
    "deepseek-v3:layers=2,dense_layers=1,hidden=32,heads=2,kv_heads=2,head_dim=12,rope_dim=4,value_dim=8,"
    "query_rank=16,kv_rank=12,dense_feed=24,shared=16,feed=16,vocabulary=60,sequence=12,experts=8,active=3",
    "deit-small-distilled:layers=2,hidden=16,heads=2,patch=4,grid=3,classes=7",
    "deit3-small:layers=2,hidden=16,heads=2,patch=4,grid=3,classes=7",
    "convnext-tiny:stage1=1,stage2=1,stage3=1,stage4=1,width=8,image=32,classes=7",
    "swin-tiny:width=8,heads=2,image=64,grid=2,shift=1,pairs1=1,pairs2=1,pairs3=1,pairs4=1,classes=7",
    "mixer-s16:layers=2,hidden=16,tokens=8,channels=24,patch=4,grid=3,classes=7",
    "gemma-2b:layers=2,hidden=32,heads=4,head_dim=8,feed=24,vocabulary=60,sequence=12",
};

/// Of these a few steps need not lower the loss.
const std::vector<std::string> kSmall{
    "efficientnetv2-s:width1=8,width2=8,width3=8,width4=8,width5=8,width6=8,depth1=1,depth2=1,depth3=2,"
    "depth4=2,"
    "depth5=1,depth6=1,head=16,image=32,classes=7",
    "mobilenet-v3-small:image=32,classes=7",
    "regnety-200mf:image=32,classes=7",
    "dit-xl-2:layers=2,hidden=32,heads=2,grid=3,classes=5",
    "stable-diffusion-1.5:width=32,latent=8,tokens=5,text=12,heads=2",
};

/// Start values as a network says them; inputs and labels stay as they are.
void start(TestRun& run, uint64_t seed) {
  SplitMix64 random(seed);
  for (const LearnedTensor& l : run.execution_graph().learned()) {
    for (int64_t i = 0; i < run.execution_graph().tensors()[l.parameter].elements; ++i)
      run.at(l.parameter)[i] = l.constant + l.bound * static_cast<float>(2 * to_unit(random.next()) - 1);
  }
}

TEST(Zoo, GradientsAreTheSameInTheArenaAndWithTensorsApart) {
  std::vector<std::string> names = kTrained;
  names.insert(names.end(), kSmall.begin(), kSmall.end());
  for (const std::string& name : names) {
    const Graph graph = Graph::load(name);
    TestRun together(graph, 3), apart(graph, 3, true);
    for (TestRun* run : {&together, &apart}) {
      run->randomise(4);
      start(*run, 4);
    }
    for (int times = 0; times < 2; ++times) {  // the second time over what the first left behind
      together.forward();
      together.backward();
    }
    apart.forward();
    apart.backward();
    const auto got = together.gradients(), want = apart.gradients();
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << name;
    EXPECT_EQ(together.loss(), apart.loss()) << name;
  }
}

TEST(Zoo, TrainingLowersTheLoss) {
  for (const std::string& name : kTrained) {
    const Graph graph = Graph::load(name);
    TestRun run(graph, 8);
    run.randomise(9);
    start(run, 9);
    run.forward();
    const double before = run.loss();
    for (int step = 0; step < 20; ++step) {
      run.forward();
      run.backward();
      std::vector<float> p = run.parameters();
      const std::vector<float> g = run.gradients();
      for (std::size_t i = 0; i < p.size(); ++i) p[i] -= 0.1F * g[i];
      run.set_parameters(p);
    }
    run.forward();
    EXPECT_GT(before, 0.5) << name;
    EXPECT_LT(run.loss(), 0.8 * before) << name << " from " << before;
  }
}

}  // namespace
}  // namespace tandem::tests
