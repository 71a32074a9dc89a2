// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where words go: the result to stdout or --out, everything else to stderr.
#include <string>
#include <string_view>

#include "app/console/cli.h"

namespace tandem::app {

/// Writes all of `text` to stdout. A reader that has gone away ends the program quietly (status 141, as a
/// shell shows it); any other failure, such as a full disk, is an InputError.
void write_stdout(std::string_view text);

/// Writes the result of a verb to --out when given, else to stdout; ends it with a newline.
void put_result(const Arguments& arguments, std::string text);

/// For verbs that compute long: refuses an --out whose folder does not exist before the work begins.
void check_out(const Arguments& arguments);

/// A remark for a person on stderr, "tandem: ...", unless --quiet.
void note(const Arguments& arguments, std::string_view text);

/// True when stderr is a terminal that takes colour: NO_COLOR unset, TERM not "dumb".
bool colour_allowed();

/// A line on stderr that overwrites itself; silent unless stderr is a terminal and --quiet is absent.
class Progress {
 public:
  explicit Progress(const Arguments& arguments);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::string_view text);

 private:
  bool on_;
};

/// The flags every verb with a result has: --format, --out, --quiet. `formats` is for the help text.
Flag format_flag();
Flag out_flag();
Flag quiet_flag();
/// --format, checked against text, json, csv, md.
std::string format_of(const Arguments& arguments);

}  // namespace tandem::app
