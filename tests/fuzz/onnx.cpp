// SPDX-License-Identifier: Apache-2.0
#ifdef TANDEM_HAS_PROTOBUF
#include "models/import/onnx/onnx.h"

#include "base/error.h"
#include "base/json.h"
#include "models/graph.h"
#endif
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A graph of ONNX: the document of what is accepted is a model, or refused for its size.
void onnx([[maybe_unused]] std::string_view bytes) {
#ifdef TANDEM_HAS_PROTOBUF
  models::looks_like_onnx(bytes);
  try {
    const models::OnnxModel model = models::model_of_onnx(bytes, "fuzz", {});
    Graph::from_json(Json::parse(model.document, "model")).forward_flops();
  } catch (const InputError&) {
  }
#endif
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(onnx)
