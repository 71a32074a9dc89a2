// SPDX-License-Identifier: Apache-2.0
#include "exec/run/learning_rate.h"

#include <algorithm>

namespace tandem::exec {

float learning_rate(const Execution::Rate& rule, int64_t iteration, int64_t workers) {
  const double full = rule.scale ? rule.base * static_cast<double>(workers) : rule.base;
  if (iteration >= rule.warmup) return static_cast<float>(full);
  const double risen = static_cast<double>(iteration) / static_cast<double>(rule.warmup);
  return static_cast<float>(rule.base + (full - rule.base) * risen);
}

float stale_rate(Store::Rate rule, float rate, int64_t staleness, int64_t workers) {
  const auto old = static_cast<float>(std::max<int64_t>(1, staleness));
  if (rule == Store::Rate::staleness) return rate / old;
  if (rule == Store::Rate::delay) return rate * std::min(1.0F, static_cast<float>(workers) / old);
  return rate;
}

}  // namespace tandem::exec
