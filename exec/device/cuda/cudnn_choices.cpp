// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/cudnn_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tandem::exec::cuda {

Choices& Choices::of_process() {
  const char* file = std::getenv("TANDEM_CUDA_CHOICES");
  static Choices choices(file == nullptr ? "" : file);
  return choices;
}

Choices::Choices(std::string file) : file_(std::move(file)) {
  std::ifstream in(file_);
  for (std::string line; !file_.empty() && std::getline(in, line);) {
    std::istringstream words(line);
    std::string chip, shape;
    int mode = -1;
    std::size_t index = 0;
    if (!std::getline(words, chip, '\t') || !std::getline(words, shape, '\t') || !(words >> mode >> index))
      continue;
    std::istringstream numbers(shape);
    std::vector<int64_t> sizes;
    for (int64_t n = 0; numbers >> n;) sizes.push_back(n);
    known_[{chip, sizes}] = {static_cast<cudnnBackendHeurMode_t>(mode), index};
  }
}

std::optional<Origin> Choices::find(const std::string& chip, const std::vector<int64_t>& shape) {
  const std::lock_guard guard(mutex_);
  const auto found = known_.find({chip, shape});
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

void Choices::keep(const std::string& chip, const std::vector<int64_t>& shape, const Origin& origin) {
  const std::lock_guard guard(mutex_);
  known_[{chip, shape}] = origin;
  if (file_.empty()) return;
  std::ofstream(file_, std::ios::app) << fmt::format("{}\t{}\t{} {}\n", chip, fmt::join(shape, " "),
                                                     static_cast<int>(origin.mode), origin.index);
}

}  // namespace tandem::exec::cuda
