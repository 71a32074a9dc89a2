// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plain value: whoever makes it owns it.
#include <cstdint>
#include <string>
#include <vector>

#include "models/layers/layer.h"

namespace tandem::exec {

/// Samples with a class each. `values` is samples x elements(shape), channels last.
struct Dataset {
  std::string name, source;
  Shape shape;
  int64_t classes = 0;
  std::vector<float> values;
  std::vector<int32_t> labels;
  int64_t samples() const { return static_cast<int64_t>(labels.size()); }
};

}  // namespace tandem::exec
