// SPDX-License-Identifier: Apache-2.0
#pragma once
// Advice for options: what is searched, and what is passed on.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/advice_json.h"
#include "answers/asking.h"

namespace tandem::answers {

/// Options of advice, without those of how it is shown.
std::vector<Option> advise_options();

/// What the calling program provides; the pointers and functions may be null.
struct AdviceHooks {
  Hooks question = {};
  const std::atomic<bool>* stop = nullptr;  ///< once true, the search ends
  std::function<void(std::string_view text, std::optional<double> share)> progress =
      {};             ///< called by one thread at a time
  bool gpus = false;  ///< this machine has GPUs that `tandem run` uses
};

/// Advice with the question that it answers.
struct AskedAdvice {
  std::shared_ptr<const Question> question;
  std::shared_ptr<const Space> space;
  Advice advice;
  AdviceContext context;
  std::string json() const { return advice_json(advice, context); }
};

/// Where nothing fits with a LoRA adapter, its base model is kept in 4 bits. Throws InputError and
/// UsageError.
AskedAdvice ask_advice(const Values& given, const AdviceHooks& hooks);

}  // namespace tandem::answers
