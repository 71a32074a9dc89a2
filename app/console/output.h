// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where output goes: the result to stdout or --out, everything else to stderr.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "app/console/cli.h"

namespace tandem::app {

/// Writes all of `text` to stdout. If the reader has closed the pipe the program ends quietly (status 141, as
/// a shell shows it); any other failure, such as a full disk, is an InputError.
void write_stdout(std::string_view text);

/// Writes the result of a verb to --out when given, else to stdout; ends it with a newline.
void put_result(const Arguments& arguments, std::string text);

/// The width of the result's lines: the terminal's (app/console/terminal.h), no limit with --out or --wide.
int result_columns(const Arguments& arguments);

/// The width of a help page: the terminal's, at most 100; 80 without a terminal.
int help_columns();

/// put_result() of a page of text: with --format text, lines too long for result_columns() are broken between
/// words.
void put_page(const Arguments& arguments, std::string text);

/// For long computations: refuses an --out whose folder does not exist before the work begins.
void check_out(const Arguments& arguments);
/// Throws InputError if --out is one of the files that are read.
void check_out_apart(const Arguments& arguments, const std::vector<std::string>& read);

/// A note to the user on stderr, "tandem: ...", unless --quiet.
void note(const Arguments& arguments, std::string_view text);

/// True when stderr is a terminal that takes colour: NO_COLOR unset, TERM not "dumb".
bool colour_allowed();

/// "2 h 05 min", "40 s".
std::string duration_words(double seconds);

/// The current activity, on stderr unless --quiet: on a terminal a line that overwrites itself, cut to its
/// width; elsewhere a line every half minute, so that a log tells a long run from a dead one. After a second
/// it says how long is left, or where that is unknown how long it has taken. Any thread may call show().
class Progress {
 public:
  explicit Progress(const Arguments& arguments, std::chrono::milliseconds every = std::chrono::seconds(30));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// `share`: of some work, from 0 to 1, what is done; unset: unknown. Less than before, or after an unknown
  /// one: other work has begun.
  void show(std::string_view text, std::optional<double> share = std::nullopt);

 private:
  using Clock = std::chrono::steady_clock;
  void tell();
  void draw() const;
  std::string time_words() const;

  bool quiet_, terminal_;
  std::chrono::milliseconds every_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::string text_;
  std::optional<double> share_;
  double first_share_ = 0;                             ///< when the work began to be shown
  Clock::time_point began_ = start_, shown_ = start_;  ///< the work; its share
  std::thread teller_;
};

/// The flags every verb with a result has: --format, --out, --quiet. `formats` is for the help text.
Option format_flag();
Option out_flag();
Option quiet_flag();
/// For verbs with tables.
Option wide_flag();
/// --format, checked against text, json, csv, md.
std::string format_of(const Arguments& arguments);

}  // namespace tandem::app
