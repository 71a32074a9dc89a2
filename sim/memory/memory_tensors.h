// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the walk through a step counts with: tensors by reference, and the formats that layers compute in.
//
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/graph.h"
#include "schemes/report/report.h"
#include "sim/memory/caching_allocator.h"

namespace tandem::sim {

/// Tensors with reference counts, on the allocator; the last one to drop a tensor frees it.
/// For one thread at a time.
class Tensors {
 public:
  using Id = int32_t;
  static constexpr Id kNone = -1;

  explicit Tensors(Bytes limit) : allocator(limit) {}
  Id make(int64_t bytes, int32_t references = 1) {
    if (bytes <= 0 || references <= 0) return kNone;
    all_.push_back({allocator.allocate({bytes}), references});
    return static_cast<Id>(all_.size() - 1);
  }
  Id hold(Id id) {
    if (id != kNone) ++all_[static_cast<std::size_t>(id)].references;
    return id;
  }
  void drop(Id id) {
    if (id == kNone) return;
    Entry& e = all_[static_cast<std::size_t>(id)];
    if (--e.references == 0) allocator.release(e.block);
  }
  void drop_all(std::vector<Id>& ids) {
    for (const Id id : ids) drop(id);
    ids.clear();
  }
  /// What was in use at the most since the last note, while noting; `layer`: null, or one that computes.
  void note(const char* pass, uint32_t micro, const Layer* layer) {
    if (!noting || (layer != nullptr && layer->type == nullptr)) return;
    notes.push_back({pass, micro, layer == nullptr ? "" : layer->name, allocator.take_high()});
  }
  bool alone(Id id) const { return all_[static_cast<std::size_t>(id)].references == 1; }

  CachingAllocator allocator;
  bool noting = false;
  std::vector<schemes::MemoryPoint> notes;

 private:
  struct Entry {
    CachingAllocator::Handle block;
    int32_t references;
  };
  std::vector<Entry> all_;
};

/// The gradient of such a layer's output is that of its inputs: the same memory.
bool passes_gradient_on(const Layer& layer, const Lowered& lowered);

}  // namespace tandem::sim
