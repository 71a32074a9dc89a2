// SPDX-License-Identifier: Apache-2.0
// Recurrent layers on {time, features}, as cuDNN runs them.
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// Sizes of one stacked layer in one direction; rows = batch x time.
struct Cell {
  int64_t batch, time, features, hidden, gates, size;
  int64_t rows() const { return product({batch, time}); }
  int64_t width() const { return product({gates, hidden}); }
};

Kernel repeated(Kernel k, int64_t times) {
  k.repeat = times;
  return k;
}

/// One gemm of the inputs over all time steps, then per step the recurrent gemm and the gates: both
/// products in, activated gates out.
void forward(const Cell& c, Lowered& out) {
  out.forward.push_back(gemm(Pass::forward, 1, c.rows(), c.width(), c.features, c.size));
  out.forward.push_back(repeated(gemm(Pass::forward, 1, c.batch, c.width(), c.hidden, c.size), c.time));
  out.forward.push_back(
      repeated(elementwise(Pass::forward, product({c.batch, c.width()}), 2, c.size, 4), c.time));
}

/// Back through time step by step, which the weights' gradients need too: so all of it is backward-weights
/// but the input's gradient, and that only in the lowest layer; the stack above needs its own.
void backward(const Cell& c, bool lowest, bool bias, Lowered& out) {
  const Pass pass = Pass::backward_weights;
  auto& list = out.backward_weights;
  list.push_back(repeated(elementwise(pass, product({c.batch, c.width()}), 2, c.size, 6), c.time));
  list.push_back(repeated(gemm(pass, 1, c.batch, c.hidden, c.width(), c.size), c.time));
  list.push_back(gemm(pass, 1, c.features, c.width(), c.rows(), c.size));
  list.push_back(gemm(pass, 1, c.hidden, c.width(), c.rows(), c.size));
  if (bias) list.push_back(reduction(pass, product({c.rows(), c.width()}), c.width(), c.size));
  const Pass data = lowest ? Pass::backward_data : pass;
  auto& input = lowest ? out.backward_data : list;
  input.push_back(gemm(data, 1, c.rows(), c.features, c.width(), c.size));
}

void of_cell(Parameter& weight, int64_t width) {
  weight.rows = weight.inner = width;
  weight.hidden = 1;
}

/// Kept for backward: input, output, and per step each layer's gates and cell state, and the output of the
/// layers below the last.
Lowered recurrent(const LayerInput& in, int64_t gates) {
  const Shape& shape = in.only(2);
  if (shape.size() != 2) in.attributes.fail(fmt::format("takes {{time, features}}, not {}", to_text(shape)));
  const int64_t hidden = in.attributes.integer("hidden");
  const int64_t layers = in.attributes.integer("layers", 1, 1, 100);
  const int64_t directions = in.attributes.boolean("bidirectional", false) ? 2 : 1;
  const bool bias = in.attributes.boolean("bias", true);
  Lowered out;
  out.output = {shape[0], product({hidden, directions})};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t features = layer == 0 ? shape[1] : out.output[1];
    const Cell cell{in.batch, shape[0], features, hidden, gates, in.element_size()};
    for (int64_t d = 0; d < directions; ++d) {
      const std::string suffix = fmt::format("{}{}", layer, d == 0 ? "" : "_reverse");
      out.parameters.push_back({"input_weight" + suffix, product({cell.width(), features})});
      of_cell(out.parameters.back(), cell.width());
      out.parameters.push_back({"recurrent_weight" + suffix, product({cell.width(), hidden})});
      of_cell(out.parameters.back(), cell.width());
      if (bias) out.parameters.push_back({"bias" + suffix, 2 * cell.width()});  // cuDNN: one for each product
      forward(cell, out);
      backward(cell, layer == 0, bias, out);
    }
  }
  const int64_t states = layers * (gates + 1) + (layers - 1);
  out.own = {{product({states, shape[0], out.output[1]})}};
  out.keeps_input = out.keeps_output = true;
  return out;
}

}  // namespace

void register_recurrent(Registry<LayerType>& registry) {
  registry.add({"rnn", "simple recurrent layers", [](const LayerInput& in) { return recurrent(in, 1); }});
  registry.add(
      {"lstm", "long short-term memory layers", [](const LayerInput& in) { return recurrent(in, 4); }});
  registry.add({"gru", "gated recurrent unit layers", [](const LayerInput& in) { return recurrent(in, 3); }});
}

}  // namespace tandem::models
