// SPDX-License-Identifier: Apache-2.0
#include "sim/habits.h"

#include <algorithm>

namespace tandem::sim {

MemoryHabits habits_of(const Request& p) {
  auto settings = p.job.scheme->memory;
  settings.insert(settings.end(), p.memory.begin(), p.memory.end());
  const auto unless_told = [&](const char* key, const char* value) {
    const bool told =
        std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.first == key; });
    if (!told) settings.emplace_back(key, value);
  };
  // A recipe that updates in one kernel needs no temporaries for it.
  if (p.job.scheme->recipe.fuses.update) unless_told("update", "fused");
  for (const auto& [key, value] : p.job.scheme->recipe.memory) unless_told(key.c_str(), value.c_str());
  return memory_habits(settings, "--memory", {});
}

}  // namespace tandem::sim
