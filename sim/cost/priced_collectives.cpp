// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/priced_collectives.h"

namespace tandem::sim {

std::optional<Transfer> PricedCollectives::Shelf::find(const Key& key) const {
  const std::lock_guard lock(lock_);
  const auto at = known_.find(key);
  return at == known_.end() ? std::nullopt : std::optional(at->second);
}

void PricedCollectives::Shelf::keep(Key key, const Transfer& transfer) {
  const std::lock_guard lock(lock_);
  known_.emplace(std::move(key), transfer);
}

std::shared_ptr<PricedCollectives::Shelf> PricedCollectives::shelf(const Overheads& overheads,
                                                                   const Speeds& speeds) {
  const std::lock_guard lock(lock_);
  for (const auto& [of_overheads, of_speeds, shelf] : shelves_) {
    if (of_overheads == overheads && of_speeds == speeds) return shelf;
  }
  return std::get<2>(shelves_.emplace_back(overheads, speeds, std::make_shared<Shelf>()));
}

}  // namespace tandem::sim
