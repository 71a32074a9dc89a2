// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <fmt/format.h>

#include <cstdio>

#include "app/analysis/asking.h"
#include "app/analysis/plan_text.h"
#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "pictures/draw.h"
#include "pictures/plan_picture.h"
#include "plan/ask_plan.h"
#include "plan/plan_json.h"

namespace tandem::app {

namespace {

void put_plan(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "text", {"text", "json", "csv"});
  check_out(arguments);
  plan::PlanQuestion q = plan::read_plan_question(arguments, hooks(arguments));
  q.stop = &interrupted;
  const std::string pictures = arguments.has("plot") ? picture_base(arguments.text("plot", ""), "plan") : "";
  plan::Plan answer;
  {
    Progress progress(arguments);
    q.progress = [&](std::string_view text, std::optional<double> share) { progress.show(text, share); };
    answer = plan::make_plan(q);
  }
  if (format == "json") {
    put_result(arguments, plan_json(q, answer));
  } else if (format == "csv") {
    put_result(arguments, plan_table(q, answer, true).csv());
  } else {
    put_result(arguments, plan_text(q, answer, result_columns(arguments)));
  }
  if (!pictures.empty()) {
    for (const std::string& file :
         write_pictures(draw_plan(Json::parse(plan_json(q, answer), "the plan"), pictures)))
      note(arguments, file);
  }
}

int run_plan(const Arguments& arguments) {
  catch_interrupts();
  try {
    put_plan(arguments);
  } catch (const InputError& error) {
    if (!interrupted) throw;
    fmt::print(stderr, "tandem: {}\n", error.what());
  }
  return interrupt_code();
}

std::vector<Option> plan_flags() {
  std::vector<Option> flags = plan::plan_options();
  flags.insert(
      flags.end(),
      {{"format", "text|json|csv", "default text"},
       {"plot", "BASE", "also draw time against money and power, and what decides: BASE-cost.png, .svg ..."},
       out_flag(),
       wide_flag(),
       quiet_flag()});
  return flags;
}

}  // namespace

void register_plan(Registry<Verb>& registry) {
  registry.add(
      {.name = "plan",
       .summary =
           "what to buy or rent for a training, how to train on it, when it is done, what it costs and draws",
       .usage = "--model NAME --tokens N --systems NAME,... [options]",
       .flags = plan_flags(),
       .run = run_plan,
       .details =
           "Every machine is asked the same training: the model, the target, the samples in a step and the "
           "optimiser are held; the way to train (scheme, split, micro-batch, recomputation, precision) is "
           "the "
           "fastest that fits it. Prices have sellers, dates and sources; failures are those published of "
           "machines of the kind.\n\nExamples\n"
           "  tandem plan --model llama3-8b --tokens 1e12 --systems dgx-h100,dgx-a100 --nodes 1..64 "
           "--deadline 60d\n"
           "  tandem plan --model gpt2 --tokens 1e10 --systems 5090-2x,3090-pcie --budget 8000USD --buy\n"
           "  tandem plan --model resnet50 --epochs 90 --systems dgx1-v100,v100-pcie-8x --rank cheapest"});
}

}  // namespace tandem::app
