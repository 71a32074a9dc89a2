// SPDX-License-Identifier: Apache-2.0
// Normalisation. Batch, layer and group normalisation share one kernel kind with shape {rows, length}:
// statistics over `length` elements for each of `rows`.
#include <fmt/format.h>

#include "models/layers/layer.h"
#include "models/layers/norm_kernel.h"

namespace tandem::models {

Kernel norm(Pass pass, int64_t rows, int64_t length, int64_t reads, int64_t writes, int64_t flops,
            int64_t size) {
  const int64_t count = product({rows, length});
  const Bytes tensor = Bytes{size} * count;
  return {KernelKind::norm, pass, {rows, length}, Flops{flops} * count, tensor * reads, tensor * writes};
}

namespace {

/// Batch normalisation whose statistics are summed over devices: x is read for the statistics, and again once
/// all devices' are known. Likewise x and dy: the device's own sums are its gradients of scale and shift, the
/// total makes dx. Two floats per channel travel in each pass.
void over_devices(Lowered& out, const LayerInput& in, int64_t length, Kernel sums) {
  const int64_t channels = out.output[0], size = in.element_size();
  const Bytes two{8 * channels};
  Kernel statistics = norm(Pass::forward, channels, length, 1, 0, 3, size);
  statistics.written = sums.written = two;
  out.forward = {statistics, norm(Pass::forward, channels, length, 1, 1, 2, size)};
  out.backward_data = {sums, norm(Pass::backward_data, channels, length, 2, 1, 5, size)};
  out.backward_weights.clear();
  out.forward_exchanges = {{Exchange::Kind::statistics, 1, 1, two.n / size}};
  out.backward_exchanges = out.forward_exchanges;
}

/// Statistics over batch and space for each channel. Forward: x is read for the statistics (3 FLOPs an
/// element) and once more to be scaled (2). Backward: x and dy are read for the two sums that are also the
/// gradients of scale and shift (5), and once more for dx (5).
Lowered batch_norm(const LayerInput& in) {
  Lowered out;
  out.output = in.only(1);
  const int64_t channels = out.output[0];
  const int64_t length = in.total(out.output) / channels;
  const int64_t size = in.element_size();
  out.forward = {norm(Pass::forward, channels, length, 2, 1, 5, size)};
  out.backward_data = {norm(Pass::backward_data, channels, length, 2, 1, 5, size)};
  const bool affine = in.attributes.boolean("affine", true);
  Kernel sums = norm(affine ? Pass::backward_weights : Pass::backward_data, channels, length, 2, 0, 5, size);
  sums.written = Bytes{2 * size} * channels;
  if (affine) {
    out.parameters = {{"scale", channels}, {"shift", channels}};
    out.backward_weights = {sums};
  } else {
    out.backward_data.insert(out.backward_data.begin(), sums);
  }
  if (in.norm_devices > 1) over_devices(out, in, length, sums);
  out.keeps_input = true;
  out.buffers = 2 * channels;  // running mean and variance
  return out;
}

/// Statistics over rows of one sample, short enough to stay on chip between statistics and scaling when
/// `reads` = 1. Backward-data reads x and dy; the parameters' gradients are sums over all rows and read both
/// again. Mean and deviation of each row (only one of them for RMS) are kept.
Lowered row_norm(const LayerInput& in, int64_t rows_per_sample, int64_t reads, int64_t statistics,
                 std::vector<Parameter> parameters) {
  Lowered out;
  out.cheap = Lowered::Cheap::norm;
  out.output = in.only(1);
  const int64_t rows = checked_mul(in.batch, rows_per_sample, "a tensor");
  const int64_t length = elements(out.output) / rows_per_sample;
  const int64_t size = in.element_size();
  const int64_t sums = statistics == 2 ? 3 : 2;
  out.forward = {norm(Pass::forward, rows, length, reads, 1, sums + 2, size)};
  out.backward_data = {norm(Pass::backward_data, rows, length, 2 * reads, 1, 8, size)};
  // Composed: mean, squared difference, mean, scale, shift; each is differentiated in backward.
  out.forward[0].parts = 4;
  out.backward_data[0].parts = 6;
  Bytes weights;
  for (const Parameter& p : parameters) weights += Bytes{size} * p.elements;
  if (!parameters.empty()) {
    out.forward[0].read += weights;
    out.backward_weights = {norm(Pass::backward_weights, rows, length, 2, 0, 4, size)};
    out.backward_weights[0].written = weights;
  }
  out.parameters = std::move(parameters);
  out.keeps_input = true;
  out.own = {{statistics * rows_per_sample, 4}};
  return out;
}

Lowered layer_norm(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const int64_t width = shape[feature_axis(in.attributes, shape)];
  std::vector<Parameter> parameters;
  if (in.attributes.boolean("affine", true)) parameters = {{"scale", width}};
  if (!parameters.empty() && in.attributes.boolean("bias", true)) parameters.push_back({"shift", width});
  Lowered out = row_norm(in, elements(shape) / width, 1, 2, std::move(parameters));
  // In the model's own code (Cohere): the input minus its mean in fp32, for its square and its product, and
  // the scale's input.
  if (in.attributes.boolean("composed", false)) {
    out.forward[0].eager = out.backward_data[0].eager = true;
    for (int i = 0; i < 3; ++i) out.own.push_back({elements(shape), 4, OwnTensor::Life::kept, false, true});
    out.keeps_input = false;
  }
  return out;
}

/// Keeps what eager code keeps (LlamaRMSNorm and torch.nn.RMSNorm before its fused kernel): the input, in
/// fp32 if it is half precision, and, for the scale's gradient, the normalised rows, which are cast before
/// or, with "fp32_scale", after the product (Gemma, GPT-OSS, Cohere). "width": groups of that many features,
/// with shared scales.
Lowered rms_norm(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const bool affine = in.attributes.boolean("affine", true);
  const int64_t width = in.attributes.integer("width", shape.back());
  if (shape.back() % width != 0)
    in.attributes.fail(fmt::format("groups of {} do not divide {} features", width, shape.back()));
  Lowered out = row_norm(in, elements(shape) / width, 1, 1,
                         affine ? std::vector<Parameter>{{"scale", width}} : std::vector<Parameter>{});
  out.forward[0].eager = out.backward_data[0].eager = true;
  const auto keep = [&](int64_t size) {
    out.own.push_back({elements(shape), size});
    out.own.back().composed = true;
  };
  const bool in_fp32 = in.attributes.boolean("fp32_scale", false);
  if (!in.frozen && affine) keep(in_fp32 ? 4 : 0);
  if (in.element_size() < 4) {
    out.keeps_input = false;
    keep(4);
  }
  return out;
}

/// A group's channels and space do not fit on chip, so x is read twice.
Lowered group_norm(const LayerInput& in) {
  const int64_t channels = in.only(1)[0];
  const int64_t groups = in.attributes.integer("groups");
  if (channels % groups != 0)
    in.attributes.fail(fmt::format("{} groups do not divide {} channels", groups, channels));
  return row_norm(in, groups, 2, 2, {{"scale", channels}, {"shift", channels}});
}

/// Every pixel's vector of channels is scaled to unit length (Karras et al. 2018, section 4.2).
Lowered pixel_norm(const LayerInput& in) {
  const Shape& shape = in.only(2);
  return row_norm(in, elements(shape) / shape[0], 1, 1, {});
}

/// Local response normalisation over `window` neighbouring channels (Krizhevsky et al. 2012, section 3.3):
/// one square and one running sum an element, then a power and a product. Backward needs x, y and dy.
Lowered lrn(const LayerInput& in) {
  Lowered out;
  out.output = in.only(1);
  const int64_t window = in.attributes.integer("window", 5);
  if (window > out.output[0]) {
    in.attributes.fail(fmt::format("a window of {} channels exceeds the input's {}", window, out.output[0]));
  }
  const int64_t rows = in.total(out.output) / out.output[0];
  const int64_t size = in.element_size();
  out.forward = {norm(Pass::forward, rows, out.output[0], 1, 1, window + 5, size)};
  out.backward_data = {norm(Pass::backward_data, rows, out.output[0], 3, 1, window + 8, size)};
  out.keeps_input = out.keeps_output = true;
  return out;
}

}  // namespace

void register_norm(Registry<LayerType>& registry) {
  registry.add({"batch-norm", "normalises each channel over the batch and space", batch_norm});
  registry.add({"layer-norm", "normalises the last dimension, or an image's channels", layer_norm});
  registry.add({"rms-norm", "scales the last dimension to unit mean square", rms_norm});
  registry.add({"group-norm", "normalises groups of channels of each sample", group_norm});
  registry.add({"pixel-norm", "normalises the channels of each pixel", pixel_norm});
  registry.add({"lrn", "local response normalisation over neighbouring channels", lrn});
}

}  // namespace tandem::models
