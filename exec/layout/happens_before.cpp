// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/happens_before.h"

namespace tandem::exec {

HappensBefore::HappensBefore(const OpList& list) : after_(list.size()) {
  const std::vector<Op> ops(list.begin(), list.end());
  const auto n = static_cast<uint32_t>(ops.size());
  std::vector<std::vector<uint32_t>> lanes(kLanes);
  for (uint32_t i = 0; i < n; ++i) {
    always_.push_back(ops[i].always());
    lanes[static_cast<std::size_t>(ops[i].lane)].push_back(i);
    for (const Dep& d : ops[i].deps) {
      if (d.lag <= 1) after_[d.op].emplace_back(i, static_cast<uint32_t>(d.lag));
    }
  }
  for (const auto& lane : lanes) {
    const std::size_t count = lane.size();
    for (std::size_t k = 0; k < count; ++k) {
      // Up to the next op that runs in every iteration; ops in between may be left out.
      for (std::size_t step = 1; step <= count; ++step) {
        const uint32_t next = lane[(k + step) % count];
        after_[lane[k]].emplace_back(next, k + step < count ? 0 : 1);
        if (always_[next]) break;
      }
    }
  }
}

const std::vector<bool>& HappensBefore::reached(uint32_t first) {
  const auto [at, fresh] = reached_.try_emplace(first);
  std::vector<bool>& out = at->second;
  if (!fresh) return out;
  const auto n = static_cast<uint32_t>(after_.size());
  out.resize(std::size_t{2} * n);
  std::vector<uint32_t> open{first};
  while (!open.empty()) {
    const uint32_t from = open.back();
    open.pop_back();
    for (const auto& [op, lag] : after_[from % n]) {
      const uint32_t to = from / n + lag < 2 ? op + (from / n + lag) * n : UINT32_MAX;
      if (to == UINT32_MAX || out[to]) continue;
      out[to] = true;
      if (always_[op]) open.push_back(to);  // an op that is sometimes left out cannot guarantee order
    }
  }
  return out;
}

bool HappensBefore::before(uint32_t first, uint32_t then, bool next) {
  return reached(first)[then + (next ? after_.size() : 0)];
}

}  // namespace tandem::exec
