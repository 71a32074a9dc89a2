// SPDX-License-Identifier: Apache-2.0
// What each architecture of Hugging Face Transformers calls its sizes, and what it is made of.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "models/hf_layers.h"

namespace tandem::models {

namespace {

/// Sizes under the names that most architectures use.
Decoder sizes(const HfConfig& c) {
  Decoder d;
  d.layers = c.count({"num_hidden_layers", "n_layer", "n_layers"});
  d.hidden = c.count({"hidden_size", "n_embd", "d_model"});
  d.heads = c.count({"num_attention_heads", "n_head", "n_heads"});
  d.kv_heads = c.count({"num_key_value_heads"}, d.heads);
  if (d.hidden % d.heads != 0 && c.any({"head_dim"}) == nullptr)
    c.json().fail(
        fmt::format("{} heads do not divide a width of {}, and there is no \"head_dim\"", d.heads, d.hidden));
  d.head_dim = c.count({"head_dim"}, d.hidden / d.heads);
  d.feed = c.count({"intermediate_size", "ffn_dim", "n_inner"}, 4 * d.hidden);
  d.vocabulary = c.count({"vocab_size"});
  d.sequence =
      c.count({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"}, 2048);
  return d;
}

/// RMS norms, rotary positions, a gated feed-forward.
Decoder llama(const HfConfig& c) {
  Decoder d = sizes(c);
  d.activation = c.activation("silu");
  d.qkv_bias = d.out_bias = c.flag("attention_bias", false);
  d.feed_bias = c.flag("mlp_bias", false);
  d.tied = c.flag("tie_word_embeddings", false);
  return d;
}

Decoder qwen2(const HfConfig& c) {
  Decoder d = llama(c);
  d.qkv_bias = true;
  return d;
}

Decoder qwen3(const HfConfig& c) {
  Decoder d = llama(c);
  d.qk_norm = true;
  return d;
}

Decoder mixtral(const HfConfig& c) {
  Decoder d = llama(c);
  d.experts = c.count({"num_local_experts"});
  d.active = c.count({"num_experts_per_tok"});
  return d;
}

Decoder qwen3_moe(const HfConfig& c) {
  Decoder d = qwen3(c);
  d.experts = c.count({"num_experts"});
  d.active = c.count({"num_experts_per_tok"});
  d.normalized_scores = c.flag("norm_topk_prob", false);
  d.feed = c.count({"moe_intermediate_size"});
  const Json* dense = c.any({"mlp_only_layers"});
  if (c.count({"decoder_sparse_step"}, 1) != 1 || (dense != nullptr && !dense->items().empty()))
    c.json().fail("layers without experts among those with them are not understood");
  return d;
}

Decoder gemma(const HfConfig& c) {
  Decoder d = llama(c);
  d.activation = "gelu";
  d.tied = c.flag("tie_word_embeddings", true);
  return d;
}

Decoder gemma2(const HfConfig& c) {
  Decoder d = gemma(c);
  d.post_norms = true;
  return d;
}

Decoder gemma3(const HfConfig& c) {
  Decoder d = gemma2(c);
  d.qk_norm = true;
  return d;
}

Decoder cohere(const HfConfig& c) {
  Decoder d = llama(c);
  d.rms = d.norm_bias = false;
  if (c.flag("use_qk_norm", false))
    c.json().at("use_qk_norm").fail("norms of queries and keys are not understood");
  d.parallel = Decoder::Parallel::one_norm;
  d.tied = c.flag("tie_word_embeddings", true);
  return d;
}

Decoder stablelm(const HfConfig& c) {
  Decoder d = llama(c);
  d.rms = false;
  d.qkv_bias = c.flag("use_qkv_bias", false);
  if (c.flag("qk_layernorm", false))
    c.json().at("qk_layernorm").fail("norms of queries and keys are not understood");
  if (c.flag("use_parallel_residual", false)) d.parallel = Decoder::Parallel::one_norm;
  return d;
}

/// Layer norms, biases everywhere, a feed-forward without gate.
Decoder gpt(const HfConfig& c) {
  Decoder d = sizes(c);
  d.rms = d.gated = false;
  d.qkv_bias = d.out_bias = d.feed_bias = true;
  d.activation = c.activation("gelu");
  return d;
}

Decoder gpt2(const HfConfig& c) {
  Decoder d = gpt(c);
  d.rotary = false;
  d.positions = d.sequence;
  d.tied = c.flag("tie_word_embeddings", true);
  return d;
}

Decoder bigcode(const HfConfig& c) {
  Decoder d = gpt2(c);
  if (c.flag("multi_query", true)) d.kv_heads = 1;
  return d;
}

Decoder neox(const HfConfig& c) {
  Decoder d = gpt(c);
  if (c.flag("use_parallel_residual", true)) d.parallel = Decoder::Parallel::two_norms;
  d.tied = c.flag("tie_word_embeddings", false);
  return d;
}

Decoder gptj(const HfConfig& c) {
  Decoder d = gpt(c);
  d.parallel = Decoder::Parallel::one_norm;
  d.qkv_bias = d.out_bias = false;
  d.head_bias = true;
  d.tied = c.flag("tie_word_embeddings", false);
  return d;
}

Decoder phi(const HfConfig& c) {
  Decoder d = gpt(c);
  d.parallel = Decoder::Parallel::one_norm;
  d.head_bias = true;
  d.tied = c.flag("tie_word_embeddings", false);
  return d;
}

Decoder starcoder2(const HfConfig& c) {
  Decoder d = gpt(c);
  d.qkv_bias = d.out_bias = d.feed_bias = c.flag("use_bias", true);
  d.tied = c.flag("tie_word_embeddings", true);
  return d;
}

Decoder opt(const HfConfig& c) {
  Decoder d = gpt2(c);
  d.positions += 2;  // of padding
  d.activation = c.activation("relu");
  if (c.count({"word_embed_proj_dim"}, d.hidden) != d.hidden || !c.flag("do_layer_norm_before", true))
    c.json().fail("OPT with its norms behind the layers and projected embeddings is the model opt-350m");
  return d;
}

Decoder bloom(const HfConfig& c) {
  Decoder d = gpt(c);
  d.rotary = false;
  d.embedding_norm = true;
  d.tied = c.flag("tie_word_embeddings", true);
  return d;
}

Decoder falcon(const HfConfig& c) {
  Decoder d = gpt(c);
  const bool decoder = c.flag("new_decoder_architecture", false);
  d.qkv_bias = d.out_bias = d.feed_bias = c.flag("bias", false);
  d.kv_heads = decoder ? c.count({"num_kv_heads"}, d.heads) : c.flag("multi_query", true) ? 1 : d.heads;
  d.rotary = !c.flag("alibi", false);
  if (decoder)
    d.parallel = Decoder::Parallel::two_norms;
  else if (c.flag("parallel_attn", true))
    d.parallel = Decoder::Parallel::one_norm;
  d.tied = c.flag("tie_word_embeddings", true);
  return d;
}

Decoder mpt(const HfConfig& c) {
  Decoder d = gpt(c);
  const bool bias = !c.flag("no_bias", true);
  d.qkv_bias = d.out_bias = d.feed_bias = d.norm_bias = bias;
  d.feed = d.hidden * c.count({"expansion_ratio"}, 4);
  const Json* attention = c.any({"attn_config"});
  const bool alibi = attention != nullptr && attention->boolean("alibi", false);
  d.rotary = false;
  d.positions = alibi ? 0 : d.sequence;
  d.tied = c.flag("tie_word_embeddings", true);
  return d;
}

/// Low-rank queries, keys and values; experts beside shared ones behind the first layers.
Decoder deepseek(const HfConfig& c) {
  Decoder d = llama(c);
  const int64_t nope = c.count({"qk_nope_head_dim"});
  d.rope_dim = c.count({"qk_rope_head_dim"});
  d.head_dim = nope + d.rope_dim;
  d.value_dim = c.count({"v_head_dim"});
  d.kv_rank = c.count({"kv_lora_rank"});
  d.query_rank = c.count({"q_lora_rank"}, 0);
  d.kv_heads = d.heads;
  d.experts = c.count({"n_routed_experts"});
  d.active = c.count({"num_experts_per_tok"});
  d.dense_feed = d.feed;
  d.feed = c.count({"moe_intermediate_size"});
  d.shared = d.feed * c.number({"n_shared_experts"}, 0);
  d.dense_layers = c.number({"first_k_dense_replace"}, 0);
  const Json *score = c.any({"scoring_func"}), *scale = c.any({"routed_scaling_factor"});
  d.sigmoid_scores = score != nullptr && score->as_text() == "sigmoid";
  d.normalized_scores = c.flag("norm_topk_prob", false);
  if (scale != nullptr) d.scale_percent = std::llround(100 * scale->as_real(0.01, 1e6));
  if (d.dense_layers > d.layers || c.count({"moe_layer_freq"}, 1) != 1)
    c.json().fail("layers without experts behind those with them are not understood");
  return d;
}

Decoder gpt_oss(const HfConfig& c) {
  Decoder d = llama(c);
  d.qkv_bias = d.out_bias = c.flag("attention_bias", true);
  d.experts = c.count({"num_local_experts"});
  d.active = c.count({"num_experts_per_tok", "experts_per_token"});
  d.expert_bias = d.sinks = true;
  d.gate_limit = 7;
  d.window = c.count({"sliding_window"}, 128);
  return d;
}

EncoderDecoder t5(const HfConfig& c) {
  EncoderDecoder m;
  m.encoders = c.count({"num_layers"});
  m.decoders = c.count({"num_decoder_layers"}, m.encoders);
  m.hidden = c.count({"d_model"});
  m.heads = c.count({"num_heads"});
  m.head_dim = c.count({"d_kv"});
  m.feed = c.count({"d_ff"});
  m.vocabulary = c.count({"vocab_size"});
  m.sequence = c.count({"n_positions"}, 512);
  m.buckets = c.count({"relative_attention_num_buckets"}, 32);
  const Json* feed = c.any({"feed_forward_proj"});
  const std::string text = feed != nullptr ? feed->as_text() : "relu";
  if (text != "relu" && text != "gated-gelu")
    feed->fail(fmt::format("feed-forward \"{}\" is unknown; known: relu, gated-gelu", printable(text)));
  m.gated = text == "gated-gelu";
  m.activation = m.gated ? "gelu" : "relu";
  m.tied = c.flag("tie_word_embeddings", true);
  return m;
}

constexpr HfArchitecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", llama},
    {"MistralForCausalLM", "mistral", llama},
    {"Qwen2ForCausalLM", "qwen2", qwen2},
    {"Qwen3ForCausalLM", "qwen3", qwen3},
    {"MixtralForCausalLM", "mixtral", mixtral},
    {"Qwen3MoeForCausalLM", "qwen3_moe", qwen3_moe},
    {"DeepseekV2ForCausalLM", "deepseek_v2", deepseek},
    {"DeepseekV3ForCausalLM", "deepseek_v3", deepseek},
    {"GptOssForCausalLM", "gpt_oss", gpt_oss},
    {"GemmaForCausalLM", "gemma", gemma},
    {"Gemma2ForCausalLM", "gemma2", gemma2},
    {"Gemma3ForCausalLM", "gemma3_text", gemma3},
    {"CohereForCausalLM", "cohere", cohere},
    {"Phi3ForCausalLM", "phi3", llama},
    {"GraniteForCausalLM", "granite", llama},
    {"StableLmForCausalLM", "stablelm", stablelm},
    {"GPT2LMHeadModel", "gpt2", gpt2},
    {"GPTBigCodeForCausalLM", "gpt_bigcode", bigcode},
    {"GPTNeoXForCausalLM", "gpt_neox", neox},
    {"GPTJForCausalLM", "gptj", gptj},
    {"PhiForCausalLM", "phi", phi},
    {"Starcoder2ForCausalLM", "starcoder2", starcoder2},
    {"OPTForCausalLM", "opt", opt},
    {"BloomForCausalLM", "bloom", bloom},
    {"FalconForCausalLM", "falcon", falcon},
    {"MptForCausalLM", "mpt", mpt},
    {"T5ForConditionalGeneration", "t5", nullptr, t5},
    {"T5WithLMHeadModel", "t5", nullptr, t5},
    {"MPTForCausalLM", "mpt", mpt},  // as its own repository spells it
    {"BertForMaskedLM", "bert", nullptr, nullptr, hf_bert},
    {"RobertaForMaskedLM", "roberta", nullptr, nullptr, hf_roberta},
    {"DistilBertForMaskedLM", "distilbert", nullptr, nullptr, hf_distilbert},
    {"ViTForImageClassification", "vit", nullptr, nullptr, hf_vit},
};

}  // namespace

const HfArchitecture& hf_architecture_of(const Json& config) {
  const Json* named = config.find("architectures");
  const Json* type = config.find("model_type");
  const bool has_name = named != nullptr && !named->items().empty();
  if (!has_name && type == nullptr) config.fail("neither \"architectures\" nor \"model_type\" names one");
  const Json& where = has_name ? named->items()[0] : *type;
  std::vector<std::string> names;
  for (const HfArchitecture& a : kArchitectures) {
    if (where.as_text() == a.name) return a;
    names.emplace_back(a.name);
  }
  for (const HfArchitecture& a : kArchitectures) {  // the bare model, as GPT-2's config names it
    if (type != nullptr && type->as_text() == a.type && where.as_text().ends_with("Model")) return a;
    if (&where == type && type->as_text() == a.type) return a;
  }
  where.fail(fmt::format("architecture \"{}\" is not understood.{} Known: {}", printable(where.as_text()),
                         did_you_mean(where.as_text(), names), fmt::join(names, ", ")));
}

}  // namespace tandem::models
