// SPDX-License-Identifier: Apache-2.0
#pragma once
// The head of a model file. Used by models/reader.cpp alone.
#include "base/expression.h"
#include "models/description.h"

namespace tandem::models {

/// The document with its family merged in and `overrides` set in "parameters"; its keys are checked.
Json resolve_document(const Json& document, const Settings& overrides, const Place& place);
/// Adds an object of whole numbers; a value may use those before it.
void set_parameters(Variables& out, const Json* parameters);
Sample read_sample(const Json* json, const Variables& variables);
std::optional<Published> read_published(const Json* json);

}  // namespace tandem::models
