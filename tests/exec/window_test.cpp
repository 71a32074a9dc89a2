// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling, held against the sums that define them, in the order of the model's shapes.
#include <gtest/gtest.h>

#include <array>

#include "tests/exec/layer_run.h"

namespace tandem::tests {
namespace {

using Index = std::array<int64_t, 3>;

/// {1, 1, width}, {1, height, width} or {depth, height, width} of a shape {channels, space...}.
Index space(const Shape& shape, int64_t missing = 1) {
  Index out{missing, missing, missing};
  for (std::size_t d = 1; d < shape.size(); ++d) out[3 - shape.size() + d] = shape[d];
  return out;
}

int64_t volume(const Index& s) { return s[0] * s[1] * s[2]; }

template <typename Use>
void for_each_place(const Index& size, const Use& use) {
  for (int64_t z = 0; z < size[0]; ++z)
    for (int64_t y = 0; y < size[1]; ++y)
      for (int64_t x = 0; x < size[2]; ++x) use(Index{z, y, x}, (z * size[1] + y) * size[2] + x);
}

/// Place in a tensor of that size, or -1 outside.
int64_t place(const Index& at, const Index& size) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (at[d] < 0 || at[d] >= size[d]) return -1;
  }
  return (at[0] * size[1] + at[1]) * size[2] + at[2];
}

struct ConvCase {
  Shape input;
  std::string layer;
  Index kernel, stride, dilation, pad;
  int64_t groups;
  bool transposed;
};

/// y[o, p] = bias[o] + sum over taps t and the group's channels i of w[o, t, i] x[i, p stride - pad + t
/// dilation]; transposed, the places of x and y change roles.
Values convolved(const LayerRun& b, const ConvCase& c) {
  const Shape& output = b.graph.layers().back().output;
  const Index in = space(c.input), out = space(output);
  const int64_t ci = c.input[0], co = output[0], gi = ci / c.groups, go = co / c.groups;
  const Values x = b.input(), w = b.parameter("weight");
  const Values bias = b.graph.layers().back().parameters.size() > 1 ? b.parameter("bias") : Values{};
  Values y(static_cast<std::size_t>(b.batch * elements(output)));
  for (std::size_t i = 0; i < y.size() && !bias.empty(); ++i)
    y[i] = bias[i / static_cast<std::size_t>(volume(out)) % static_cast<std::size_t>(co)];
  for_each_place(c.transposed ? in : out, [&](const Index& near, int64_t near_at) {
    for_each_place(c.kernel, [&](const Index& tap, int64_t tap_at) {
      Index far;
      for (std::size_t d = 0; d < 3; ++d) far[d] = near[d] * c.stride[d] - c.pad[d] + tap[d] * c.dilation[d];
      const int64_t far_at = place(far, c.transposed ? out : in);
      if (far_at < 0) return;
      for (int64_t n = 0; n < b.batch; ++n)
        for (int64_t o = 0; o < co; ++o)
          for (int64_t i = 0; i < gi; ++i) {
            const int64_t from = c.transposed ? near_at : far_at, to = c.transposed ? far_at : near_at;
            const double weight = w[static_cast<std::size_t>((o * volume(c.kernel) + tap_at) * gi + i)];
            const int64_t channel = o / go * gi + i;
            y[static_cast<std::size_t>((n * co + o) * volume(out) + to)] +=
                weight * x[static_cast<std::size_t>((n * ci + channel) * volume(in) + from)];
          }
    });
  });
  return y;
}

