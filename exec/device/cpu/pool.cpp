// SPDX-License-Identifier: Apache-2.0
// Pooling over windows; channels innermost (or, for 1-D tensors stored channel by channel, position
// innermost).
#include <algorithm>
#include <limits>

#include "exec/device/cpu/kernel.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cpu {

namespace {

struct Pool : PoolShape<int64_t> {
  using PoolShape::PoolShape;

  /// use(image, output position, window size, visit) where visit(f) calls f(input position) for each element.
  template <typename Use>
  void windows(const Use& use) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t z = 0; z < out[0]; ++z)
        for (int64_t y = 0; y < out[1]; ++y)
          for (int64_t x = 0; x < out[2]; ++x) {
            const Range rz = window(0, z), ry = window(1, y), rx = window(2, x);
            use(b, (z * out[1] + y) * out[2] + x, divisor(rz, ry, rx), [&](const auto& f) {
              for (int64_t i = rz.begin; i < rz.end; ++i)
                for (int64_t j = ry.begin; j < ry.end; ++j)
                  for (int64_t k = rx.begin; k < rx.end; ++k) f((i * in[1] + j) * in[2] + k);
            });
          }
  }
};

/// Where an element lies: channels innermost are walked as one row, else each channel is a row.
struct Rows {
  int64_t count, length, channel, position, image;
  Rows(const Pool& p, const Pool::Space& space) {
    const int64_t n = p.positions(space);
    image = n * p.channels;
    length = p.last ? p.channels : 1;
    count = p.last ? 1 : p.channels;
    channel = p.last ? 0 : n;
    position = p.last ? p.channels : 1;
  }
  int64_t at(int64_t b, int64_t row, int64_t p) const { return b * image + row * channel + p * position; }
};

Prepared max_pool(const Call& c, int) {
  const Pool p(c);
  const Rows in(p, p.in), out(p, p.out);
  return [=](std::span<float* const> o, const IterationState&) {
    auto* where = reinterpret_cast<int32_t*>(o[2]);
    p.windows([&](int64_t b, int64_t to, int64_t, const auto& visit) {
      for (int64_t row = 0; row < in.count; ++row) {
        float* y = o[0] + out.at(b, row, to);
        int32_t* w = where + out.at(b, row, to);
        std::fill_n(y, in.length, -std::numeric_limits<float>::max());
        std::fill_n(w, in.length, 0);
        visit([&](int64_t from) {
          const float* x = o[1] + in.at(b, row, from);
          const auto mark = static_cast<int32_t>(from);
#pragma omp simd
          for (int64_t i = 0; i < in.length; ++i) {
            const bool more = x[i] > y[i];
            y[i] = more ? x[i] : y[i];
            w[i] = more ? mark : w[i];
          }
        });
      }
    });
  };
}

Prepared max_pool_backward(const Call& c, int) {
  const Pool p(c);
  const Rows in(p, p.in), out(p, p.out);
  return [=](std::span<float* const> o, const IterationState&) {
    const auto* where = reinterpret_cast<const int32_t*>(o[2]);
    std::fill_n(o[0], p.batch * in.image, 0.0F);
    const int64_t positions = p.positions(p.out);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t to = 0; to < positions; ++to)
        for (int64_t row = 0; row < in.count; ++row) {
          const int64_t at = out.at(b, row, to);
          float* dx = o[0] + in.at(b, row, 0);
          for (int64_t i = 0; i < in.length; ++i) dx[where[at + i] * in.position + i] += o[1][at + i];
        }
  };
}

float scale_of(const Call& c) { return c.scalars.empty() ? 1.0F : c.scalars[0]; }

Prepared avg_pool(const Call& c, int) {
  const Pool p(c);
  const Rows in(p, p.in), out(p, p.out);
  const float scale = scale_of(c);
  return [=](std::span<float* const> o, const IterationState&) {
    p.windows([&](int64_t b, int64_t to, int64_t size, const auto& visit) {
      const float share = scale / static_cast<float>(size);
      for (int64_t row = 0; row < in.count; ++row) {
        float* y = o[0] + out.at(b, row, to);
        std::fill_n(y, in.length, 0.0F);
        visit([&](int64_t from) {
          const float* x = o[1] + in.at(b, row, from);
#pragma omp simd
          for (int64_t i = 0; i < in.length; ++i) y[i] += x[i];
        });
        for (int64_t i = 0; i < in.length; ++i) y[i] *= share;
      }
    });
  };
}

Prepared avg_pool_backward(const Call& c, int) {
  const Pool p(c);
  const Rows in(p, p.in), out(p, p.out);
  const float scale = scale_of(c);
  return [=](std::span<float* const> o, const IterationState&) {
    std::fill_n(o[0], p.batch * in.image, 0.0F);
    p.windows([&](int64_t b, int64_t to, int64_t size, const auto& visit) {
      const float share = scale / static_cast<float>(size);
      for (int64_t row = 0; row < in.count; ++row) {
        const float* dy = o[1] + out.at(b, row, to);
        visit([&](int64_t from) {
          float* dx = o[0] + in.at(b, row, from);
#pragma omp simd
          for (int64_t i = 0; i < in.length; ++i) dx[i] += share * dy[i];
        });
      }
    });
  };
}

}  // namespace

void add_pool(Table& t) {
  set(t, Function::max_pool, max_pool);
  set(t, Function::max_pool_backward, max_pool_backward);
  set(t, Function::avg_pool, avg_pool);
  set(t, Function::avg_pool_backward, avg_pool_backward);
}

}  // namespace tandem::exec::cpu
