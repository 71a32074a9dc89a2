// SPDX-License-Identifier: Apache-2.0
// Configurations as they are published, with fields that the library's classes do not read and names of older
// files: parameters as transformers 5.23.0 counts them on its meta device.
#include <fmt/format.h>

#include "models/adapter.h"
#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

using testing::HasSubstr;

Graph published(const std::string& members) { return graph_of_config("{" + members + "}"); }

std::string refused(const std::string& members) {
  return error_of([&] { published(members); });
}

const std::string kQwen35 =
    R"("hidden_size": 512, "num_hidden_layers": 4, "vocab_size": 1000, "head_dim": 64, "num_attention_heads": 8,
    "num_key_value_heads": 2, "linear_key_head_dim": 32, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
    "linear_value_head_dim": 32, "intermediate_size": 1024, "mtp_num_hidden_layers": 1,
    "mtp_use_dedicated_embeddings": false, "mamba_ssm_dtype": "float32")";

/// The class always has the gate; a file may say so, but not otherwise.
TEST(HfPublished, AFieldThatTheClassDoesNotReadMaySayWhatItDoes) {
  const auto text = [](const std::string& more) {
    return fmt::format(
        R"("architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": {{"model_type": "qwen3_5_text", {}{}}})",
        kQwen35, more);
  };
  const int64_t own = published(text("")).parameter_elements();
  EXPECT_EQ(own, 9'841'424);
  EXPECT_EQ(published(text(R"(, "attn_output_gate": true)")).parameter_elements(), own);
  EXPECT_THAT(refused(text(R"(, "attn_output_gate": false)")), HasSubstr("\"attn_output_gate\": false"));
}

/// Both spellings of the class of Kimi K2.5, which reads its text as DeepSeek-V3.
TEST(HfPublished, KimiReadsItsTextAsDeepSeek) {
  for (const char* name : {"KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"}) {
    const Graph graph = published(fmt::format(
        R"("architectures": ["{}"], "model_type": "kimi_k25", "tie_word_embeddings": false, "text_config": {{"model_type": "deepseek_v3", "num_hidden_layers": 2,
        "first_k_dense_replace": 1, "n_routed_experts": 8, "hidden_size": 512, "vocab_size": 1000}})",
        name));
    EXPECT_EQ(graph.parameter_elements(), 185'649'664) << name;
  }
}

/// Older files of some types have in the text's config that the output layer is the words' table.
TEST(HfPublished, TheTextMaySayThatItIsTied) {
  const auto count = [](const char* type, const char* whole, const char* text) {
    return published(
               fmt::format(
                   R"("model_type": "{}", {}"text_config": {{"model_type": "{}", "num_hidden_layers": 1, "vocab_size": 1000{}}})",
                   type, whole, std::string(type) == "llava" ? "llama" : fmt::format("{}_text", type), text))
        .parameter_elements();
  };
  constexpr const char *kWhole = R"("tie_word_embeddings": true, )",
                       *kText = R"(, "tie_word_embeddings": true)";
  for (const char* type : {"qwen2_vl", "qwen2_5_vl", "llava", "minimax_m3_vl"}) {
    EXPECT_LT(count(type, "", kText), count(type, "", "")) << type;
    EXPECT_EQ(count(type, "", kText), count(type, kWhole, "")) << type;
  }
  EXPECT_EQ(count("qwen3_5", "", kText), count("qwen3_5", "", "")) << "the whole says it alone";
}

/// Nemotron 3: experts work in 64 features, their router reads all 256.
TEST(HfPublished, ExpertsMayBeOfALatentWidth) {
  const std::string base =
      R"("model_type": "nemotron_h", "hybrid_override_pattern": "ME*E", "hidden_size": 256, "vocab_size": 1000,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "moe_shared_expert_intermediate_size": 96,
      "mamba_num_heads": 8, "mamba_head_dim": 64, "num_attention_heads": 4, "head_dim": 64, "num_key_value_heads": 2,
      "time_step_rank": 512)";
  const int64_t wide = published(base).parameter_elements(),
                narrow = published(base + R"(, "moe_latent_size": 64)").parameter_elements();
  EXPECT_EQ(wide - narrow, 2 * (8 * 2 * 128 * (256 - 64) - 2 * 256 * 64));
}

