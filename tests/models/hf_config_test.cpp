// SPDX-License-Identifier: Apache-2.0
// config.json of Transformers: models with as many parameters as their released checkpoints hold.
#include <gmock/gmock.h>

#include <algorithm>

#include "models/graph.h"
#include "models/import/hf/config.h"
#include "models/import/importer.h"

namespace tandem::tests {
namespace {

using models::Graph;
using models::is_hf_config;
using models::model_of_hf_config;
using testing::HasSubstr;

struct Released {
  const char* name;
  int64_t parameters;  ///< of the checkpoint, tied ones once
  const char* config;  ///< what of its config.json tells the shapes
};

std::ostream& operator<<(std::ostream& out, const Released& r) { return out << r.name; }

#define LLAMA R"("architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", )"
#define QWEN R"("architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", )"
#define QWEN3 \
  R"("architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "attention_bias": false, )"
#define NEOX \
  R"("architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_act": "gelu", "tie_word_embeddings": false, )"
#define BLOOM R"("architectures": ["BloomForCausalLM"], "model_type": "bloom", "vocab_size": 250880, )"
#define GPT2 \
  R"("architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, )"
#define OPT \
  R"("architectures": ["OPTForCausalLM"], "model_type": "opt", "vocab_size": 50272, "activation_function": "relu", "do_layer_norm_before": true, "max_position_embeddings": 2048, )"

