// SPDX-License-Identifier: Apache-2.0
#include "answers/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "app/analysis/advice_text.h"
#include "app/analysis/asking.h"
#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "base/text.h"
#include "sim/bound/placement.h"

namespace tandem::app {

namespace {

constexpr int64_t kUsualDevices = 1024;

/// Options of predict that are searched, or that do not apply to candidates.
const std::set<std::string_view>& searched() {
  static const std::set<std::string_view> names = {"devices", "scheme", "batch", "precision", "recompute",
                                                   "offload", "anchor", "with",  "then"};
  return names;
}

/// The options given that hold for every candidate.
Values passed_on(const Arguments& arguments) {
  Values out = arguments;
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
std::vector<std::string> asked_schemes(const Arguments& arguments) {
  if (!arguments.has("schemes")) return exact_schemes();
  std::vector<std::string> out;
  for (const std::string& scheme : split_names({arguments.text("schemes", "")})) {
    if (std::find(out.begin(), out.end(), scheme) == out.end()) out.push_back(scheme);
  }
  return out;
}

Space read_space(const Arguments& arguments, const Question& question) {
  Space space;
  space.graph = &question.graph;
  space.system = &question.system;
  space.schemes = asked_schemes(arguments);
  const int64_t all = std::min(question.system.accelerator_count(), kUsualDevices);
  const std::vector<int64_t> counts = arguments.integers("devices", {all}, 1, 1'000'000);
  space.devices = *std::max_element(counts.begin(), counts.end());
  make_cluster(question.system, space.devices);
  if (arguments.has("batch") && arguments.has("global-batch"))
    throw UsageError("--batch and --global-batch both give the batch: use one of them");
  const int64_t each = arguments.integer("batch", 32, 1, 1 << 24);
  space.samples = arguments.integer("global-batch", checked_mul(each, space.devices, "the samples of a step"),
                                    1, INT64_MAX);
  space.precisions = arguments.has("precision") ? arguments.value("precision", "", parse_precisions)
                                                : usual_precisions(question.system);
  return space;
}

Search read_search(const Arguments& arguments, const Question& question) {
  Search search;
  search.stop = &interrupted;
  search.top = static_cast<std::size_t>(arguments.integer("top", 5, 1, 1000));
  search.threads = static_cast<int>(
      arguments.integer("threads", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  if (arguments.has("recompute")) search.recompute = arguments.value("recompute", "", parse_recompute);
  if (arguments.has("offload")) search.offload = arguments.value("offload", "", parse_offload);
  search.full_memory = arguments.has("full-memory");
  if (arguments.has("recipe")) search.recipe = question.scheme.recipe;
  return search;
}

void add(std::vector<std::string>& words, const std::string& flag, const std::string& value) {
  words.push_back("--" + flag);
  words.push_back(value);
}

std::vector<std::string> predict_words(const Arguments& arguments, const Choice& choice) {
  std::vector<std::string> out = {"tandem", "predict"};
  const Values common = passed_on(arguments);
  for (const Option& option : question_options()) {
    for (const std::string& value : common.all(option.name)) {
      out.push_back("--" + std::string(option.name));
      if (!option.value.empty()) out.push_back(value);
    }
  }
  const Candidate& c = choice.candidate;
  add(out, "scheme", c.scheme);
  add(out, "devices", std::to_string(c.devices));
  add(out, "batch", std::to_string(c.batch));
  add(out, "precision", std::string(name(c.precision)));
  if (!(choice.recompute == Recompute{})) add(out, "recompute", choice.recompute.text());
  if (choice.offload.any()) add(out, "offload", choice.offload.text());
  return out;
}

std::string heading(const Question& q, const Space& space) {
  return fmt::format("{} on {}, at most {} device{} · {} in a step · {}", q.graph.name(), q.system_label(),
                     space.devices, space.devices == 1 ? "" : "s", samples_words(space.samples),
                     q.optimizer->name);
}

/// The same with a base model in 4 bits; nothing if the question has one already.
std::optional<Arguments> quantised(const Arguments& arguments) {
  const std::string adapter = arguments.text("adapter", "");
  if (adapter.rfind("lora", 0) != 0 || adapter.find("store=") != std::string::npos) return std::nullopt;
  return arguments.replaced("adapter", {"q" + adapter});
}

int put_advice(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "text", {"text", "json", "csv"});
  arguments.required("model", "resnet50");
  const Question question = read_located(passed_on(arguments), hooks(arguments));
  const Space space = with_places(arguments, [&] { return read_space(arguments, question); });
  for (const std::string& scheme : space.schemes) resolve_scheme(scheme, option_place("schemes"));
  Search search = with_places(arguments, [&] { return read_search(arguments, question); });
  Advice advice;
  {
    Progress progress(arguments);
    search.progress = [&](std::string_view text, std::optional<double> share) { progress.show(text, share); };
    advice = advise(question, space, search);
  }
  AdviceContext context;
  context.system = &question.system;
  context.space = &space;
  context.heading = heading(question, space);
  context.predict = predict_words(arguments, advice.ranked[0]);
  const Choice& first = advice.ranked[0];
  context.run = run_here(question, first.candidate, {first.recompute, first.offload});
  if (format == "json") {
    put_result(arguments, advice_json(advice, context));
  } else if (format == "csv") {
    put_result(arguments, advice_csv(advice));
  } else {
    put_result(arguments, advice_text(advice, context, result_columns(arguments)));
  }
  return interrupt_code();
}

std::vector<Option> advise_flags();

/// Of a question's file the batch gives way to --global-batch.
Arguments asked_to_advise(const Arguments& given) {
  const Arguments out = with_question(given, advise_flags());
  return given.has("global-batch") && !given.has("batch") ? out.replaced("batch", {}) : out;
}

int run_advise(const Arguments& given) {
  const Arguments arguments = asked_to_advise(given);
  check_out(arguments);
  catch_interrupts();
  try {
    return put_advice(arguments);
  } catch (const InputError& error) {
    if (interrupted) fmt::print(stderr, "tandem: {}\n", error.what());
    if (interrupted) return interrupt_code();
    const auto smaller = quantised(arguments);
    if (!smaller) throw;
    note(arguments, fmt::format("{}; so with weights in 4 bits, --adapter {}", error.what(),
                                smaller->text("adapter", "")));
    return put_advice(*smaller);
  }
}

std::vector<Option> advise_flags() {
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
  flags.insert(flags.end(),
               {{"format", "text|json|csv", "default text"}, out_flag(), wide_flag(), quiet_flag()});
  return flags;
}

}  // namespace

void register_advise(Registry<Verb>& registry) {
  registry.add(
      {.name = "advise",
       .summary = "which scheme, split, micro-batch, recomputation and precision to use for a model on a "
                  "system, ranked, with reasons",
       .usage = "--model NAME --system NAME [options]",
       .flags = advise_flags(),
       .run = run_advise,
       .details =
           "All candidates use the same number of samples per step (--global-batch), so their rates are "
           "comparable; "
           "fewer "
           "devices than there are may be faster. By default only schemes equivalent to one worker with the "
           "whole batch are tried. Servers and a master process are tried on up to 64 devices, "
           "and tensor parallelism stays within a node. To exclude other precisions give --precision fp32; "
           "fp8 must be asked for.\n\nExamples\n"
           "  tandem advise --model resnet50 --system dgx1-v100\n"
           "  tandem advise --model gpt3-175b --system dgx-a100-80gb --set nodes=128 --global-batch 1536 "
           "--precision bf16 --optimizer adam --recipe megatron-core\n"
           "  tandem advise --model vgg16 --system v100-pcie-8x --schemes pytorch-ddp,horovod,pytorch-fsdp"});
}

}  // namespace tandem::app
