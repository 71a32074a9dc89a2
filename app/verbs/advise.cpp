// SPDX-License-Identifier: Apache-2.0
#include "answers/ask_advice.h"

#include <fmt/format.h>

#include <cstdio>

#include "app/analysis/advice_text.h"
#include "app/analysis/asking.h"
#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "exec/device/backend.h"

namespace tandem::app {

namespace {

/// Whether `tandem run` has GPUs on this machine.
bool gpus_here() {
  const Backend* cuda = backends_registry().find("cuda");
  return cuda != nullptr && cuda->missing().empty();
}

int run_advise(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "text", {"text", "json", "csv"});
  check_out(arguments);
  catch_interrupts();
  AskedAdvice asked;
  try {
    Progress progress(arguments);
    asked = ask_advice(
        arguments, {hooks(arguments), &interrupted,
                    [&](std::string_view text, std::optional<double> share) { progress.show(text, share); },
                    gpus_here()});
  } catch (const InputError& error) {
    if (!interrupted) throw;
    fmt::print(stderr, "tandem: {}\n", error.what());
    return interrupt_code();
  }
  if (format == "json") {
    put_result(arguments, asked.json());
  } else if (format == "csv") {
    put_result(arguments, advice_csv(asked.advice));
  } else {
    put_result(arguments, advice_text(asked, result_columns(arguments)));
  }
  return interrupt_code();
}

std::vector<Option> advise_flags() {
  std::vector<Option> flags = advise_options();
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
