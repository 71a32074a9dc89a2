// SPDX-License-Identifier: Apache-2.0
#pragma once
// The result of reading a config of Hugging Face Transformers: shared by the readers and the writers of the
// model (config.cpp).
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "models/import/hf/fields.h"

namespace tandem::models {

/// The differences between decoder-only transformers: each member is a key of a row's "model"
/// (decoder_rows.cpp).
struct Decoder {
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, feed = 0, vocabulary = 0,
          sequence = 0;
  int64_t positions = 0;  ///< learned ones; 0: rotary or none
  bool fused = true;      ///< attention, by default
  bool rotary = true;
  bool causal = true;
  std::string norm = "rms";  ///< or "layer", "layer-no-bias", "layer-plain"
  bool qkv_bias = false, out_bias = false, feed_bias = false, head_bias = false;
  bool gated = true;  ///< feed-forward: activation(gate) x up
  /// One matrix in the library: query, key and value; gate and up. Adapters follow the library's matrices.
  bool packed_qkv = false, packed_gate = false;
  int64_t expert_pairs =
      0;  ///< where PEFT puts pairs of experts: 0 on them and their router, 1 on none, 2 on the router
  std::string activation = "silu";
  /// Attention and feed-forward both read the block's input: 1 after one shared norm, 2 after a norm each.
  int64_t parallel = 0;
  bool tied = false, embedding_norm = false, final_norm = true, head = true;
  bool fp32_norm = false;                     ///< norms multiply by their scale in fp32 and keep the product
  bool pre_norms = true, post_norms = false;  ///< before and after attention and feed-forward
  bool after_norms = false;                   ///< after the residual sums
  bool inner_norms = false;                   ///< before the last product of each
  bool mixed_pre_norms = false;  ///< layers with a mixer have theirs before it, whatever the others have
  bool gate_bias = false, expert_norm = false;  ///< expert_norm: only after experts
  int64_t attention_gate = 0;  ///< gates attention by the sigmoid of a product: 1 per feature, 2 per head
  /// Experts; 0: one feed-forward network.
  int64_t experts = 0, active = 0;
  bool expert_bias = false;    ///< of the experts' products and of the router's
  bool router_scores = false;  ///< a learned bias of the scores
  /// How scores become weights: models/layers/experts.cpp.
  bool sigmoid_scores = false, normalized_scores = true;
  double scale = 1;       ///< of the weights
  double gate_limit = 0;  ///< of an expert's gate; 0: none
  int64_t shared = 0;     ///< inner features of the experts that see every token; 0: none
  bool shared_gate = false;
  int64_t dense_feed = 0;  ///< inner features of layers without experts
  int64_t latent = 0;      ///< features that experts read and write, between two products; 0: the hidden ones
  bool wide_shared = false;  ///< layers that share keys have a feed-forward network of twice the width
  bool beside = false;  ///< a network of `dense_feed` parallel to each layer's experts, with its own norms
  /// Width of a per-layer embedding table that gates a layer's output; 0: none.
  int64_t per_layer = 0, per_layer_words = 0;
  /// Multi-head latent attention: rank of queries (0: full) and of keys and values, rotary part of a key,
  /// width of a value; kv_rank 0: none.
  int64_t query_rank = 0, kv_rank = 0, rope_dim = 0, value_dim = 0;
  int64_t sinks = 0;            ///< a learned score per head: 1 in all layers, 2 in those with a window
  bool value_norm = false;      ///< of values, without a scale
  bool keys_as_values = false;  ///< layers without a window use one product for both
  bool qk_scales = true, qk_norm_bias = false;
  int64_t qk_norm = 0;  ///< norms of queries and keys: 1 one scale for all heads, 2 over the whole width, 3 a
                        ///< scale per head
  int64_t window = 0;   ///< keys that a query of a windowed layer sees
  int64_t window_heads = 0, window_kv_heads = 0,
          window_head_dim = 0;  ///< in windowed layers; 0: as in others
  double dropout = 0;           ///< of scores
  /// What some layers have instead of attention, or in parallel with it if `both`: "mamba2", "mamba",
  /// "short-conv", "delta" (gated delta rule), "kda" (decays per feature, of low rank), "lightning".
  std::string mixer;
  bool both = false;
  int64_t mix_heads = 0, mix_dim = 0, mix_values = 0, mix_value_dim = 0, mix_state = 0, mix_groups = 1,
          mix_kernel = 4, mix_chunk = 64, mix_rank = 0;
  bool mix_conv_bias = true, mix_norm = true, mix_bias = false, mix_norms = false;
  int64_t index_heads = 0, index_dim = 0;  ///< of an indexer that chooses keys; 0: none
  int64_t index_block = 0;                 ///< it chooses blocks of this many keys, by the best of each
  /// DeepSeek-V4: parallel residual streams; groups and rank of the product after attention; compressed keys
  /// that a query of an indexed layer sees; positions per compressed key in indexed and in compressed layers.
  int64_t streams = 0, out_groups = 0, out_rank = 0, top = 0, sparse_ratio = 0, heavy_ratio = 0;
  struct Layer {
    bool windowed = false, dense = false, mixed = false;
    bool attends = true, feeds = true;  ///< a layer may have only one of them
    bool indexed = false;               ///< has its own indexer
    bool compressed = false;            ///< keys of several positions each, all visible
    bool shares = false;                ///< uses keys and values of an earlier layer
    bool operator==(const Layer&) const = default;
  };
  std::vector<Layer> each;  ///< one per layer
  const Json* config = nullptr;
};

/// From the rows of the type.
Decoder hf_decoder(const HfFields& fields, const HfType& type);

/// The document of a type whose row has "family". Throws InputError.
JsonWriter hf_family(const HfFields& fields, const HfType& type, const std::string& family);

/// A spec in the type's row under "model", in a row that it is like, or in the default row ("").
const Json* hf_spec(const HfType& type, std::string_view key);

/// Tandem's name of an activation of Transformers: a layer type, and whether eager code composes it.
struct HfActivation {
  std::string type;
  bool composed = false;  ///< gelu of several operations
  int64_t kept = 4;       ///< tensors that these keep for backward
};
HfActivation hf_activation(const std::string& name, const Json& where);
JsonWriter hf_activation_layer(const HfActivation& activation, const std::string& name);

// Layers as a model file has them.
JsonWriter hf_linear(const std::string& name, const std::string& split, const std::string& features,
                     bool bias, const std::string& from = "");
JsonWriter hf_from_several(const std::string& type, std::initializer_list<std::string> inputs);
JsonWriter hf_norm(const Decoder& decoder, const std::string& name);
/// A block with layers of that kind.
JsonWriter hf_block(const Decoder& decoder, const Decoder::Layer& layer);
/// "blocks" and "layers" of a model, and the length of its input "tokens".
struct HfLayers {
  JsonWriter parameters, tokens, blocks, layers;
};
HfLayers hf_layers(const Decoder& decoder);

}  // namespace tandem::models
