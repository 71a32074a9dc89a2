// SPDX-License-Identifier: Apache-2.0
// Normalisations. Batch normalisation of images runs over rows of channels, so that all channels' statistics
// grow side by side in registers.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "exec/device/cpu/kernel.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cpu {

namespace {

/// use(channel begin, channels, element offset): runs of elements; with inner = 1 a run holds every channel
/// once, else it holds `inner` elements of one channel.
template <typename Use>
void runs(const ChannelShape& s, const Use& use) {
  if (s.inner == 1) {
    for (int64_t r = 0; r < s.outer; ++r) use(int64_t{0}, s.channels, r * s.channels);
    return;
  }
  for (int64_t r = 0; r < s.outer; ++r)
    for (int64_t c = 0; c < s.channels; ++c) use(c, s.inner, (r * s.channels + c) * s.inner);
}

struct Two {
  float first, second;
};

/// Sums over all rows of two values per channel, value(element, channel): four rows at a time, so that the
/// sums are written back seldom, and along whole rows, so that memory is read in its order.
template <typename Value>
void channel_sums(int64_t rows, int64_t channels, float* first, float* second, const Value& value) {
  std::fill_n(first, channels, 0.0F);
  std::fill_n(second, channels, 0.0F);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const int64_t at = r * channels;
#pragma omp simd
    for (int64_t i = 0; i < channels; ++i) {
      const Two a = value(at + i, i), b = value(at + channels + i, i), c = value(at + 2 * channels + i, i),
                d = value(at + 3 * channels + i, i);
      first[i] += (a.first + b.first) + (c.first + d.first);
      second[i] += (a.second + b.second) + (c.second + d.second);
    }
  }
  for (; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < channels; ++i) {
      const Two a = value(r * channels + i, i);
      first[i] += a.first;
      second[i] += a.second;
    }
  }
}

/// Sums over all rows of x - pivot and of its square, for each channel.
void sums_around(const ChannelShape& s, const float* x, const float* pivot, float* sum, float* square) {
  if (s.inner == 1) {
    channel_sums(s.outer, s.channels, sum, square, [x, pivot](int64_t at, int64_t i) {
      const float d = x[at] - pivot[i];
      return Two{d, d * d};
    });
    return;
  }
  std::fill_n(sum, s.channels, 0.0F);
  std::fill_n(square, s.channels, 0.0F);
  runs(s, [&](int64_t ch, int64_t n, int64_t at) {
    float of_run = 0, squares = 0;
    const float p = pivot[ch];
#pragma omp simd reduction(+ : of_run, squares)
    for (int64_t i = 0; i < n; ++i) {
      const float d = x[at + i] - p;
      of_run += d;
      squares += d * d;
    }
    sum[ch] += of_run;
    square[ch] += squares;
  });
}

/// y = x scale + shift, per channel.
void scale_channels(const ChannelShape& s, float* y, const float* x, const float* scale, const float* shift) {
  if (s.inner == 1) {
    for (int64_t r = 0; r < s.outer; ++r) {
      const float* from = x + r * s.channels;
      float* to = y + r * s.channels;
#pragma omp simd
      for (int64_t i = 0; i < s.channels; ++i) to[i] = from[i] * scale[i] + shift[i];
    }
  } else {
    runs(s, [&](int64_t ch, int64_t n, int64_t at) {
      for (int64_t i = 0; i < n; ++i) y[at + i] = x[at + i] * scale[ch] + shift[ch];
    });
  }
}

/// What is left of a batch normalisation when the sums around `pivot` are known: operands as batch_norm's,
/// `learned` being the first of scale and shift.
struct NormOfSums {
  ChannelShape s;
  float epsilon, momentum;
  bool affine;
  std::size_t learned;

  /// `factors`: room for two numbers a channel. `pivot` may be the running mean.
  void run(std::span<float* const> o, const float* pivot, const float* sum, const float* square,
           float* factors) const {
    float *mean = o[2], *deviation = o[3], *scale = factors, *shift = scale + s.channels;
    const int64_t rows = s.all_rows();
    const float share = 1 / static_cast<float>(rows);
    // The running variance is the unbiased one, as frameworks keep it.
    const float unbiased = rows > 1 ? static_cast<float>(rows) / static_cast<float>(rows - 1) : 1;
    for (int64_t i = 0; i < s.channels; ++i) {
      const float d = sum[i] * share, variance = std::max(0.0F, square[i] * share - d * d);
      mean[i] = pivot[i] + d;
      o[4][i] += momentum * (mean[i] - o[4][i]);
      o[5][i] += momentum * (unbiased * variance - o[5][i]);
      deviation[i] = 1 / std::sqrt(variance + epsilon);
      scale[i] = affine ? o[learned][i] * deviation[i] : deviation[i];
      shift[i] = (affine ? o[learned + 1][i] : 0.0F) - mean[i] * scale[i];
    }
    scale_channels(s, o[0], o[1], scale, shift);
  }
};

