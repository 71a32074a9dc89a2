// SPDX-License-Identifier: Apache-2.0
#include "models/optimizer.h"

#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

TEST(Optimizer, StateIsWhatEachRuleKeeps) {
  EXPECT_EQ(optimizer("sgd").state, 0);
  EXPECT_EQ(optimizer("momentum").state, 1);
  EXPECT_EQ(optimizer("rmsprop").state, 1);
  EXPECT_EQ(optimizer("adam").state, 2);
  EXPECT_EQ(optimizer("adamw").state, 2);
  EXPECT_EQ(optimizer("lamb").state, 2);
}

TEST(Optimizer, StateOfATensorIsWhatItsFormTakes) {
  EXPECT_EQ(optimizer("adamw").state_words(6000, 60), 12000);
  EXPECT_EQ(optimizer("lamb").state_words(6000, 0), 12000);
  EXPECT_EQ(optimizer("adafactor").state_words(6000, 60), 60 + 100);
  EXPECT_EQ(optimizer("adafactor").state_words(6000, 0), 6000);
  EXPECT_EQ(optimizer("adamw-8bit").state_words(4095, 0), 2 * 4095);
  EXPECT_EQ(optimizer("adamw-8bit").state_words(4097, 0), 2 * (1025 + 17));
  EXPECT_EQ(optimizer("adamw-8bit-paged").device_state(4097, 0), 0);
  EXPECT_EQ(optimizer("adamw-8bit").device_state(4097, 0, 2), 4 * (1025 + 17));
}

TEST(Optimizer, WorksOnWholeTensorsWhereElementsNeedEachOther) {
  for (const Optimizer& o : optimizers()) {
    const bool alone = o.name == "sgd" || o.name == "momentum" || o.name == "adam" || o.name == "adamw" ||
                       o.name == "rmsprop" || o.name == "none" || o.name == "adamw-paged";
    EXPECT_EQ(o.by_tensor(), !alone) << o.name;
  }
}

TEST(Optimizer, UpdateReadsGradientParameterAndStateAndWritesBack) {
  for (const Optimizer& o : optimizers()) {
    if (!o.updates()) continue;
    const Kernel k = update_kernel(o, 1000);
    EXPECT_EQ(k.kind, KernelKind::optimizer);
    EXPECT_EQ(k.pass, Pass::update);
    EXPECT_EQ(k.flops.n, 1000 * o.flops);
    // LAMB besides writes and reads its step, and reads gradients, parameters and steps for their norms.
    const int64_t step = o.by_norms ? 4000 : 0;
    EXPECT_EQ(k.read.n, 8000 + 1000 * o.state * o.state_bytes + 5 * step) << o.name;
    EXPECT_EQ(k.written.n, 4000 + 1000 * o.state * o.state_bytes + step) << o.name;
    EXPECT_FALSE(o.summary.empty());
  }
}

/// Five steps of X X^T, of its square, and of that times X, of whichever side is shorter.
TEST(Optimizer, MuonOrthogonalisesHiddenMatrices) {
  const Optimizer& muon = optimizer("muon");
  EXPECT_EQ(muon.state_words(6000, 60, true), 6000);
  EXPECT_EQ(muon.state_words(6000, 60, false), 12000) << "an embedding, as AdamW";
  EXPECT_EQ(muon.device_state(6000, 60, 4, true), 6000);
  EXPECT_FALSE(muon.executed());
  for (const auto& [inner, columns] : {std::pair{64, 256}, {256, 64}}) {
    Parameter p{"weight", 3 * 64 * 256};
    p.hidden = 3;
    p.inner = inner;
    const std::vector<Kernel> kernels = update_kernels(muon, p);
    int64_t products = 0;
    for (const Kernel& k : kernels) products += k.kind == KernelKind::gemm ? k.flops.n * k.repeat : 0;
    EXPECT_EQ(products, int64_t{3} * 5 * (4 * 64 * 64 * 256 + 2 * 64 * 64 * 64)) << columns;
    EXPECT_EQ(kernels[0].kind, KernelKind::optimizer);
    const Kernel half = part_of_update(kernels[1], p.elements / 2, p.elements);
    EXPECT_EQ(half.flops.n, kernels[1].flops.n / 2);
    EXPECT_EQ(half.shape[1], 32);
  }
  EXPECT_EQ(update_kernels(muon, Parameter{"bias", 64}).size(), 1U);
}

TEST(Optimizer, HiddenMatricesAreNeitherWordsNorLogits) {
  const auto hidden = [](const char* model) {
    int64_t out = 0;
    const Graph graph = Graph::load(model);
    for (const Layer& l : graph.layers()) {
      for (const Parameter& p : l.parameters) {
        if (p.hidden > 0) EXPECT_EQ(p.elements % (p.hidden * p.inner), 0) << l.name << " " << p.name;
        out += p.hidden > 0 ? p.elements : 0;
      }
    }
    return out;
  };
  EXPECT_EQ(hidden("gpt2"), int64_t{12} * 12 * 768 * 768);
  EXPECT_EQ(hidden("llama2-7b"), int64_t{32} * (4 * 4096 * 4096 + 3 * 4096 * 11008))
      << "its head makes logits";
  EXPECT_EQ(hidden("resnet50"), 0) << "filters, and a classifier";
}

TEST(Optimizer, NoneKeepsNothingAndAloneUpdatesNothing) {
  EXPECT_EQ(optimizer("none").state, 0);
  for (const Optimizer& o : optimizers()) EXPECT_EQ(o.updates(), o.name != "none");
}

TEST(Optimizer, UnknownNameGetsTheNearest) {
  EXPECT_THAT(error_of([] { optimizer("adm"); }),
              testing::AllOf(testing::HasSubstr("no optimizer \"adm\""), testing::HasSubstr("adam")));
}

}  // namespace
}  // namespace tandem::tests
