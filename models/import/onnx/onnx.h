// SPDX-License-Identifier: Apache-2.0
#pragma once
// A graph of ONNX (https://onnx.ai) -> a model document (docs/formats/model.md): each operator becomes the
// layers that train it. Built where protobuf is installed.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::models {

struct OnnxChoices {
  std::map<std::string, int64_t> sizes;  ///< of dimensions that the file only names; a batch is one sample
  std::string loss;                      ///< "", "cross-entropy" or "mse" of the output
};

struct OnnxModel {
  std::string document;            ///< JSON text of the model
  std::vector<std::string> notes;  ///< what the reader of the document should know, a line each
};

/// The model of an .onnx file's bytes, which `file` names in messages. Weights may be in other files, which
/// are not read. Throws InputError that names the node and its operator.
OnnxModel model_of_onnx(std::string_view bytes, const std::string& file, const OnnxChoices& choices);

/// Whether bytes begin as such a file does; never throws.
bool looks_like_onnx(std::string_view bytes);

}  // namespace tandem::models
