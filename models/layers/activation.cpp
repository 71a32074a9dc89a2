// SPDX-License-Identifier: Apache-2.0
// Functions of one element.
#include "models/layers/layer.h"

namespace tandem::models {

namespace {

enum class Keeps : uint8_t { input, output };

/// Forward: x in, y out. Backward: dy and the kept tensor in, dx out. FLOPs per element count each arithmetic
/// operation and each transcendental function as the few operations that fast-math code takes.
Lowered activation(const LayerInput& in, Keeps keeps, bool in_place, int64_t forward, int64_t backward) {
  Lowered out;
  out.cheap = Lowered::Cheap::activation;
  out.output = in.only();
  const int64_t count = in.total(out.output);
  out.forward = {elementwise(Pass::forward, count, 1, in.element_size(), forward)};
  out.backward_data = {elementwise(Pass::backward_data, count, 2, in.element_size(), backward)};
  out.keeps_input = keeps == Keeps::input;
  out.keeps_output = keeps == Keeps::output;
  out.in_place = in_place;
  return out;
}

/// In place although backward needs the overwritten input: eager PyTorch copies it first (CloneBackward of
/// hardtanh_, clamp_, silu_, hardswish_) and keeps the copy; fused kernels do not.
Lowered copying(Lowered out) {
  out.forward[0].clones = true;
  if (out.in_place) out.own.push_back({elements(out.output), 0, OwnTensor::Life::kept, false, true});
  return out;
}

// The sign (or saturation) of the output tells the gradient, so these overwrite their input, as frameworks
// do.
Lowered relu(const LayerInput& in) { return activation(in, Keeps::output, true, 1, 1); }
Lowered relu6(const LayerInput& in) { return copying(activation(in, Keeps::output, true, 2, 2)); }
Lowered leaky_relu(const LayerInput& in) {
  in.attributes.real("slope", 0.01, 0, 1);
  return activation(in, Keeps::output, true, 2, 2);
}
Lowered clip(const LayerInput& in) {
  const double low = in.attributes.real("low", -1);
  if (in.attributes.real("high", 1) <= low) in.attributes.fail("\"high\" must lie above \"low\"");
  return copying(activation(in, Keeps::output, true, 2, 2));
}
// f' is a function of f: the output is kept.
Lowered sigmoid(const LayerInput& in) { return activation(in, Keeps::output, false, 4, 3); }
Lowered tanh(const LayerInput& in) { return activation(in, Keeps::output, false, 6, 3); }
// f' needs x.
// Composed (the tanh form of the BERT sources): power, scale, add, scale, tanh, add, scale, multiply; half as
// many more on the way back. With `composed` the model's own code does so in eager PyTorch too
// (NewGELUActivation of transformers, before torch.compile).
// "kept": tensors that this leaves; of x sigmoid(1.702 x) the input and the sigmoid.
Lowered gelu(const LayerInput& in) {
  Lowered out = activation(in, Keeps::input, false, 12, 18);
  const bool composed = in.attributes.boolean("composed", false);
  const int64_t kept = in.attributes.integer("kept", 4, 1, 16);
  out.forward[0].parts = kept == 2 ? 3 : 8;
  out.backward_data[0].parts = kept == 2 ? 5 : 12;
  out.forward[0].eager = out.backward_data[0].eager = composed;
  // Usually x / 2, the tanh and that plus 1, whose products it makes; the power keeps x.
  for (int64_t i = 1; composed && i < kept; ++i)
    out.own.push_back({elements(out.output), 0, OwnTensor::Life::kept, true, true});
  return out;
}
/// The copy of the input is kept instead of the input itself.
Lowered maybe_copying(const LayerInput& in, Lowered out) {
  return in.attributes.boolean("in_place", false) ? copying(std::move(out)) : out;
}
Lowered swish(const LayerInput& in) { return maybe_copying(in, activation(in, Keeps::input, false, 5, 8)); }
Lowered softplus(const LayerInput& in) { return activation(in, Keeps::input, false, 5, 4); }
Lowered hard_sigmoid(const LayerInput& in) { return activation(in, Keeps::input, false, 4, 3); }
/// Composed of relu and a square in eager PyTorch too (ReLUSquaredActivation of transformers, before
/// torch.compile); backward: twice the rectified, times the gradient, and relu's mask.
Lowered relu2(const LayerInput& in) {
  Lowered out = activation(in, Keeps::input, false, 2, 3);
  out.forward[0].parts = 2;
  out.backward_data[0].parts = 3;
  out.forward[0].eager = out.backward_data[0].eager = true;
  return out;
}
Lowered hard_swish(const LayerInput& in) {
  return maybe_copying(in, activation(in, Keeps::input, false, 5, 6));
}

/// Of Huang et al. 2024 (arXiv 2411.13010), with two learned numbers.
Lowered xielu(const LayerInput& in) {
  Lowered out = activation(in, Keeps::input, false, 10, 14);
  out.parameters = {{"alpha_p", 1}, {"alpha_n", 1}};
  out.backward_weights = {reduction(Pass::backward_weights, in.total(out.output), 2, in.element_size())};
  return out;
}

/// Forward reads x, writes y and a mask of one byte an element, which alone is kept; backward reads dy and
/// the mask.
Lowered dropout(const LayerInput& in) {
  Lowered out;
  out.output = in.only();
  if (in.attributes.real("p", 0.5, 0, 0.999) == 0) {
    out.in_place = true;
    return out;
  }
  const int64_t count = in.total(out.output);
  const int64_t size = in.element_size();
  out.forward = {elementwise(Pass::forward, count, 1, size, 2)};
  out.forward[0].written += Bytes{count};
  out.backward_data = {elementwise(Pass::backward_data, count, 1, size, 1)};
  out.backward_data[0].read += Bytes{count};
  out.forward[0].parts = 5;  // composed: random numbers, add, floor, scale, multiply
  out.backward_data[0].parts = 2;
  out.own = {{elements(out.output), 1}};
  return out;
}

}  // namespace

void register_activation(Registry<LayerType>& registry) {
  registry.add({"relu", "max(x, 0), in place", relu});
  registry.add({"relu6", "min(max(x, 0), 6), in place", relu6});
  registry.add({"leaky-relu", "x, or slope x below 0, in place", leaky_relu});
  registry.add({"clip", "x held between low and high, in place", clip});
  registry.add({"sigmoid", "1 / (1 + exp(-x))", sigmoid});
  registry.add({"tanh", "hyperbolic tangent", tanh});
  registry.add({"gelu", "x times the normal distribution function", gelu});
  registry.add({"swish", "x sigmoid(x), also called SiLU", swish});
  registry.add({"softplus", "log(1 + exp(x))", softplus});
  registry.add({"hard-sigmoid", "min(max(x + 3, 0), 6) / 6", hard_sigmoid});
  registry.add({"hard-swish", "x min(max(x + 3, 0), 6) / 6", hard_swish});
  registry.add({"xielu", "xIELU: a parabola above 0, an exponential below, two learned numbers", xielu});
  registry.add({"relu2", "the square of max(x, 0)", relu2});
  registry.add({"dropout", "zeroes a share p of the elements", dropout});
}

}  // namespace tandem::models
