// SPDX-License-Identifier: Apache-2.0
#include "exec/layout/packed_layout.h"

#include <algorithm>

#include "base/error.h"

namespace tandem::exec {

void PackedLayout::add(int64_t first, int64_t elements, int64_t at) {
  if (elements == 0) return;
  elements_ += elements;
  if (!parts_.empty()) {
    Part& last = parts_.back();
    TANDEM_CHECK(first >= last.first + last.elements);
    if (first == last.first + last.elements && at == last.at + last.elements) {
      last.elements += elements;
      return;
    }
  }
  parts_.push_back({first, elements, at});
}

int64_t PackedLayout::of(int64_t first, int64_t elements) const {
  if (elements == 0) return 0;
  const auto behind = std::upper_bound(parts_.begin(), parts_.end(), first,
                                       [](int64_t f, const Part& p) { return f < p.first; });
  TANDEM_CHECK(behind != parts_.begin());
  const Part& p = *(behind - 1);
  TANDEM_CHECK(first + elements <= p.first + p.elements);
  return p.at + first - p.first;
}

std::vector<std::pair<int64_t, int64_t>> PackedLayout::cut(
    const std::vector<std::pair<int64_t, int64_t>>& ranges) const {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const auto& [begin, end] : ranges) {
    for (const Part& p : parts_) {
      const int64_t from = std::max(begin, p.first), to = std::min(end, p.first + p.elements);
      if (from < to) out.emplace_back(from, to);
    }
  }
  return out;
}

std::vector<float> PackedLayout::take(const std::vector<float>& flat, int64_t all) const {
  std::vector<float> out;
  for (int64_t base = 0; base < static_cast<int64_t>(flat.size()); base += all) {
    for (const Part& p : parts_) {
      const auto begin = flat.begin() + base + p.first;
      out.insert(out.end(), begin, begin + p.elements);
    }
  }
  return out;
}

std::vector<float> PackedLayout::give(const std::vector<float>& kept, int64_t all) const {
  const int64_t vectors = elements_ == 0 ? 0 : static_cast<int64_t>(kept.size()) / elements_;
  std::vector<float> out(static_cast<std::size_t>(vectors * all));
  auto from = kept.begin();
  for (int64_t k = 0; k < vectors; ++k) {
    for (const Part& p : parts_) {
      std::copy_n(from, p.elements, out.begin() + k * all + p.first);
      from += p.elements;
    }
  }
  return out;
}

}  // namespace tandem::exec
