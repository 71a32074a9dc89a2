// SPDX-License-Identifier: Apache-2.0
#include "answers/aims.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/units.h"

namespace tandem::answers {

namespace {

using Target = TrainingProgress::Target;
constexpr double kLongest = 1e12;  // seconds: 30,000 years

double positive_seconds(const std::string& text, const Place& place) {
  const double seconds = parse_seconds(text, place);
  if (!(seconds > 0 && seconds <= kLongest))
    throw InputError(place, fmt::format("\"{}\" is not a time above 0 and of at most 30,000 years", text));
  return seconds;
}

double some_seconds(const std::string& text, const Place& place) {
  return parse_seconds(text, place) == 0 ? 0 : positive_seconds(text, place);
}

/// "30min", or "500": steps.
void read_interval(const std::string& text, Failures& out) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos)
    out.every_steps = parse_integer(text, 1, 1'000'000'000, option_place("checkpoint-every"));
  else
    out.every = positive_seconds(text, option_place("checkpoint-every"));
}

constexpr std::pair<const char*, Target> kTargets[] = {{"target-loss", Target::loss},
                                                       {"epochs", Target::epochs},
                                                       {"tokens", Target::tokens},
                                                       {"samples", Target::samples}};

/// "40000@32".
void read_needed(const Values& a, ProgressQuestion& q) {
  if (!a.has("samples-to-target")) return;
  const std::string text = a.text("samples-to-target", "");
  const auto at = text.find('@');
  if (at == std::string::npos)
    refuse_option("samples-to-target",
                  fmt::format("\"{}\" is not SAMPLES@BATCH, for example 40000@32", printable(text)));
  const Place place = option_place("samples-to-target");
  try {
    q.needed = parse_real(std::string_view(text).substr(0, at), 1, 1e18, place);
    q.needed_step = parse_real(std::string_view(text).substr(at + 1), 1, 1e12, place);
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

std::vector<Option> failure_flags() {
  return {
      {"mtbf", "TIME",
       "mean time between failures of one device, such as 50000h: adds the goodput, the useful share of the "
       "time"},
      {"node-mtbf", "TIME", "the same for a whole node, in addition to its devices or instead of them"},
      {"checkpoint-every", "TIME|N",
       "interval between checkpoints, as a time or in steps; default: the interval that loses least"},
      {"checkpoint-cost", "TIME",
       "how long training pauses for a checkpoint; default: size of the state over the bandwidth of the "
       "system's storage"},
      {"restart-time", "TIME",
       "from a failure until training resumes: detecting it, starting the job, reading the checkpoint; "
       "default: only reading it"},
      {"repair-time", "TIME", "mean downtime of a failed node; default 0: it is back for the restart"},
      {"spares", "N", "extra nodes that replace failed ones; default 0"},
      {"elastic", "", "continue with fewer nodes while some are down, instead of waiting"},
  };
}

std::optional<Failures> read_failures(const Values& arguments) {
  if (!arguments.has("mtbf") && !arguments.has("node-mtbf")) {
    for (const Option& flag : failure_flags()) {
      if (arguments.has(flag.name))
        refuse_option(flag.name, "needs --mtbf or --node-mtbf, for example --mtbf 50000h");
    }
    return std::nullopt;
  }
  Failures f;
  if (arguments.has("mtbf")) f.device_mtbf = arguments.value("mtbf", "", positive_seconds);
  if (arguments.has("node-mtbf")) f.node_mtbf = arguments.value("node-mtbf", "", positive_seconds);
  if (arguments.has("checkpoint-every"))
    arguments.value("checkpoint-every", "",
                    [&](const std::string& text, const Place&) { return read_interval(text, f); });
  if (arguments.has("checkpoint-cost")) f.checkpoint = arguments.value("checkpoint-cost", "", some_seconds);
  if (arguments.has("restart-time")) f.restart = arguments.value("restart-time", "", some_seconds);
  f.repair = arguments.value("repair-time", "0s", some_seconds);
  f.spares = arguments.integer("spares", 0, 0, 1'000'000);
  f.elastic = arguments.has("elastic");
  if (f.repair == 0 && (f.spares > 0 || f.elastic))
    refuse_option(f.elastic ? "elastic" : "spares", "needs --repair-time, for example --repair-time 12h");
  return f;
}

std::vector<Option> progress_flags() {
  return {
      {"target-loss", "LOSS",
       "adds the time to reach this loss, and what samples are worth under the scheme "
       "(docs/progress.md)"},
      {"epochs", "N", "the same for this many passes over the data"},
      {"tokens", "N", "the same for this many tokens, such as 300e9"},
      {"samples", "N", "the same for this many samples"},
      {"noise-scale", "SAMPLES",
       "with one of these: the gradient noise scale, which \"tandem run --measure-noise\" measures"},
      {"samples-to-target", "SAMPLES@BATCH",
       "with --target-loss: samples that one worker needed at this batch, such as 40000@32"},
      {"epoch-samples", "N", "with --epochs: samples in the data set, if the model's data set is unknown"},
  };
}

std::optional<ProgressQuestion> read_progress_question(const Values& a) {
  std::vector<std::string> given;
  ProgressQuestion q;
  for (const auto& [option, target] : kTargets) {
    if (!a.has(option)) continue;
    given.emplace_back(option);
    q.target = target;
  }
  if (given.size() > 1)
    throw UsageError(fmt::format("--{} and --{} are two targets: give one", given[0], given[1]));
  const auto belongs = [&](const char* option, std::string_view to) {
    if (a.has(option) && (given.empty() || (!to.empty() && given[0] != to)))
      throw UsageError(fmt::format(
          "--{} needs {}", option,
          to.empty() ? "a target: --target-loss, --epochs, --tokens or --samples" : fmt::format("--{}", to)));
  };
  belongs("noise-scale", "");
  belongs("samples-to-target", "target-loss");
  belongs("epoch-samples", "epochs");
  if (given.empty()) return {};
  q.value = a.real(given[0], 0, 1e-12, 1e18);
  if (a.has("noise-scale")) q.noise_scale = a.real("noise-scale", 0, 1e-9, 1e18);
  if (a.has("epoch-samples")) q.epoch_samples = a.real("epoch-samples", 0, 1, 1e18);
  read_needed(a, q);
  return q;
}

}  // namespace tandem::answers
