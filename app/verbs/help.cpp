// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "answers/question.h"
#include "app/console/cli.h"
#include "app/console/manual.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "app/console/terminal.h"
#include "app/console/version.h"

namespace tandem::app {

namespace {

std::string overview(int columns) {
  Table verbs({{"verb"}, {"does"}});
  for (const Verb& verb : verbs_registry().all())
    verbs.add({"  " + std::string(verb.name), std::string(verb.summary)});
  return wrapped(
      fmt::format("tandem {}: how fast will training be on that machine, how stale, and how much memory?\n\n"
                  "Usage: tandem VERB [options]      tandem VERB --help      tandem --version\n\n{}\n"
                  "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 bad input, 4 a device or the "
                  "installation failed, 5 internal error, 130 interrupted. The result goes to stdout, "
                  "everything else to stderr.\n",
                  version(), verbs.text(false, columns)),
      columns);
}

int help(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "text", {"text", "man", "bash", "schema"});
  if (format != "text") {
    write_stdout(format == "man"    ? manual_page()
                 : format == "bash" ? completion_script("bash")
                                    : question_schema().dump_wrapped() + "\n");
    return 0;
  }
  if (arguments.words().empty()) {
    write_stdout(overview(help_columns()));
    return 0;
  }
  const std::string& name = arguments.words()[0];
  const Verb* verb = verbs_registry().find(name);
  if (verb == nullptr) {
    throw UsageError(fmt::format("no verb \"{}\".{} All: tandem help", printable(name),
                                 did_you_mean(name, verbs_registry().names())));
  }
  write_stdout(help_page(*verb, help_columns()));
  return 0;
}

}  // namespace

void register_help(Registry<Verb>& registry) {
  registry.add({.name = "help",
                .summary = "this page, or that of one verb",
                .usage = "[VERB]",
                .flags = {{"format", "text|man|bash|schema",
                           "default text; of all verbs: man (manual page), bash (as tandem completion); "
                           "schema: of a question in JSON"}},
                .most_words = 1,
                .next =
                    [](const std::vector<std::string>& before) {
                      return before.empty() ? verbs_registry().names() : std::vector<std::string>();
                    },
                .run = help});
}

}  // namespace tandem::app
