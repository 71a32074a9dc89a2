// SPDX-License-Identifier: Apache-2.0
#include "exec/run/loss_history.h"

namespace tandem::exec {

std::vector<double> LossHistory::sums(int32_t iterations) const {
  const int64_t taken = iterations * micros_;
  std::vector<float> values(static_cast<std::size_t>(each_ * taken));
  device_.download(values.data(), all_, each_ * taken);
  std::vector<double> out;
  for (int64_t k = 0; k < taken; ++k) {
    double sum = 0;
    for (int64_t l = 0; l < each_; ++l)
      sum += static_cast<double>(values[static_cast<std::size_t>(k * each_ + l)]);
    out.push_back(sum);
  }
  return out;
}

}  // namespace tandem::exec
