// SPDX-License-Identifier: Apache-2.0
// Attention, one (sample, head) at a time: scores = q k^T, softmax, times v. Only the scores' log sums are
// kept; the backward pass makes the scores again (Dao et al. 2022).
#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/math.h"
#include "exec/device/cpu/onednn.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cpu {

namespace {

using Scratch = std::shared_ptr<std::vector<float>>;

/// Learned scores of distances, {bucket, head}.
struct Bias {
  AttentionShape a;
  DistanceBuckets buckets;
  explicit Bias(const AttentionShape& of) : a(of), buckets(of) {}
  int64_t at(int64_t h, int64_t i, int64_t j) const { return buckets.bucket(a.position(i), j) * a.heads + h; }
  /// To a row of scores, where the query sees keys.
  void add(const float* table, int64_t b, int64_t h, int64_t i, float* row) const {
    for (int64_t j = a.unseen(i); j < a.seen(i); ++j)
      row[j] += table[at(h, i, j)] + (a.apart(b, i, j) ? kApart : 0);
  }
};

Prepared attention(const Call& c, int threads) {
  const AttentionShape a(c);
  const Bias bias(a);
  set_threads(threads);
  const Scratch scratch = std::make_shared<std::vector<float>>(static_cast<std::size_t>(a.query * a.key));
  return [=](std::span<float* const> o, const IterationState&) {
    float* p = scratch->data();
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t kv = a.kv_head(h);
        sgemm(false, true, a.query, a.key, a.size, o[1] + a.q(b, h), a.q_row, o[2] + a.k(b, kv), a.kv_row, 0,
              p, a.key, a.scale);
        for (int64_t i = 0; i < a.query; ++i) {
          float* row = p + i * a.key;
          const int64_t from = a.unseen(i), n = a.seen(i);
          if (a.buckets > 0) bias.add(o[5], b, h, i, row);
          const float top = largest(row + from, n - from);
          float sum = 0;
#pragma omp simd reduction(+ : sum)
          for (int64_t j = from; j < n; ++j) sum += row[j] = fast_exp(row[j] - top);
          const float share = 1 / sum;
          for (int64_t j = from; j < n; ++j) row[j] *= share;
          std::fill(row, row + from, 0.0F);
          std::fill(row + n, row + a.key, 0.0F);
          o[4][a.row(b, h) + i] = top + std::log(sum);
        }
        sgemm(false, false, a.query, a.size, a.key, p, a.key, o[3] + a.v(b, kv), a.kv_row, 0,
              o[0] + a.out(b, h), a.out_row());
      }
  };
}

/// P and, times `factor`, dS of one head, by the kept log sums.
void score_gradients(const AttentionShape& a, const Bias& bias, int64_t b, int64_t h, const float* q,
                     const float* k, const float* v, const float* out, const float* dout,
                     const float* log_sums, const float* table, float factor, float* p, float* d) {
  const int64_t kv = a.kv_head(h);
  sgemm(false, true, a.query, a.key, a.size, q + a.q(b, h), a.q_row, k + a.k(b, kv), a.kv_row, 0, p, a.key,
        a.scale);
  sgemm(false, true, a.query, a.key, a.size, dout + a.out(b, h), a.out_row(), v + a.v(b, kv), a.kv_row, 0, d,
        a.key);
  for (int64_t i = 0; i < a.query; ++i) {
    float *row = p + i * a.key, *dr = d + i * a.key;
    const int64_t from = a.unseen(i), n = a.seen(i), at = a.out(b, h) + i * a.out_row();
    if (table != nullptr) bias.add(table, b, h, i, row);
    const float log_sum = log_sums[a.row(b, h) + i];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t j = 0; j < a.size; ++j) dot += dout[at + j] * out[at + j];
#pragma omp simd
    for (int64_t j = from; j < n; ++j) {
      row[j] = fast_exp(row[j] - log_sum);
      dr[j] = factor * row[j] * (dr[j] - dot);
    }
    for (float* of : {row, dr}) {
      std::fill(of, of + from, 0.0F);
      std::fill(of + n, of + a.key, 0.0F);
    }
  }
}

/// dv = P^T dout; dP = dout v^T; dS = P (dP - sum(dout out)); dq = dS k; dk = dS^T q. Heads that share keys
/// and values add up in theirs.
Prepared attention_backward(const Call& c, int threads) {
  const AttentionShape a(c);
  const Bias bias(a);
  set_threads(threads);
  const Scratch scratch = std::make_shared<std::vector<float>>(static_cast<std::size_t>(2 * a.query * a.key));
  return [=](std::span<float* const> o, const IterationState&) {
    float *p = scratch->data(), *d = p + a.query * a.key;
    float *dq = o[0], *dk = o[1], *dv = o[2];
    const float *q = o[3], *k = o[4], *dout = o[7], *table = a.buckets > 0 ? o[9] : nullptr;
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t kv = a.kv_head(h);
        const float adds = h % (a.heads / a.kv_heads) == 0 ? 0.0F : 1.0F;
        score_gradients(a, bias, b, h, q, k, o[5], o[6], dout, o[8], table, a.scale, p, d);
        sgemm(true, false, a.key, a.size, a.query, p, a.key, dout + a.out(b, h), a.out_row(), adds,
              dv + a.v(b, kv), a.kv_row);
        sgemm(false, false, a.query, a.size, a.key, d, a.key, k + a.k(b, kv), a.kv_row, 0, dq + a.q(b, h),
              a.q_row);
        sgemm(true, false, a.key, a.size, a.query, d, a.key, q + a.q(b, h), a.q_row, adds, dk + a.k(b, kv),
              a.kv_row);
      }
  };
}

