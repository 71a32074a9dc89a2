// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/mirror.h"

#include <utility>

#include "base/error.h"

namespace tandem::exec::cuda {

namespace {

ConvShape shape_of_conv(const Call& c) { return ConvShape::unpack({c.shape.begin(), c.shape.end() - 1}); }

}  // namespace

Call mirrored(const Call& transposed) {
  ConvShape s = shape_of_conv(transposed);
  TANDEM_CHECK(s.transposed);
  std::swap(s.in_channels, s.out_channels);
  std::swap(s.in, s.out);
  s.transposed = false;
  Call out = transposed;
  out.shape = s.pack();
  out.shape.push_back(transposed.shape.back());
  if (transposed.function == Function::conv)
    out.function = Function::conv_backward_data;
  else if (transposed.function == Function::conv_backward_data)
    out.function = Function::conv;
  return out;
}

WeightSwap::WeightSwap(const Call& transposed, bool back) {
  const ConvShape s = shape_of_conv(transposed);
  groups = s.groups;
  outer = s.out_channels / s.groups;
  inner = s.in_channels / s.groups;
  taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  if (back) std::swap(outer, inner);
}

}  // namespace tandem::exec::cuda
