// SPDX-License-Identifier: Apache-2.0
// Functions of one element.
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// As the model says: those whose output tells the gradient keep it and may overwrite their input.
template <Unary kind>
void unary(LayerCalls& l) {
  const Attributes attributes(l.layer().attributes);
  const int64_t n = l.batch() * elements(l.layer().output);
  std::vector<float> scalars;
  if (kind == Unary::leaky_relu) scalars = {static_cast<float>(attributes.real("slope", 0.01))};
  if (kind == Unary::clip)
    scalars = {static_cast<float>(attributes.real("low", -1)),
               static_cast<float>(attributes.real("high", 1))};
  const TensorId in = l.in(0);
  if (l.lowered().in_place) l.out_is_in(true);
  const std::vector<int64_t> shape{n, static_cast<int64_t>(kind)};
  l.call(make_call(Function::unary, Pass::forward, {l.out(), in}, shape, l.lowered().forward, scalars));
  if (!l.needs_d_in(0)) return;
  const TensorId kept = l.lowered().keeps_output ? l.out() : in;
  l.call(make_call(Function::unary_backward, Pass::backward_data, {l.d_in(0), l.d_out(), kept}, shape,
                   l.lowered().backward_data, scalars));
}

void dropout(LayerCalls& l) {
  if (!l.training() || l.lowered().forward.empty()) {  // or p = 0
    l.out_is_in(false);
    if (l.needs_d_in(0)) l.d_in_is_d_out(0);
    return;
  }
  const auto p = static_cast<float>(Attributes(l.layer().attributes).real("p", 0.5));
  const int64_t n = l.batch() * elements(l.layer().output);
  const TensorId mask = l.keep((n + 3) / 4);
  const std::vector<int64_t> shape{n, static_cast<int64_t>(mask)};
  l.call(
      make_call(Function::dropout, Pass::forward, {l.out(), l.in(0), mask}, shape, l.lowered().forward, {p}));
  if (!l.needs_d_in(0)) return;
  l.call(make_call(Function::dropout_backward, Pass::backward_data, {l.d_in(0), l.d_out(), mask}, shape,
                   l.lowered().backward_data, {p}));
}

}  // namespace

void register_activation(Registry<LayerExecution>& registry) {
  registry.add({"relu", "in place", unary<Unary::relu>});
  registry.add({"relu6", "in place", unary<Unary::relu6>});
  registry.add({"leaky-relu", "in place", unary<Unary::leaky_relu>});
  registry.add({"clip", "in place", unary<Unary::clip>});
  registry.add({"sigmoid", "gradient from the output", unary<Unary::sigmoid>});
  registry.add({"tanh", "gradient from the output", unary<Unary::tanh>});
  registry.add({"gelu", "with the error function, not its tanh approximation", unary<Unary::gelu>});
  registry.add({"swish", "gradient from the input", unary<Unary::swish>});
  registry.add({"softplus", "gradient from the input", unary<Unary::softplus>});
  registry.add({"hard-sigmoid", "gradient from the input", unary<Unary::hard_sigmoid>});
  registry.add({"hard-swish", "gradient from the input", unary<Unary::hard_swish>});
  registry.add({"relu2", "gradient from the input", unary<Unary::relu2>});
  registry.add({"dropout", "masks drawn by counter from (seed, worker, iteration, layer, element)", dropout});
}

}  // namespace tandem::exec
