// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model file says: layers, samples, published figures.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/layers/layer.h"

namespace tandem::models {

/// One node of a model. `inputs` index layers() and are all smaller than the node's own index.
struct Layer {
  std::string name;                 ///< unique path, "layer1.0.conv2"
  const LayerType* type = nullptr;  ///< null for an input
  Json attributes;
  std::vector<uint32_t> inputs;
  Shape output;
  std::vector<Parameter> parameters;  ///< that training changes
  /// Instead of these where the layer has "frozen": true. They have no gradient and no optimiser state.
  std::vector<Parameter> frozen;
  double frozen_bits = 0;  ///< an element as it is stored; 0 = as parameters are
  int64_t parameter_elements() const;
  int64_t frozen_elements() const;
  /// Of the frozen ones, where those that are not stored in fewer bits take `size` bytes an element.
  Bytes frozen_bytes(int64_t size) const;
};

/// Path of the repeated block that a layer stands in ("decoder.3" of "decoder.3.qkv"): up to the first number
/// in its name. Empty outside of blocks.
std::string_view block_of(const Layer& layer);

/// What one training sample is outside the device.
struct Sample {
  Bytes stored;                  ///< on disk, e.g. 110 KB for a JPEG of ImageNet
  Bytes decoded;                 ///< what crosses to the device
  double decode_seconds = 0;     ///< on one 2.3 GHz Broadwell core
  std::string unit = "samples";  ///< "images", "sequences", ...
};

/// Figures stated by a publication; the tests compare them with what the graph gives.
struct Published {
  int64_t parameters = 0;
  Flops forward;            ///< of one sample, multiply-add = 2
  double tolerance = 0.01;  ///< relative, for the FLOPs
  std::string source;
};

/// A model before shapes are known. `layers` holds the inputs first, then file order; a layer's inputs may
/// come later in the list (a forward reference), and cycles are still possible.
struct ModelDescription {
  std::string name, summary;
  Sample sample;
  std::optional<Published> published;
  std::vector<Layer> layers;
  uint32_t output = 0;  ///< the layer whose output is the model's
};

using Settings = std::vector<std::pair<std::string, std::string>>;

}  // namespace tandem::models
