// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options of a named component, written "name:key=value,key=value" on the command line.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/units.h"

namespace tandem::base {

/// What an option accepts, its default (as text) and one line of help; used by the parser, `tandem list`,
/// the documentation and the property tests.
struct OptionSpec {
  enum class Type : uint8_t { count, real, bytes, time, flag, choice, text };
  std::string_view name;
  Type type = Type::count;
  std::string_view fallback;
  std::string_view help;
  std::string_view choices{};  ///< for Type::choice: "a|b|c"
  double low = 0, high = 1e9;  ///< for count and real
};

/// "pytorch-ddp:bucket=25MiB" -> name and settings; throws InputError at `place` when malformed, or where a
/// key is given twice.
struct Selection {
  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;
};
Selection parse_selection(std::string_view text, const Place& place);
/// The text of a selection with settings ("key=value,key=value" or "") replacing settings of the same keys.
/// Throws as parse_selection().
std::string with_settings(std::string_view text, const std::string& settings);

/// Values of all declared options of one component; reading an undeclared name is a bug (TANDEM_CHECK).
/// Immutable once made: any thread may read it.
class Options {
 public:
  /// Checks every setting against `specs`: unknown name (nearest named), wrong type, out of range.
  /// Later settings win. `owner` is what the messages call the component.
  Options(const std::vector<OptionSpec>& specs,
          const std::vector<std::pair<std::string, std::string>>& settings, const std::string& owner,
          const Place& place);

  int64_t count(std::string_view name) const;
  double real(std::string_view name) const;
  Bytes bytes(std::string_view name) const;
  Time time(std::string_view name) const;
  bool flag(std::string_view name) const;  ///< on|off|true|false
  const std::string& text(std::string_view name) const;
  /// Every option with its value in declaration order (for reports).
  const std::vector<std::pair<std::string, std::string>>& all() const { return values_; }
  bool operator==(const Options&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace tandem::base
