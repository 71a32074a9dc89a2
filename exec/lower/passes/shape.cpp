// SPDX-License-Identifier: Apache-2.0
// Layers that move or rename elements: strided copies, or nothing where the storage order stays.
#include <fmt/format.h>

#include <array>

#include "exec/lower/passes/calls.h"

namespace tandem::exec {

namespace {

void view(LayerCalls& l) {
  l.out_is_in(false);
  if (l.needs_d_in(0)) l.d_in_is_d_out(0);
}

/// Between storage and the order in which a shape counts its elements: {batch, channels, space}.
Strided canonical(int64_t batch, const Shape& shape, bool to_canonical) {
  const int64_t c = shape[0], space = elements(shape) / c;
  const std::vector<int64_t> stored{c * space, 1, c}, counted{c * space, space, 1};
  return {
      {batch, c, space}, {to_canonical ? counted : stored, to_canonical ? stored : counted}, {0, 0}, false};
}

bool storage_counts(const Shape& s) { return s.size() < 3 || s[0] == 1 || elements(s) == s[0]; }

void reorder(LayerCalls& l, Pass pass, TensorId to, const Shape& target, TensorId from, const Shape& source) {
  if (storage_counts(source)) return l.call(make_move(pass, to, from, canonical(l.batch(), target, false)));
  if (storage_counts(target)) return l.call(make_move(pass, to, from, canonical(l.batch(), source, true)));
  const TensorId middle = l.scratch(l.batch() * elements(source), true);
  l.call(make_move(pass, middle, from, canonical(l.batch(), source, true)));
  l.call(make_move(pass, to, middle, canonical(l.batch(), target, false)));
}

void reshape(LayerCalls& l) {
  const Shape &from = l.shape(0), &to = l.layer().output;
  const bool channels = to.size() > 2 && from.size() > 2 && to[0] == from[0];  // these lie innermost
  const bool flat =
      to.size() == 1 || from.size() == 1 || channels;  // keeps the storage order, as flatten does
  if (flat || (storage_counts(from) && storage_counts(to)) || from == to) return view(l);
  reorder(l, Pass::forward, l.out(), to, l.in(0), from);
  if (l.needs_d_in(0)) reorder(l, Pass::backward_data, l.d_in(0), from, l.d_out(), to);
}

/// [begin, begin + size of the output) of one axis.
void range(LayerCalls& l, std::size_t axis, int64_t begin) {
  const Shape &from = l.shape(0), &to = l.layer().output;
  const auto small = strides(to), large = strides(from);
  const auto sizes = with_batch(l.batch(), to);
  const int64_t offset = begin * large[axis + 1];
  l.call(make_move(Pass::forward, l.out(), l.in(0), {sizes, {small, large}, {0, offset}, false},
                   l.lowered().forward));
  if (!l.needs_d_in(0)) return;
  bool adds = false;
  const TensorId d = elements(to) < elements(from) ? l.d_in_part(0, adds) : l.d_in(0);
  l.call(make_move(Pass::backward_data, d, l.d_out(), {sizes, {large, small}, {offset, 0}, adds},
                   l.lowered().backward_data));
}

std::size_t axis_of(const LayerCalls& l) {
  return static_cast<std::size_t>(Attributes(l.layer().attributes).integer("axis", 0, 0));
}

void slice(LayerCalls& l) { range(l, axis_of(l), Attributes(l.layer().attributes).integer("begin", 0, 0)); }

void split(LayerCalls& l) {
  const std::size_t axis = axis_of(l);
  range(l, axis, Attributes(l.layer().attributes).integer("index", 0, 0) * l.layer().output[axis]);
}

void transpose(LayerCalls& l) {
  if (l.lowered().forward.empty()) return view(l);
  const Shape& to = l.layer().output;
  const auto order = Attributes(l.layer().attributes).list("order", 0);
  const auto stored = strides(l.shape(0)), out = strides(to);
  std::vector<int64_t> in{stored[0]};
  for (const int64_t d : order) in.push_back(stored[static_cast<std::size_t>(d) + 1]);
  const auto sizes = with_batch(l.batch(), to);
  l.call(make_move(Pass::forward, l.out(), l.in(0), {sizes, {out, in}, {0, 0}, false}, l.lowered().forward));
  if (!l.needs_d_in(0)) return;
  l.call(make_move(Pass::backward_data, l.d_in(0), l.d_out(), {sizes, {in, out}, {0, 0}, false},
                   l.lowered().backward_data));
}

/// What stays in order, then what goes to the other end.
void roll(LayerCalls& l) {
  const Attributes attributes(l.layer().attributes);
  const Shape& shape = l.shape(0);
  const std::size_t axis = axis_of(l);
  const auto steps = strides(shape);
  const int64_t size = shape[axis], by = (attributes.integer("by", 1, -size, size) + size) % size;
  const auto move = [&](Pass pass, TensorId to, TensorId from, std::vector<Kernel> kernels) {
    const int64_t on = pass == Pass::forward ? by : (size - by) % size;
    for (const auto& [count, target, source] :
         {std::array{size - on, on, int64_t{0}}, std::array{on, int64_t{0}, size - on}}) {
      if (count == 0) continue;
      auto sizes = with_batch(l.batch(), shape);
      sizes[axis + 1] = count;
      l.call(make_move(pass, to, from,
                       {sizes, {steps, steps}, {target * steps[axis + 1], source * steps[axis + 1]}, false},
                       kernels));
      kernels.clear();
    }
  };
  move(Pass::forward, l.out(), l.in(0), l.lowered().forward);
  if (l.needs_d_in(0)) move(Pass::backward_data, l.d_in(0), l.d_out(), l.lowered().backward_data);
}

void pad(LayerCalls& l) {
  const Shape &from = l.shape(0), &to = l.layer().output;
  const auto small = strides(from), large = strides(to);
  int64_t offset = 0;
  for (std::size_t d = 1; d < from.size(); ++d) offset += (to[d] - from[d]) / 2 * large[d + 1];
  const auto sizes = with_batch(l.batch(), from);
  l.call(make_fill(Pass::forward, l.out(), l.batch() * elements(to), 0));
  l.call(make_move(Pass::forward, l.out(), l.in(0), {sizes, {large, small}, {offset, 0}, false},
                   l.lowered().forward));
  if (!l.needs_d_in(0)) return;
  l.call(make_move(Pass::backward_data, l.d_in(0), l.d_out(), {sizes, {small, large}, {0, offset}, false},
                   l.lowered().backward_data));
}

}  // namespace

void register_shape(Registry<LayerExecution>& registry) {
  registry.add({"flatten", "a view in storage order", view});
  registry.add({"reshape", "a view, or a copy where storage orders differ", reshape});
  registry.add({"slice", "a strided copy", slice});
  registry.add({"split", "a strided copy", split});
  registry.add({"transpose", "a strided copy", transpose});
  registry.add({"roll", "two strided copies", roll});
  registry.add({"pad", "a strided copy into zeros", pad});
}

}  // namespace tandem::exec