/// GLM-5.2: some layers use the keys that an earlier one's indexer chose.
TEST(HfPublished, IndexersAreOfSomeLayers) {
  const std::string base =
      R"("model_type": "glm_moe_dsa", "num_hidden_layers": 6, "hidden_size": 256, "vocab_size": 1000,
      "n_routed_experts": 8, "num_attention_heads": 4, "q_lora_rank": 64, "index_n_heads": 2, "index_head_dim": 32)";
  const int64_t all = published(base).parameter_elements(), one = 64 * 2 * 32 + 256 * 32 + 2 * 32 + 256 * 2;
  const auto shared = [&](const std::string& more) {
    return (all - published(base + ", " + more).parameter_elements()) / one;
  };
  EXPECT_EQ(shared(R"("indexer_types": ["full", "full", "shared", "full", "shared", "shared"])"), 3);
  EXPECT_EQ(shared(R"("index_topk_freq": 4, "index_skip_topk_offset": 3)"), 3) << "0, 1 and 2 are full";
  EXPECT_EQ(shared(R"("index_topk_freq": 2)"), 2) << "3 and 5 have none where 2 are left out";
  EXPECT_THAT(refused(base + R"(, "index_topk_pattern": "FSFSFS")"), HasSubstr("index_topk_pattern"));
  EXPECT_THAT(refused(base + R"(, "indexer_types": ["full", "none", "full", "full", "full", "full"])"),
              HasSubstr("\"none\" is unknown; known: full, shared"));
}

const std::string kMimo =
    R"("model_type": "mimo_v2_flash", "architectures": ["MiMoV2FlashForCausalLM"], "num_hidden_layers": 6, "hidden_size": 256,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000, "n_routed_experts": 8)";

/// Layers with a window have twice as many keys, values of another width and a score of each head.
TEST(HfPublished, ListsThatTheClassDoesNotReadHaveToAgree) {
  const int64_t own = published(kMimo).parameter_elements();
  EXPECT_EQ(own, 69'403'936);
  EXPECT_EQ(
      published(kMimo + R"(, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0], "moe_layer_freq": [0, 1, 1, 1, 1, 1],
      "swa_num_key_value_heads": 4, "swa_head_dim": 192, "sliding_window_size": 128, "add_swa_attention_sink_bias": true)")
          .parameter_elements(),
      own);
  EXPECT_THAT(refused(kMimo + R"(, "hybrid_layer_pattern": [0, 1, 1, 0, 1, 0])"),
              HasSubstr("its class does not read this list"));
  EXPECT_THAT(refused(kMimo + R"(, "swa_num_key_value_heads": 2)"),
              HasSubstr("\"swa_num_key_value_heads\": 2"));
}

const std::string kGemma4 =
    R"("model_type": "gemma4_text", "num_hidden_layers": 7, "hidden_size": 256, "intermediate_size": 512, "vocab_size": 1000,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size_per_layer_input": 1000)";

/// Heads of 512 where layers see all, tables of words for each layer, layers that use an earlier one's keys.
TEST(HfPublished, GemmaHasLayersOfSeveralShapes) {
  const auto count = [](const std::string& more) { return published(kGemma4 + more).parameter_elements(); };
  EXPECT_EQ(count(""), 10'317'696);
  EXPECT_EQ(count(R"(, "hidden_size_per_layer_input": 0)"), 7'147'392);
  EXPECT_EQ(count(R"(, "global_head_dim": 128)"), 7'956'864);
  EXPECT_EQ(count(R"(, "per_layer_config": {"05": {"head_dim": 128}, "6": {"head_dim": 128}})"), 7'956'864);
  EXPECT_EQ(count(R"(, "attention_k_eq_v": true, "num_global_key_value_heads": 1)"), 9'531'264);
  EXPECT_EQ(count(R"(, "num_kv_shared_layers": 1, "use_double_wide_mlp": true)"), 10'186'112);
  EXPECT_EQ(
      count(
          R"(, "enable_moe_block": true, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 64)"),
      13'091'768);
  EXPECT_THAT(refused(kGemma4 + R"(, "per_layer_config": {"3": {"head_dim": 128}})"),
              HasSubstr("it names all layers without a window"));
  EXPECT_THAT(refused(kGemma4 + R"(, "use_bidirectional_attention": "all")"),
              HasSubstr("\"all\" is not understood"));
}

