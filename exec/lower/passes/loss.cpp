// SPDX-License-Identifier: Apache-2.0
// Softmax and losses. A loss is the mean over the batch's rows.
#include <algorithm>

#include "exec/lower/call_shapes.h"
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// Classes lie innermost in storage whatever the rank: images are channels last.
std::vector<int64_t> rows(const LayerCalls& l) {
  const Shape& s = l.shape(0);
  const int64_t classes = s.size() > 2 ? s.front() : s.back();
  return {l.batch() * elements(s) / classes, classes};
}

void softmax(LayerCalls& l) {
  const auto shape = rows(l);
  l.call(make_call(Function::softmax, Pass::forward, {l.out(), l.in(0)}, shape, l.lowered().forward));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::softmax_backward, Pass::backward_data, {l.d_in(0), l.out(), l.d_out()}, shape,
                   l.lowered().backward_data));
}

/// Of one of the devices that have a part of the classes each.
void cross_entropy_of_part(LayerCalls& l) {
  auto shape = rows(l);
  const int64_t count = shape[0], columns = shape[1], part = l.partner(), parts = l.partners();
  const int64_t classes = std::clamp<int64_t>(l.whole_features(0) - part * columns, 0, columns);
  shape.insert(shape.end(), {part, parts, classes});
  const std::vector<Kernel>& kernels = l.lowered().forward;
  const TensorId numbers = l.keep(parts * count * ClassesShape::kNumbers);
  const TensorId shifts = l.keep(count), labels = l.label(count, true), loss = l.loss();
  l.call(make_call(Function::cross_entropy_part, Pass::forward, {numbers, l.in(0), labels}, shape,
                   {kernels.at(0)}));
  l.exchange(Pass::forward, {numbers, numbers});
  l.call(make_call(Function::cross_entropy_join, Pass::forward, {loss, shifts, numbers, labels}, shape,
                   {kernels.at(1)}));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::cross_entropy_part_backward, Pass::backward_data,
                   {l.d_in(0), l.in(0), shifts, labels}, shape, l.lowered().backward_data));
}

void cross_entropy(LayerCalls& l) {
  if (!l.lowered().forward_exchanges.empty()) return cross_entropy_of_part(l);
  const auto shape = rows(l);
  const TensorId shifts = l.keep(shape[0]), labels = l.label(shape[0], true), loss = l.loss();
  l.call(make_call(Function::cross_entropy, Pass::forward, {loss, shifts, l.in(0), labels}, shape,
                   l.lowered().forward));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::cross_entropy_backward, Pass::backward_data,
                   {l.d_in(0), l.in(0), shifts, labels}, shape, l.lowered().backward_data,
                   {l.loss_weight()}));
}

void mse(LayerCalls& l) {
  const int64_t count = l.batch() * elements(l.shape(0));
  const TensorId target = l.inputs() > 1 ? l.in(1) : l.label(count, false);
  l.call(make_call(Function::mse, Pass::forward, {l.loss(), l.in(0), target}, {count}, l.lowered().forward));
  std::vector<Kernel> kernels = l.lowered().backward_data;
  for (std::size_t i = 0; i < l.inputs(); ++i) {
    if (!l.needs_d_in(i)) continue;
    l.call(make_call(Function::mse_backward, Pass::backward_data, {l.d_in(i), l.in(0), target}, {count},
                     kernels, {i == 0 ? l.loss_weight() : -l.loss_weight()}));
    kernels.clear();  // the model prices one pass for both
  }
}

}  // namespace

void register_loss(Registry<LayerExecution>& registry) {
  registry.add({"softmax", "one pass over each row", softmax});
  registry.add({"cross-entropy",
                "one number a row kept with the logits, which turns them into probabilities again",
                cross_entropy});
  registry.add({"mse", "mean over all elements", mse});
}

}  // namespace tandem::exec
