// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sliding window that convolutions and pooling share.
#include <fmt/format.h>

#include <algorithm>

#include "models/layers/layer.h"

namespace tandem::models {

/// Spatial arrays are {depth, height, width} with 1 (0 for pad) where unused, as in ConvShape.
struct Window {
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1},
      pad{0, 0, 0};
  std::size_t dims = 0;

  /// {channels, out...} in the number of dimensions that the input had.
  Shape output(int64_t channels) const {
    Shape shape{channels};
    for (std::size_t d = 3 - dims; d < 3; ++d) shape.push_back(out[d]);
    return shape;
  }
};

inline int64_t volume(const std::array<int64_t, 3>& a) { return product({a[0], a[1], a[2]}); }

/// Reads kernel, stride, pad (number, list or "same") and, when `dilated`, dilation for an input
/// {channels, space...}; `out` is left for the caller. A missing stride is 1, or the kernel when pooling.
inline Window read_window(const LayerInput& in, bool pooling, bool dilated) {
  const Shape& shape = in.only(2);
  if (shape.size() > 4)
    in.attributes.fail(fmt::format("takes 1 to 3 spatial dimensions, not the input {}", to_text(shape)));
  Window w;
  w.dims = shape.size() - 1;
  const std::size_t skip = 3 - w.dims;
  const auto kernel = in.attributes.sizes("kernel", w.dims);
  const bool given = in.attributes.has("stride");
  const auto stride = in.attributes.list("stride", w.dims, 1, 1);
  const auto dilation =
      dilated ? in.attributes.list("dilation", w.dims, 1, 1) : std::vector<int64_t>(w.dims, 1);
  const bool same = in.attributes.is_text("pad");
  if (same && in.attributes.text("pad", "") != "same")
    in.attributes.fail("\"pad\" is a number, a list or \"same\"");
  const auto pad = same ? std::vector<int64_t>(w.dims, 0) : in.attributes.list("pad", w.dims, 0, 0);
  for (std::size_t d = 0; d < w.dims; ++d) {
    w.in[skip + d] = shape[d + 1];
    w.kernel[skip + d] = kernel[d];
    w.stride[skip + d] = pooling && !given ? kernel[d] : stride[d];
    w.dilation[skip + d] = dilation[d];
    const int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
    if (same) {  // TensorFlow's rule: out = ceil(in / stride); an odd total pads one more at the end
      const int64_t s = w.stride[skip + d];
      const int64_t out = (shape[d + 1] + s - 1) / s;
      w.pad[skip + d] = std::max<int64_t>(0, ((out - 1) * s + reach - shape[d + 1]) / 2);
      w.out[skip + d] = out;
    } else {
      w.pad[skip + d] = pad[d];
    }
  }
  return w;
}

/// Number of window positions in each dimension; `ceil` lets the last one hang over the end, if it begins
/// inside the input or its front padding. Fails when the window is larger than the padded input.
inline void slide(const LayerInput& in, Window& w, bool ceil) {
  if (in.attributes.is_text("pad")) return;  // "same": resolved by read_window
  for (std::size_t d = 3 - w.dims; d < 3; ++d) {
    const int64_t reach = w.dilation[d] * (w.kernel[d] - 1) + 1;
    const int64_t room = w.in[d] + 2 * w.pad[d] - reach;
    if (room < 0) {
      in.attributes.fail(fmt::format("a window of {} does not fit the input {} (padding {} on each side)",
                                     reach, to_text(in.shapes[0]), w.pad[d]));
    }
    w.out[d] = (room + (ceil ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
    if (ceil && (w.out[d] - 1) * w.stride[d] >= w.in[d] + w.pad[d]) --w.out[d];
  }
}

}  // namespace tandem::models
