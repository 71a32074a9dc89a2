// SPDX-License-Identifier: Apache-2.0
// The program: finds the verb, runs it, turns failures into one line and an exit code (CONTRACT of the
// command line: docs/exit-codes.md).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <new>

#include "app/console/cli.h"
#include "app/console/output.h"
#include "app/console/terminal.h"
#include "app/console/version.h"
#include "exec/comm/ranks.h"

namespace tandem::app {
namespace {

constexpr int kUsage = 2, kInput = 3, kDevice = 4, kInternal = 5;

int fail(int code, std::string_view message) {
  const bool colour = colour_allowed();
  const std::string line = fmt::format("tandem: {}", message);
  const std::string broken = isatty(STDERR_FILENO) != 0 ? wrapped(line, columns_of(STDERR_FILENO)) : line;
  fmt::print(stderr, "{}tandem:{}{}\n", colour ? "\x1b[1;31m" : "", colour ? "\x1b[0m" : "",
             broken.substr(7));
  return code;
}

const Verb& find_verb(const std::string& name) {
  if (const Verb* found = verbs_registry().find(name)) return *found;
  throw UsageError(fmt::format("no verb \"{}\".{} All: tandem help", printable(name),
                               did_you_mean(name, verbs_registry().names())));
}

bool asks_for_help(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

int tell_help(const Verb& verb) {
  write_stdout(help_page(verb, help_columns()));
  return 0;
}

/// "--version", "--version --format json".
int tell_version(const std::vector<std::string>& words) {
  static const Verb verb{.name = "--version",
                         .summary = "the version, the commit it was built from, compiler and libraries",
                         .usage = "[options]",
                         .flags = {{"format", "text|json", "default text"}}};
  if (asks_for_help(words)) return tell_help(verb);
  const std::string format = Arguments::parse(verb, words).choice("format", "text", {"text", "json"});
  write_stdout(version_page(format == "json"));
  return 0;
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") return dispatch({"help"});
  if (words[0] == "--version" || words[0] == "-V") return tell_version({words.begin() + 1, words.end()});
  const Verb& verb = find_verb(words[0]);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (asks_for_help(rest)) return tell_help(verb);
  return verb.run(Arguments::parse(verb, rest));
}

int run(const std::vector<std::string>& words) {
  try {
    return dispatch(words);
  } catch (const UsageError& error) {
    return fail(kUsage, error.what());
  } catch (const InputError& error) {
    return fail(kInput, error.what());
  } catch (const DeviceError& error) {
    fail(kDevice, error.what());
    abort_ranks(kDevice);
    return kDevice;
  } catch (const std::bad_alloc&) {
    return fail(kInput, "not enough memory for what was asked; fewer devices or iterations would need less");
  } catch (const std::exception& error) {
    return fail(kInternal, fmt::format("{} (a bug in tandem; please report the command)", error.what()));
  }
}

}  // namespace
}  // namespace tandem::app

int main(int argc, char** argv) {
  // Files are renamed into place, so nothing is ever half-done and an interrupt may end it at once.
  std::signal(SIGINT, [](int) { _exit(130); });
  std::signal(SIGTERM, [](int) { _exit(143); });
  std::signal(SIGPIPE, SIG_IGN);  // write_stdout() sees EPIPE instead, and children get the default back
  return tandem::app::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