const Released kReleased[] = {
    {"llama-2-7b", 6738415616,
     LLAMA
     R"("hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "tie_word_embeddings": false)"},
    {"llama-2-13b", 13015864320,
     LLAMA
     R"("hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 40, "num_attention_heads": 40, "vocab_size": 32000)"},
    {"llama-2-70b", 68976648192,
     LLAMA
     R"("hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 32000)"},
    {"llama-3-8b", 8030261248,
     LLAMA
     R"("hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256)"},
    {"llama-3-70b", 70553706496,
     LLAMA
     R"("hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256)"},
    {"llama-3.1-405b", 405853388800,
     LLAMA
     R"("hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256)"},
    {"llama-3.2-1b", 1235814400,
     LLAMA
     R"("hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": true)"},
    {"llama-3.2-3b", 3212749824,
     LLAMA
     R"("hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "tie_word_embeddings": true)"},
    {"tinyllama-1.1b", 1100048384,
     LLAMA
     R"("hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000)"},
    {"smollm-135m", 134515008,
     LLAMA
     R"("hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": true)"},
    {"mistral-7b", 7241732096,
     R"("architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096)"},
    {"qwen2.5-0.5b", 494032768,
     QWEN
     R"("hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true)"},
    {"qwen2.5-1.5b", 1543714304,
     QWEN
     R"("hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true)"},
    {"qwen2.5-3b", 3085938688,
     QWEN
     R"("hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true)"},
    {"qwen2.5-7b", 7615616512,
     QWEN
     R"("hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": false)"},
    {"qwen2.5-14b", 14770033664,
     QWEN
     R"("hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064)"},
    {"qwen2.5-32b", 32763876352,
     QWEN
     R"("hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064)"},
    {"qwen2.5-72b", 72706203648,
     QWEN
     R"("hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064)"},
    {"mixtral-8x7b", 46702792704,
     R"("architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2)"},
    {"qwen3-30b-a3b", 30532122624,
     R"("architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [])"},
    {"qwen3-235b-a22b", 235093634560,
     R"("architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8)"},
    {"deepseek-v2", 235741434880,
     R"("architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_act": "silu", "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512, "vocab_size": 102400, "max_position_embeddings": 4096, "hidden_size": 5120, "num_hidden_layers": 60, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "intermediate_size": 12288, "moe_intermediate_size": 1536, "n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1)"},
    {"deepseek-v2-lite", 15706484224,
     R"("architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_act": "silu", "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512, "vocab_size": 102400, "max_position_embeddings": 4096, "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": null, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1)"},
    {"deepseek-v3", 671026404352,
     R"("architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_act": "silu", "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512, "vocab_size": 129280, "max_position_embeddings": 4096, "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3)"},
    {"gpt-oss-20b", 20914757184,
     R"("architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_act": "silu", "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128, "attention_bias": true, "tie_word_embeddings": false, "max_position_embeddings": 131072, "num_hidden_layers": 24, "num_local_experts": 32)"},
    {"gpt-oss-120b", 116829156672,
     R"("architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_act": "silu", "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_experts_per_tok": 4, "vocab_size": 201088, "sliding_window": 128, "attention_bias": true, "tie_word_embeddings": false, "max_position_embeddings": 131072, "num_hidden_layers": 36, "num_local_experts": 128)"},
    {"t5-small", 60506624,
     R"("architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_kv": 64, "vocab_size": 32128, "n_positions": 512, "d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8)"},
    {"t5-base", 222903552,
     R"("architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_kv": 64, "vocab_size": 32128, "n_positions": 512, "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12)"},
    {"t5-large", 737668096,
     R"("architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_kv": 64, "vocab_size": 32128, "n_positions": 512, "d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16)"},
    {"flan-t5-base", 247577856,
     R"("architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_kv": 64, "vocab_size": 32128, "n_positions": 512, "d_model": 768, "d_ff": 2048, "num_layers": 12, "num_heads": 12, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)"},
    {"qwen3-0.6b", 596049920,
     QWEN3
     R"("hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": true)"},
    {"qwen3-4b", 4022468096,
     QWEN3
     R"("hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": true)"},
    {"qwen3-8b", 8190735360,
     QWEN3
     R"("hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": false)"},
    {"qwen3-14b", 14768307200,
     QWEN3
     R"("hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936)"},
    {"qwen3-32b", 32762123264,
     QWEN3
     R"("hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936)"},
    {"gemma-2-2b", 2614341888,
     R"("architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000)"},
    {"gemma-2-9b", 9241705984,
     R"("architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000)"},
    {"gemma-2-27b", 27227128320,
     R"("architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864, "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 256000)"},
    {"gemma-3-1b", 999885952,
     R"("architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144)"},
    {"command-r", 34980831232,
     R"("architectures": ["CohereForCausalLM"], "model_type": "cohere", "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 22528, "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 64, "vocab_size": 256000)"},
    {"gemma-2b", 2506172416,
     R"("architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_act": "gelu", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000)"},
    {"gemma-7b", 8537680896,
     R"("architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "vocab_size": 256000)"},
    {"phi-3-mini", 3821079552, R"("architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064)"},
    {"stablelm-3b-4e1t", 2795443200,
     R"("architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "hidden_act": "silu", "hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 50304, "use_qkv_bias": false)"},
    {"stablelm-2-1.6b", 1644515328,
     R"("architectures": ["StableLmForCausalLM"], "model_type": "stablelm", "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 100352, "use_qkv_bias": true)"},
    {"gpt2", 124439808, GPT2 R"("n_embd": 768, "n_layer": 12, "n_head": 12)"},
    {"gpt2-medium", 354823168, GPT2 R"("n_embd": 1024, "n_layer": 24, "n_head": 16)"},
    {"gpt2-large", 774030080, GPT2 R"("n_embd": 1280, "n_layer": 36, "n_head": 20)"},
    {"gpt2-xl", 1557611200, GPT2 R"("n_embd": 1600, "n_layer": 48, "n_head": 25, "n_inner": null)"},
    {"starcoder", 15517456384,
     R"("architectures": ["GPTBigCodeForCausalLM"], "model_type": "gpt_bigcode", "activation_function": "gelu", "n_embd": 6144, "n_layer": 40, "n_head": 48, "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152, "multi_query": true)"},
    {"pythia-70m", 70426624,
     NEOX
     R"("hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8, "vocab_size": 50304)"},
    {"pythia-160m", 162322944,
     NEOX
     R"("hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50304)"},
    {"pythia-410m", 405334016,
     NEOX
     R"("hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 50304)"},
    {"pythia-1.4b", 1414647808,
     NEOX
     R"("hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 50304)"},
    {"pythia-2.8b", 2775208960,
     NEOX
     R"("hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 50304)"},
    {"pythia-6.9b", 6857302016,
     NEOX
     R"("hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 50432)"},
    {"pythia-12b", 11846072320,
     NEOX
     R"("hidden_size": 5120, "intermediate_size": 20480, "num_hidden_layers": 36, "num_attention_heads": 40, "vocab_size": 50688)"},
    {"gpt-neox-20b", 20554567680,
     NEOX
     R"("hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432)"},
    {"gpt-j-6b", 6050882784,
     R"("architectures": ["GPTJForCausalLM"], "model_type": "gptj", "activation_function": "gelu_new", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_inner": null, "n_positions": 2048, "vocab_size": 50400, "tie_word_embeddings": false)"},
    {"phi-1.5", 1418270720,
     R"("architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "num_attention_heads": 32, "vocab_size": 51200)"},
    {"phi-2", 2779683840,
     R"("architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 51200)"},
    {"starcoder2-3b", 3030371328,
     R"("architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh", "hidden_size": 3072, "intermediate_size": 12288, "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2, "vocab_size": 49152)"},
    {"starcoder2-7b", 7173923840,
     R"("architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh", "hidden_size": 4608, "intermediate_size": 18432, "num_hidden_layers": 32, "num_attention_heads": 36, "num_key_value_heads": 4, "vocab_size": 49152)"},
    {"opt-125m", 125239296,
     OPT R"("hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12)"},
    {"opt-1.3b", 1315758080,
     OPT R"("hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 24, "num_attention_heads": 32)"},
    {"opt-2.7b", 2651596800,
     OPT R"("hidden_size": 2560, "ffn_dim": 10240, "num_hidden_layers": 32, "num_attention_heads": 32)"},
    {"opt-6.7b", 6658473984,
     OPT R"("hidden_size": 4096, "ffn_dim": 16384, "num_hidden_layers": 32, "num_attention_heads": 32)"},
    {"bloom-560m", 559214592, BLOOM R"("n_embed": 1024, "hidden_size": 1024, "n_layer": 24, "n_head": 16)"},
    {"bloom-1b1", 1065314304, BLOOM R"("hidden_size": 1536, "n_layer": 24, "n_head": 16)"},
    {"bloom-1b7", 1722408960, BLOOM R"("hidden_size": 2048, "n_layer": 24, "n_head": 16)"},
    {"bloom-3b", 3002557440, BLOOM R"("hidden_size": 2560, "n_layer": 30, "n_head": 32)"},
    {"bloom-7b1", 7069016064, BLOOM R"("hidden_size": 4096, "n_layer": 30, "n_head": 32)"},
    {"bloom", 176247271424, BLOOM R"("hidden_size": 14336, "n_layer": 70, "n_head": 112)"},
    {"falcon-7b", 6921720704,
     R"("architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": true, "parallel_attn": true, "bias": false, "alibi": false, "vocab_size": 65024)"},
    {"mpt-7b", 6649286656,
     R"("architectures": ["MPTForCausalLM"], "model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "expansion_ratio": 4, "max_seq_len": 2048, "vocab_size": 50432, "no_bias": true, "attn_config": {"alibi": true})"},
    {"bert-base-uncased", 109514298,
     R"("architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522, "type_vocab_size": 2, "max_position_embeddings": 512, "position_embedding_type": "absolute")"},
    {"roberta-base", 124697433,
     R"("architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50265, "type_vocab_size": 1, "max_position_embeddings": 514)"},
    {"distilbert-base-uncased", 66985530,
     R"("architectures": ["DistilBertForMaskedLM"], "model_type": "distilbert", "activation": "gelu", "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512)"},
    {"vit-base-patch16", 85800194,  // of two classes
     R"("architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "image_size": 224, "patch_size": 16, "num_channels": 3, "id2label": {"0": "no", "1": "yes"})"},
};