/// Mean and variance in one pass over x: sums of x - p and of its square, where the pivot p is the channel's
/// first element. It lies within the spread of the data, so nothing cancels however large the mean is.
Prepared batch_norm(const Call& c, int) {
  const ChannelShape s(c);
  const NormOfSums rest{s, c.scalars[0], c.scalars[1], c.operands.size() > 6, 6};
  auto room = std::make_shared<std::vector<float>>(static_cast<std::size_t>(3 * s.channels));
  return [=](std::span<float* const> o, const IterationState&) {
    float *factors = room->data(), *pivot = factors + 2 * s.channels;
    for (int64_t i = 0; i < s.channels; ++i) pivot[i] = o[1][i * s.inner];
    sums_around(s, o[1], pivot, o[2], o[3]);
    rest.run(o, pivot, o[2], o[3], factors);
  };
}

Prepared batch_norm_statistics(const Call& c, int) {
  const ChannelShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    sums_around(s, o[1], o[2], o[0], o[0] + s.channels);
  };
}

Prepared batch_norm_shared(const Call& c, int) {
  const ChannelShape s(c);
  const NormOfSums rest{s, c.scalars[0], c.scalars[1], c.operands.size() > 7, 7};
  auto factors = std::make_shared<std::vector<float>>(static_cast<std::size_t>(2 * s.channels));
  return [=](std::span<float* const> o, const IterationState&) {
    rest.run(o, o[4], o[6], o[6] + s.channels, factors->data());
  };
}

Prepared batch_norm_inference(const Call& c, int) {
  const ChannelShape s(c);
  const float epsilon = c.scalars[0];
  const bool affine = c.operands.size() > 4;
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < s.outer; ++r)
      for (int64_t ch = 0; ch < s.channels; ++ch) {
        const float scale = (affine ? o[4][ch] : 1.0F) / std::sqrt(o[3][ch] + epsilon);
        const float shift = (affine ? o[5][ch] : 0.0F) - o[2][ch] * scale;
        const int64_t at = (r * s.channels + ch) * s.inner;
        for (int64_t i = 0; i < s.inner; ++i) o[0][at + i] = o[1][at + i] * scale + shift;
      }
  };
}

Prepared batch_norm_sums(const Call& c, int) {
  const ChannelShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    float *dscale = o[0], *dshift = o[1];
    const float *x = o[2], *dy = o[3], *mean = o[4], *deviation = o[5];
    if (s.inner == 1) {
      channel_sums(s.outer, s.channels, dscale, dshift, [x, dy, mean](int64_t at, int64_t i) {
        return Two{dy[at] * (x[at] - mean[i]), dy[at]};
      });
      for (int64_t i = 0; i < s.channels; ++i) dscale[i] *= deviation[i];
    } else {
      std::fill_n(dscale, s.channels, 0.0F);
      std::fill_n(dshift, s.channels, 0.0F);
      runs(s, [&](int64_t ch, int64_t n, int64_t at) {
        float sum = 0, dot = 0;
        const float m = mean[ch];
#pragma omp simd reduction(+ : sum, dot)
        for (int64_t i = 0; i < n; ++i) {
          sum += dy[at + i];
          dot += dy[at + i] * (x[at + i] - m);
        }
        dshift[ch] += sum;
        dscale[ch] += dot * deviation[ch];
      });
    }
  };
}

