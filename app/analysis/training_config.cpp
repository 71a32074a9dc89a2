// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/training_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "answers/question.h"
#include "app/console/output.h"
#include "sim/bound/placement.h"

namespace tandem::app {

namespace {

/// "megatron:tensor=8,pipeline=4".
std::string scheme_text(const TrainingConfig& c) {
  std::string out = c.scheme;
  for (const auto& [key, value] : c.settings)
    out += fmt::format("{}{}={}", out == c.scheme ? ":" : ",", key, value);
  return out;
}

/// So many passes make a step of `samples`.
int64_t passes_of(const TrainingConfig& c, int64_t devices, int64_t batch) {
  if (devices % c.devices_of_replica != 0)
    throw InputError(fmt::format("{} devices are no multiple of the {} that a replica of the model takes",
                                 devices, c.devices_of_replica));
  if (c.passes) return *c.passes;
  if (!c.samples) return 1;
  const int64_t once = checked_mul(devices / c.devices_of_replica, batch, "the samples of a pass");
  if (*c.samples % once != 0)
    throw InputError(
        fmt::format("{} samples of a step are no multiple of the {} that {} replicas of batch {} take at "
                    "once",
                    *c.samples, once, devices / c.devices_of_replica, batch));
  return *c.samples / once;
}

}  // namespace

int put_question(const Arguments& arguments, TrainingConfig c) {
  const std::string model = arguments.text("model", c.model);
  if (model.empty())
    throw UsageError(
        fmt::format("{}'s configuration names no model that is known here: say --model", c.framework));
  std::vector<std::pair<std::string, std::string>> options = {
      {"model", model}, {"system", arguments.required("system", "dgx-h100")}};
  Question machine = Question::of(options);
  int64_t devices = c.devices.value_or(machine.system.accelerator_count());
  if (arguments.has("devices")) devices = arguments.integers("devices", {}, 1, 1'000'000).back();
  if (devices > machine.system.accelerator_count()) {
    const auto each = static_cast<int64_t>(machine.system.accelerators().size());
    if (devices % each != 0 || arguments.has("devices"))
      throw InputError(fmt::format("the training takes {} devices and {} has {}", devices,
                                   machine.system.name(), machine.system.accelerator_count()));
    options.emplace_back("set", fmt::format("nodes={}", devices / each));
  }
  if (arguments.has("batch")) c.batch = arguments.integer("batch", 1, 1, 1 << 24);
  if (!c.batch)
    throw UsageError(fmt::format("{}'s configuration does not say the batch: say --batch", c.framework));
  const int64_t passes = passes_of(c, devices, *c.batch);
  if (passes > 1 || c.passes_setting == "microbatches") c.set(c.passes_setting, std::to_string(passes));
  options.insert(options.end(), {{"devices", std::to_string(devices)},
                                 {"scheme", scheme_text(c)},
                                 {"batch", std::to_string(*c.batch)}});
  options.insert(options.end(), c.options.begin(), c.options.end());
  const Question question = Question::of(options);
  make_cluster(question.system, devices);
  for (const std::string& remark : c.notes) note(arguments, remark);
  put_result(arguments, question.to_json().dump_wrapped());
  return 0;
}

std::vector<Option> training_flags() {
  return {{"model", "NAME|FILE", "of a training: what it trains, where its configuration does not say it"},
          {"system", "NAME|FILE", "where the training runs"},
          {"devices", "N", "of a training: how many, where its configuration does not say it; default all"},
          {"batch", "N", "samples of a pass, where a configuration does not say them"}};
}

std::string zero_preset(int64_t stage, const Place& place) {
  if (stage < 0 || stage > 3) throw InputError(place, "a stage of ZeRO is 0, 1, 2 or 3");
  return stage == 0 ? "allreduce" : fmt::format("deepspeed-zero{}", stage);
}

const Json* value_at(const Json& document, std::initializer_list<std::string_view> path) {
  const Json* out = &document;
  for (const std::string_view key : path) {
    if (!out->is_object() || (out = out->find(key)) == nullptr) return nullptr;
  }
  const bool none = out->kind() == Json::Kind::null || (out->is_text() && out->as_text() == "auto");
  return none ? nullptr : out;
}

int64_t integer_at(const Json& document, std::initializer_list<std::string_view> path, int64_t fallback) {
  const Json* value = value_at(document, path);
  if (value == nullptr) return fallback;
  if (value->kind() == Json::Kind::real) return static_cast<int64_t>(value->as_real(-9e15, 9e15));
  if (value->is_text()) return answers::parse_integer(value->as_text(), INT64_MIN, INT64_MAX, value->place());
  return value->as_int();
}

bool truth_at(const Json& document, std::initializer_list<std::string_view> path) {
  const Json* value = value_at(document, path);
  if (value == nullptr) return false;
  return value->is_text() ? word_at(document, path) == "true" : value->as_bool();
}

std::string word_at(const Json& document, std::initializer_list<std::string_view> path) {
  const Json* value = value_at(document, path);
  if (value == nullptr) return "";
  std::string out = value->is_text() ? value->as_text() : "";
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace tandem::app
