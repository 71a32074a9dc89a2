// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of a flat vector, and the place of each in a piece of memory. Internal to exec.
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::exec {

/// Written by one thread; then any thread may ask.
class PackedLayout {
 public:
  struct Part {
    int64_t first = 0, elements = 0;  ///< of the flat vector
    int64_t at = 0;                   ///< in the memory
  };

  /// After all parts added before in the flat vector. Parts that are adjacent in both are merged.
  void add(int64_t first, int64_t elements, int64_t at);
  /// The place in memory of [first, first + elements), which is inside one part. O(log parts).
  int64_t of(int64_t first, int64_t elements = 1) const;
  /// Ranges [begin, end) of the vector, cut at the ends of parts.
  std::vector<std::pair<int64_t, int64_t>> cut(const std::vector<std::pair<int64_t, int64_t>>& ranges) const;
  const std::vector<Part>& parts() const { return parts_; }
  int64_t elements() const { return elements_; }  ///< of all parts

  /// From vectors of `all` elements, one after another, the parts in the order of the vector; and back, with
  /// 0 outside the parts.
  std::vector<float> take(const std::vector<float>& flat, int64_t all) const;
  std::vector<float> give(const std::vector<float>& kept, int64_t all) const;

 private:
  std::vector<Part> parts_;
  int64_t elements_ = 0;
};

}  // namespace tandem::exec