/// dx = scale / deviation (dy - mean(dy) - xhat mean(dy xhat)), as one factor each for dy, x and 1.
Prepared batch_norm_backward(const Call& c, int) {
  const ChannelShape s(c);
  const bool affine = c.operands.size() > 7;
  auto factors = std::make_shared<std::vector<float>>(static_cast<std::size_t>(3 * s.channels));
  return [=](std::span<float* const> o, const IterationState&) {
    float* dx = o[0];
    const float *x = o[1], *dy = o[2], *mean = o[3], *deviation = o[4], *dscale = o[5], *dshift = o[6];
    float *fy = factors->data(), *fx = fy + s.channels, *one = fx + s.channels;
    const float share = 1 / static_cast<float>(s.all_rows());
    for (int64_t i = 0; i < s.channels; ++i) {
      fy[i] = deviation[i] * (affine ? o[7][i] : 1.0F);
      fx[i] = -fy[i] * dscale[i] * share * deviation[i];
      one[i] = -fy[i] * dshift[i] * share - fx[i] * mean[i];
    }
    if (s.inner == 1) {
      for (int64_t r = 0; r < s.outer; ++r) {
        const float *xr = x + r * s.channels, *dr = dy + r * s.channels;
        float* to = dx + r * s.channels;
#pragma omp simd
        for (int64_t i = 0; i < s.channels; ++i) to[i] = dr[i] * fy[i] + xr[i] * fx[i] + one[i];
      }
    } else {
      runs(s, [&](int64_t ch, int64_t n, int64_t at) {
        for (int64_t i = 0; i < n; ++i) dx[at + i] = dy[at + i] * fy[ch] + x[at + i] * fx[ch] + one[ch];
      });
    }
  };
}

struct Rows : RowShape {
  using RowShape::RowShape;
  /// use(row, first channel, run(f)): f(element offset) for each run of `channels` elements of a row.
  template <typename Use>
  void each(const Use& use) const {
    for (int64_t b = 0; b < outer; ++b)
      for (int64_t g = 0; g < groups; ++g) {
        use(b * groups + g, g * channels, [&](const auto& f) {
          for (int64_t s = 0; s < space; ++s) f(((b * space + s) * groups + g) * channels);
        });
      }
  }
};

Prepared row_norm(const Call& c, int) {
  const Rows s(c);
  const float epsilon = c.scalars.at(0);
  const std::size_t learned = c.operands.size() - 3;
  return [=](std::span<float* const> o, const IterationState&) {
    const float* x = o[1];
    const float share = 1 / static_cast<float>(s.count());
    s.each([&](int64_t row, int64_t first, const auto& run) {
      float mean = 0, square = 0;
      if (!s.rms) {
        run([&](int64_t at) {
#pragma omp simd reduction(+ : mean)
          for (int64_t i = 0; i < s.channels; ++i) mean += x[at + i];
        });
        mean *= share;
      }
      run([&](int64_t at) {
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < s.channels; ++i) square += (x[at + i] - mean) * (x[at + i] - mean);
      });
      const float deviation = 1 / std::sqrt(square * share + epsilon);
      o[2][2 * row] = mean;
      o[2][2 * row + 1] = deviation;
      const float *scale = learned > 0 ? o[3] + first : nullptr,
                  *shift = learned > 1 ? o[4] + first : nullptr;
      run([&](int64_t at) {
        float* y = o[0] + at;
        for (int64_t i = 0; i < s.channels; ++i) y[i] = (x[at + i] - mean) * deviation;
        if (scale != nullptr)
          for (int64_t i = 0; i < s.channels; ++i) y[i] *= scale[i];
        if (shift != nullptr)
          for (int64_t i = 0; i < s.channels; ++i) y[i] += shift[i];
      });
    });
  };
}

Prepared row_norm_sums(const Call& c, int) {
  const Rows s(c);
  const bool shifted = c.operands.size() > 4;
  return [=](std::span<float* const> o, const IterationState&) {
    const std::size_t in = shifted ? 2 : 1;
    const float *x = o[in], *dy = o[in + 1], *statistics = o[in + 2];
    const int64_t all = s.groups * s.channels;
    std::fill_n(o[0], all, 0.0F);
    if (shifted) std::fill_n(o[1], all, 0.0F);
    s.each([&](int64_t row, int64_t first, const auto& run) {
      const float mean = statistics[2 * row], deviation = statistics[2 * row + 1];
      run([&](int64_t at) {
        float* dscale = o[0] + first;
#pragma omp simd
        for (int64_t i = 0; i < s.channels; ++i) dscale[i] += dy[at + i] * (x[at + i] - mean) * deviation;
        if (!shifted) return;
        float* dshift = o[1] + first;
#pragma omp simd
        for (int64_t i = 0; i < s.channels; ++i) dshift[i] += dy[at + i];
      });
    });
  };
}

