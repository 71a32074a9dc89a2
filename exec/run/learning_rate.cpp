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

float stale_rate(const Execution::Rate& rule, float rate, int64_t staleness) {
  if (!rule.by_staleness) return rate;
  return rate / static_cast<float>(std::max<int64_t>(1, staleness));
}

}  // namespace tandem::exec
