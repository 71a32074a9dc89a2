// SPDX-License-Identifier: Apache-2.0
// Fully connected layers on {features}, {time, features} or the channels of an image.
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// Each device has a part of every row that a column split reads, rather than some rows.
bool joins_features(const LayerInput& in, Split split) {
  return in.ways > 1 && in.sequence && in.divided && (split == Split::columns || split == Split::vocabulary);
}

/// y[rows, out] = x[rows, in] W[in, out] with rows = batch x time: one gemm per pass. The bias is added in
/// the gemm's epilogue or by a separate kernel (Recipe); its gradient reads dy once more. Devices that divide
/// a sequence, or samples, between such layers gather it before a column split; devices with a part of the
/// features each gather those and join the parts of each row. A split by columns or vocabulary reads the
/// whole input and makes a part of the outputs; one by rows finds its part of the inputs, since the previous
/// layer made no more.
Lowered matrix(const LayerInput& in, int64_t all_features, Split split) {
  Shape shape = in.only(1);
  std::size_t axis = feature_axis(in.attributes, shape);
  const bool joins = joins_features(in, split);
  if (shape.size() > 2 && axis != 0) {
    in.attributes.fail(
        fmt::format("takes {{features}} or {{time, features}}, not {}; put \"flatten\" before it, or say "
                    "\"axis\": 0 for a product of the channels",
                    to_text(shape)));
  }
  if (shape.size() > 2 && split != Split::whole)
    in.attributes.fail("a product of an image's channels cannot be split");
  const bool shared = in.ways > 1, gathers = shared && in.sequence;
  const bool columns = shared && (split == Split::columns || split == Split::vocabulary);
  const bool rows_split = shared && split == Split::rows;
  const bool samples = gathers && columns && shape.size() == 1;
  if (joins)
    shape.back() = product({shape.back(), in.ways});
  else if (samples)
    shape.insert(shape.begin(), in.ways);  // samples of all devices
  else if (gathers && columns)
    shape[0] = product({shape[0], in.ways});
  axis = feature_axis(in.attributes, shape);
  const int64_t width = shape[axis];
  const int64_t rows = in.total(shape) / width;
  const int64_t size = in.element_size();
  const int64_t features = !columns                     ? all_features
                           : split == Split::vocabulary ? (all_features + in.ways - 1) / in.ways
                                                        : in.part(all_features, "features");
  Lowered out;
  out.output = shape;
  out.output[axis] = features;
  if (gathers && rows_split) out.output[0] = in.part(shape[0], "positions");
  if (columns) out.input_join = gathers ? Join::gather : Join::copy;
  if (rows_split) out.output_join = gathers ? Join::scatter : Join::sum;
  out.forward = {gemm(Pass::forward, 1, rows, features, width, size)};
  out.backward_data = {gemm(Pass::backward_data, 1, rows, width, features, size)};
  out.backward_weights = {gemm(Pass::backward_weights, 1, width, features, rows, size)};
  if (joins) {
    const int64_t count = in.total(shape);
    out.forward.insert(out.forward.begin(), elementwise(Pass::forward, count, 1, size, 0));
    out.backward_data.push_back(elementwise(Pass::backward_data, count, 1, size, 0));
  }
  out.keeps_input = !in.frozen || in.attributes.boolean("keeps_input", false);
  if (out.keeps_input && (joins || samples)) {  // the gathered input instead
    out.own.push_back({elements(shape), 0, OwnTensor::Life::kept});
    out.keeps_input = false;
  }
  return out;
}

void add_bias(const LayerInput& in, Lowered& out, bool fallback) {
  if (!in.attributes.boolean("bias", fallback)) return;
  const int64_t features = out.output[feature_axis(in.attributes, out.output)];
  out.parameters.push_back({"bias", features});
  out.forward.back().parts = 2;
  out.backward_weights.push_back(
      reduction(Pass::backward_weights, in.total(out.output), features, in.element_size()));
}

Lowered linear(const LayerInput& in) {
  const int64_t features = in.attributes.integer("features");
  const Split split = in.split({Split::columns, Split::rows, Split::vocabulary});
  Lowered out = matrix(in, features, split);
  const auto features_of = [&](const Shape& shape) { return shape[feature_axis(in.attributes, shape)]; };
  const int64_t inputs = product({features_of(in.shapes[0]), joins_features(in, split) ? in.ways : 1});
  out.parameters = {{"weight", product({inputs, features_of(out.output)})}};
  out.parameters[0].rows = out.parameters[0].inner = inputs;
  out.parameters[0].hidden = 1;
  in.attributes.boolean("starts_at_zero", false);
  in.attributes.boolean("packed", false);    // with_adapter() asks
  in.attributes.integer("apart", 1, 1, 64);  // models/autocast.h
  add_bias(in, out, true);
  return out;
}

/// The weight belongs to an embedding layer; this layer only adds its share of the gradient.
Lowered tied_linear(const LayerInput& in) {
  Lowered out = matrix(in, in.attributes.integer("vocabulary"), in.split({Split::vocabulary}));
  out.tied = product({in.shapes[0].back(), out.output.back()});
  add_bias(in, out, false);
  return out;
}

}  // namespace

void register_linear(Registry<LayerType>& registry) {
  registry.add({"linear", "fully connected layer on the last dimension, or on an image's channels", linear});
  registry.add({"tied-linear", "projection to the vocabulary with the embedding's weight", tied_linear});
}

}  // namespace tandem::models
