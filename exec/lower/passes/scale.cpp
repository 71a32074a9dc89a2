// SPDX-License-Identifier: Apache-2.0
// A learned factor of each feature.
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// Features lie innermost, also those of images. Products are of tensors with equal layout: the factors
/// are copied to one as activations are, and their gradient is summed in one.
void scale(LayerCalls& l) {
  const Lowered& w = l.lowered();
  const int64_t features = l.weights()[0].elements, rows = l.batch() * elements(l.shape(0)) / features;
  const std::vector<int64_t> whole{features, 1}, alone{0, 1};
  const auto copy = [&](Pass pass, TensorId to, TensorId from) {
    l.call(make_move(pass, to, from, {{features}, {{1}, {1}}, {0, 0}, false}));
  };
  const auto product = [&](Pass pass, std::vector<TensorId> operands, std::vector<std::vector<int64_t>> steps,
                           std::vector<Kernel> kernels) {
    const Strided s{{rows, features}, std::move(steps), {0, 0, 0}, pass == Pass::backward_weights};
    l.call(make_call(Function::product, pass, std::move(operands), s.pack(), std::move(kernels)));
  };
  const TensorId factor = l.parameter(0, 0, 1), copied = l.keep(features, true);
  copy(Pass::forward, copied, factor);
  product(Pass::forward, {l.out(), l.in(0), copied}, {whole, whole, alone}, w.forward);
  if (l.learns()) {
    const TensorId sum = l.scratch(features, true);
    l.call(make_fill(Pass::backward_weights, sum, features, 0));
    product(Pass::backward_weights, {sum, l.d_out(), l.in(0)}, {alone, whole, whole}, w.backward_weights);
    copy(Pass::backward_weights, l.gradient(0), sum);
  }
  if (l.needs_d_in(0))
    product(Pass::backward_data, {l.d_in(0), l.d_out(), copied}, {whole, whole, alone}, w.backward_data);
}

}  // namespace

void register_scale(Registry<LayerExecution>& registry) {
  registry.add({"scale", "strided products", scale});
}

}  // namespace tandem::exec
