// SPDX-License-Identifier: Apache-2.0
#include "models/description.h"

namespace tandem::models {

namespace {

int64_t elements_of(const std::vector<Parameter>& tensors) {
  int64_t sum = 0;
  for (const Parameter& p : tensors) sum = checked_add(sum, p.elements, "the number of parameters");
  return sum;
}

}  // namespace

int64_t Layer::parameter_elements() const { return elements_of(parameters); }
int64_t Layer::frozen_elements() const { return elements_of(frozen); }

Bytes Layer::frozen_bytes(int64_t size) const {
  const int64_t count = frozen_elements();
  if (frozen_bits == 0) return Bytes{size} * count;
  return {static_cast<int64_t>(static_cast<double>(count) * frozen_bits / 8)};
}

std::string_view block_of(const Layer& layer) {
  const std::string_view name = layer.name;
  for (std::size_t begin = 0, end = 0; (end = name.find('.', begin)) != std::string_view::npos;
       begin = end + 1) {
    const std::string_view part = name.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos)
      return name.substr(0, end);
  }
  return {};
}

}  // namespace tandem::models
