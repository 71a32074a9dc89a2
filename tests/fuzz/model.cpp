// SPDX-License-Identifier: Apache-2.0
#include "models/dot.h"
#include "models/graph.h"
#include "tests/fuzz/target.h"

namespace tandem::tests::fuzz {

/// A model file: whatever is accepted can be lowered and drawn.
void model(std::string_view bytes) {
  try {
    const Graph graph = Graph::from_json(Json::parse(bytes, "fuzz"));
    if (graph.layers().size() > 2000) return;
    graph.lower(2, Precision::fp16);
    graph.forward_flops();
    models::model_dot(graph);
  } catch (const InputError&) {
  }
}

}  // namespace tandem::tests::fuzz
TANDEM_FUZZ_TARGET(model)
