// SPDX-License-Identifier: Apache-2.0
#pragma once
// PyTorch's caching allocator as a model: what it rounds, what it asks of the driver, what it cannot reuse.
// The rules and constants are those of c10/cuda/CUDACachingAllocator.cpp (PyTorch 1.0 to 2.x, default
// settings): blocks in multiples of 512 B; up to 1 MiB from segments of 2 MiB, below 10 MiB from segments of
// 20 MiB, larger ones from their own segment in multiples of 2 MiB; best fit; split when at least 512 B
// (small) or more than 1 MiB (large) remain; neighbours merge when freed; before it fails it gives free
// segments back.
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "base/units.h"

namespace tandem::sim {

/// For one thread at a time.
class CachingAllocator {
 public:
  using Handle = uint32_t;
  static constexpr Bytes kEndless{INT64_MAX};

  /// `limit`: the most that segments may take together.
  explicit CachingAllocator(Bytes limit = kEndless) : limit_(limit.n) {}

  /// A block of at least that size; O(log blocks). Where the limit does not allow it even after free segments
  /// were given back, exceeded() becomes true and the block is there all the same, so that the need is known.
  Handle allocate(Bytes size);
  void release(Handle handle);

  Bytes allocated() const { return {allocated_}; }            ///< of blocks in use now
  Bytes peak_allocated() const { return {peak_allocated_}; }  ///< torch.cuda.max_memory_allocated()
  /// The most that was in use since this was last called.
  Bytes take_high() {
    const Bytes out{high_};
    high_ = allocated_;
    return out;
  }
  Bytes reserved() const { return {reserved_}; }            ///< of all segments now
  Bytes peak_reserved() const { return {peak_reserved_}; }  ///< torch.cuda.max_memory_reserved()
  bool exceeded() const { return exceeded_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Block {
    int64_t size = 0;
    uint32_t before = kNone, behind = kNone;  ///< neighbours in the segment
    bool small = false, free = false;
  };
  using Pool = std::set<std::tuple<int64_t, uint32_t>>;  ///< free blocks: size, index

  uint32_t new_segment(int64_t size, bool small);
  void give_back_free_segments();
  uint32_t new_block(const Block& block);
  void drop(uint32_t index);
  Pool& pool(bool small) { return pools_[small ? 0 : 1]; }

  int64_t limit_, allocated_ = 0, peak_allocated_ = 0, high_ = 0, reserved_ = 0, peak_reserved_ = 0;
  bool exceeded_ = false;
  std::vector<Block> blocks_;
  std::vector<uint32_t> unused_;  ///< indices of dropped blocks
  Pool pools_[2];
};

}  // namespace tandem::sim
