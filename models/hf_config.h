// SPDX-License-Identifier: Apache-2.0
#pragma once
// config.json of Hugging Face Transformers -> a model document (docs/formats/model.md). An architecture
// is one line of the table in hf_architectures.cpp.
#include <string>

#include "base/json.h"

namespace tandem::models {

/// Whether a document is such a config: it names "architectures" or a "model_type", and no layers.
bool is_hf_config(const Json& document);

/// The model as the released checkpoint has it: the same parameters, in the same shapes. Its sequence length
/// is the config's, at most 8,192 (parameters: "sequence"). Throws InputError that names an unknown
/// architecture and the known ones, or what of a known one is not understood.
Json model_of_hf_config(const Json& config);

/// Text of the same, indented, for a file of one's own.
std::string hf_config_document(const Json& config);

}  // namespace tandem::models
