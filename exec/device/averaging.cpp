// SPDX-License-Identifier: Apache-2.0
#include "exec/device/averaging.h"

namespace tandem::exec {

namespace {

/// semantics.md 2.6; `v` is null where there is no velocity.
void outer_step(int64_t n, bool nesterov, float rate, float weight, std::span<float* const> o) {
  float *x = o[0], *a = o[2], *v = weight != 0 ? o[3] : nullptr;
  const float* m = o[1];
  for (int64_t i = 0; i < n; ++i) {
    const float moved = m[i] - a[i];
    float step = moved;
    if (v != nullptr) {
      v[i] = weight * v[i] + moved;
      step = nesterov ? moved + weight * v[i] : v[i];
    }
    a[i] += rate * step;
    x[i] = a[i];
  }
}

void elastic_step(int64_t n, float rate, float weight, std::span<float* const> o) {
  float *x = o[0], *a = o[2];
  const float* m = o[1];
  for (int64_t i = 0; i < n; ++i) {
    const float moved = m[i] - a[i];
    if (weight != 0) x[i] += weight * (a[i] - x[i]);
    if (rate != 0) a[i] += rate * moved;
  }
}

/// Of x, m, a and, where there is momentum, v and d; without a weight the round goes on.
void delayed_step(int64_t n, float rate, float weight, std::span<float* const> o) {
  const float* m = o[1];
  float *a = o[2], *v = o[3], *d = o[4];
  for (int64_t i = 0; i < n; ++i) {
    a[i] += rate * m[i];
    if (v == nullptr) continue;
    d[i] += m[i];
    if (weight == 0) continue;
    v[i] = weight * v[i] + d[i];
    a[i] += rate * weight * v[i];
    d[i] = 0;
  }
}

}  // namespace

std::function<void(std::span<float* const> operands)> host_average(const Call& call) {
  const int64_t n = call.shape.at(0);
  const auto rule = static_cast<Averaging::Rule>(call.shape.at(1));
  const float rate = call.scalars.at(0), weight = call.scalars.at(1);
  if (rule == Averaging::Rule::elastic)
    return [=](std::span<float* const> o) { elastic_step(n, rate, weight, o); };
  if (rule == Averaging::Rule::movement)
    return [=](std::span<float* const> o) {
      for (int64_t i = 0; i < n; ++i) o[0][i] -= o[2][i];
    };
  if (rule == Averaging::Rule::delayed)
    return [=](std::span<float* const> o) { delayed_step(n, rate, weight, o); };
  return [=, nesterov = rule == Averaging::Rule::nesterov](std::span<float* const> o) {
    outer_step(n, nesterov, rate, weight, o);
  };
}

Call average_call(const Averaging& rule, int64_t elements) {
  Call call;
  call.function = Function::average;
  call.pass = Pass::update;
  call.shape = {elements, static_cast<int64_t>(rule.rule)};
  call.scalars = {static_cast<float>(rule.rate), static_cast<float>(rule.weight)};
  return call;
}

}  // namespace tandem::exec
