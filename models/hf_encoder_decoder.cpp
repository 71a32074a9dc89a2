// SPDX-License-Identifier: Apache-2.0
// Encoder-decoder transformers of T5's kind (Raffel et al. 2020) as layers of a model file. Source and target
// are one input, so that the embedding which they share is counted once.
#include <fmt/format.h>

#include "models/hf_layers.h"

namespace tandem::models {

namespace {

class T5Block {
 public:
  explicit T5Block(const EncoderDecoder& model) : m_(model) {}
  /// `first`: of its stack, whose self-attention learns the scores of distances for all.
  JsonWriter write(bool decoder, bool first) {
    attend("self", "in", "in", decoder, first);
    if (decoder) attend("cross", "self_sum", "in2", false, false);
    feed_forward(decoder ? "cross_sum" : "self_sum");
    JsonWriter out = JsonWriter::object();
    out["layers"] = std::move(layers_);
    return out;
  }

 private:
  void add(JsonWriter layer) { layers_.push_back(std::move(layer)); }
  void norm(const std::string& name, const std::string& from) {
    add({{"type", "rms-norm"}, {"name", name}, {"from", from}});
  }
  void attend(const std::string& name, const std::string& from, const std::string& keys, bool causal,
              bool first) {
    const bool self = from == keys;
    norm(name + "_norm", from);
    const auto part = [&](const char* what, const std::string& of) {
      add(hf_linear(name + what, "columns", "=heads*head_dim", false, of));
    };
    part("_query", name + "_norm");
    part("_key", self ? name + "_norm" : keys);
    part("_value", self ? name + "_norm" : keys);
    JsonWriter attention = hf_from_several("attention", {name + "_query", name + "_key", name + "_value"});
    attention["name"] = name;
    attention["split"] = "heads";
    attention["heads"] = "=heads";
    attention["head_dim"] = "=head_dim";
    attention["fused"] = "=fused";
    if (causal) attention["causal"] = true;
    if (first) attention["bias_buckets"] = m_.buckets;
    add(std::move(attention));
    add(hf_linear(name + "_projection", "rows", "=hidden", false));
    JsonWriter sum = hf_from_several("add", {name + "_projection", from});
    sum["name"] = name + "_sum";
    add(std::move(sum));
  }
  void feed_forward(const std::string& from) {
    norm("feed_norm", from);
    if (m_.gated) {
      add(hf_linear("gate", "columns", "=feed", false, "feed_norm"));
      add({{"type", m_.activation}, {"name", "activation"}});
      add(hf_linear("up", "columns", "=feed", false, "feed_norm"));
      add(hf_from_several("mul", {"activation", "up"}));
    } else {
      add(hf_linear("up", "columns", "=feed", false, "feed_norm"));
      add({{"type", m_.activation}, {"name", "activation"}});
    }
    add(hf_linear("down", "rows", "=hidden", false));
    add(hf_from_several("add", {"down", from}));
  }

  const EncoderDecoder& m_;
  JsonWriter layers_ = JsonWriter::array();
};

/// The first block of a stack, then the others.
void add_stack(HfLayers& out, const EncoderDecoder& m, bool decoder, const JsonWriter& from) {
  const std::string name = decoder ? "decoder" : "encoder", first = "first_" + name;
  out.blocks[first] = T5Block(m).write(decoder, true);
  out.blocks[name] = T5Block(m).write(decoder, false);
  out.layers.push_back({{"block", first}, {"name", first}, {"from", from}, {"repeat", 1}});
  JsonWriter others = {{"block", name}, {"name", name}, {"repeat", fmt::format("={}s-1", name)}};
  if (decoder) {
    others["from"] = JsonWriter::array();
    others["from"].push_back(first);
    others["from"].push_back("encoder_norm");
  }
  out.layers.push_back(std::move(others));
  out.layers.push_back({{"type", "rms-norm"}, {"name", name + "_norm"}});
}

}  // namespace

EncoderDecoder hf_encoder_decoder(const HfFields& f, const HfType& type) {
  EncoderDecoder m;
  const std::pair<const char*, int64_t EncoderDecoder::*> sizes[] = {
      {"encoders", &EncoderDecoder::encoders},     {"decoders", &EncoderDecoder::decoders},
      {"hidden", &EncoderDecoder::hidden},         {"heads", &EncoderDecoder::heads},
      {"head_dim", &EncoderDecoder::head_dim},     {"feed", &EncoderDecoder::feed},
      {"vocabulary", &EncoderDecoder::vocabulary}, {"sequence", &EncoderDecoder::sequence},
      {"buckets", &EncoderDecoder::buckets}};
  for (const auto& [key, member] : sizes) m.*member = f.whole(*hf_spec(type, key), 1, 1'000'000'000);
  m.tied = f.whole(*hf_spec(type, "tied"), 0, 1) != 0;
  const Json* feed = f.find("feed_forward_proj");
  const std::string text = feed != nullptr ? feed->as_text() : "relu";
  if (text != "relu" && text != "gated-gelu")
    feed->fail(fmt::format("feed-forward \"{}\" is unknown; known: relu, gated-gelu", printable(text)));
  m.gated = text == "gated-gelu";
  m.activation = m.gated ? "gelu" : "relu";
  return m;
}

HfLayers hf_layers(const EncoderDecoder& m) {
  HfLayers out{JsonWriter::object(), "=2*sequence", JsonWriter::object(), JsonWriter::array()};
  out.parameters = {{"encoders", m.encoders},     {"decoders", m.decoders}, {"hidden", m.hidden},
                    {"heads", m.heads},           {"head_dim", m.head_dim}, {"feed", m.feed},
                    {"vocabulary", m.vocabulary}, {"sequence", m.sequence}, {"fused", 0}};
  const auto part = [](const char* name, const char* begin, const char* end) {
    JsonWriter slice = {{"type", "slice"}, {"name", name}, {"from", "embedding"}, {"axis", 0}};
    slice["begin"] = begin;
    slice["end"] = end;
    return slice;
  };
  out.layers.push_back({{"type", "embedding"},
                        {"name", "embedding"},
                        {"split", "vocabulary"},
                        {"vocabulary", "=vocabulary"},
                        {"width", "=hidden"}});
  out.layers.push_back(part("source", "=0", "=sequence"));
  add_stack(out, m, false, "source");
  out.layers.push_back(part("target", "=sequence", "=2*sequence"));
  JsonWriter both = JsonWriter::array();
  both.push_back("target");
  both.push_back("encoder_norm");
  add_stack(out, m, true, both);
  out.layers.push_back(
      m.tied ? JsonWriter{{"type", "tied-linear"}, {"split", "vocabulary"}, {"vocabulary", "=vocabulary"}}
             : hf_linear("head", "vocabulary", "=vocabulary", false));
  out.layers.push_back({{"type", "cross-entropy"}});
  return out;
}

}  // namespace tandem::models
