// SPDX-License-Identifier: Apache-2.0
#include "app/console/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/json.h"

namespace tandem::app {

void write_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(STDOUT_FILENO, text.data(), text.size());
    if (wrote < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) ::_exit(141);
      throw InputError(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
    }
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

void put_result(const Arguments& arguments, std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  if (arguments.has("out")) {
    write_file(arguments.text("out", ""), text);
  } else {
    write_stdout(text);
  }
}

void check_out(const Arguments& arguments) {
  const std::filesystem::path out = arguments.text("out", "");
  if (out.empty()) return;
  const auto folder = out.has_parent_path() ? out.parent_path() : std::filesystem::path(".");
  std::error_code error;
  if (std::filesystem::is_directory(out, error)) {
    throw InputError(fmt::format("{}: is a folder, not a file", printable(out.string())));
  }
  if (!std::filesystem::is_directory(folder, error)) {
    throw InputError(fmt::format("{}: cannot write: there is no folder {}", printable(out.string()),
                                 printable(folder.string())));
  }
}

void note(const Arguments& arguments, std::string_view text) {
  if (!arguments.has("quiet")) fmt::print(stderr, "tandem: {}\n", text);
}

bool colour_allowed() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

Progress::Progress(const Arguments& arguments) : on_(!arguments.has("quiet") && isatty(STDERR_FILENO) != 0) {}
Progress::~Progress() { show(""); }
void Progress::show(std::string_view text) {
  if (!on_) return;
  fmt::print(stderr, "\r{}\x1b[K", text);
  std::fflush(stderr);
}

Flag format_flag() { return {"format", "FORMAT", "text (default), json, csv or md"}; }
Flag out_flag() { return {"out", "FILE", "write the result there instead of to stdout"}; }
Flag quiet_flag() { return {"quiet", "", "no notes and no progress on stderr"}; }

std::string format_of(const Arguments& arguments) {
  return arguments.choice("format", "text", {"text", "json", "csv", "md"});
}

}  // namespace tandem::app
