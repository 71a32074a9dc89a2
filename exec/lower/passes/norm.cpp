// SPDX-License-Identifier: Apache-2.0
// Normalisations.
#include <fmt/format.h>

#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// A vector of channels to or from its place among two.
Call move_channels(TensorId to, TensorId from, int64_t channels, int64_t to_offset, int64_t from_offset) {
  return make_move(Pass::backward_data, to, from, {{channels}, {{1}, {1}}, {to_offset, from_offset}});
}

/// Batch normalisation over the samples of several devices. A device's own sums are its gradients of scale
/// and shift, which are summed as all gradients are; those of all devices make the input's.
void over_devices(LayerCalls& l, std::vector<int64_t> shape) {
  const Lowered& w = l.lowered();
  const int64_t channels = shape[1];
  const bool affine = !l.weights().empty(), learned = affine && l.learns();
  shape.push_back(l.sharing().norm_devices);
  if (l.norm_samples() > 0) shape.push_back(shape[0] * shape[2] / l.batch() * l.norm_samples());
  const TensorId mean = l.keep(channels), deviation = l.keep(channels), sums = l.scratch(2 * channels),
                 running_mean = l.buffer(channels, 0), running_variance = l.buffer(channels, 1),
                 scale = affine ? l.parameter(0, 0, 1) : kNoTensor;
  l.call(make_call(Function::batch_norm_statistics, Pass::forward, {sums, l.in(0), running_mean}, shape,
                   {w.forward.at(0)}));
  l.exchange(Pass::forward, {sums, sums});
  std::vector<TensorId> forward{l.out(), l.in(0), mean, deviation, running_mean, running_variance, sums};
  if (affine) forward.insert(forward.end(), {scale, l.parameter(1, 0)});
  l.call(make_call(Function::batch_norm_shared, Pass::forward, forward, shape, {w.forward.at(1)},
                   {kNormEpsilon, 0.1F}));
  if (!learned && !l.needs_d_in(0)) return;
  const TensorId dscale = learned ? l.gradient(0) : l.scratch(channels);
  const TensorId dshift = learned ? l.gradient(1) : l.scratch(channels);
  l.call(make_call(Function::batch_norm_sums, learned ? Pass::backward_weights : Pass::backward_data,
                   {dscale, dshift, l.in(0), l.d_out(), mean, deviation}, shape,
                   {l.needs_d_in(0) ? w.backward_data.at(0) : w.backward_weights.at(0)}));
  if (!l.needs_d_in(0)) return;
  const TensorId both = l.scratch(2 * channels), scale_of_all = l.scratch(channels),
                 shift_of_all = l.scratch(channels);
  l.call(move_channels(both, dscale, channels, 0, 0));
  l.call(move_channels(both, dshift, channels, channels, 0));
  l.exchange(Pass::backward_data, {both, both});
  l.call(move_channels(scale_of_all, both, channels, 0, 0));
  l.call(move_channels(shift_of_all, both, channels, 0, channels));
  std::vector<TensorId> backward{l.d_in(0), l.in(0), l.d_out(), mean, deviation, scale_of_all, shift_of_all};
  if (affine) backward.push_back(scale);
  l.call(make_call(Function::batch_norm_backward, Pass::backward_data, backward, shape,
                   {w.backward_data.back()}));
}

void batch_norm(LayerCalls& l) {
  const Shape& s = l.shape(0);
  const Lowered& w = l.lowered();
  const int64_t channels = s[0], all = l.batch() * elements(s) / channels;
  const bool last = s.size() != 2;  // {C, L} alone lies channel by channel
  const std::vector<int64_t> shape{last ? all : l.batch(), channels, last ? 1 : all / l.batch()};
  const bool affine = !l.weights().empty(), learned = affine && l.learns();
  if (!l.training()) {
    std::vector<TensorId> operands{l.out(), l.in(0), l.buffer(channels, 0), l.buffer(channels, 1)};
    if (affine) operands.insert(operands.end(), {l.parameter(0, 0, 1), l.parameter(1, 0)});
    return l.call(
        make_call(Function::batch_norm_inference, Pass::forward, operands, shape, {}, {kNormEpsilon}));
  }
  if (l.sharing().norm_devices > 1) return over_devices(l, shape);
  const TensorId mean = l.keep(channels), deviation = l.keep(channels);
  std::vector<TensorId> forward{
      l.out(), l.in(0), mean, deviation, l.buffer(channels, 0), l.buffer(channels, 1)};
  TensorId scale = 0;
  if (affine) {
    scale = l.parameter(0, 0, 1);
    forward.push_back(scale);
    forward.push_back(l.parameter(1, 0));
  }
  l.call(make_call(Function::batch_norm, Pass::forward, forward, shape, w.forward, {kNormEpsilon, 0.1F}));
  if (!learned && !l.needs_d_in(0)) return;
  const TensorId dscale = learned ? l.gradient(0) : l.scratch(channels);
  const TensorId dshift = learned ? l.gradient(1) : l.scratch(channels);
  l.call(make_call(Function::batch_norm_sums, learned ? Pass::backward_weights : Pass::backward_data,
                   {dscale, dshift, l.in(0), l.d_out(), mean, deviation}, shape,
                   learned  ? std::vector{w.backward_weights.at(0)}
                   : affine ? std::vector<Kernel>{}
                            : std::vector{w.backward_data.at(0)}));
  if (!l.needs_d_in(0)) return;
  std::vector<TensorId> backward{l.d_in(0), l.in(0), l.d_out(), mean, deviation, dscale, dshift};
  if (affine) backward.push_back(scale);
  l.call(make_call(Function::batch_norm_backward, Pass::backward_data, backward, shape,
                   {w.backward_data.back()}));
}

