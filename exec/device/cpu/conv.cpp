// SPDX-License-Identifier: Apache-2.0
// Convolutions: oneDNN's where it has them, else plain loops over windows, exact for every geometry.
#include "exec/device/cpu/onednn.h"

namespace tandem::exec::cpu {

namespace {

/// Strides of one image: element (channel c, position p) lies at c * channel + p * position.
struct Layout {
  int64_t channel, position, image;
};

Layout layout(const std::array<int64_t, 3>& space, int64_t channels, bool last) {
  const int64_t n = space[0] * space[1] * space[2];
  return last ? Layout{1, channels, n * channels} : Layout{n, 1, n * channels};
}

/// Calls use(image, group, near position, far position, tap) for every pair of positions that a kernel tap
/// joins: "far" is the side that the kernel slides over (the larger one).
template <typename Use>
void taps(const ConvShape& s, const Use& use) {
  const auto& near = s.transposed ? s.in : s.out;
  const auto& far = s.transposed ? s.out : s.in;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t z = 0; z < near[0]; ++z)
      for (int64_t y = 0; y < near[1]; ++y)
        for (int64_t x = 0; x < near[2]; ++x)
          for (int64_t i = 0; i < s.kernel[0]; ++i) {
            const int64_t fz = z * s.stride[0] - s.pad[0] + i * s.dilation[0];
            if (fz < 0 || fz >= far[0]) continue;
            for (int64_t j = 0; j < s.kernel[1]; ++j) {
              const int64_t fy = y * s.stride[1] - s.pad[1] + j * s.dilation[1];
              if (fy < 0 || fy >= far[1]) continue;
              for (int64_t k = 0; k < s.kernel[2]; ++k) {
                const int64_t fx = x * s.stride[2] - s.pad[2] + k * s.dilation[2];
                if (fx < 0 || fx >= far[2]) continue;
                use(b, (z * near[1] + y) * near[2] + x, (fz * far[1] + fy) * far[2] + fx,
                    (i * s.kernel[1] + j) * s.kernel[2] + k);
              }
            }
          }
}

Prepared plain(const Call& c) {
  const ConvShape s = ConvShape::unpack({c.shape.begin(), c.shape.end() - 1});
  const bool last = c.shape.back() != 0, bias = c.function == Function::conv && c.operands.size() > 3;
  const Layout in = layout(s.in, s.in_channels, last), out = layout(s.out, s.out_channels, last);
  const int64_t gi = s.in_channels / s.groups, go = s.out_channels / s.groups;
  const int64_t volume = s.kernel[0] * s.kernel[1] * s.kernel[2];
  const Function f = c.function;
  return [=](std::span<float* const> o, const IterationState&) {
    float* x = f == Function::conv_backward_data ? o[0] : o[1];
    float* y = f == Function::conv ? o[0] : f == Function::conv_backward_data ? o[1] : o[2];
    float* w = f == Function::conv_backward_weights ? o[0] : o[2];
    if (f == Function::conv_backward_data) std::fill_n(x, s.in_elements(), 0.0F);
    if (f == Function::conv_backward_weights) std::fill_n(w, s.weight_elements(), 0.0F);
    if (f == Function::conv) {
      const int64_t positions = s.out[0] * s.out[1] * s.out[2];
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t p = 0; p < positions; ++p)
          for (int64_t k = 0; k < s.out_channels; ++k)
            y[b * out.image + k * out.channel + p * out.position] = bias ? o[3][k] : 0.0F;
    }
    taps(s, [&](int64_t b, int64_t near, int64_t far, int64_t tap) {
      const int64_t px = s.transposed ? near : far, py = s.transposed ? far : near;
      for (int64_t k = 0; k < s.out_channels; ++k) {
        float* from = x + b * in.image + px * in.position + k / go * gi * in.channel;
        float& to = y[b * out.image + py * out.position + k * out.channel];
        float* weights = w + (k * volume + tap) * gi;
        float dot = 0;
        switch (f) {
          case Function::conv:
            for (int64_t i = 0; i < gi; ++i) dot += from[i * in.channel] * weights[i];
            to += dot;
            break;
          case Function::conv_backward_data:
            for (int64_t i = 0; i < gi; ++i) from[i * in.channel] += to * weights[i];
            break;
          default:
            for (int64_t i = 0; i < gi; ++i) weights[i] += to * from[i * in.channel];
            break;
        }
      }
    });
  };
}

Prepared conv(const Call& c, int threads) {
  if (auto fast = onednn_conv(c, threads)) return *std::move(fast);
  return plain(c);
}

}  // namespace

Prepared fallback_conv(const Call& c) { return plain(c); }

void add_conv(Table& t) {
  set(t, Function::conv, conv);
  set(t, Function::conv_backward_data, conv);
  set(t, Function::conv_backward_weights, conv);
}

}  // namespace tandem::exec::cpu
