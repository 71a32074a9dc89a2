// SPDX-License-Identifier: Apache-2.0
// Recurrent steps (cuDNN's equations): pre-activations of all inputs are given, each step adds its recurrent
// product and applies the gates.
#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/math.h"
#include "exec/device/cpu/onednn.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cpu {

namespace {

void gates_forward(const RecurrentShape& s, const float* pre, const float* rec, const float* bias, float* g,
                   float* cell, const float* cell_before, const float* h_before, float* h) {
  const int64_t n = s.hidden;
  const float* rec_bias = bias + s.width;
  switch (s.cell) {
    case Cell::rnn:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) h[i] = g[i] = fast_tanh(pre[i] + rec[i] + bias[i] + rec_bias[i]);
      break;
    case Cell::lstm:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const auto sum = [&](int64_t k) {
          return pre[k * n + i] + rec[k * n + i] + bias[k * n + i] + rec_bias[k * n + i];
        };
        g[i] = fast_sigmoid(sum(0));
        g[n + i] = fast_sigmoid(sum(1));
        g[2 * n + i] = fast_tanh(sum(2));
        g[3 * n + i] = fast_sigmoid(sum(3));
        cell[i] = g[n + i] * (cell_before == nullptr ? 0 : cell_before[i]) + g[i] * g[2 * n + i];
        h[i] = g[3 * n + i] * fast_tanh(cell[i]);
      }
      break;
    case Cell::gru:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        g[i] = fast_sigmoid(pre[i] + rec[i] + bias[i] + rec_bias[i]);
        g[n + i] = fast_sigmoid(pre[n + i] + rec[n + i] + bias[n + i] + rec_bias[n + i]);
        g[3 * n + i] = rec[2 * n + i] + rec_bias[2 * n + i];
        g[2 * n + i] = fast_tanh(pre[2 * n + i] + bias[2 * n + i] + g[i] * g[3 * n + i]);
        const float last = h_before == nullptr ? 0 : h_before[i];
        h[i] = g[2 * n + i] + g[n + i] * (last - g[2 * n + i]);
      }
      break;
  }
}

Prepared recurrent(const Call& c, int threads) {
  const RecurrentShape s(c);
  set_threads(threads);
  auto scratch = std::make_shared<std::vector<float>>(static_cast<std::size_t>(s.batch * s.width));
  return [=](std::span<float* const> o, const IterationState&) {
    float *out = o[0], *rec = scratch->data();
    for (int64_t n = 0; n < s.time; ++n) {
      const int64_t t = s.step(n), last = s.before(t);
      if (n == 0)
        std::fill_n(rec, s.batch * s.width, 0.0F);
      else
        sgemm(false, false, s.batch, s.width, s.hidden, out + s.out(0, last), s.time * s.row, o[4], s.width,
              0, rec, s.width);
      for (int64_t b = 0; b < s.batch; ++b) {
        gates_forward(s, o[3] + s.at(b, t, s.width), rec + b * s.width, o[5], o[1] + s.at(b, t, s.kept),
                      o[2] + s.at(b, t, s.hidden), n == 0 ? nullptr : o[2] + s.at(b, last, s.hidden),
                      n == 0 ? nullptr : out + s.out(b, last), out + s.out(b, t));
      }
    }
  };
}

/// dh and dc arrive as gradients of this step's hidden and cell state; dc leaves as the step's before. For
/// GRU, dc carries the part of dh that passes the cell by.
void gates_backward(const RecurrentShape& s, float* dpre, float* drec, const float* dh, float* dc,
                    const float* g, const float* cell, const float* cell_before, const float* h_before) {
  const int64_t n = s.hidden;
  switch (s.cell) {
    case Cell::rnn:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) dpre[i] = dh[i] * (1 - g[i] * g[i]);
      break;
    case Cell::lstm:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const float in = g[i], forget = g[n + i], candidate = g[2 * n + i], open = g[3 * n + i];
        const float squashed = fast_tanh(cell[i]);
        const float d = dc[i] + dh[i] * open * (1 - squashed * squashed);
        dpre[i] = d * candidate * in * (1 - in);
        dpre[n + i] = d * (cell_before == nullptr ? 0 : cell_before[i]) * forget * (1 - forget);
        dpre[2 * n + i] = d * in * (1 - candidate * candidate);
        dpre[3 * n + i] = dh[i] * squashed * open * (1 - open);
        dc[i] = d * forget;
      }
      break;
    case Cell::gru:
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const float reset = g[i], keep = g[n + i], candidate = g[2 * n + i];
        const float last = h_before == nullptr ? 0 : h_before[i];
        const float dn = dh[i] * (1 - keep) * (1 - candidate * candidate);
        dpre[i] = drec[i] = dn * g[3 * n + i] * reset * (1 - reset);
        dpre[n + i] = drec[n + i] = dh[i] * (last - candidate) * keep * (1 - keep);
        dpre[2 * n + i] = dn;
        drec[2 * n + i] = dn * reset;
        dc[i] = dh[i] * keep;
      }
      break;
  }
}

/// Once for all steps: small products with a transposed weight run at half the speed.
void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kBlock = 16;  // rows whose cache lines are written together
  for (int64_t r = 0; r < rows; r += kBlock)
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t i = r; i < std::min(rows, r + kBlock); ++i) to[c * rows + i] = from[i * columns + c];
}

Prepared recurrent_backward(const Call& c, int threads) {
  const RecurrentShape s(c);
  set_threads(threads);
  auto scratch = std::make_shared<std::vector<float>>(static_cast<std::size_t>(2 * s.batch * s.hidden));
  auto turned = std::make_shared<std::vector<float>>(static_cast<std::size_t>(s.width * s.hidden));
  return [=](std::span<float* const> o, const IterationState&) {
    float *dpre = o[0], *drec = o[1], *dh = scratch->data(), *dc = dh + s.batch * s.hidden;
    const float *dout = o[2], *gates = o[3], *cells = o[4], *out = o[5], *weight = o[6];
    std::fill_n(dh, 2 * s.batch * s.hidden, 0.0F);
    transpose(weight, s.hidden, s.width, turned->data());
    for (int64_t n = s.time; n-- > 0;) {
      const int64_t t = s.step(n), last = s.before(t);
      for (int64_t b = 0; b < s.batch; ++b) {
        float *h = dh + b * s.hidden, *cell = dc + b * s.hidden;
        const float* d = dout + s.out(b, t);
        for (int64_t i = 0; i < s.hidden; ++i) h[i] += d[i];
        gates_backward(s, dpre + s.at(b, t, s.width), drec + s.at(b, t, s.width), h, cell,
                       gates + s.at(b, t, s.kept), cells + s.at(b, t, s.hidden),
                       n == 0 ? nullptr : cells + s.at(b, last, s.hidden),
                       n == 0 ? nullptr : out + s.out(b, last));
      }
      if (n == 0) break;
      sgemm(false, false, s.batch, s.hidden, s.width, drec + s.at(0, t, s.width), s.time * s.width,
            turned->data(), s.hidden, 0, dh, s.hidden);
      if (s.cell == Cell::gru) accumulate(dh, dc, s.batch * s.hidden);
    }
  };
}

}  // namespace

void add_recurrent(Table& t) {
  set(t, Function::recurrent, recurrent);
  set(t, Function::recurrent_backward, recurrent_backward);
}

}  // namespace tandem::exec::cpu
