// SPDX-License-Identifier: Apache-2.0
// One component whole. Each kind gives a text page and, where the contract has one, a JSON document.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "answers/question.h"
#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/show/lists.h"
#include "app/show/show.h"

namespace tandem::app {

namespace {

struct ShowKind {
  std::string_view name;
  std::string (*page)(const ShowRequest&);
};

constexpr ShowKind kKinds[] = {{"model", show_model},       {"system", show_system},
                               {"scheme", show_scheme},     {"device", show_device},
                               {"layer", show_layer},       {"collective", show_collective},
                               {"schedule", show_schedule}, {"profile", show_profile}};

std::vector<std::string> shown_next(const std::vector<std::string>& before) {
  std::vector<std::string> out;
  for (const ShowKind& kind : kKinds) {
    if (before.empty()) out.emplace_back(kind.name);
  }
  return before.size() == 1 ? listed_names(before[0]) : out;
}

int show(const Arguments& arguments) {
  const ShowRequest request{arguments, arguments.words()[1],
                            arguments.choice("format", "text", {"text", "json", "dot"}),
                            result_columns(arguments)};
  const std::string& wanted = arguments.words()[0];
  std::vector<std::string> names;
  for (const ShowKind& kind : kKinds) {
    names.emplace_back(kind.name);
    if (wanted != kind.name) continue;
    std::string page = kind.page(request);
    if (!page.empty()) put_page(arguments, std::move(page));
    return 0;
  }
  throw UsageError(fmt::format("nothing to show of kind \"{}\".{} Valid: {}", printable(wanted),
                               did_you_mean(wanted, names), fmt::join(names, ", ")));
}

}  // namespace

void register_show(Registry<Verb>& registry) {
  const std::vector<Option> board = board_flags();  // of show system, too
  registry.add(
      {.name = "show",
       .summary = "everything about one component: a model's layers, a system's links and routes, a compiled "
                  "scheme, what measured kernels reach",
       .usage = "KIND NAME [options]",
       .flags = {{"format", "text|json|dot", "default text; dot (Graphviz) of a model or system"},
                 {"out", "FILE",
                  "write it there; FILE.png or FILE.svg of a model, system or schedule is drawn"},
                 {"model", "NAME", "show scheme: compile the scheme for this model and print the program"},
                 {"devices", "N", "show scheme, show collective: number of devices; default 4"},
                 {"system", "NAME", "show scheme: the machine that decides how devices fall into nodes"},
                 {"batch", "N", "show model, show scheme: samples per device; default 1 and 32"},
                 {"precision", "fp32|tf32|fp16|bf16|fp8",
                  "show model, show scheme: default fp32; show profile: default every one measured"},
                 {"optimizer", "NAME", "show scheme: default momentum"},
                 {"recompute", "off|blocks|...", "show scheme: what backward recomputes; default off"},
                 {"offload", "WHAT[+WHAT...]",
                  "show scheme: to the host's memory: optimizer, gradients, parameters; default off"},
                 {"stages", "P", "show schedule: of a pipeline; default 4"},
                 {"microbatches", "M", "show schedule: default 8"},
                 {"chunks", "V", "show schedule: parts of the model a stage; default 1, interleaved 2"},
                 {"set", "PATH=VALUE", "show system: change one thing of it first", true},
                 board[0],
                 board[1],
                 board[2],
                 board[3],
                 wide_flag(),
                 quiet_flag()},
       .least_words = 2,
       .most_words = 2,
       .next = shown_next,
       .run = show,
       .details =
           "KIND is model, system, scheme, device, layer, collective, schedule or profile (of a measured "
           "machine: what its kernels reach compared with the roofline and the stock curves).\n\nExamples\n"
           "  tandem show system dgx1-v100 --out dgx1.svg\n"
           "  tandem show scheme pytorch-ddp --model lenet5 --devices 4\n"
           "  tandem show schedule 1f1b --stages 4 --microbatches 8\n"
           "  tandem show profile h200 --precision bf16"});
}

}  // namespace tandem::app
