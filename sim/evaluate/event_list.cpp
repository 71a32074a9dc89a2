// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/event_list.h"

#include <algorithm>

namespace tandem::sim {

void EventList::too_late() {
  throw InputError("the simulated time exceeds 26 days; simulate fewer iterations");
}

/// By lane; of one lane as scheduled. What ran in the order of lanes mostly schedules two such runs.
void EventList::sort_round() {
  const auto earlier = [](const MonotoneQueue::Item& a, const MonotoneQueue::Item& b) {
    return event::lane(a.data) < event::lane(b.data);
  };
  const auto second = std::is_sorted_until(round_.begin(), round_.end(), earlier);
  if (second == round_.end()) return;
  if (std::is_sorted(second, round_.end(), earlier))
    std::inplace_merge(round_.begin(), second, round_.end(), earlier);
  else
    std::stable_sort(round_.begin(), round_.end(), earlier);
}

}  // namespace tandem::sim