TEST(Windows, Convolutions) {
  const std::vector<ConvCase> cases{
      {{3, 7, 6}, R"("conv","filters":5,"kernel":3)", {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1, false},
      {{16, 9, 9},
       R"("conv","filters":32,"kernel":3,"stride":2,"pad":1,"bias":false)",
       {1, 3, 3},
       {1, 2, 2},
       {1, 1, 1},
       {0, 1, 1},
       1,
       false},
      {{4, 8, 6},
       R"("conv","filters":6,"kernel":[3,2],"stride":[2,1],"dilation":[2,1],"pad":[2,0],"groups":2)",
       {1, 3, 2},
       {1, 2, 1},
       {1, 2, 1},
       {0, 2, 0},
       2,
       false},
      // "same" with stride 2 on 6 pads one row in all, and that behind; on 5 one on both sides.
      {{2, 6, 5},
       R"("conv","filters":3,"kernel":3,"stride":2,"pad":"same")",
       {1, 3, 3},
       {1, 2, 2},
       {1, 1, 1},
       {0, 0, 1},
       1,
       false},
      {{3, 10},
       R"("conv","filters":4,"kernel":3,"pad":1)",
       {1, 1, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 0, 1},
       1,
       false},
      {{2, 4, 5, 3},
       R"("conv","filters":3,"kernel":[1,3,2],"pad":[0,1,1])",
       {1, 3, 2},
       {1, 1, 1},
       {1, 1, 1},
       {0, 1, 1},
       1,
       false},
      {{6, 5, 5},
       R"("depthwise-conv","kernel":3,"pad":1,"multiplier":2)",
       {1, 3, 3},
       {1, 1, 1},
       {1, 1, 1},
       {0, 1, 1},
       6,
       false},
      {{3, 4, 5},
       R"("conv-transpose","filters":4,"kernel":4,"stride":2,"pad":1)",
       {1, 4, 4},
       {1, 2, 2},
       {1, 1, 1},
       {0, 1, 1},
       1,
       true},
      {{4, 3, 3},
       R"("conv-transpose","filters":2,"kernel":3,"stride":2,"pad":1,"output_pad":1,"groups":2)",
       {1, 3, 3},
       {1, 2, 2},
       {1, 1, 1},
       {0, 1, 1},
       2,
       true}};
  for (const ConvCase& c : cases) {
    LayerRun b({c.input}, R"({"type": )" + c.layer + "}", 2);
    const Values want = convolved(b, c);
    expect_near(b.run(), want, 5e-6, c.layer);
  }
}

/// Of each window its maximum, or its mean over the whole window, padding counted as zeros.
Values pooled(const LayerRun& b, const Index& kernel, const Index& stride, const Index& pad, bool maximum) {
  const Shape &input = b.graph.layers()[0].output, &output = b.graph.layers().back().output;
  const Index in = space(input), out = space(output);
  const Values x = b.input();
  Values y;
  for (int64_t plane = 0; plane < b.batch * input[0]; ++plane)
    for_each_place(out, [&](const Index& at, int64_t) {
      double most = -1e30, sum = 0;
      for_each_place(kernel, [&](const Index& tap, int64_t) {
        Index from;
        for (std::size_t d = 0; d < 3; ++d) from[d] = at[d] * stride[d] - pad[d] + tap[d];
        const int64_t k = place(from, in);
        if (k < 0) return;
        most = std::max(most, x[static_cast<std::size_t>(plane * volume(in) + k)]);
        sum += x[static_cast<std::size_t>(plane * volume(in) + k)];
      });
      y.push_back(maximum ? most : sum / static_cast<double>(volume(kernel)));
    });
  return y;
}

TEST(Windows, Pooling) {
  for (const Shape& shape : {Shape{3, 6, 7}, Shape{20, 6, 7}, Shape{3, 7}}) {
    const bool flat = shape.size() == 2;
    const Index kernel{1, flat ? 1 : 3, 3}, stride{1, flat ? 1 : 2, 2}, pad{0, flat ? 0 : 1, 1};
    for (const bool maximum : {true, false}) {
      LayerRun b({shape},
                 std::string(R"({"type": ")") + (maximum ? "max" : "avg") +
                     R"(-pool", "kernel": 3, "stride": 2, "pad": 1})",
                 2);
      const Values want = pooled(b, kernel, stride, pad, maximum);
      expect_near(b.run(), want, 1e-6, to_text(shape));
    }
    LayerRun hanging({shape}, R"({"type": "max-pool", "kernel": 2, "ceil": true})", 2);
    const Index two{1, flat ? 1 : 2, 2};
    const Values most = pooled(hanging, two, two, {0, 0, 0}, true);
    expect_near(hanging.run(), most, 1e-6, to_text(shape));

    LayerRun global({shape}, R"({"type": "global-pool"})", 2);
    const Values mean = pooled(global, space(shape), space(shape), {0, 0, 0}, false);
    expect_near(global.run(), mean, 1e-6, to_text(shape));
  }
}

/// Window o of n over `length` covers [floor(o length / n), ceil((o + 1) length / n)).
TEST(Windows, AdaptivePooling) {
  LayerRun b({{2, 7, 5}}, R"({"type": "adaptive-pool", "size": [3, 2]})", 2);
  const Values x = b.input();
  Values want;
  for (int64_t plane = 0; plane < 4; ++plane)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        double sum = 0, count = 0;
        for (int64_t r = i * 7 / 3; r < ((i + 1) * 7 + 2) / 3; ++r)
          for (int64_t c = j * 5 / 2; c < ((j + 1) * 5 + 1) / 2; ++c, ++count)
            sum += x[static_cast<std::size_t>(plane * 35 + r * 5 + c)];
        want.push_back(sum / count);
      }
  expect_near(b.run(), want, 1e-6);
}

}  // namespace
}  // namespace tandem::tests
