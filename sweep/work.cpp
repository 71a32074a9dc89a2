// SPDX-License-Identifier: Apache-2.0
#include "sweep/work.h"

#include <algorithm>
#include <utility>

namespace tandem::sweep {

namespace {

/// Cells in a part. Neighbours share most of what is read for them; small parts at the end let all threads
/// end together.
constexpr std::size_t kMostTogether = 64, kPartsLeft = 4;

}  // namespace

Work::Work(std::vector<int64_t> order, int64_t takers)
    : order_(std::move(order)), takers_(takers), states_(order_.size(), State::waiting) {}

Work::Part Work::take(State state) {
  const std::size_t share = (order_.size() - next_) / (kPartsLeft * static_cast<std::size_t>(takers_));
  const std::size_t size = std::min(order_.size() - next_, std::clamp<std::size_t>(share, 1, kMostTogether));
  const Part out{next_, next_ + size};
  std::fill(states_.begin() + static_cast<std::ptrdiff_t>(out.begin),
            states_.begin() + static_cast<std::ptrdiff_t>(out.end), state);
  next_ = out.end;
  return out;
}

Work::Part Work::take_here() {
  const std::lock_guard lock(mutex_);
  if (next_ < order_.size()) return take(State::here);
  while (lost_ < order_.size() && states_[lost_] != State::away) ++lost_;
  if (lost_ == order_.size()) return {};
  states_[lost_] = State::here;
  return {lost_, lost_ + 1};
}

Work::Part Work::take_away() {
  const std::lock_guard lock(mutex_);
  return next_ < order_.size() ? take(State::away) : Part{};
}

bool Work::answered(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(states_[index], State::answered) == State::answered) return false;
  ++answered_;
  return true;
}

bool Work::all_answered() const {
  const std::lock_guard lock(mutex_);
  return answered_ == order_.size();
}

}  // namespace tandem::sweep
