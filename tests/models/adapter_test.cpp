// SPDX-License-Identifier: Apache-2.0
// Fine-tuning: what stays, what is learned, and what a pass over it costs.
#include "models/adapter.h"

#include "tests/models/helpers.h"

namespace tandem::tests {
namespace {

Graph adapted(const std::string& model, const std::string& adapter) {
  return with_adapter(Graph::load(model), parse_adapter(adapter, {}), {});
}

const Layer& named(const Graph& g, const std::string& name) {
  for (const Layer& l : g.layers()) {
    if (l.name == name) return l;
  }
  throw std::runtime_error("no layer " + name);
}

struct Trainable {
  const char *model, *adapter;
  int64_t learned;
};

class AdapterCounts : public testing::TestWithParam<Trainable> {};

TEST_P(AdapterCounts, AreThoseThatFrameworksPrint) {
  const Graph g = adapted(GetParam().model, GetParam().adapter);
  EXPECT_EQ(g.parameter_elements(), GetParam().learned);
  EXPECT_EQ(g.frozen_elements(), Graph::load(GetParam().model).parameter_elements());
}

// LitGPT prints 4,194,304 and 6,553,600 (tutorials/resource-tables.md); PEFT 9,175,040 and 18,350,080
// (method_comparison/MetaMathQA, rank 32 and 64) and 9,461,760 on the feed-forward of rank 10.
INSTANTIATE_TEST_SUITE_P(All, AdapterCounts,
                         testing::Values(Trainable{"llama2-7b", "lora:rank=8,on=query+value", 4194304},
                                         Trainable{"llama2-13b", "lora:rank=8,on=query+value", 6553600},
                                         Trainable{"llama3.2-3b", "lora:rank=32,on=query+value", 9175040},
                                         Trainable{"llama3.2-3b", "lora:rank=64,on=query+value", 18350080},
                                         Trainable{"llama3.2-3b", "lora:rank=10,on=mlp", 9461760}));

// PEFT 0.21.2 on Transformers 5.23.0, rank 16, on the meta device: its defaults, query and value,
// "all-linear". Of mixtures of experts PEFT gives pairs to the stacks of matrices, at twice the rank to gate
// and up, and to the router, but not to layers without experts nor to shared ones; to those of GPT-OSS none.
INSTANTIATE_TEST_SUITE_P(
    AsPeftHasThem, AdapterCounts,
    testing::Values(Trainable{"llama2-7b", "lora:rank=16", 8388608},
                    Trainable{"llama2-7b", "lora:rank=16,on=query+value", 8388608},
                    Trainable{"llama2-7b", "lora:rank=16,on=all-linear", 39976960},
                    Trainable{"llama2-7b", "lora:rank=16,on=attention+mlp", 39976960},
                    Trainable{"mistral-7b", "lora:rank=16", 6815744},
                    Trainable{"mistral-7b", "lora:rank=16,on=all-linear", 41943040},
                    Trainable{"t5-base", "lora:rank=16", 1769472},
                    Trainable{"t5-base", "lora:rank=16,on=all-linear", 6488064},
                    Trainable{"bert-base-mlm", "lora:rank=16", 589824},
                    Trainable{"bert-base-mlm", "lora:rank=16,on=all-linear", 2678784},
                    Trainable{"gpt2", "lora:rank=16", 589824},
                    Trainable{"gpt2", "lora:rank=16,on=qkv", 589824},
                    Trainable{"gpt2", "lora:rank=16,on=query+value", 589824},
                    Trainable{"gpt2", "lora:rank=16,on=all-linear", 2359296},
                    Trainable{"pythia-410m", "lora:rank=16", 1572864},
                    Trainable{"pythia-410m", "lora:rank=16,on=all-linear", 6291456},
                    Trainable{"phi3-mini", "lora:rank=16,on=query+value", 6291456},
                    Trainable{"phi3-mini", "lora:rank=16,on=all-linear", 25165824},
                    Trainable{"mixtral-8x7b", "lora:rank=16,on=all-linear", 359665664},
                    Trainable{"mixtral-8x7b", "lora:rank=16,on=attention+mlp", 359665664},
                    Trainable{"qwen3-30b-a3b", "lora:rank=16,on=attention+mlp", 996507648},
                    Trainable{"gpt-oss-20b", "lora:rank=16,on=all-linear", 7962624},
                    Trainable{"gpt-oss-20b", "lora:rank=16,on=attention+mlp", 7962624}));

struct Imported {
  const char* config;
  int64_t usual, all_linear;
};

TEST(Adapter, OfImportedModelsIsAsPeftHasIt) {
  const Imported all[] = {
      {R"({"model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 4544, "num_hidden_layers": 32,
        "num_attention_heads": 71, "vocab_size": 65024})",
       4718592, 32636928},
      {R"({"model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 4096, "ffn_dim": 16384,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 50272, "word_embed_proj_dim": 4096})",
       8388608, 37748736},
      {R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936})",
       7667712, 43646976},
      {R"({"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "hidden_size": 1152,
        "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1,
        "head_dim": 256, "vocab_size": 262144})",
       1490944, 13045760},
      {R"({"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 2048,
        "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
        "first_k_dense_replace": 1, "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400})",
       0, 358994944},
      {R"({"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"]})", 0, 7962816 * 2},
      {R"({"model_type": "albert", "architectures": ["AlbertForMaskedLM"]})", 0, 657408 * 2}};
  for (const Imported& one : all) {
    const Graph g = graph_of_config(one.config);
    const auto learned = [&](const char* adapter) {
      return with_adapter(g, parse_adapter(adapter, {}), {}).parameter_elements();
    };
    if (one.usual > 0) EXPECT_EQ(learned("lora:rank=16"), one.usual) << one.config;
    EXPECT_EQ(learned("lora:rank=16,on=all-linear"), one.all_linear) << one.config;
  }
}

