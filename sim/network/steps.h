// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lock-step exchanges simulated message by message: what a collective's one-op cost is checked against, and
// compared with simulators that do every message.
#include <vector>

#include "sim/network/queue.h"

namespace tandem::sim {

struct StepRun {
  int64_t makespan = 0;  ///< ps
  int64_t messages = 0;
};

/// Every rank sends one message in each of `steps` steps and receives one; it starts a step when what it sent
/// and received in the step before has arrived. `peer(rank, step)` names the receiver, a permutation of the
/// ranks in each step; `duration(rank, step)` is the time in ps from its start to its arrival. Links are not
/// shared. One event per message, memory O(ranks).
template <class Peer, class Duration>
StepRun run_steps(uint32_t ranks, uint32_t steps, Peer peer, Duration duration) {
  struct Rank {
    uint32_t started = 0, sent = 0, received = 0;  ///< in steps
  };
  std::vector<Rank> at(ranks);
  MonotoneQueue queue;
  std::vector<MonotoneQueue::Item> batch;
  StepRun out;
  const auto go_on = [&](uint32_t r) {
    Rank& rank = at[r];
    if (rank.started == steps || rank.sent < rank.started || rank.received < rank.started) return;
    queue.push(out.makespan + duration(r, rank.started), r);
    ++rank.started;
  };
  for (uint32_t r = 0; r < ranks; ++r) go_on(r);
  while (!queue.empty()) {
    queue.pop_batch(batch);
    out.makespan = batch.front().time;
    out.messages += static_cast<int64_t>(batch.size());
    for (const MonotoneQueue::Item& item : batch) {
      const auto from = static_cast<uint32_t>(item.data);
      const uint32_t to = peer(from, at[from].sent);
      ++at[from].sent;
      ++at[to].received;
      go_on(from);
      go_on(to);
    }
  }
  return out;
}

}  // namespace tandem::sim