Prepared row_norm_backward(const Call& c, int) {
  const Rows s(c);
  const bool scaled = c.operands.size() > 4;
  // Without a scale of its own a row's channels all count as they are.
  auto ones = std::make_shared<std::vector<float>>(static_cast<std::size_t>(s.groups * s.channels), 1.0F);
  return [=](std::span<float* const> o, const IterationState&) {
    const float *x = o[1], *dy = o[2], *statistics = o[3], *scales = scaled ? o[4] : ones->data();
    const float share = 1 / static_cast<float>(s.count());
    s.each([&](int64_t row, int64_t first, const auto& run) {
      const float mean = statistics[2 * row], deviation = statistics[2 * row + 1];
      const float* scale = scales + first;
      float sum = 0, dot = 0;
      run([&](int64_t at) {
#pragma omp simd reduction(+ : sum, dot)
        for (int64_t i = 0; i < s.channels; ++i) {
          const float d = dy[at + i] * scale[i];
          sum += d;
          dot += d * (x[at + i] - mean);
        }
      });
      sum = s.rms ? 0 : sum * share;
      dot *= share * deviation * deviation;
      run([&](int64_t at) {
        float* dx = o[0] + at;
#pragma omp simd
        for (int64_t i = 0; i < s.channels; ++i)
          dx[i] = deviation * (dy[at + i] * scale[i] - sum - (x[at + i] - mean) * dot);
      });
    });
  };
}

/// d^-0.75, the exponent of the paper.
float power(float d) {
  const float root = std::sqrt(d);
  return 1 / (root * std::sqrt(root));
}

/// Channels [i - half, i + half] count for channel i (Krizhevsky et al. 2012, section 3.3).
Prepared lrn(const Call& c, int) {
  const int64_t rows = c.shape[0], n = c.shape[1], half = c.shape[2] / 2;
  const float k = c.scalars[0], alpha = c.scalars[1];
  TANDEM_CHECK(c.scalars[2] == 0.75F);  // what power() computes
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = o[1] + r * n;
      float *y = o[0] + r * n, *d = o[2] + r * n;
      std::fill_n(d, n, k);
      for (int64_t shift = -half; shift <= half; ++shift) {
        const int64_t begin = std::max<int64_t>(0, -shift), end = std::min(n, n - shift);
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) d[i] += alpha * x[i + shift] * x[i + shift];
      }
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * power(d[i]);
    }
  };
}

/// dx_i = dy_i d_i^-beta - 2 alpha beta x_i sum over j near i of dy_j y_j / d_j.
Prepared lrn_backward(const Call& c, int) {
  const int64_t rows = c.shape[0], n = c.shape[1], half = c.shape[2] / 2;
  const float alpha = c.scalars[1], beta = c.scalars[2];
  auto scratch = std::make_shared<std::vector<float>>(static_cast<std::size_t>(2 * n));
  return [=](std::span<float* const> o, const IterationState&) {
    float *ratio = scratch->data(), *sum = ratio + n;
    for (int64_t r = 0; r < rows; ++r) {
      const float *x = o[1] + r * n, *y = o[2] + r * n, *dy = o[3] + r * n, *d = o[4] + r * n;
      float* dx = o[0] + r * n;
      std::fill_n(sum, n, 0.0F);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) ratio[i] = dy[i] * y[i] / d[i];
      for (int64_t shift = -half; shift <= half; ++shift) {
        const int64_t begin = std::max<int64_t>(0, -shift), end = std::min(n, n - shift);
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) sum[i] += ratio[i + shift];
      }
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * power(d[i]) - 2 * alpha * beta * x[i] * sum[i];
    }
  };
}

}  // namespace

void add_norm(Table& t) {
  set(t, Function::batch_norm, batch_norm);
  set(t, Function::batch_norm_inference, batch_norm_inference);
  set(t, Function::batch_norm_sums, batch_norm_sums);
  set(t, Function::batch_norm_backward, batch_norm_backward);
  set(t, Function::batch_norm_statistics, batch_norm_statistics);
  set(t, Function::batch_norm_shared, batch_norm_shared);
  set(t, Function::row_norm, row_norm);
  set(t, Function::row_norm_sums, row_norm_sums);
  set(t, Function::row_norm_backward, row_norm_backward);
  set(t, Function::lrn, lrn);
  set(t, Function::lrn_backward, lrn_backward);
}

}  // namespace tandem::exec::cpu
