// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tandem::exec::cuda {

namespace {

/// All numbers of a field; none where something else stands there.
std::vector<int64_t> numbers_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<int64_t> out;
  for (int64_t n = 0; in >> n;) out.push_back(n);
  if (!in.eof()) out.clear();
  return out;
}

}  // namespace

Choices& Choices::of_process() {
  const char* file = std::getenv("TANDEM_CUDA_CHOICES");
  static Choices choices(file == nullptr ? "" : file);
  return choices;
}

Choices::Choices(std::string file) : file_(std::move(file)) {
  if (file_.empty()) return;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string chip, what, way;
    if (!std::getline(fields, chip, '\t') || !std::getline(fields, what, '\t') || !std::getline(fields, way))
      continue;
    const std::vector<int64_t> key = numbers_of(what);
    const Way value = numbers_of(way);
    if (!key.empty() && !value.empty()) known_[{chip, key}] = value;
  }
}

std::optional<Way> Choices::find(const std::string& chip, const std::vector<int64_t>& what) {
  const std::lock_guard guard(mutex_);
  const auto found = known_.find({chip, what});
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

void Choices::keep(const std::string& chip, const std::vector<int64_t>& what, const Way& way) {
  const std::lock_guard guard(mutex_);
  Way& known = known_[{chip, what}];
  if (known == way) return;
  known = way;
  if (file_.empty()) return;
  // One write a line: several processes may append to it.
  const std::string line = fmt::format("{}\t{}\t{}\n", chip, fmt::join(what, " "), fmt::join(way, " "));
  std::ofstream(file_, std::ios::app) << line;
}

}  // namespace tandem::exec::cuda
