// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions that arrive one after the other, most of them like one before.
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "answers/answer.h"
#include "answers/question.h"

namespace tandem::answers {

/// Keeps models, machines and compiled Programs of the last questions, so that one like these takes little
/// more than its simulation. A question that names a file by its path is read each time. Any thread may
/// call.
class Recent {
 public:
  /// `timeline`: whether its reports have one. Throws as Question::of() does.
  std::shared_ptr<const Question> question(const Values& values, bool timeline, const Hooks& hooks = {});

 private:
  static constexpr std::size_t kMost = 64;
  using Kept = std::pair<std::string, std::shared_ptr<const Question>>;
  std::mutex lock_;
  std::vector<Kept> kept_;  ///< by what is read and set up for them; the last used at the end
  std::shared_ptr<Programs> programs_ = std::make_shared<Programs>();
};

}  // namespace tandem::answers
