// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the configurations of Hugging Face Transformers come to: shared by their readers and the writer of the
// model (hf_config.cpp).
#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_writer.h"

namespace tandem::models {

/// What tells decoder-only transformers apart.
struct Decoder {
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, feed = 0, vocabulary = 0,
          sequence = 0;
  int64_t positions = 0;  ///< learned ones; 0: rotary or none
  bool rotary = true;
  bool rms = true, norm_bias = true;  ///< norm_bias: of layer-norms
  bool qkv_bias = false, out_bias = false, feed_bias = false, head_bias = false;
  bool gated = true;  ///< feed-forward: activation(gate) x up
  std::string activation = "swish";
  /// Attention and feed-forward both read the block's input, after one norm or one each.
  enum class Parallel : uint8_t { no, one_norm, two_norms } parallel = Parallel::no;
  bool tied = false, embedding_norm = false;
  int64_t experts = 0, active = 0;  ///< 0: one feed-forward network
  bool qk_norm = false;             ///< RMS norms of each head's queries and keys
  bool post_norms = false;          ///< norms behind attention and feed-forward, too
  bool expert_bias = false;         ///< of the experts' products and of the router's
  /// How scores become weights: models/layers/experts.cpp.
  bool sigmoid_scores = false, normalized_scores = true;
  int64_t scale_percent = 100;
  double gate_limit = 0;  ///< of an expert's gate; 0: none
  int64_t shared = 0;     ///< inner features of the experts that every token passes through; 0: none
  int64_t dense_layers = 0, dense_feed = 0;  ///< the first so many layers have one network of so many
  /// Multi-head latent attention: ranks of what queries (0: not) and keys and values are made of, the part of
  /// a key that turns, the width of a value; kv_rank 0: none.
  int64_t query_rank = 0, kv_rank = 0, rope_dim = 0, value_dim = 0;
  bool sinks = false;  ///< a learned score for each head
  int64_t window = 0;  ///< keys that a query sees in every other layer, the first one too; 0: all
};

/// Encoder-decoder transformers of T5's kind (Raffel et al. 2020).
struct EncoderDecoder {
  int64_t encoders = 0, decoders = 0, hidden = 0, heads = 0, head_dim = 0, feed = 0, vocabulary = 0,
          sequence = 0, buckets = 0;
  bool gated = false, tied = true;
  std::string activation = "relu";
};

/// A model that one of models/families is, and that family's parameters.
struct HfFamily {
  std::string name;
  JsonWriter parameters;
};

/// Reads a config under the names that its architecture gives things. Any thread may ask.
class HfConfig {
 public:
  explicit HfConfig(const Json& json) : json_(json) {}

  /// The first of the keys that is there and not null.
  const Json* any(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      const Json* value = json_.find(key);
      if (value != nullptr && value->kind() != Json::Kind::null) return value;
    }
    return nullptr;
  }
  int64_t count(std::initializer_list<std::string_view> keys) const {
    const Json* value = any(keys);
    if (value == nullptr) json_.fail(fmt::format("\"{}\" is missing", *keys.begin()));
    return value->as_int(1, 1'000'000'000);
  }
  int64_t count(std::initializer_list<std::string_view> keys, int64_t fallback) const {
    return any(keys) != nullptr ? count(keys) : fallback;
  }
  /// As count(), but 0 may be.
  int64_t number(std::initializer_list<std::string_view> keys, int64_t fallback) const {
    const Json* value = any(keys);
    return value != nullptr ? value->as_int(0, 1'000'000'000) : fallback;
  }
  bool flag(std::string_view key, bool fallback) const {
    const Json* value = any({key});
    return value != nullptr ? value->as_bool() : fallback;
  }
  /// Of the activations that Transformers names.
  std::string activation(std::string_view fallback) const {
    const Json* value = any({"hidden_act", "hidden_activation", "activation_function"});
    const std::string text = value != nullptr ? value->as_text() : std::string(fallback);
    if (text.find("gelu") != std::string::npos) return "gelu";
    if (text == "silu" || text == "swish") return "swish";
    if (text == "relu" || text == "relu2") return text;
    value->fail(
        fmt::format("activation \"{}\" is unknown; known: gelu (all kinds), silu, relu, relu2", printable(text)));
  }
  const Json& json() const { return json_; }

 private:
  const Json& json_;
};

/// How one architecture is read.
struct HfArchitecture {
  std::string_view name, type;  ///< of "architectures" and of "model_type"
  Decoder (*decoder)(const HfConfig&) = nullptr;
  EncoderDecoder (*encoder_decoder)(const HfConfig&) = nullptr;
  HfFamily (*family)(const HfConfig&) = nullptr;  ///< one of the three
};

// Encoders. Masked-language models have their loss on every token; classes are the config's labels, or two.
HfFamily hf_bert(const HfConfig& config);
HfFamily hf_roberta(const HfConfig& config);
HfFamily hf_distilbert(const HfConfig& config);
HfFamily hf_vit(const HfConfig& config);

/// Throws InputError where it is none that is known, naming those.
const HfArchitecture& hf_architecture_of(const Json& config);

// Layers as a model file has them.
JsonWriter hf_linear(const std::string& name, const std::string& split, const std::string& features,
                     bool bias, const std::string& from = "");
JsonWriter hf_from_several(const std::string& type, std::initializer_list<std::string> inputs);
/// "blocks" and "layers" of a model, and the length of its input "tokens".
struct HfLayers {
  JsonWriter parameters, tokens, blocks, layers;
};
HfLayers hf_layers(const Decoder& decoder);
HfLayers hf_layers(const EncoderDecoder& model);

}  // namespace tandem::models