Json parsed(const std::string& config) { return Json::parse("{" + config + "}", "config.json"); }

class HfConfig : public testing::TestWithParam<Released> {};

TEST_P(HfConfig, HasTheReleasedParameters) {
  const Json config = parsed(GetParam().config);
  EXPECT_TRUE(is_hf_config(config));
  EXPECT_EQ(Graph::from_json(model_of_hf_config(config)).parameter_elements(), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, HfConfig, testing::ValuesIn(kReleased));

/// The same layers as the zoo's file of the model, and so the same work.
TEST(HfConfigs, ComputeAsTheZooDoes) {
  const std::pair<const char*, const char*> pairs[] = {
      {"llama-2-7b", "llama2-7b"}, {"llama-3-8b", "llama3-8b"}, {"gpt2-xl", "gpt2-xl"}};
  for (const auto& [released, name] : pairs) {
    const bool gpt = std::string_view(name).starts_with("gpt2");
    const char* config =
        std::find_if(std::begin(kReleased), std::end(kReleased), [&released = released](const Released& r) {
          return std::string_view(r.name) == released;
        })->config;
    const Graph imported = Graph::from_json(model_of_hf_config(parsed(config)));
    const Graph zoo = Graph::load(std::string(name) + (gpt ? "" : ":sequence=2048"));
    EXPECT_EQ(imported.forward_flops().n, zoo.forward_flops().n) << name;
    if (gpt) continue;  // 50,257 words divide by nothing
    EXPECT_NO_THROW(imported.slice({{}, 8, true})) << name << ": its layers say how they split";
  }
}

/// Of DeepSeek-V2-Lite: what a token passes through, 2.4 billion parameters of 15.7 (its model card), scores
/// of 192 and values of 128 for each head; and each of two devices that share its layers makes half of it.
TEST(HfConfigs, LatentAttentionAndSharedExpertsComputeWhatTheyShould) {
  const auto at = std::find_if(std::begin(kReleased), std::end(kReleased), [](const Released& r) {
    return std::string_view(r.name) == "deepseek-v2-lite";
  });
  const Graph graph = Graph::from_json(model_of_hf_config(parsed(at->config)));
  const int64_t h = 2048, s = 4096, heads = 16;
  const int64_t attention = h * heads * 192 + h * (512 + 64) + 512 * heads * 256 + heads * 128 * h;
  const int64_t dense = 3 * h * 10944, experts = h * 64 + 3 * h * 1408 * (6 + 2);
  const int64_t weights = 27 * attention + dense + 26 * experts + h * 102400;
  EXPECT_EQ(graph.forward_flops().n, 2 * s * weights + 27 * 2 * s * s * heads * (192 + 128));
  const Graph half = graph.slice({{}, 2, true});
  EXPECT_LT(half.parameter_elements(), graph.parameter_elements() * 51 / 100);
}

/// GPT-OSS's first layer sees 128 keys, its second all of them.
TEST(HfConfigs, EveryOtherLayerHasAWindow) {
  const auto at = std::find_if(std::begin(kReleased), std::end(kReleased),
                               [](const Released& r) { return std::string_view(r.name) == "gpt-oss-20b"; });
  const Graph graph = Graph::from_json(model_of_hf_config(parsed(at->config)));
  std::vector<int64_t> keys;
  for (const auto& lowered : graph.lower(1, Precision::bf16)) {
    for (const auto& k : lowered.forward) {
      if (k.kind == models::KernelKind::attention) keys.push_back(k.shape[4]);
    }
  }
  ASSERT_EQ(keys.size(), 24U);
  EXPECT_EQ(keys[0], 128);
  EXPECT_EQ(keys[1], 8192);
  EXPECT_EQ(keys[22], 128);
}

std::string refusal(const std::string& config) {
  try {
    model_of_hf_config(parsed(config));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(HfConfigs, WhatIsNotUnderstoodIsRefusedByName) {
  EXPECT_THAT(
      refusal(R"("architectures": ["JambleForCausalLM"])"),
      testing::AllOf(HasSubstr("config.json:1:"), HasSubstr("\"JambleForCausalLM\" is not understood"),
                     HasSubstr("types are: models/import/hf/types")));
  EXPECT_THAT(refusal(R"("model_type": "gemma9_text")"), HasSubstr("Similar names: gemma, gemma2"));
  EXPECT_THAT(
      refusal(R"("model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 5,
                         "vocab_size": 10)"),
      HasSubstr("\"=hidden_size/num_attention_heads\" does not divide evenly: 64 / 5"));
  EXPECT_THAT(refusal(R"("model_type": "llama", "num_hidden_layers": -2)"), HasSubstr("-2"));
  EXPECT_THAT(
      refusal(R"("model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
                         "vocab_size": 10, "hidden_act": "sine")"),
      HasSubstr("\"sine\""));
  EXPECT_THAT(refusal(R"("model_type": "vit", "num_hidden_layers": 2, "hidden_size": 64,
                         "num_attention_heads": 4, "image_size": 8)"),
              HasSubstr("a patch is larger than a picture"));
  EXPECT_THAT(refusal(R"("model_type": "roberta", "num_hidden_layers": 2, "hidden_size": 64,
                         "num_attention_heads": 4, "vocab_size": 9, "max_position_embeddings": 2)"),
              HasSubstr("max_position_embeddings is 0; it must lie between 1 and"));
  EXPECT_THAT(refusal(R"("model_type": "bert", "num_hidden_layers": 2, "hidden_size": 64,
                         "num_attention_heads": 4, "vocab_size": 9, "hidden_act": "mish")"),
              HasSubstr("activation \"mish\" is not understood"));
  EXPECT_THAT(refusal(R"("architectures": [])"), HasSubstr("model_type"));
  EXPECT_THAT(refusal(R"("architectures": 5)"), HasSubstr("list"));
  EXPECT_FALSE(is_hf_config(parsed(R"("name": "m", "layers": [], "model_type": "x")")));
}

int64_t count(const std::string& config) {
  return Graph::from_json(model_of_hf_config(parsed(config))).parameter_elements();
}

/// Counts of transformers 5.23.0 on its meta device.
TEST(HfConfigs, AFieldLeftOutIsWhatTheClassTakes) {
  EXPECT_EQ(
      count(R"("model_type": "gemma2", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
                     "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000)"),
      8124672);
  EXPECT_EQ(count(R"("model_type": "llama")"), 6738415616);
  EXPECT_EQ(count(R"("model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 256,
                     "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 1000, "ffn_hidden_size": 512)"),
            1896960);
}

TEST(HfConfigs, OneFieldHasSeveralNames) {
  const std::string rest =
      R"("architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 256,
     "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
     "moe_intermediate_size": 64, "num_experts_per_tok": 8, "vocab_size": 1000, )";
  EXPECT_EQ(count(rest + R"("num_local_experts": 8)"), count(rest + R"("num_experts": 8)"));
  EXPECT_THAT(refusal(rest + R"("num_local_experts": 8, "num_experts": 9)"),
              HasSubstr("are one field, but they differ"));
  EXPECT_THAT(refusal(R"("model_type": "llama", "num_experts": 9)"),
              HasSubstr("\"num_experts\": 9 is no field of \"llama\""));
}

TEST(HfConfigs, TheBareModelHasNoOutputLayer) {
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100)";
  EXPECT_EQ(count(R"("model_type": "llama", "architectures": ["LlamaForCausalLM"], )" + sizes) -
                count(R"("model_type": "llama", "architectures": ["LlamaModel"], )" + sizes),
            6400);
  EXPECT_THAT(models::hf_config_document(parsed(R"("model_type": "llama", "architectures": ["LlamaModel"])")),
              HasSubstr("no output layer"));
  EXPECT_THAT(refusal(R"("model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"])"),
              HasSubstr("not with this output layer"));
}

/// The widths of a layer's queries, keys and products: what the text part of a model that also sees is made
/// of.
TEST(HfConfigs, OfModelsThatSeeTheTextPartIsRead) {
  const std::string text =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 128, "vocab_size": 100, "head_dim": 16)";
  const int64_t alone = count(R"("model_type": "gemma3_text", )" + text);
  const std::string whole = R"("architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
      "vision_config": {"hidden_size": 32}, "text_config": {"model_type": "gemma3_text", )" +
                            text + "}";
  EXPECT_EQ(count(whole), alone);
  EXPECT_EQ(models::left_out_of_hf_config(Graph::from_json(model_of_hf_config(parsed(whole))).summary()),
            "Gemma3ForConditionalGeneration: its text part; what sees or hears is left out");
  EXPECT_EQ(count(R"("model_type": "qwen2_5_vl", "vision_config": {"depth": 3}, "tie_word_embeddings": true,
                     "image_token_id": 9, )" +
                  text.substr(0, text.find(", \"head_dim\""))),
            count(R"("model_type": "qwen2", "tie_word_embeddings": true, )" +
                  text.substr(0, text.find(", \"head_dim\""))));
}

