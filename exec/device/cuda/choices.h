// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which of a library's ways was the fastest. Internal to the plugin.
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::exec::cuda {

/// A way as the library tells it from others: of cuDNN mode and place in its list of proposals (Origin), or 0
/// for a product in its place; of cuBLASLt the eight words of an algorithm.
using Way = std::vector<int64_t>;

/// One a process. What was found for a kind of chip holds for all of that kind; in the file that
/// TANDEM_CUDA_CHOICES names also for later runs, which then sum in the same order and try nothing. A line of
/// it: kind of chip with the library's version, what is computed, the way; with tabs between. The last line
/// of its kind counts. Any thread may call; a file that cannot be read or written is as none, and what stands
/// in it is a proposal that the library may refuse.
class Choices {
 public:
  static Choices& of_process();
  explicit Choices(std::string file);  ///< "": none

  std::optional<Way> find(const std::string& chip, const std::vector<int64_t>& what);
  void keep(const std::string& chip, const std::vector<int64_t>& what, const Way& way);

 private:
  using Key = std::pair<std::string, std::vector<int64_t>>;
  std::mutex mutex_;
  std::string file_;
  std::map<Key, Way> known_;
};

}  // namespace tandem::exec::cuda