const std::string kSmall = "llama3.2-1b:layers=2,sequence=64";

TEST(Adapter, LeavesTheForwardPassAsItIsButForItsOwn) {
  const Graph whole = Graph::load(kSmall), g = adapted(kSmall, "lora:rank=4,on=projection");
  const auto one = [](const Graph& graph) {
    Flops sum;
    for (const Lowered& l : graph.lower(1, Precision::bf16)) sum += matrix_flops(l);
    return sum.n;
  };
  const int64_t width = named(whole, "decoder.0.projection").output.back();
  EXPECT_EQ(one(g) - one(whole), 2 * 2 * 64 * (width * 4 + 4 * width));
}

TEST(Adapter, MakesGradientsOfItselfAlone) {
  const Graph g = adapted(kSmall, "lora:rank=4,on=down");
  const auto lowered = g.lower(2, Precision::bf16);
  for (std::size_t i = 0; i < g.layers().size(); ++i) {
    const Layer& l = g.layers()[i];
    EXPECT_EQ(lowered[i].backward_weights.empty(), l.parameters.empty()) << l.name;
    if (l.name.starts_with("decoder.0") && l.name.find("down") == std::string::npos &&
        l.name != "decoder.0.add2")
      EXPECT_EQ(flops(lowered[i].backward_data), 0) << l.name << " lies before the first adapter";
    if (l.name == "decoder.1.gate") EXPECT_FALSE(lowered[i].keeps_input);
    if (l.name == "decoder.1.down.lora_a") EXPECT_TRUE(lowered[i].keeps_input);
  }
}

TEST(Adapter, StoredWeightsAreWrittenOutWhereTheyAreUsed) {
  const Graph g = adapted(kSmall, "qlora:rank=4,on=down"), plain = adapted(kSmall, "lora:rank=4,on=down");
  const Layer& down = named(g, "decoder.1.down");
  EXPECT_DOUBLE_EQ(down.frozen_bits, 4 + 8.0 / 64 + 32.0 / 16384);
  EXPECT_DOUBLE_EQ(named(adapted(kSmall, "qlora:store=nf4"), "decoder.1.up").frozen_bits, 4.5);
  EXPECT_DOUBLE_EQ(named(g, "embedding1").frozen_bits, 0);
  const auto at = static_cast<std::size_t>(&down - g.layers().data());
  const Lowered l = g.lower(1, Precision::bf16)[at], p = plain.lower(1, Precision::bf16)[at];
  ASSERT_EQ(l.forward.size(), p.forward.size() + 1);
  ASSERT_EQ(l.backward_data.size(), p.backward_data.size() + 1);
  EXPECT_EQ(l.forward[0].written.n, 2 * down.frozen_elements());
  EXPECT_NEAR(static_cast<double>(l.forward[0].read.n), static_cast<double>(down.frozen_elements()) * 0.516,
              1e4);
}

TEST(Adapter, DividesWithTheLayerItStandsBeside) {
  const Graph g = adapted(kSmall, "lora:rank=4,on=query+down"), part = g.slice({{}, 2, false});
  const auto share = [&](const std::string& name) {
    return static_cast<double>(named(part, name).parameter_elements()) /
           static_cast<double>(named(g, name).parameter_elements());
  };
  EXPECT_EQ(share("decoder.0.query.lora_a"), 1);
  EXPECT_EQ(share("decoder.0.query.lora_b"), 0.5);
  EXPECT_EQ(share("decoder.0.down.lora_a"), 0.5);
  EXPECT_EQ(share("decoder.0.down.lora_b"), 1);
  EXPECT_EQ(named(part, "decoder.0.query").frozen_elements() * 2,
            named(g, "decoder.0.query").frozen_elements());
}