std::vector<int64_t> keys_of(const std::string& config) {
  std::vector<int64_t> out;
  const Graph graph = Graph::from_json(model_of_hf_config(parsed(config)));
  for (const auto& lowered : graph.lower(1, Precision::bf16)) {
    for (const auto& k : lowered.forward) {
      if (k.kind == models::KernelKind::attention) out.push_back(k.shape[4]);
    }
  }
  return out;
}

TEST(HfConfigs, WindowsFollowTheTypeAndTheConfig) {
  const std::string sizes =
      R"("num_hidden_layers": 4, "max_position_embeddings": 1024, "sliding_window": 64)";
  EXPECT_THAT(keys_of(R"("model_type": "mistral", )" + sizes), testing::ElementsAre(64, 64, 64, 64));
  EXPECT_THAT(keys_of(R"("model_type": "gemma2", )" + sizes), testing::ElementsAre(64, 1024, 64, 1024));
  EXPECT_THAT(keys_of(R"("model_type": "olmo3", )" + sizes), testing::ElementsAre(64, 64, 64, 1024));
  EXPECT_THAT(keys_of(R"("model_type": "qwen2", )" + sizes), testing::ElementsAre(1024, 1024, 1024, 1024));
  EXPECT_THAT(keys_of(R"("model_type": "gpt_oss", "layer_types": ["full_attention", "sliding_attention",
                         "full_attention", "sliding_attention"], )" +
                      sizes),
              testing::ElementsAre(1024, 64, 1024, 64));
}

