// SPDX-License-Identifier: Apache-2.0
#pragma once
// Readers of models that other libraries write. Each is one file in models/import and one word in
// models/CMakeLists.txt.
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/registry.h"

namespace tandem::models {

struct ModelImporter {
  std::string_view name, summary;
  /// Whether a text looks like this format; never throws.
  bool (*recognises)(std::string_view text);
  /// The model's document (docs/formats/model.md). `file` is what messages call the text. Throws InputError
  /// with the line of what is damaged or not understood.
  Json (*read)(std::string_view text, const std::string& file);
};

/// Generated from the list in models/CMakeLists.txt.
const Registry<ModelImporter>& import_registry();

}  // namespace tandem::models
