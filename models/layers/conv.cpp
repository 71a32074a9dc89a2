// SPDX-License-Identifier: Apache-2.0
// Convolutions in 1 to 3 dimensions on {channels, space...}.
#include "models/layers/window.h"

namespace tandem::models {

namespace {

ConvShape geometry(const LayerInput& in, const Window& w, int64_t filters, int64_t groups) {
  const int64_t channels = in.shapes[0][0];
  if (channels % groups != 0 || filters % groups != 0) {
    in.attributes.fail(
        fmt::format("{} groups do not divide {} input and {} output channels", groups, channels, filters));
  }
  ConvShape s;
  s.batch = in.batch;
  s.in_channels = channels;
  s.out_channels = filters;
  s.groups = groups;
  s.in = w.in;
  s.out = w.out;
  s.kernel = w.kernel;
  s.stride = w.stride;
  s.dilation = w.dilation;
  s.pad = w.pad;
  return s;
}

/// One kernel per pass, each with the same multiply-adds. The bias is added in the forward kernel's epilogue
/// (no extra traffic); its gradient reads dy once more.
Lowered finish(const LayerInput& in, const Window& w, const ConvShape& s) {
  const int64_t size = in.element_size();
  Lowered out;
  out.output = w.output(s.out_channels);
  out.parameters = {{"weight", s.weight_elements()}};
  out.parameters[0].rows = s.out_channels;
  out.forward = {convolution(Pass::forward, s, size)};
  out.backward_data = {convolution(Pass::backward_data, s, size)};
  out.backward_weights = {convolution(Pass::backward_weights, s, size)};
  if (in.attributes.boolean("bias", true)) {
    out.parameters.push_back({"bias", s.out_channels});
    out.backward_weights.push_back(reduction(Pass::backward_weights, s.out_elements(), s.out_channels, size));
  }
  out.keeps_input = !in.frozen;
  return out;
}

Lowered conv(const LayerInput& in) {
  const int64_t filters = in.attributes.integer("filters");
  const int64_t groups = in.attributes.integer("groups", 1);
  Window w = read_window(in, false, true);
  slide(in, w, false);
  return finish(in, w, geometry(in, w, filters, groups));
}

Lowered depthwise_conv(const LayerInput& in) {
  const int64_t multiplier = in.attributes.integer("multiplier", 1);
  Window w = read_window(in, false, true);
  slide(in, w, false);
  const int64_t channels = in.shapes[0][0];
  return finish(in, w, geometry(in, w, product({channels, multiplier}), channels));
}

Lowered conv_transpose(const LayerInput& in) {
  const int64_t filters = in.attributes.integer("filters");
  const int64_t groups = in.attributes.integer("groups", 1);
  Window w = read_window(in, false, false);
  if (in.attributes.is_text("pad"))
    in.attributes.fail("\"pad\" of a transposed convolution is a number or a list");
  const auto extra = in.attributes.list("output_pad", w.dims, 0, 0);
  for (std::size_t d = 0; d < w.dims; ++d) {
    const std::size_t i = 3 - w.dims + d;
    w.out[i] = (w.in[i] - 1) * w.stride[i] - 2 * w.pad[i] + w.kernel[i] + extra[d];
    if (w.out[i] < 1) in.attributes.fail("padding leaves nothing of the output");
  }
  ConvShape s = geometry(in, w, filters, groups);
  s.transposed = true;
  return finish(in, w, s);
}

}  // namespace

void register_conv(Registry<LayerType>& registry) {
  registry.add({"conv", "convolution in 1 to 3 dimensions: grouped, dilated", conv});
  registry.add({"depthwise-conv", "convolution of each channel by itself", depthwise_conv});
  registry.add({"conv-transpose", "transposed convolution", conv_transpose});
}

}  // namespace tandem::models
