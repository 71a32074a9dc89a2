// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/caching_allocator.h"

#include <algorithm>

namespace tandem::sim {

namespace {

constexpr int64_t kGrain = 512, kSmallBlock = 1 << 20, kSmallSegment = 2 << 20, kLargeSegment = 20 << 20,
                  kOwnSegment = 10 << 20, kSegmentGrain = 2 << 20;

int64_t round_up(int64_t n, int64_t grain) { return checked_add(n, grain - 1, "a tensor") / grain * grain; }

}  // namespace

uint32_t CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<uint32_t>(blocks_.size() - 1);
  }
  const uint32_t index = unused_.back();
  unused_.pop_back();
  blocks_[index] = block;
  return index;
}

void CachingAllocator::drop(uint32_t index) { unused_.push_back(index); }

void CachingAllocator::give_back_free_segments() {
  for (Pool& pool : pools_) {
    for (auto it = pool.begin(); it != pool.end();) {
      const uint32_t index = std::get<1>(*it);
      const Block& b = blocks_[index];
      if (b.before != kNone || b.behind != kNone) {
        ++it;
        continue;
      }
      reserved_ -= b.size;
      drop(index);
      it = pool.erase(it);
    }
  }
}

uint32_t CachingAllocator::new_segment(int64_t size, bool small) {
  const int64_t segment = small                ? kSmallSegment
                          : size < kOwnSegment ? kLargeSegment
                                               : round_up(size, kSegmentGrain);
  if (reserved_ > limit_ - segment) give_back_free_segments();
  exceeded_ = exceeded_ || reserved_ > limit_ - segment;
  reserved_ = checked_add(reserved_, segment, "device memory");
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return new_block({segment, kNone, kNone, small, true});
}

CachingAllocator::Handle CachingAllocator::allocate(Bytes wanted) {
  const int64_t size = std::max(kGrain, round_up(wanted.n, kGrain));
  const bool small = size <= kSmallBlock;
  Pool& free = pool(small);
  const auto best = free.lower_bound({size, 0});
  uint32_t index;
  if (best != free.end()) {
    index = std::get<1>(*best);
    free.erase(best);
  } else {
    index = new_segment(size, small);
  }
  const int64_t rest = blocks_[index].size - size;
  if (small ? rest >= kGrain : rest > kSmallBlock) {
    const uint32_t behind = blocks_[index].behind;
    const uint32_t remainder = new_block({rest, index, behind, small, true});
    if (behind != kNone) blocks_[behind].before = remainder;
    blocks_[index].behind = remainder;
    blocks_[index].size = size;
    free.insert({rest, remainder});
  }
  blocks_[index].free = false;
  allocated_ += blocks_[index].size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  high_ = std::max(high_, allocated_);
  return index;
}

void CachingAllocator::release(Handle handle) {
  Block& b = blocks_[handle];
  Pool& free = pool(b.small);
  allocated_ -= b.size;
  b.free = true;
  if (const uint32_t behind = b.behind; behind != kNone && blocks_[behind].free) {
    free.erase({blocks_[behind].size, behind});
    b.size += blocks_[behind].size;
    b.behind = blocks_[behind].behind;
    if (b.behind != kNone) blocks_[b.behind].before = handle;
    drop(behind);
  }
  uint32_t index = handle;
  if (const uint32_t before = b.before; before != kNone && blocks_[before].free) {
    Block& merged = blocks_[before];
    free.erase({merged.size, before});
    merged.size += b.size;
    merged.behind = b.behind;
    if (merged.behind != kNone) blocks_[merged.behind].before = before;
    drop(handle);
    index = before;
  }
  free.insert({blocks_[index].size, index});
}

}  // namespace tandem::sim