TEST(Adapter, BesideExpertsIsDealtWithThem) {
  const Graph g = adapted("qwen3-30b-a3b:layers=1,sequence=64", "lora:rank=4,on=mlp"),
              part = g.slice({.experts = 8});
  const auto share = [&](std::string_view prefix) {
    int64_t whole = 0, own = 0;
    for (std::size_t i = 0; i < g.layers().size(); ++i) {
      for (const Parameter& p : g.layers()[i].parameters)
        whole += p.name.starts_with(prefix) ? p.elements : 0;
      for (const Parameter& p : part.layers()[i].parameters)
        own += p.name.starts_with(prefix) ? p.elements : 0;
    }
    return static_cast<double>(own) / static_cast<double>(whole);
  };
  EXPECT_EQ(share("adapter_gate_up"), 1.0 / 8);
  EXPECT_EQ(share("adapter_down"), 1.0 / 8);
  EXPECT_EQ(share("adapter_router"), 1);
  EXPECT_GT(flops(g.lower(1, Precision::bf16)[named(g, "decoder.0.down").inputs[0] + 1].backward_weights), 0);
}

TEST(Adapter, StoresExpertsWhereAsked) {
  const std::string small =
      "mixtral-8x7b:layers=1,hidden=64,heads=4,kv_heads=2,feed=128,vocabulary=64,sequence=8";
  const auto experts = [&](const char* adapter) {
    const Graph graph = adapted(small, adapter);
    for (const Layer& layer : graph.layers()) {
      if (layer.type != nullptr && layer.type->name == "experts") return layer.frozen_bits;
    }
    return -1.0;
  };
  EXPECT_EQ(experts("qlora:on=attention"), 0);
  EXPECT_DOUBLE_EQ(experts("qlora:on=attention,experts=stored,store=nf4"), 4.5);
  EXPECT_EQ(experts("lora:on=attention,experts=stored"), 0);  // nothing is stored in fewer bits
}

TEST(Adapter, IsReadAndWrittenAlike) {
  for (const char* text : {"lora:rank=16,on=attention+mlp", "qlora:rank=8,on=query,dropout=0.05",
                           "qlora:rank=8,on=head,store=half", "lora:rank=2,on=mlp,store=int8,inputs=kept",
                           "qlora:rank=8,on=attention,experts=stored"}) {
    EXPECT_EQ(to_text(parse_adapter(text, {})), text);
  }
}

void expect_refused(const std::function<void()>& what, const std::string& why) {
  try {
    what();
    ADD_FAILURE() << "not refused: " << why;
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(why));
  }
}

TEST(Adapter, NamesWhatItDoesNotFind) {
  expect_refused([] { parse_adapter("lorra:rank=8", {}); }, "Did you mean lora?");
  expect_refused([] { parse_adapter("lora:rank=0", {}); }, "rank");
  expect_refused([] { parse_adapter("lora:store=nf3", {}); }, "nf4");
  expect_refused([] { adapted("llama2-7b", "lora:on=qury"); }, "Did you mean query?");
  expect_refused([] { adapted("gpt2", "lora:on=attention+mpl"); }, "Did you mean mlp?");
  expect_refused([] { adapted("gpt2", "lora:on=attention+gate"); }, "\"gate\"");
  expect_refused([] { adapted("gpt-oss-20b", "lora:on=mlp"); }, "get no pairs");
  expect_refused([] { adapted("mixtral-8x7b", "lora:on=mlp,dropout=0.1"); }, "dropout");
  expect_refused([] { adapted("resnet50", "lora"); }, "no linear layer");
}

TEST(Frozen, LayersHaveNoGradients) {
  const Graph whole = Graph::load("resnet50"), g = with_frozen(whole, {"conv1", "stage1"}, {});
  EXPECT_EQ(g.parameter_elements() + g.frozen_elements(), whole.parameter_elements());
  const auto lowered = g.lower(4, Precision::fp32);
  for (std::size_t i = 0; i < g.layers().size(); ++i) {
    const Layer& l = g.layers()[i];
    if (l.name.starts_with("stage1."))
      EXPECT_TRUE(l.parameters.empty() && lowered[i].backward_weights.empty());
    if (l.name.starts_with("stage2.")) EXPECT_TRUE(l.frozen.empty());
  }
  expect_refused([&] { with_frozen(whole, {"stage9"}, {}); }, "layer");
  expect_refused(
      [&] {
        with_frozen(Graph::load("digits-mlp"), {"linear1", "linear2"}, {});
      },
      "left to learn");
}

TEST(Frozen, IsSaidInAModelFileToo) {
  const Graph g =
      Graph::from_json(Json::parse(R"({"name": "m", "summary": "", "inputs": {"x": [8]}, "layers": [
    {"type": "linear", "features": 4, "frozen": true, "stored": "int8"}, {"type": "linear", "features": 2},
    {"type": "mse"}]})",
                                   "test.json"));
  EXPECT_EQ(g.frozen_elements(), 36);
  EXPECT_EQ(g.layers()[1].frozen_bits, 8);
  EXPECT_EQ(g.parameter_elements(), 10);
}

}  // namespace
}  // namespace tandem::tests
