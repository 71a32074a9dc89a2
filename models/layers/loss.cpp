// SPDX-License-Identifier: Apache-2.0
// Softmax and losses. A loss gives a scalar, and nothing has to read it.
#include <fmt/format.h>

#include "models/layers/layer.h"

namespace tandem::models {

namespace {

/// The classes stand first in an image ({C,H,W}) and last in a vector or sequence.
int64_t classes(const Shape& shape) { return shape.size() > 2 ? shape.front() : shape.back(); }

/// What a device knows of a row of which it has some classes, 4 bytes each.
constexpr int64_t kNumbersOfPart = 3;

/// 5 FLOPs an element: maximum, difference, exponential, sum, quotient.
Kernel softmax_kernel(Pass pass, int64_t rows, int64_t length, int64_t reads, int64_t flops, int64_t size) {
  const int64_t count = product({rows, length});
  const Bytes tensor = Bytes{size} * count;
  return {KernelKind::softmax, pass, {rows, length}, Flops{flops} * count, tensor * reads, tensor};
}

/// Backward reads y and dy.
Lowered softmax(const LayerInput& in) {
  Lowered out;
  out.output = in.only(1);
  const int64_t length = classes(out.output);
  const int64_t rows = in.total(out.output) / length;
  out.forward = {softmax_kernel(Pass::forward, rows, length, 1, 5, in.element_size())};
  out.backward_data = {softmax_kernel(Pass::backward_data, rows, length, 2, 4, in.element_size())};
  out.keeps_output = true;
  return out;
}

/// Log-softmax and negative log-likelihood: forward writes the log-probabilities, which are kept; backward
/// turns them into the gradient of the logits. Devices that have a part of the classes each first find every
/// row's largest logit, the sum of the exponentials and the label's logit in their part, and gather these
/// three numbers (Shoeybi et al. 2019, Megatron-LM, section 3, whose three sums over the devices come to the
/// same). In memory everything is fp32, whatever the logits are: half ones are copied, and so is their
/// gradient before it goes on in half precision; nll_loss and log_softmax each make one
/// (torch.nn.functional.cross_entropy). Where these are kernels of their own they move 40 bytes for each fp32
/// logit in both passes: log_softmax reads three times and writes, nll_loss clears a gradient, and the way
/// back reads that twice, the log-probabilities once, and writes; 12 more copy half ones and their gradient
/// (counted in ATen's SoftMax.cu, as recalled). That is twice what one kernel a pass moves, in fp32.
Lowered cross_entropy(const LayerInput& in) {
  const Shape& shape = in.only(1);
  const int64_t length = classes(shape);
  const int64_t rows = in.total(shape) / length;
  Lowered out;
  out.forward = {softmax_kernel(Pass::forward, rows, length, 1, 5, in.element_size())};
  if (in.divided) {
    Kernel part = softmax_kernel(Pass::forward, rows, length, 1, 4, in.element_size());
    part.written = Bytes{4} * product({rows, kNumbersOfPart});
    out.forward = {part, softmax_kernel(Pass::forward, rows, length, 1, 1, in.element_size())};
    const int64_t words = product({rows, kNumbersOfPart, in.ways});
    out.forward_exchanges = {{Exchange::Kind::gather, 1, 1, words * 4 / in.element_size()}};
  }
  out.backward_data = {softmax_kernel(Pass::backward_data, rows, length, 1, 2, in.element_size())};
  if (!in.divided) {
    for (Kernel* k : {&out.forward[0], &out.backward_data[0]}) {
      k->parts = 2;
      k->eager = true;
    }
  }
  using Life = OwnTensor::Life;
  out.own = {{elements(shape), 4, Life::kept}, {elements(shape), 4, Life::backward}};
  if (in.element_size() < 4) {
    out.own.push_back({elements(shape), 4, Life::forward});
    out.own.push_back({elements(shape), 4, Life::backward});
  }
  return out;
}

/// Mean squared difference from a second input or, with one input, from a target of the same shape that
/// comes with the sample.
Lowered mse(const LayerInput& in) {
  if (in.shapes.size() > 2)
    in.attributes.fail(fmt::format("takes one or two inputs, not {}", in.shapes.size()));
  if (in.shapes.size() == 2 && in.shapes[0] != in.shapes[1]) {
    in.attributes.fail(fmt::format("shapes {} and {} differ", to_text(in.shapes[0]), to_text(in.shapes[1])));
  }
  const int64_t count = in.total(in.shapes[0]);
  Lowered out;
  out.forward = {elementwise(Pass::forward, count, 2, in.element_size(), 3)};
  out.forward[0].written = Bytes{4};
  out.backward_data = {elementwise(Pass::backward_data, count, 2, in.element_size(), 2)};
  out.keeps_input = true;
  return out;
}

}  // namespace

void register_loss(Registry<LayerType>& registry) {
  registry.add({"softmax", "exponentials that sum to one", softmax});
  registry.add({"cross-entropy", "softmax and negative log-likelihood of the label (a loss)", cross_entropy});
  registry.add({"mse", "mean squared difference (a loss)", mse});
}

}  // namespace tandem::models
