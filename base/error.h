// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors and the places they point to.
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::base {

/// A place in an input: file (or "command line"), line and column, both from 1; 0 = unknown.
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;
  /// "file:line:column", shorter when parts are unknown, empty when nothing is known.
  std::string text() const;
};

/// The place that a message begins with, as text() writes it: of "net.json:3:5: no ..." file, line and
/// column. Unknown where it begins otherwise.
Place place_in(std::string_view message);

/// Bad input from a user or a file. Ends the program with exit code 3 and this message alone.
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& what) : std::runtime_error(what) {}
  /// Message becomes "<place>: <what>".
  InputError(const Place& place, const std::string& what);
};

/// Wrong usage of the command line (unknown verb or option). Exit code 2.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A device, library or other rank failed. Exit code 4.
class DeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws std::logic_error naming the broken invariant; exit code 5. For bugs, never for input.
#define TANDEM_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::tandem::base::check_failed(#condition, __FILE__, __LINE__))
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

/// The candidates nearest to `wrong`, case ignored: those that hold it first (where a word begins, then the
/// shorter), then by edit distance; at most `most`, none if all are far away. O(candidates x length^2).
std::vector<std::string> nearest(std::string_view wrong, const std::vector<std::string>& candidates,
                                 std::size_t most = 2);

/// " Did you mean a or b?" for the nearest candidates, or "" when none is near.
std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& candidates);

/// `text` with control characters written as \xNN and cut to 200 bytes: safe in a message.
std::string printable(std::string_view text);

}  // namespace tandem::base
