// SPDX-License-Identifier: Apache-2.0
#include "answers/ask_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "base/text.h"
#include "sim/bound/placement.h"

namespace tandem::answers {

namespace {

constexpr int64_t kUsualDevices = 1024;

/// Options of predict that are searched, or that do not apply to candidates.
const std::set<std::string_view>& searched() {
  static const std::set<std::string_view> names = {"devices", "scheme", "batch", "precision", "recompute",
                                                   "offload", "anchor", "with",  "then"};
  return names;
}

/// The options given that hold for every candidate.
Values passed_on(const Values& values) {
  Values out = values;
  for (const std::string_view option : searched()) out.set(option, {});
  return out;
}

std::vector<Precision> parse_precisions(std::string_view text, const Place& place) {
  std::vector<Precision> out;
  for (const std::string& name : split(text, ',')) {
    const Precision p = parse_precision(name, place);
    if (std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
  }
  return out;
}

/// In their order, none twice.
std::vector<std::string> asked_schemes(const Values& values) {
  if (!values.has("schemes")) return exact_schemes();
  std::vector<std::string> out;
  for (const std::string& scheme : split_names({values.text("schemes", "")})) {
    if (std::find(out.begin(), out.end(), scheme) == out.end()) out.push_back(scheme);
  }
  return out;
}

Space read_space(const Values& values, const Question& question) {
  Space space;
  space.graph = &question.graph;
  space.system = &question.system;
  space.schemes = asked_schemes(values);
  const int64_t all = std::min(question.system.accelerator_count(), kUsualDevices);
  const std::vector<int64_t> counts = values.integers("devices", {all}, 1, 1'000'000);
  space.devices = *std::max_element(counts.begin(), counts.end());
  make_cluster(question.system, space.devices);
  if (values.has("batch") && values.has("global-batch"))
    throw UsageError("--batch and --global-batch both give the batch: use one of them");
  const int64_t each = values.integer("batch", 32, 1, 1 << 24);
  space.samples =
      values.integer("global-batch", checked_mul(each, space.devices, "the samples of a step"), 1, INT64_MAX);
  space.precisions = values.has("precision") ? values.value("precision", "", parse_precisions)
                                             : usual_precisions(question.system);
  return space;
}

Search read_search(const Values& values, const Question& question, const AdviceHooks& hooks) {
  Search search;
  search.stop = hooks.stop;
  search.progress = hooks.progress;
  search.top = static_cast<std::size_t>(values.integer("top", 5, 1, 1000));
  search.threads = static_cast<int>(
      values.integer("threads", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  if (values.has("recompute")) search.recompute = values.value("recompute", "", parse_recompute);
  if (values.has("offload")) search.offload = values.value("offload", "", parse_offload);
  search.full_memory = values.has("full-memory");
  if (values.has("recipe")) search.recipe = question.scheme.recipe;
  return search;
}

void append_flag(std::vector<std::string>& words, const std::string& flag, const std::string& value) {
  words.push_back("--" + flag);
  words.push_back(value);
}

std::vector<std::string> predict_words(const Values& values, const Choice& choice) {
  std::vector<std::string> out = {"tandem", "predict"};
  const Values common = passed_on(values);
  for (const Option& option : question_options()) {
    for (const std::string& value : common.all(option.name)) {
      out.push_back("--" + std::string(option.name));
      if (!option.value.empty()) out.push_back(value);
    }
  }
  const Candidate& c = choice.candidate;
  append_flag(out, "scheme", c.scheme);
  append_flag(out, "devices", std::to_string(c.devices));
  append_flag(out, "batch", std::to_string(c.batch));
  append_flag(out, "precision", std::string(name(c.precision)));
  if (!(choice.recompute == Recompute{})) append_flag(out, "recompute", choice.recompute.text());
  if (choice.offload.any()) append_flag(out, "offload", choice.offload.text());
  return out;
}

/// The same with a base model in 4 bits; nothing if the question has one already.
std::optional<Values> quantised(const Values& values) {
  const std::string adapter = values.text("adapter", "");
  if (adapter.rfind("lora", 0) != 0 || adapter.find("store=") != std::string::npos) return std::nullopt;
  Values out = values;
  out.set("adapter", {"q" + adapter});
  return out;
}

AskedAdvice advice_for(const Values& values, const AdviceHooks& hooks) {
  values.required("model", "resnet50");
  AskedAdvice out;
  const auto question = std::make_shared<const Question>(read_located(passed_on(values), hooks.question));
  const auto space =
      std::make_shared<const Space>(with_places(values, [&] { return read_space(values, *question); }));
  for (const std::string& scheme : space->schemes) resolve_scheme(scheme, option_place("schemes"));
  const Search search = with_places(values, [&] { return read_search(values, *question, hooks); });
  out.question = question;
  out.space = space;
  out.advice = advise(*question, *space, search);
  const Choice& first = out.advice.ranked[0];
  out.context = {&question->system, space.get(), predict_words(values, first),
                 run_here(*question, first.candidate, {first.recompute, first.offload}, hooks.gpus)};
  return out;
}

/// Of a question's file the batch gives way to --global-batch.
Values asked_to_advise(const Values& given, const Hooks& hooks) {
  Values out = with_question(given, advise_options(), hooks.note);
  if (given.has("global-batch") && !given.has("batch")) out.set("batch", {});
  return out;
}

}  // namespace

AskedAdvice ask_advice(const Values& given, const AdviceHooks& hooks) {
  const Values values = asked_to_advise(given, hooks.question);
  try {
    return advice_for(values, hooks);
  } catch (const InputError& error) {
    const auto smaller = quantised(values);
    if (!smaller || (hooks.stop != nullptr && *hooks.stop)) throw;
    if (hooks.question.note)
      hooks.question.note(fmt::format("{}; so with weights in 4 bits, --adapter {}", error.what(),
                                      smaller->text("adapter", "")));
    return advice_for(*smaller, hooks);
  }
}

std::vector<Option> advise_options() {
  std::vector<Option> flags;
  for (const Option& flag : question_options()) {
    if (searched().count(flag.name) == 0) flags.push_back(flag);
  }
  flags.insert(
      flags.end(),
      {question_flag(),
       {"devices", "N", "the most to use; default all that the system has, at most 1,024"},
       {"batch", "N", "samples in a step, per device of --devices; default 32"},
       {"global-batch", "N", "instead of --batch: samples in a step of all devices together"},
       {"schemes", "NAME[:key=value,...][,...]",
        "schemes and presets to choose among; what they leave at its default (axes, stages, micro-batches) "
        "is "
        "tried out. Default: those equivalent to one worker with the whole batch"},
       {"precision", "fp32|tf32|fp16|bf16|fp8[,...]",
        "to choose among; default fp32, and tf32 and bf16 (or fp16) where the device is faster with them"},
       {"recompute", "off|blocks|...", "default: the least with which a candidate fits"},
       {"offload", "off|WHAT[+WHAT...]",
        "default: off, or the least with which a candidate fits if none fits"},
       {"full-memory", "",
        "ways that leave less than a tenth of a device's memory free are ranked by their rates too, not "
        "last"},
       {"top", "N", "choices to show, the best of each division of the model; default 5"},
       {"threads", "N", "default: one per processor; the result does not depend on it"}});
  return flags;
}

}  // namespace tandem::answers
