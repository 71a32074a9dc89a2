// SPDX-License-Identifier: Apache-2.0
#include "app/console/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
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
  return arguments.has("out") || arguments.has("wide") ? 0 : columns_of(STDOUT_FILENO);
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
  if (out.empty() && arguments.has("out")) refuse_option("out", "the file's name is empty");
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

void check_out_apart(const Arguments& arguments, const std::vector<std::string>& read) {
  const std::string out = arguments.text("out", "");
  std::error_code none;
  for (const std::string& file : read) {
    if (!out.empty() && std::filesystem::equivalent(out, file, none))
      throw InputError(
          fmt::format("{}: is what is read; it would be lost. Give another --out", printable(out)));
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

std::string duration_words(double seconds) {
  const auto s = std::llround(std::min(seconds, 1e9));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

Progress::Progress(const Arguments& arguments, std::chrono::milliseconds every)
    : quiet_(arguments.has("quiet")), terminal_(isatty(STDERR_FILENO) != 0), every_(every) {
  constexpr std::chrono::milliseconds kRedrawn{500};
  if (terminal_) every_ = std::min(every_, kRedrawn);
  if (!quiet_) teller_ = std::thread([this] { tell(); });
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

void Progress::show(std::string_view text, std::optional<double> share) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const bool other = share ? !share_ || *share < *share_ : share_ || text != text_;
  if (other) {
    began_ = now;
    first_share_ = share.value_or(0);
  }
  if (other || share != share_) shown_ = now;
  text_ = text;
  share_ = share;
  if (terminal_) draw();
}

/// What stands behind the text.
std::string Progress::time_words() const {
  constexpr double kSoon = 1;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const double passed = seconds(Clock::now() - began_);
  if (passed < kSoon) return "";
  if (!share_) return fmt::format(" · {} so far", duration_words(passed));
  if (*share_ <= first_share_ || shown_ == began_) return fmt::format(" · {:.0f} %", 100 * *share_);
  const double left =
      seconds(shown_ - began_) * (1 - *share_) / (*share_ - first_share_) - seconds(Clock::now() - shown_);
  return fmt::format(" · {:.0f} %, {} left", 100 * *share_, duration_words(std::max(left, 0.0)));
}

void Progress::draw() const {
  const std::string time = text_.empty() ? "" : time_words();
  const int room = columns_of(STDERR_FILENO) - 1;
  const int text_room = room - static_cast<int>(width(time));
  const std::string line = room <= 0       ? text_ + time
                           : text_room > 8 ? cut_off(text_, text_room) + time
                                           : cut_off(text_, room);
  fmt::print(stderr, "\r{}\x1b[K", line);
  std::fflush(stderr);
}

void Progress::tell() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, every_, [&] { return end_; })) {
    if (text_.empty()) continue;
    if (terminal_) {
      draw();
      continue;
    }
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
    fmt::print(stderr, "tandem: after {} min {:02} s: {}{}\n", passed / 60, passed % 60, text_, time_words());
  }
}

Option format_flag() { return {"format", "text|json|csv|md", "default text"}; }
Option out_flag() { return {"out", "FILE", "write the result to this file instead of stdout"}; }
Option wide_flag() {
  return {
      "wide", "",
      "tables whole, lines unbroken. Else, where a terminal is too narrow for a table, texts at the end of "
      "a row go below it; then columns are left out, which a line names: global batch, goodput, memory, "
      "speed-up, efficiency, interval, in this order"};
}
Option quiet_flag() { return {"quiet", "", "no notes and no progress on stderr"}; }

std::string format_of(const Arguments& arguments) {
  return arguments.choice("format", "text", {"text", "json", "csv", "md"});
}

}  // namespace tandem::app
