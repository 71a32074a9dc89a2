// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/pointwise.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "exec/device/cuda/half.h"

namespace tandem::exec::cuda {

namespace {

bool is_pointwise(const ConvShape& s, bool last) {
  return last && !s.transposed && s.groups == 1 && s.kernel == std::array<int64_t, 3>{1, 1, 1} &&
         s.pad == std::array<int64_t, 3>{0, 0, 0};
}

int64_t positions(const ConvShape& s) { return s.batch * s.out[0] * s.out[1] * s.out[2]; }

/// Weights lie {out, in}.
Product product_of(Function pass, const ConvShape& s) {
  Product p;
  const int64_t in = s.in_channels, out = s.out_channels;
  p.m = pass == Function::conv_backward_weights ? out : positions(s);
  p.n = p.ldc = pass == Function::conv ? out : in;
  p.k = pass == Function::conv ? in : pass == Function::conv_backward_data ? out : positions(s);
  p.lda = pass == Function::conv ? in : out;
  p.ldb = in;
  p.transpose_a = pass == Function::conv_backward_weights;
  p.transpose_b = pass == Function::conv;
  return p;
}

/// Copies between the used inputs, packed, and their places among all.
Prepared move_used(const ConvShape& s, bool gather, Precision stored) {
  Strided all;
  all.sizes = {s.batch, s.out[0], s.out[1], s.out[2], s.in_channels};
  std::vector<int64_t> packed(5, 1), spread(5, 1);
  int64_t in = s.in_channels;
  for (std::size_t d = 3; d > 0; --d) {
    packed[d] = packed[d + 1] * all.sizes[d + 1];
    spread[d] = in * s.stride[d - 1];
    in *= s.in[d - 1];
  }
  packed[0] = packed[1] * all.sizes[1];
  spread[0] = in;
  all.strides = gather ? std::vector{packed, spread} : std::vector{spread, packed};
  all.offsets = {0, 0};
  return prepare_move(all, stored);
}

Prepared zeros(int64_t elements, Precision stored) {
  Call call;
  call.function = Function::fill;
  call.operands = {0};
  call.shape = {elements};
  call.scalars = {0};
  if (is_half(stored)) call.half_operands = {elements};
  return prepare_own(call, stored);
}

}  // namespace

std::optional<Prepared> pointwise(const Call& conv, Precision stored, const MakeProduct& make) {
  const ConvShape s = ConvShape::unpack({conv.shape.begin(), conv.shape.end() - 1});
  if (!is_pointwise(s, conv.shape.back() != 0)) return std::nullopt;
  const Function pass = conv.function;
  const RunProduct product = make(product_of(pass, s));
  const bool weights = pass == Function::conv_backward_weights;
  const auto multiply = [=](float* x, const Launch& l) {
    float* const* o = l.operands;
    pass == Function::conv ? product(o[0], x, o[2], l)
    : weights              ? product(o[0], o[2], x, l)
                           : product(x, o[1], o[2], l);
  };
  if (s.stride == std::array<int64_t, 3>{1, 1, 1})
    return Prepared{
        [=](const Launch& l) { multiply(l.operands[pass == Function::conv_backward_data ? 0 : 1], l); }};
  const bool gather = pass != Function::conv_backward_data;
  const int64_t used = positions(s) * s.in_channels, words = is_half(stored) ? (used + 1) / 2 : used;
  const Prepared move = move_used(s, gather, stored), clear = zeros(s.in_elements(), stored);
  TANDEM_CHECK(clear.scratch == 0);
  return Prepared{[=](const Launch& l) {
                    if (gather) run_step(move, {l.scratch, l.operands[1]}, l);
                    multiply(l.scratch, l);
                    if (gather) return;
                    run_step(clear, {l.operands[0]}, l);
                    run_step(move, {l.operands[0], l.scratch}, l);
                  },
                  words};
}

}  // namespace tandem::exec::cuda
