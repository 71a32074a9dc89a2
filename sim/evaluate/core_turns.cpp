// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/core_turns.h"

#include <algorithm>

#include "base/random.h"

namespace tandem::sim {

namespace {
constexpr int64_t kNoWork = -1;
}

CoreTurns::CoreTurns(const SharedCores& shared, uint32_t instances, uint64_t seed)
    : shared_(shared), cores_(shared.cores), work_(instances, kNoWork) {
  for (uint32_t c = 0; c < shared.cores; ++c) cores_[c].turn = draw_bits(seed, c) % shared.turns.size();
}

int64_t CoreTurns::turn(Core& core) {
  core.turn = (core.turn + 1) % shared_.turns.size();
  return std::max<int64_t>(1, shared_.turns[core.turn].ps);
}

/// What the holder has done since it was looked at.
void CoreTurns::advance(Core& core, int64_t now) {
  if (core.holder != kNobody && work_[core.holder] != kNoWork)
    work_[core.holder] = std::max<int64_t>(0, work_[core.holder] - (now - core.since));
  core.since = now;
}

/// To where the turn that is going on ends. Turns that nobody else wanted are over.
void CoreTurns::roll(Core& core, int64_t now) {
  while (core.turn_ends <= now || core.turn_ends < core.kept_until) core.turn_ends += turn(core);
}

int64_t CoreTurns::turn_end(uint32_t instance, int64_t now) {
  Core& core = cores_[core_of(instance)];
  roll(core, now);
  return core.turn_ends;
}

/// To the next in line.
void CoreTurns::give(Core& core, int64_t now) {
  core.holder = kNobody;
  if (core.line.empty()) return;
  core.holder = core.line.front();
  core.line.pop_front();
  if (now < core.turn_ends) core.kept_until = now + shared_.least.ps;
}

void CoreTurns::plan(Core& core, int64_t now) {
  core.next = kNever;
  if (core.holder == kNobody) return;
  if (work_[core.holder] != kNoWork) core.next = now + work_[core.holder];
  if (core.line.empty()) return;
  roll(core, now);
  core.next = std::min(core.next, core.turn_ends);
}

void CoreTurns::want(uint32_t instance, int64_t work, int64_t now) {
  Core& core = cores_[core_of(instance)];
  advance(core, now);
  work_[instance] = work;
  if (core.holder != instance) core.line.push_back(instance);
  if (core.holder == kNobody) give(core, now);
  plan(core, now);
}

void CoreTurns::leave(uint32_t instance, int64_t now) {
  Core& core = cores_[core_of(instance)];
  if (core.holder != instance || work_[instance] != kNoWork) return;
  give(core, now);
  core.since = now;
  plan(core, now);
}

uint32_t CoreTurns::look(uint32_t c, int64_t now) {
  Core& core = cores_[c];
  advance(core, now);
  const uint32_t holder = core.holder;
  const bool done = holder != kNobody && work_[holder] == 0;
  if (done) {
    work_[holder] = kNoWork;
  } else if (holder != kNobody && !core.line.empty() && core.turn_ends <= now) {
    if (work_[holder] != kNoWork) core.line.push_back(holder);
    give(core, now);
  }
  plan(core, now);
  return done ? holder : kNobody;
}

}  // namespace tandem::sim
