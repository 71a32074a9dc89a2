// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which of cuDNN's proposals was the fastest. Internal to the plugin.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "exec/device/cuda/cudnn_plan.h"

namespace tandem::exec::cuda {

/// One a process. What was found for a kind of chip holds for all of that kind; in the file that
/// TANDEM_CUDA_CHOICES names also for later runs, which then sum in the same order and try nothing. A line of
/// it: kind of chip with cuDNN's version, shape, mode and place in the list of proposals, with tabs between.
/// Any thread may call; a file that cannot be read or written is as none.
class Choices {
 public:
  static Choices& of_process();
  explicit Choices(std::string file);  ///< "": none

  std::optional<Origin> find(const std::string& chip, const std::vector<int64_t>& shape);
  void keep(const std::string& chip, const std::vector<int64_t>& shape, const Origin& origin);

 private:
  using Key = std::pair<std::string, std::vector<int64_t>>;
  std::mutex mutex_;
  std::string file_;
  std::map<Key, Origin> known_;
};

}  // namespace tandem::exec::cuda
