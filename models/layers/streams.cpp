// SPDX-License-Identifier: Apache-2.0
// Parallel residual streams (Xie et al. 2026, Manifold-Constrained Hyper-Connections, as in DeepSeek-V4): a
// layer reads a weighted sum of `streams` of them and its result is added to all, while they are mixed by a
// matrix whose rows and columns sum to 1. The weights are computed from the streams themselves, in fp32.
#include <fmt/format.h>

#include "models/layers/layer.h"
#include "models/layers/norm_kernel.h"

namespace tandem::models {

namespace {

constexpr int64_t kWide = 4;  ///< bytes per element in computing the weights

/// Of {time, streams x width}.
int64_t streams_of(const LayerInput& in, const Shape& shape) {
  const int64_t streams = in.attributes.integer("streams");
  if (shape.size() != 2 || shape[1] % streams != 0)
    in.attributes.fail(fmt::format("takes {{time, {} streams x width}}, not {}", streams, to_text(shape)));
  return streams;
}

/// The weighted sum: {time, width}. With "mixes" the weights of the result and of the mixture are computed
/// too, and normalised in that many rounds.
Lowered stream_read(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const int64_t streams = streams_of(in, shape), width = shape[1],
                rounds = in.attributes.integer("rounds", 20);
  const bool mixes = in.attributes.boolean("mixes", true);
  const int64_t weights = mixes ? product({streams, streams + 2}) : streams, size = in.element_size(),
                rows = product({in.batch, shape[0]}), count = product({rows, width});
  Lowered out;
  out.output = {shape[0], width / streams};
  out.parameters = {{"weights", product({weights, width})}, {"base", weights}, {"scale", mixes ? 3 : 1}};
  const int64_t rounded = mixes ? product({streams, streams, 4, rounds}) : 0;
  out.forward = {norm(Pass::forward, rows, width, 1, 1, 4, kWide),
                 gemm(Pass::forward, 1, rows, weights, width, kWide),
                 elementwise(Pass::forward, product({rows, weights}), 1, kWide, 6 + rounded / weights),
                 reduction(Pass::forward, count, count / streams, size)};
  out.backward_data = {
      elementwise(Pass::backward_data, count, 3, size, 4),
      elementwise(Pass::backward_data, product({rows, weights}), 2, kWide, 12 + 2 * rounded / weights),
      gemm(Pass::backward_data, 1, rows, width, weights, kWide),
      norm(Pass::backward_data, rows, width, 2, 1, 8, kWide)};
  out.backward_weights = {gemm(Pass::backward_weights, 1, width, weights, rows, kWide),
                          reduction(Pass::backward_weights, product({rows, weights}), weights, kWide)};
  out.keeps_input = true;
  // The streams in fp32, as they are and normed, and the weights of each round.
  out.own = {{product({shape[0], width}), kWide}, {product({shape[0], width}), kWide}};
  out.own.push_back({checked_add(product({shape[0], weights, 2}), product({shape[0], rounded}) / 2), kWide});
  return out;
}

/// From a layer's result {time, width} and the streams that it read: the streams after it.
Lowered stream_write(const LayerInput& in) {
  if (in.shapes.size() != 2) in.attributes.fail("takes what a layer made and the streams that it read");
  const Shape &made = in.shapes[0], &shape = in.shapes[1];
  const int64_t streams = streams_of(in, shape), count = in.total(shape), size = in.element_size();
  if (made != Shape{shape[0], shape[1] / streams})
    in.attributes.fail(
        fmt::format("{} is not one of {} streams of {}", to_text(made), streams, to_text(shape)));
  Lowered out;
  out.output = shape;
  const auto pass = [&](Pass which, int64_t flops, int64_t times) {
    Kernel k = elementwise(which, count, times, size, flops);
    k.read += Bytes{size} * (times * (count / streams));
    return k;
  };
  out.forward = {pass(Pass::forward, 2 * streams + 2, 1)};
  out.backward_data = {pass(Pass::backward_data, 4 * streams + 4, 2)};
  out.backward_data[0].written += Bytes{size} * (count / streams);
  out.keeps_input = true;
  return out;
}

}  // namespace

void register_streams(Registry<LayerType>& registry) {
  registry.add({"stream-read", "a weighted sum of residual streams, whose weights they make", stream_read});
  registry.add({"stream-write", "adds a layer's result to all streams, mixed with each other", stream_write});
}

}  // namespace tandem::models
