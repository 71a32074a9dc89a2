// SPDX-License-Identifier: Apache-2.0
#include "app/console/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "app/console/terminal.h"
#include "base/json.h"

namespace tandem::app {

namespace {

/// Text in a file named like a picture would not open anywhere.
void refuse_picture_name(const std::string& path) {
  const std::string end = std::filesystem::path(path).extension().string();
  for (const char* picture : {".png", ".svg", ".pdf", ".ps", ".eps", ".jpg", ".jpeg"}) {
    if (end == picture)
      refuse_option("out",
                    fmt::format("{} would hold text; pictures are drawn by tandem plot, and as .png or .svg "
                                "by tandem show model and show system without --format",
                                printable(path)));
  }
}

}  // namespace

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
    refuse_picture_name(arguments.text("out", ""));
    write_file(arguments.text("out", ""), text);
  } else {
    write_stdout(text);
  }
}

int result_columns(const Arguments& arguments) {
  return arguments.has("out") ? 0 : columns_of(STDOUT_FILENO);
}

int help_columns() {
  const int columns = columns_of(STDOUT_FILENO);
  return columns == 0 ? 80 : std::min(columns, 100);
}

void put_page(const Arguments& arguments, std::string text) {
  const bool people = arguments.text("format", "text") == "text";
  put_result(arguments, people ? wrapped(text, result_columns(arguments)) : std::move(text));
}

void check_out(const Arguments& arguments) {
  const std::filesystem::path out = arguments.text("out", "");
  if (out.empty()) return;
  refuse_picture_name(out.string());
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
  if (arguments.has("quiet")) return;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const std::string line = fmt::format("tandem: {}", text);
  // Overwrites a line that a Progress may have left.
  fmt::print(stderr, "{}{}\n", terminal ? "\r\x1b[K" : "",
             terminal ? wrapped(line, columns_of(STDERR_FILENO)) : line);
}

bool colour_allowed() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

Progress::Progress(const Arguments& arguments, std::chrono::milliseconds every)
    : quiet_(arguments.has("quiet")), terminal_(isatty(STDERR_FILENO) != 0), every_(every) {
  if (!quiet_ && !terminal_) teller_ = std::thread([this] { tell(); });
}

Progress::~Progress() {
  show("");
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  if (teller_.joinable()) teller_.join();
}

void Progress::show(std::string_view text) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  text_ = text;
  if (!terminal_) return;
  fmt::print(stderr, "\r{}\x1b[K", cut_off(text, columns_of(STDERR_FILENO) - 1));
  std::fflush(stderr);
}

void Progress::tell() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, every_, [&] { return end_; })) {
    const auto passed = std::chrono::steady_clock::now() - start_;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(passed).count();
    if (!text_.empty())
      fmt::print(stderr, "tandem: after {} min {:02} s: {}\n", seconds / 60, seconds % 60, text_);
  }
}

Option format_flag() { return {"format", "FORMAT", "text (default), json, csv or md"}; }
Option out_flag() { return {"out", "FILE", "write the result to this file instead of stdout"}; }
Option quiet_flag() { return {"quiet", "", "no notes and no progress on stderr"}; }

std::string format_of(const Arguments& arguments) {
  return arguments.choice("format", "text", {"text", "json", "csv", "md"});
}

}  // namespace tandem::app
