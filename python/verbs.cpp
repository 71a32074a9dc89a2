// SPDX-License-Identifier: Apache-2.0
#include "python/verbs.h"

#include <utility>

#include "answers/answer.h"
#include "answers/ask_advice.h"
#include "answers/asking.h"
#include "answers/compare.h"
#include "answers/recent.h"
#include "calibration/collectives.h"
#include "calibration/fit/collective_profile.h"
#include "calibration/traces/compare_trace.h"
#include "plan/ask_plan.h"
#include "plan/plan_json.h"
#include "plan/planner.h"
#include "schemes/report/report.h"
#include "sweep/cell.h"

namespace tandem::python {

namespace {

Recent& recent() {
  static Recent questions;
  return questions;
}

std::vector<Option> predict_options() {
  std::vector<Option> out = question_options();
  out.insert(out.end(),
             {question_flag(),
              {"depth",
               "DEPTH",
               "how much is computed: rate (samples/s, its interval, staleness, memory; no timeline), "
               "report (speed-up, goodput, time to a target too), full (default: the bottleneck "
               "too)",
               false,
               {},
               "full"},
              no_timeline_flag(),
              reproducible_flag()});
  return out;
}

Write predict_verb(const Values& values, const std::vector<std::string>&, const Hooks& hooks) {
  return predict_question(read_once(values, hooks), values);
}

Write written(std::string text) {
  return [text = std::move(text)] { return text; };
}

std::vector<Option> compare_keywords() {
  std::vector<Option> out = compare_options();
  out.push_back({"trace", "FILE", "a trace of PyTorch's profiler, which one report is compared with"});
  return out;
}

Write compare_verb(const Values& values, const std::vector<std::string>& words, const Hooks& hooks) {
  if (words.empty() && !values.has("question"))
    throw UsageError("tandem.compare takes systems with model=, or reports");
  if (values.has("trace")) {
    if (words.size() != 1) throw UsageError("one report is compared with a trace");
    const TraceComparison found = compare_trace(words[0], values.text("trace", ""));
    for (const std::string& note : found.notes) hooks.note(note);
    return written(found.json());
  }
  return written(compare(values, words, hooks).json());
}

Write advise_verb(const Values& values, const std::vector<std::string>&, const Hooks& hooks) {
  return written(ask_advice(values, {.question = hooks}).json());
}

Write plan_verb(const Values& values, const std::vector<std::string>&, const Hooks& hooks) {
  const PlanQuestion question = read_plan_question(values, hooks);
  return written(plan_json(question, make_plan(question)));
}

Write collective_verb(const Values& values, const std::vector<std::string>&, const Hooks& hooks) {
  return written(collective_json(predict_collectives(values, hooks.note)));
}

}  // namespace

Hooks hooks(std::function<void(std::string_view)> note) {
  return {{}, measured_collectives, std::move(note)};
}

std::shared_ptr<const Question> read_once(const Values& values, const Hooks& hooks) {
  const Values asked = predict_values(values);
  for (const char* needed : {"model", "system"})
    asked.required(needed, needed == std::string_view("model") ? "resnet50" : "dgx1-v100");
  try {
    return recent().question(asked, true, hooks);
  } catch (const std::runtime_error&) {
    if (!values.has("question")) throw;
    read_located(asked, hooks);  // throws it with its place in the document
    throw;
  }
}

Write predict_question(const std::shared_ptr<const Question>& question, const Values& values) {
  const Depth depth = values.value("depth", "full", sweep::parse_depth);
  const bool timeline = depth > Depth::fit && !values.has("no-timeline"),
             reproducible = values.has("reproducible");
  return [reports = predict(*question, depth, timeline), reproducible] {
    return reports_to_json(reports, reproducible);
  };
}

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> all = {
      {"predict", "Simulates a model on a system under a scheme: throughput, staleness, memory, bottleneck.",
       "", predict_options(), predict_verb},
      {"compare", "What changes and why: systems for a model, reports, or a report and a trace.", "systems",
       compare_keywords(), compare_verb},
      {"advise",
       "Which scheme, split, micro-batch, recomputation and precision are fastest for a model on a system.",
       "", advise_options(), advise_verb},
      {"plan",
       "What to buy or rent for a training, how to train on it, when it is done, what it costs and draws.",
       "", plan::plan_options(), plan_verb},
      {"collective", "One collective over a range of sizes, next to a measured log.", "",
       collective_options(), collective_verb}};
  return all;
}

}  // namespace tandem::python
