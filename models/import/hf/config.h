// SPDX-License-Identifier: Apache-2.0
#pragma once
// config.json of Hugging Face Transformers -> a model document (docs/formats/model.md). A type is
// a row of models/import/hf/types.
#include <string>
#include <string_view>

#include "base/json.h"

namespace tandem::models {

/// Whether a document is such a config: it names "architectures" or a "model_type", and no layers.
bool is_hf_config(const Json& document);

/// The model of the released checkpoint: the same parameters in the same shapes. Its sequence length is the
/// config's, at most 8,192 (parameters: "sequence"). Throws InputError that names an unknown architecture and
/// the known ones, or what is not supported of a known one.
Json model_of_hf_config(const Json& config);

/// The text with null in place of Infinity, -Infinity and NaN, which Python's JSON writes. Text after a NaN
/// moves by one column.
std::string without_infinity(std::string_view text);

/// Reads from the summary of such a model which part of the config's model is left out; "" if none.
std::string left_out_of_hf_config(const std::string& summary);

/// The same as indented text, for a model file.
std::string hf_config_document(const Json& config);

}  // namespace tandem::models