TEST(HfConfigs, AttentionIsWhatTheLibraryRuns) {
  const auto fused = [](const std::string& config) {
    return Json::parse(models::hf_config_document(parsed(config)), "model")
        .at("parameters")
        .integer("fused", -1);
  };
  EXPECT_EQ(fused(R"("model_type": "llama")"), 1);
  EXPECT_EQ(fused(R"("model_type": "llama", "_attn_implementation": "eager")"), 0);
  EXPECT_EQ(fused(R"("model_type": "gptj")"), 0);
  EXPECT_EQ(fused(R"("model_type": "gptj", "attn_implementation": "flash_attention_2")"), 1);
  EXPECT_THAT(models::hf_config_document(parsed(R"("model_type": "phi", "hidden_act": "gelu_new")")),
              HasSubstr("\"composed\": true"));
  EXPECT_THAT(models::hf_config_document(parsed(R"("model_type": "phi", "hidden_act": "gelu_pytorch_tanh")")),
              testing::Not(HasSubstr("composed")));
}

/// The convolution of those with a state also makes what is cut off.
/// Forward FLOPs of six layers and 512 tokens, as FlopCounterMode of torch 2.15.0 counts them on
/// transformers 5.23.0.
TEST(HfConfigs, ProductsAreThoseOfTheLibrary) {
  const auto flops = [](const char* type) {
    const Json config =
        parsed(std::string(R"("num_hidden_layers": 6, "max_position_embeddings": 512, "model_type": ")") +
               type + "\"");
    return Graph::from_json(model_of_hf_config(config)).forward_flops().n;
  };
  EXPECT_EQ(flops("smollm3"), 761819824128);
  EXPECT_EQ(flops("olmo2"), 1480153104384);
  EXPECT_EQ(flops("glm4"), 1914481672192);
  EXPECT_EQ(flops("seed_oss"), 3369401843712);
  EXPECT_EQ(flops("minimax_m2"), 1639201112064);
  EXPECT_EQ(flops("olmoe"), 840739848192);
  EXPECT_EQ(flops("cohere2"), 7249904795648);
  EXPECT_EQ(flops("exaone4"), 2104533975040);
  EXPECT_EQ(flops("ernie4_5_moe"), 964522147840);
  EXPECT_EQ(flops("mixtral"), 2582550413312);
  EXPECT_EQ(flops("deepseek_v3"), 4668226797568);
  EXPECT_EQ(flops("lfm2"), 675115171840);
  EXPECT_EQ(flops("minimax"), 2708178206720);
  EXPECT_EQ(flops("gemma3_text"), 1109863170048);
  EXPECT_NEAR(static_cast<double>(flops("qwen3_next")) / 754619187200, 1, 1e-5);
  EXPECT_NEAR(static_cast<double>(flops("kimi_linear")) / 1030500024320, 1, 1e-5);
  EXPECT_NEAR(static_cast<double>(flops("olmo_hybrid")) / 1704828672000, 1, 1e-5);
}