/// Rank 4 beside each layer's own product for values: 2 heads of 128 and 4 with a window; none where keys are
/// values, or another layer's.
TEST(HfPublished, AdaptersStandBesideTheProductsThatThereAre) {
  const auto learned = [](const std::string& config, const char* on) {
    const auto adapter = models::parse_adapter(fmt::format("lora:rank=4,on={}", on), {});
    return models::with_adapter(published(config), adapter, {}).parameter_elements();
  };
  EXPECT_EQ(learned(kMimo, "value"), 4 * (2 * (256 + 2 * 128) + 4 * (256 + 4 * 128)));
  EXPECT_EQ(learned(kGemma4 + R"(, "attention_k_eq_v": true)", "value"), 4 * 5 * (256 + 2 * 64));
  EXPECT_EQ(learned(kGemma4 + R"(, "num_kv_shared_layers": 1)", "key"),
            4 * (5 * (256 + 2 * 64) + 256 + 2 * 512));
}

/// Lists of 1 and 0 of MiniMax-M3, and the ratios of DeepSeek-V4 with one more for a layer that predicts.
TEST(HfPublished, LayersAreNamedByNumbers) {
  const std::string m3 =
      R"("model_type": "minimax_m3", "architectures": ["MiniMaxM3ForCausalLM"], "num_hidden_layers": 3, "hidden_size": 256,
      "intermediate_size": 128, "moe_intermediate_size": 128, "vocab_size": 1000, "num_local_experts": 8, "hidden_act": "swigluoai",
      "moe_layer_freq": [0, 1, 1], "sparse_attention_config": {"sparse_attention_freq": [0, 1, 1], "sparse_num_index_heads": 2})";
  EXPECT_EQ(published(m3).parameter_elements(), 29'813'760);
  const std::string v4 =
      R"("model_type": "deepseek_v4", "num_hidden_layers": 3, "hidden_size": 256, "moe_intermediate_size": 128, "vocab_size": 1000,
      "n_routed_experts": 8, "num_attention_heads": 8, "head_dim": 64, "q_lora_rank": 64, "o_lora_rank": 32, "o_groups": 4,
      "index_n_heads": 2, "index_head_dim": 32)";
  EXPECT_EQ(published(v4 + R"(, "compress_ratios": [0, 4, 128, 0])").parameter_elements(), 3'815'135);
  EXPECT_EQ(published(v4 + R"(, "layer_types": ["sliding_attention", "compressed_sparse_attention",
      "heavily_compressed_attention"])")
                .parameter_elements(),
            3'815'135);
  EXPECT_THAT(refused(v4 + R"(, "compress_ratios": [0, 4, 64])"),
              HasSubstr("64 is unknown; known: 0, 4, 128"));
}

/// One sentence that fits a terminal or two lines of it.
TEST(HfPublished, WhatIsRefusedSaysWhyInALine) {
  for (const char* type :
       {"step3p7", "kimi_k3", "nemotron-nas", "xlnet", "zamba2", "qwen2_audio", "gemma3n"}) {
    const std::string why = refused(fmt::format(R"("model_type": "{}")", type));
    EXPECT_THAT(why, HasSubstr("is not understood: "));
    EXPECT_LT(why.size(), 160U) << why;
  }
}

}  // namespace
}  // namespace tandem::tests
