// SPDX-License-Identifier: Apache-2.0
#include "app/console/manual.h"

#include <fmt/format.h>

#include "app/console/cli.h"
#include "app/console/terminal.h"
#include "app/console/version.h"

namespace tandem::app {

namespace {

constexpr int kColumns = 70;  ///< of text that roff leaves unchanged

/// As roff prints it: no escapes, no requests at the beginning of a line, hyphens that can be copied.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool begins = out.empty() || out.back() == '\n';
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

void section(std::string& out, const Verb& verb) {
  out += fmt::format(".SS \"tandem {} {}\"\n{}\n", verb.name, roff(verb.usage), roff(verb.summary));
  for (const Option& flag : verb.flags)
    out += fmt::format(".TP\n\\fB\\-\\-{}\\fR {}\n{}\n", roff(flag.name), roff(flag.value), roff(flag.help));
  if (!verb.details.empty()) out += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(wrapped(verb.details, kColumns)));
}

}  // namespace

std::string manual_page() {
  std::string out = fmt::format(
      ".TH TANDEM 1 \"\" \"tandem {}\" \"User Commands\"\n"
      ".SH NAME\ntandem \\- predict and execute distributed training\n"
      ".SH SYNOPSIS\n.B tandem\n.I VERB\n[options]\n"
      ".SH DESCRIPTION\n"
      "Predicts throughput, gradient staleness and memory of training a model on a machine, executes the "
      "same\n"
      "program on the devices at hand, and measures how far the two are apart. Results go to standard "
      "output,\n"
      "everything else to standard error.\n.SH VERBS\n",
      version());
  for (const Verb& verb : verbs_registry().all()) section(out, verb);
  out +=
      ".SH EXIT STATUS\n"
      ".TP\n0\ndone\n.TP\n1\ndone, but a check failed\n.TP\n2\nwrong usage\n.TP\n3\nbad input\n"
      ".TP\n4\na device, another rank or the installation failed\n.TP\n5\ninternal error\n"
      ".TP\n130, 143\ninterrupted, terminated\n"
      ".SH ENVIRONMENT\n"
      ".TP\nTANDEM_DATA\nthe folder of models, systems, presets and profiles, in place of the installed one\n"
      ".TP\nNO_COLOR\nno colours on a terminal\n";
  return out;
}

}  // namespace tandem::app
