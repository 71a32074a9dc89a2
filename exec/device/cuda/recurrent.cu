// SPDX-License-Identifier: Apache-2.0
// Recurrent steps (cuDNN's equations): a product and one kernel for all gates each step; all steps in one
// launch list, which a captured graph replays without the host.
#include "exec/device/cuda/device.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec::cuda {

namespace {

__device__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/// Pointers at the step's time of sample 0; `before` ones null in the first step.
struct Forward {
  const float *pre, *rec, *bias;
  float *gates, *cell, *h;
  const float *cell_before, *h_before;
};

__global__ void step_kernel(RecurrentShape s, Forward f) {
  const int64_t index = global_index(), n = s.hidden;
  if (index >= s.batch * n) return;
  const int64_t b = index / n, i = index % n;
  const float* pre = f.pre + b * s.time * s.width;
  const float* rec = f.rec + b * s.width;
  float* g = f.gates + b * s.time * s.kept;
  float* h = f.h + b * s.time * s.row;
  const bool first = f.h_before == nullptr;
  const auto recurrent = [&](int64_t k) {
    return (first ? 0.0F : rec[k * n + i]) + f.bias[s.width + k * n + i];
  };
  const auto input = [&](int64_t k) { return pre[k * n + i] + f.bias[k * n + i]; };
  if (s.cell == Cell::rnn) {
    h[i] = g[i] = tanhf(input(0) + recurrent(0));
  } else if (s.cell == Cell::lstm) {
    const float in = sigmoid(input(0) + recurrent(0)), forget = sigmoid(input(1) + recurrent(1)),
                candidate = tanhf(input(2) + recurrent(2)), open = sigmoid(input(3) + recurrent(3));
    const float last = first ? 0.0F : f.cell_before[b * s.time * n + i],
                cell = forget * last + in * candidate;
    g[i] = in;
    g[n + i] = forget;
    g[2 * n + i] = candidate;
    g[3 * n + i] = open;
    f.cell[b * s.time * n + i] = cell;
    h[i] = open * tanhf(cell);
  } else {
    const float reset = sigmoid(input(0) + recurrent(0)), keep = sigmoid(input(1) + recurrent(1));
    const float part = recurrent(2), candidate = tanhf(input(2) + reset * part);
    const float last = first ? 0.0F : f.h_before[b * s.time * s.row + i];
    g[i] = reset;
    g[n + i] = keep;
    g[2 * n + i] = candidate;
    g[3 * n + i] = part;
    h[i] = candidate + keep * (last - candidate);
  }
}

Prepared recurrent(const Call& c) {
  const RecurrentShape s(c);
  Product p;
  p.m = s.batch;
  p.n = s.width;
  p.k = s.hidden;
  p.lda = s.time * s.row;
  p.ldb = p.ldc = s.width;
  const RunProduct product = make_product()(p);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            for (int64_t n = 0; n < s.time; ++n) {
              const int64_t t = s.step(n), last = s.before(t);
              const bool first = n == 0;
              if (!first) product(l.scratch, o[0] + s.out(0, last), o[4], l);
              const Forward f{o[3] + t * s.width,
                              l.scratch,
                              o[5],
                              o[1] + t * s.kept,
                              o[2] + t * s.hidden,
                              o[0] + s.out(0, t),
                              first ? nullptr : o[2] + last * s.hidden,
                              first ? nullptr : o[0] + s.out(0, last)};
              launch(step_kernel, blocks_for(s.batch * s.hidden), kThreads, l.stream, s, f);
            }
          },
          s.batch * s.width};
}

/// `dh`, `dc`: [batch, hidden], gradients of this step's hidden and cell state as the step after left them;
/// dc leaves as the step's before (for GRU, as the part of dh that passes the cell by).
struct Backward {
  float *dpre, *drec;
  const float *dout, *gates, *cell, *cell_before, *h_before;
  const float* dh;
  float* dc;
  bool latest;  ///< the last step: dh and dc hold nothing yet
};

__global__ void step_backward_kernel(RecurrentShape s, Backward f) {
  const int64_t index = global_index(), n = s.hidden;
  if (index >= s.batch * n) return;
  const int64_t b = index / n, i = index % n;
  float *dpre = f.dpre + b * s.time * s.width, *drec = f.drec + b * s.time * s.width;
  const float* g = f.gates + b * s.time * s.kept;
  float dh = f.dout[b * s.time * s.row + i];
  if (!f.latest) dh += f.dh[index] + (s.cell == Cell::gru ? f.dc[index] : 0.0F);
  if (s.cell == Cell::rnn) {
    dpre[i] = dh * (1 - g[i] * g[i]);
  } else if (s.cell == Cell::lstm) {
    const float in = g[i], forget = g[n + i], candidate = g[2 * n + i], open = g[3 * n + i];
    const float squashed = tanhf(f.cell[b * s.time * n + i]);
    const float d = (f.latest ? 0.0F : f.dc[index]) + dh * open * (1 - squashed * squashed);
    const float last = f.cell_before == nullptr ? 0.0F : f.cell_before[b * s.time * n + i];
    dpre[i] = d * candidate * in * (1 - in);
    dpre[n + i] = d * last * forget * (1 - forget);
    dpre[2 * n + i] = d * in * (1 - candidate * candidate);
    dpre[3 * n + i] = dh * squashed * open * (1 - open);
    f.dc[index] = d * forget;
  } else {
    const float reset = g[i], keep = g[n + i], candidate = g[2 * n + i];
    const float last = f.h_before == nullptr ? 0.0F : f.h_before[b * s.time * s.row + i];
    const float dn = dh * (1 - keep) * (1 - candidate * candidate);
    dpre[i] = drec[i] = dn * g[3 * n + i] * reset * (1 - reset);
    dpre[n + i] = drec[n + i] = dh * (last - candidate) * keep * (1 - keep);
    dpre[2 * n + i] = dn;
    drec[2 * n + i] = dn * reset;
    f.dc[index] = dh * keep;
  }
}

Prepared recurrent_backward(const Call& c) {
  const RecurrentShape s(c);
  Product p;
  p.m = s.batch;
  p.n = s.hidden;
  p.k = s.width;
  p.transpose_b = true;
  p.lda = s.time * s.width;
  p.ldb = s.width;
  p.ldc = s.hidden;
  const RunProduct product = make_product()(p);
  return {[=](const Launch& l) {
            float* const* o = l.operands;
            float *dh = l.scratch, *dc = dh + s.batch * s.hidden;
            for (int64_t n = s.time; n-- > 0;) {
              const int64_t t = s.step(n), last = s.before(t);
              const bool first = n == 0;
              const Backward f{o[0] + t * s.width,
                               o[1] + t * s.width,
                               o[2] + s.out(0, t),
                               o[3] + t * s.kept,
                               o[4] + t * s.hidden,
                               first ? nullptr : o[4] + last * s.hidden,
                               first ? nullptr : o[5] + s.out(0, last),
                               dh,
                               dc,
                               n + 1 == s.time};
              launch(step_backward_kernel, blocks_for(s.batch * s.hidden), kThreads, l.stream, s, f);
              if (!first) product(dh, o[1] + t * s.width, o[6], l);
            }
          },
          2 * s.batch * s.hidden};
}

}  // namespace

void add_recurrent(Table& t) {
  set(t, Function::recurrent, recurrent);
  set(t, Function::recurrent_backward, recurrent_backward);
}

}  // namespace tandem::exec::cuda
