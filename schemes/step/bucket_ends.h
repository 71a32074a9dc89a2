// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the buckets of a Program end, whoever fills them.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "schemes/program/program.h"

namespace tandem::schemes {

/// The lengths of equal parts of at most `most` elements that a tensor is cut into; 0: it stays whole.
inline std::vector<int64_t> lengths_of_parts(int64_t elements, int64_t most) {
  const int64_t parts = most <= 0 ? 1 : std::max<int64_t>(1, (elements + most - 1) / most);
  std::vector<int64_t> out(static_cast<std::size_t>(parts), elements / parts);
  for (int64_t i = 0; i < elements % parts; ++i) ++out[static_cast<std::size_t>(i)];
  return out;
}

/// Of buckets whose elements Workload::buckets gives, one role's after the other's, in the order of the flat
/// vectors. For one thread at a time.
class GivenBuckets {
 public:
  /// `elements` outlives it. The next tensor comes after all buckets that `program` has.
  GivenBuckets(const std::vector<int64_t>& elements, const Program& program) : elements_(elements) {
    for (const Bucket& b : program.buckets) end_with(b.elements);
  }
  bool any() const { return !elements_.empty(); }
  /// Of the next tensor, or part of one: does a bucket end with it? After the last of those given each does.
  bool end_with(int64_t elements) {
    total_ += elements;
    bool ends = next_ == elements_.size();
    for (; next_ < elements_.size() && ends_ + elements_[next_] <= total_; ends = true)
      ends_ += elements_[next_++];
    return ends;
  }

 private:
  const std::vector<int64_t>& elements_;
  std::size_t next_ = 0;
  int64_t total_ = 0, ends_ = 0;  ///< of all tensors so far; of the buckets before the next
};

}  // namespace tandem::schemes
