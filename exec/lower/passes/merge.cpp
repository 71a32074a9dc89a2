// SPDX-License-Identifier: Apache-2.0
// Layers of several inputs.
#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

/// Strides with which `small` is read along `large`: 0 where it stretches (the rules of
/// models/layers/merge.cpp).
std::vector<int64_t> stretched(const Shape& small, const Shape& large) {
  std::vector<int64_t> out(large.size() + 1, 0);
  const auto own = strides(small);
  out[0] = own[0];
  if (small.size() == large.size()) {
    for (std::size_t d = 0; d < large.size(); ++d) out[d + 1] = small[d] == 1 ? 0 : own[d + 1];
  } else if (small.size() == 1 && small[0] != 1) {
    out[small[0] == large.front() ? 1 : large.size()] = 1;  // along channels, else along the last dimension
  }
  return out;
}

Strided over(const LayerCalls& l, std::vector<std::vector<int64_t>> strides, bool adds) {
  std::vector<int64_t> offsets(strides.size(), 0);
  return {with_batch(l.batch(), l.layer().output), std::move(strides), std::move(offsets), adds};
}

int64_t count(const LayerCalls& l, std::size_t input) { return l.batch() * elements(l.shape(input)); }

void add(LayerCalls& l) {
  const auto whole = strides(l.layer().output);
  std::vector<Kernel> forward = l.lowered().forward;
  for (std::size_t i = 1; i < l.inputs(); ++i) {
    const TensorId first = i == 1 ? l.in(0) : l.out();
    if (count(l, i) == count(l, 0)) {
      l.call(make_call(Function::sum, Pass::forward, {l.out(), first, l.in(i)}, {count(l, 0)}, forward));
    } else {
      if (i == 1) l.call(make_call(Function::copy, Pass::forward, {l.out(), first}, {count(l, 0)}));
      l.call(make_move(Pass::forward, l.out(), l.in(i),
                       over(l, {whole, stretched(l.shape(i), l.shape(0))}, true), forward));
    }
    forward.clear();  // the model prices all inputs as one kernel
  }
  std::size_t sums = 0;
  for (std::size_t i = 0; i < l.inputs(); ++i) {
    const bool small = count(l, i) < count(l, 0);
    if (!l.needs_d_in(i)) {
      sums += small ? 1 : 0;
      continue;
    }
    if (!small) {
      l.d_in_is_d_out(i);
      continue;
    }
    const TensorId d = l.d_in(i);
    l.call(make_fill(Pass::backward_data, d, count(l, i), 0));
    l.call(make_move(Pass::backward_data, d, l.d_out(),
                     over(l, {stretched(l.shape(i), l.shape(0)), whole}, true),
                     {l.lowered().backward_data.at(sums++)}));
  }
}

/// y = a b c: forward multiplies one after the other; an input's gradient is dy times all the others.
void mul(LayerCalls& l) {
  if (Attributes(l.layer().attributes).integer("groups", 0, 0) > 0)
    throw InputError(l.layer().attributes.place(), "a factor for a group of features is only simulated");
  const auto whole = strides(l.layer().output);
  const auto strides_of = [&](std::size_t i) { return stretched(l.shape(i), l.shape(0)); };
  const auto multiply = [&](Pass pass, TensorId y, std::vector<int64_t> ys, TensorId a,
                            std::vector<int64_t> as, std::size_t b, bool adds, std::vector<Kernel> kernels) {
    l.call(make_call(Function::product, pass, {y, a, l.in(b)},
                     over(l, {std::move(ys), std::move(as), strides_of(b)}, adds).pack(),
                     std::move(kernels)));
  };
  std::vector<Kernel> forward = l.lowered().forward;
  for (std::size_t i = 1; i < l.inputs(); ++i) {
    multiply(Pass::forward, l.out(), whole, i == 1 ? l.in(0) : l.out(), whole, i, false, forward);
    forward.clear();
  }
  for (std::size_t i = 0; i < l.inputs(); ++i) {
    if (!l.needs_d_in(i)) continue;
    const bool small = count(l, i) < count(l, 0);
    const TensorId d = l.d_in(i);
    if (small) l.call(make_fill(Pass::backward_data, d, count(l, i), 0));
    std::vector<std::size_t> others;
    for (std::size_t k = 0; k < l.inputs(); ++k) {
      if (k != i) others.push_back(k);
    }
    TensorId product = l.d_out();
    for (std::size_t k = 0; k + 1 < others.size(); ++k) {
      const TensorId middle = l.scratch(count(l, 0), true);
      multiply(Pass::backward_data, middle, whole, product, whole, others[k], false, {});
      product = middle;
    }
    multiply(Pass::backward_data, d, small ? strides_of(i) : whole, product, whole, others.back(), small,
             {l.lowered().backward_data.at(i)});
  }
}

void concat(LayerCalls& l) {
  const auto axis = static_cast<std::size_t>(Attributes(l.layer().attributes).integer("axis", 0, 0));
  const auto whole = strides(l.layer().output);
  std::vector<Kernel> forward = l.lowered().forward, backward = l.lowered().backward_data;
  int64_t begin = 0;
  for (std::size_t i = 0; i < l.inputs(); ++i) {
    const Shape& s = l.shape(i);
    const auto sizes = with_batch(l.batch(), s);
    const int64_t offset = begin * whole[axis + 1];
    begin += s[axis];
    l.call(make_move(Pass::forward, l.out(), l.in(i), {sizes, {whole, strides(s)}, {offset, 0}, false},
                     forward));
    forward.clear();
    if (!l.needs_d_in(i)) continue;
    l.call(make_move(Pass::backward_data, l.d_in(i), l.d_out(),
                     {sizes, {strides(s), whole}, {0, offset}, false}, backward));
    backward.clear();
  }
}

}  // namespace

void register_merge(Registry<LayerExecution>& registry) {
  registry.add({"add", "gradients pass as they are", add});
  registry.add({"mul", "strided products", mul});
  registry.add({"concat", "strided copies", concat});
}

}  // namespace tandem::exec