/// Sums of dS over all pairs of a bucket.
Prepared attention_bias_backward(const Call& c, int threads) {
  const AttentionShape a(c);
  const Bias bias(a);
  set_threads(threads);
  const Scratch scratch = std::make_shared<std::vector<float>>(static_cast<std::size_t>(2 * a.query * a.key));
  return [=](std::span<float* const> o, const IterationState&) {
    float *p = scratch->data(), *d = p + a.query * a.key;
    std::fill_n(o[0], a.buckets * a.heads, 0.0F);
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < a.heads; ++h) {
        score_gradients(a, bias, b, h, o[1], o[2], o[3], o[4], o[5], o[6], o[7], 1, p, d);
        for (int64_t i = 0; i < a.query; ++i)
          for (int64_t j = a.unseen(i); j < a.seen(i); ++j) o[0][bias.at(h, i, j)] += d[i * a.key + j];
      }
  };
}

/// log(exp(a) + exp(b)).
float log_of_both(float a, float b) {
  const float top = std::max(a, b);
  return top + std::log(std::exp(a - top) + std::exp(b - top));
}

/// A sink takes its share of the softmax, which all keys' shares shrink by.
Prepared attention_sinks(const Call& c, int) {
  const SinksShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < s.rows(); ++r) {
      const float sum = o[1][r], all = log_of_both(sum, o[2][s.head(r)]), share = std::exp(sum - all);
      float* out = o[0] + s.out(r);
      for (int64_t d = 0; d < s.size; ++d) out[d] *= share;
      o[1][r] = all;
    }
  };
}

/// A score's gradient is its share times (its value less the output) . dout, and a sink's value is 0.
Prepared attention_sinks_backward(const Call& c, int) {
  const SinksShape s(c);
  return [=](std::span<float* const> o, const IterationState&) {
    std::fill_n(o[0], s.heads, 0.0F);
    for (int64_t r = 0; r < s.rows(); ++r) {
      const float *out = o[3] + s.out(r), *dout = o[4] + s.out(r);
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t d = 0; d < s.size; ++d) dot += dout[d] * out[d];
      o[0][s.head(r)] -= std::exp(o[1][s.head(r)] - o[2][r]) * dot;
    }
  };
}

/// Softmax over two sets of keys: log sums add up as exponentials, outputs by their shares of these (Liu et
/// al. 2023, Ring Attention, section 3).
Prepared attention_merge(const Call& c, int) {
  const MergeShape m(c);
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t r = 0; r < m.rows(); ++r) {
      const int64_t i = r % m.query, h = r / m.query % m.heads, b = r / m.query / m.heads;
      float& sum = o[1][m.log_sum(b, h, i)];
      const float all = log_of_both(sum, o[3][r]);
      const float before = std::exp(sum - all), now = std::exp(o[3][r] - all);
      float* out = o[0] + m.out(b, h, i);
      const float* block = o[2] + m.block(b, h, i);
      for (int64_t d = 0; d < m.size; ++d) out[d] = before * out[d] + now * block[d];
      sum = all;
    }
  };
}

/// Pairs (i, i + size / 2) of each vector at time t turn by t / 10000^(2 i / size) (Su et al. 2021,
/// section 3.4.2, in the order of GPT-NeoX).
Prepared rotary(const Call& c, int) {
  const int64_t batch = c.shape[0], time = c.shape[1], vectors = c.shape[2], size = c.shape[3],
                row = c.shape[4], offset = c.shape[5], half = size / 2,
                rows = c.shape.size() > 7 ? c.shape[7] : time, first = c.shape.size() > 7 ? c.shape[8] : 0;
  auto turns = std::make_shared<std::vector<float>>(static_cast<std::size_t>(2 * time * half));
  for (int64_t t = 0; t < time; ++t)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(first + t) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size));
      const double sign = c.shape[6] != 0 ? -1 : 1;
      (*turns)[static_cast<std::size_t>(2 * (t * half + i))] = static_cast<float>(std::cos(angle));
      (*turns)[static_cast<std::size_t>(2 * (t * half + i) + 1)] = static_cast<float>(sign * std::sin(angle));
    }
  return [=](std::span<float* const> o, const IterationState&) {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < time; ++t) {
        const float* turn = turns->data() + 2 * t * half;
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t at = (b * rows + t) * row + offset + v * size;
          float* y = o[0] + at;
          const float* x = o[1] + at;
          for (int64_t i = 0; i < half; ++i) {
            const float a = x[i], z = x[i + half], cosine = turn[2 * i], sine = turn[2 * i + 1];
            y[i] = a * cosine - z * sine;
            y[i + half] = a * sine + z * cosine;
          }
          if (size % 2 != 0) y[size - 1] = x[size - 1];
        }
      }
  };
}

}  // namespace

void add_attention(Table& t) {
  set(t, Function::attention, attention);
  set(t, Function::attention_backward, attention_backward);
  set(t, Function::attention_bias_backward, attention_bias_backward);
  set(t, Function::attention_sinks, attention_sinks);
  set(t, Function::attention_sinks_backward, attention_sinks_backward);
  set(t, Function::attention_merge, attention_merge);
  set(t, Function::rotary, rotary);
}

}  // namespace tandem::exec::cpu
