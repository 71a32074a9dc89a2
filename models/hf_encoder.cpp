// SPDX-License-Identifier: Apache-2.0
// Encoders: each is one of models/families.
#include <algorithm>

#include "models/hf_layers.h"

namespace tandem::models {

namespace {

/// Sizes of an encoder of width "hidden" under their usual names, or DistilBERT's.
JsonWriter encoder_sizes(const HfConfig& c) {
  const int64_t hidden = c.count({"hidden_size", "dim"}), heads = c.count({"num_attention_heads", "n_heads"});
  if (hidden % heads != 0) c.json().fail(fmt::format("{} heads do not divide a width of {}", heads, hidden));
  for (const char* key : {"hidden_act", "activation"}) {
    const Json* activation = c.any({key});
    if (activation != nullptr && activation->as_text().find("gelu") == std::string::npos)
      activation->fail(fmt::format("an encoder with the activation \"{}\" is not understood; known: gelu",
                                   printable(activation->as_text())));
  }
  return {{"layers", c.count({"num_hidden_layers", "n_layers"})},
          {"hidden", hidden},
          {"heads", heads},
          {"feed", c.count({"intermediate_size", "hidden_dim"}, 4 * hidden)}};
}

/// The first `padding` positions are never of a token.
HfFamily masked(const HfConfig& c, const char* family, int64_t padding) {
  HfFamily out{family, encoder_sizes(c)};
  const int64_t positions = c.count({"max_position_embeddings"}, 512);
  const Json* kind = c.any({"position_embedding_type"});
  if (kind != nullptr && kind->as_text() != "absolute")
    kind->fail(
        fmt::format("positions \"{}\" are not understood; known: absolute", printable(kind->as_text())));
  if (positions <= padding) c.json().fail(fmt::format("{} positions are too few", positions));
  out.parameters["vocabulary"] = c.count({"vocab_size"});
  out.parameters["positions"] = positions;
  out.parameters["sequence"] = positions - padding;
  return out;
}

}  // namespace

HfFamily hf_bert(const HfConfig& c) {
  HfFamily out = masked(c, "bert-mlm", 0);
  out.parameters["types"] = c.count({"type_vocab_size"}, 2);
  return out;
}

HfFamily hf_roberta(const HfConfig& c) {
  HfFamily out = masked(c, "bert-mlm", 2);
  out.parameters["types"] = c.count({"type_vocab_size"}, 2);
  return out;
}

HfFamily hf_distilbert(const HfConfig& c) { return masked(c, "distilbert", 0); }

HfFamily hf_vit(const HfConfig& c) {
  HfFamily out{"vit", encoder_sizes(c)};
  const int64_t image = c.count({"image_size"}, 224), patch = c.count({"patch_size"}, 16);
  if (c.count({"num_channels"}, 3) != 3) c.json().fail("images of other than 3 channels are not understood");
  if (image % patch != 0)
    c.json().fail(fmt::format("patches of {} do not divide an image of {}", patch, image));
  const Json* labels = c.any({"id2label"});
  out.parameters["patch"] = patch;
  out.parameters["grid"] = image / patch;
  out.parameters["classes"] = labels != nullptr ? std::max<std::size_t>(1, labels->members().size()) : 2;
  return out;
}

}  // namespace tandem::models
