// SPDX-License-Identifier: Apache-2.0
// Operations element by element that no other type names: what a graph of another library's operators is made
// of (docs/from-torch.md).
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// One pass over its input, and one over the gradient and what is kept. "flops" [1] an element; 0: a copy.
/// "keeps" for backward: "none" (a negation, a product with a constant), its "input" (a power), its "output"
/// (an exponential) or a "mask" of one byte an element (a choice).
Lowered one_by_one(const LayerInput& in) {
  Lowered out;
  out.output = in.only();
  const int64_t count = in.total(out.output), size = in.element_size();
  const int64_t flops = in.attributes.integer("flops", 1, 0, 64);
  const std::string keeps = in.attributes.text("keeps", "none");
  out.keeps_input = keeps == "input";
  out.keeps_output = keeps == "output";
  const bool mask = keeps == "mask";
  if (!out.keeps_input && !out.keeps_output && !mask && keeps != "none")
    in.attributes.fail(
        fmt::format("\"keeps\" is \"{}\"; valid: none, input, output, mask", printable(keeps)));
  const bool reads = out.keeps_input || out.keeps_output;
  out.forward = {elementwise(Pass::forward, count, 1, size, flops)};
  out.backward_data = {elementwise(Pass::backward_data, count, reads ? 2 : 1, size, flops)};
  if (!mask) return out;
  out.own = {{elements(out.output), 1}};
  for (Kernel* k : {&out.forward[0], &out.backward_data[0]}) k->read += Bytes{count};
  return out;
}

}  // namespace

void register_elementwise(Registry<LayerType>& registry) {
  registry.add({"elementwise", "an operation of each element by itself, or a copy", one_by_one});
}

}  // namespace tandem::models