/// {outer, groups, space, channels of a group, root mean square only}.
void row_norm(LayerCalls& l, std::vector<int64_t> shape, float epsilon) {
  const Lowered& w = l.lowered();
  const auto parameters = l.weights().size();
  const TensorId statistics = l.keep(shape[0] * shape[1] * 2);
  std::vector<TensorId> forward{l.out(), l.in(0), statistics};
  if (parameters > 0) forward.push_back(l.parameter(0, 0, 1));
  if (parameters > 1) forward.push_back(l.parameter(1, 0));
  l.call(make_call(Function::row_norm, Pass::forward, forward, shape, w.forward, {epsilon}));
  if (parameters > 0 && l.learns()) {
    std::vector<TensorId> sums{l.gradient(0)};
    if (parameters > 1) sums.push_back(l.gradient(1));
    sums.insert(sums.end(), {l.in(0), l.d_out(), statistics});
    l.call(make_call(Function::row_norm_sums, Pass::backward_weights, sums, shape, w.backward_weights));
  }
  if (!l.needs_d_in(0)) return;
  std::vector<TensorId> backward{l.d_in(0), l.in(0), l.d_out(), statistics};
  if (parameters > 0) backward.push_back(forward[3]);
  l.call(make_call(Function::row_norm_backward, Pass::backward_data, backward, shape, w.backward_data));
}

void last_dimension(LayerCalls& l, bool rms) {
  const Shape& s = l.shape(0);
  const std::size_t axis = rms ? s.size() - 1 : feature_axis(Attributes(l.layer().attributes), s);
  if (s.size() > 2 && axis != 0) {
    throw InputError(
        l.layer().attributes.place(),
        fmt::format("layer \"{}\" normalises the last of {} dimensions, which cannot be executed: "
                    "images lie channels last",
                    l.layer().name, s.size()));
  }
  const int64_t width = rms ? Attributes(l.layer().attributes).integer("width", s[axis]) : s[axis];
  row_norm(l, {l.batch() * elements(s) / width, 1, 1, width, rms ? 1 : 0}, kNormEpsilon);
}

void layer_norm(LayerCalls& l) { last_dimension(l, false); }
void rms_norm(LayerCalls& l) { last_dimension(l, true); }

void require_image(const LayerCalls& l) {
  if (l.shape(0).size() >= 3) return;
  throw InputError(l.layer().attributes.place(),
                   fmt::format("layer \"{}\": {} is executed for images only, not for {}", l.layer().name,
                               l.layer().type->name, to_text(l.shape(0))));
}

void group_norm(LayerCalls& l) {
  require_image(l);
  const Shape& s = l.shape(0);
  const int64_t groups = Attributes(l.layer().attributes).integer("groups");
  row_norm(l, {l.batch(), groups, elements(s) / s[0], s[0] / groups, 0}, kNormEpsilon);
}

void pixel_norm(LayerCalls& l) {
  require_image(l);
  const Shape& s = l.shape(0);
  row_norm(l, {l.batch() * elements(s) / s[0], 1, 1, s[0], 1}, 1e-8F);
}

/// Constants of Krizhevsky et al. 2012, section 3.3: k = 2, alpha = 1e-4, beta = 0.75.
void lrn(LayerCalls& l) {
  require_image(l);
  const Shape& s = l.shape(0);
  const int64_t rows = l.batch() * elements(s) / s[0];
  const std::vector<int64_t> shape{rows, s[0], Attributes(l.layer().attributes).integer("window", 5)};
  const std::vector<float> scalars{2, 1e-4F, 0.75F};
  const TensorId denominator = l.keep(rows * s[0]);
  l.call(make_call(Function::lrn, Pass::forward, {l.out(), l.in(0), denominator}, shape, l.lowered().forward,
                   scalars));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::lrn_backward, Pass::backward_data,
                   {l.d_in(0), l.in(0), l.out(), l.d_out(), denominator}, shape, l.lowered().backward_data,
                   scalars));
}

}  // namespace

void register_norm(Registry<LayerExecution>& registry) {
  registry.add({"batch-norm", "statistics of the batch; running ones for evaluation", batch_norm});
  registry.add({"layer-norm", "a row at a time", layer_norm});
  registry.add({"rms-norm", "a row at a time", rms_norm});
  registry.add({"group-norm", "an image's group at a time", group_norm});
  registry.add({"pixel-norm", "a pixel at a time", pixel_norm});
  registry.add({"lrn", "a pixel at a time", lrn});
}

}  // namespace tandem::exec
