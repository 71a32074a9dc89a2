// SPDX-License-Identifier: Apache-2.0
#pragma once
// A training as the configuration file of a framework says it, on its way to a question.
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/console/cli.h"
#include "base/json.h"

namespace tandem::app {

struct TrainingConfig {
  std::string framework;  ///< "DeepSpeed"
  std::string model;      ///< "" where the file does not say it
  std::string scheme;
  std::vector<std::pair<std::string, std::string>> settings;  ///< of the scheme
  std::map<std::string, std::string> options;  ///< of the question: precision, optimizer, recompute ...
  std::optional<int64_t> devices;              ///< unset: all that the system has
  std::optional<int64_t> batch;                ///< samples of a pass; unset: --batch says it
  std::optional<int64_t> passes;               ///< of a step; unset: as many as make `samples`, else 1
  std::optional<int64_t> samples;              ///< of a step of all devices
  int64_t devices_of_replica = 1;
  std::string passes_setting = "microbatches";  ///< what the scheme calls passes
  std::vector<std::string> notes;               ///< what is left out or taken otherwise

  void set(std::string_view setting, std::string value) { settings.emplace_back(setting, std::move(value)); }
  /// Where it is not the scheme's default.
  void set_degree(std::string_view setting, int64_t devices) {
    if (devices > 1) set(setting, std::to_string(devices));
  }
};

/// Puts the question for --system, completed by --model, --devices and --batch. Throws InputError where the
/// training does not divide among the devices, UsageError where nothing says the model or the machine.
int put_question(const Arguments& arguments, TrainingConfig config);
/// What put_question() reads.
std::vector<Option> training_flags();

/// DeepSpeed's preset of a ZeRO stage. Throws InputError at `place` for what is none.
std::string zero_preset(int64_t stage, const Place& place);

/// A value deep in a document; null where a key on the way is absent or "auto" stands there.
const Json* value_at(const Json& document, std::initializer_list<std::string_view> path);
int64_t integer_at(const Json& document, std::initializer_list<std::string_view> path, int64_t fallback);
bool truth_at(const Json& document, std::initializer_list<std::string_view> path);
/// In lower case.
std::string word_at(const Json& document, std::initializer_list<std::string_view> path);

}  // namespace tandem::app