TEST(HfConfigs, PythonsJsonIsRead) {
  const std::string text =
      R"({"architectures": null, "model_type": "llama", "a": [Infinity, -Infinity, NaN, "NaN\" Infinity"]})";
  const Json config = Json::parse(models::without_infinity(text), "config.json");
  EXPECT_EQ(Graph::from_json(model_of_hf_config(config)).parameter_elements(), 6738415616);
}

/// As the library's classes check: true is no number, although Python would count it as 1.
TEST(HfConfigs, ABooleanIsNoNumber) {
  EXPECT_THAT(refusal(R"("model_type": "llama", "num_hidden_layers": true)"),
              HasSubstr("\"num_hidden_layers\": expected a number as 32, not true"));
  EXPECT_THAT(refusal(R"("model_type": "llama", "num_key_value_heads": true)"),
              HasSubstr("\"num_key_value_heads\": expected a whole number, not true"));
}

/// AutoConfig refuses such a file, unless it comes with code that has the type.
TEST(HfConfigs, AnUnknownTypeOfAKnownClassComesWithItsCode) {
  EXPECT_THAT(refusal(R"("architectures": ["LlamaForCausalLM"], "model_type": "lama")"),
              HasSubstr("model_type \"lama\" is unknown; the type of LlamaForCausalLM is \"llama\""));
  const Json config = parsed(
      R"("architectures": ["LlamaForCausalLM"], "model_type": "lama", "auto_map": {"AutoConfig": "x.Lama"})");
  EXPECT_EQ(Graph::from_json(model_of_hf_config(config)).parameter_elements(), 6738415616);
}

TEST(ModelImporters, RecogniseTheirFormatsOnly) {
  const ModelImporter& reader = models::import_registry().at("hf-config");
  EXPECT_TRUE(reader.recognises(R"({"model_type": "llama", "a": NaN})"));
  for (const char* other :
       {"", "{", "\x08\x07", R"({"model_type": "llama")", R"({"layers": [], "model_type": 1})"})
    EXPECT_FALSE(reader.recognises(other)) << other;
  EXPECT_EQ(Graph::from_text(R"({"model_type": "llama", "a": NaN})", "model").name(), "config");
}

TEST(HfConfigs, AHintIsTheSameNameSpelledOtherwise) {
  EXPECT_THAT(refusal(R"("architectures": ["LlamaForCasualLM"])"),
              HasSubstr("Did you mean LlamaForCausalLM?"));
  EXPECT_THAT(refusal(R"("architectures": ["Llama9ForCausalLM"])"), testing::Not(HasSubstr("Did you mean")));
  EXPECT_THAT(refusal(R"("architectures": ["GPTNeoYForCausalLM"])"), testing::Not(HasSubstr("Did you mean")));
}

}  // namespace
}  // namespace tandem::tests
