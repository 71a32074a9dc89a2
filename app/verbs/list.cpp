// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/show/lists.h"

namespace tandem::app {

namespace {

std::vector<std::string> next_word(const std::vector<std::string>& before) {
  std::vector<std::string> out;
  for (const ListKind& kind : list_kinds()) {
    if (before.empty()) out.emplace_back(kind.name);
  }
  return out;
}

int list(const Arguments& arguments) {
  const std::string format = format_of(arguments);
  const std::string& wanted = arguments.words()[0];
  std::vector<std::string> names;
  for (const ListKind& kind : list_kinds()) {
    names.emplace_back(kind.name);
    if (wanted == kind.name || wanted + "s" == kind.name) {
      const Table table = kind.table();
      const std::string_view more = format == "text" ? kind.more : std::string_view();
      put_page(arguments, format == "text" ? table.text(false, result_columns(arguments)) + std::string(more)
                                           : table.as(format));
      return 0;
    }
  }
  std::string valid;
  for (const std::string& n : names) valid += (valid.empty() ? "" : ", ") + n;
  throw UsageError(
      fmt::format("no list of \"{}\".{} Valid: {}", printable(wanted), did_you_mean(wanted, names), valid));
}

}  // namespace

void register_list(Registry<Verb>& registry) {
  registry.add(
      {.name = "list",
       .summary =
           "what there is: models, systems, devices, schemes, backends, collectives, schedules, kernels, "
           "layers, optimizers, profiles, constants",
       .usage = "KIND [options]",
       .flags = {format_flag(), out_flag(), wide_flag(), quiet_flag()},
       .least_words = 1,
       .most_words = 1,
       .next = next_word,
       .run = list,
       .details = "KIND is models, systems, devices, schemes, backends, collectives, schedules, kernels, "
                  "layers, optimizers, profiles, constants (fitted to published rates) or verbs."});
}

}  // namespace tandem::app
