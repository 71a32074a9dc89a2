// SPDX-License-Identifier: Apache-2.0
// What can be asked of optimisers and layers, from the command line to the figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

Json predicted(std::vector<std::string> more) {
  std::vector<std::string> words = {"predict", "--model", "gpt2", "--system", "dgx-a100", "--precision",
                                    "bf16",    "--batch", "1",    "--format", "json",     "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  const ChildResult r = tool(words);
  EXPECT_EQ(r.status, 0) << r.err;
  return last_report(r.out);
}

double state_bytes(const Json& report) {
  return report.at("memory_by_role").items()[0].at("memory").at("optimizer").as_real();
}

/// Of gpt2's 124,439,808 parameters 12 x 12 x 768^2 are hidden matrices.
TEST(Muon, KeepsAMomentumOfHiddenMatricesAndTwoMomentsOfAllElse) {
  constexpr double kHidden = 12.0 * 12 * 768 * 768, kAll = 124439808;
  EXPECT_EQ(state_bytes(predicted({"--devices", "1", "--optimizer", "muon"})),
            4 * kHidden + 8 * (kAll - kHidden));
  const Json shared = predicted({"--devices", "2", "--optimizer", "muon", "--scheme", "zero:stage=1"});
  EXPECT_NEAR(state_bytes(shared), (4 * kHidden + 8 * (kAll - kHidden)) / 2, 1e5);
}

/// Orthogonalising costs time, of which devices that deal matrices out have a share each.
TEST(Muon, TakesTheTimeOfItsProducts) {
  const auto seconds = [](const char* rule, const char* scheme) {
    return predicted({"--devices", "4", "--optimizer", rule, "--scheme", scheme, "--input", "synthetic"})
        .at("iteration_seconds")
        .at("median")
        .as_real();
  };
  const double whole = seconds("muon", "allreduce") - seconds("adamw", "allreduce"),
               dealt = seconds("muon", "zero:stage=1") - seconds("adamw", "zero:stage=1");
  EXPECT_GT(whole, 0.002);
  EXPECT_LT(dealt, 0.65 * whole);
}

TEST(Muon, IsRefusedWhereMatricesAreInParts) {
  for (const char* scheme :
       {"zero:stage=3", "fsdp", "parameter-server", "hybrid:sharding=3,microbatches=2"}) {
    const ChildResult r = tool({"predict", "--model", "gpt2", "--system", "dgx-a100", "--devices", "2",
                                "--optimizer", "muon", "--scheme", scheme});
    EXPECT_EQ(r.status, 3) << scheme;
    EXPECT_THAT(r.err, HasSubstr("orthogonalises whole matrices")) << scheme;
  }
  const ChildResult run = tool({"run", "--model", "digits-mlp", "--optimizer", "muon", "--iterations", "1"});
  EXPECT_NE(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr("only predicted so far"));
}

/// As nanochat and Nemotron have it.
TEST(Relu2, IsReadFromAConfiguration) {
  const Scratch scratch;
  const std::string file =
      scratch.write("nano.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 640, "intermediate_size": 2560, "num_hidden_layers": 4, "num_attention_heads": 5,
    "num_key_value_heads": 5, "vocab_size": 8192, "max_position_embeddings": 512, "tie_word_embeddings": false,
    "hidden_act": "relu2"})");
  const ChildResult r = tool({"predict", "--model", file, "--system", "workstation-2x", "--devices", "1",
                              "--batch", "1", "--optimizer", "muon"});
  EXPECT_EQ(r.status, 0) << r.err;
  const ChildResult shown = tool({"show", "model", file});
  EXPECT_THAT(shown.out, HasSubstr("relu2"));
}

}  // namespace
}  // namespace tandem::tests
