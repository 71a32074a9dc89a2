// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reader of JSON with // and /* */ comments that remembers where everything stood.
// Parsing is nlohmann-json's; the tree is ours because every error must name file:line:column.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace tandem::base {

/// Limits against hostile files (bytes, nesting, values).
struct JsonLimits {
  int64_t bytes = 16 << 20;
  int depth = 64;
  int64_t nodes = 1'000'000;
};

/// One value of a document. Immutable to readers. Copies share their children until set() or set_path()
/// gives one its own. Any thread may read it.
class Json {
 public:
  enum class Kind : uint8_t { null, boolean, integer, real, text, array, object };

  /// Both throw InputError at the exact place: syntax, duplicate keys, non-finite numbers, limits,
  /// unreadable or missing file.
  static Json parse(std::string_view text, const std::string& file, const JsonLimits& limits = {});
  static Json load(const std::string& path, const JsonLimits& limits = {});
  /// A value made by the program (command line); `place` is where to blame.
  static Json make_text(std::string value, Place place);
  static Json make_integer(int64_t value, Place place);
  static Json make_object(Place place);

  Kind kind() const { return kind_; }
  const Place& place() const { return place_; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_text() const { return kind_ == Kind::text; }
  bool is_integer() const { return kind_ == Kind::integer; }

  // Checked readers: throw InputError at place() saying what was expected.
  bool as_bool() const;
  /// Within [low, high], else an error that names the range.
  int64_t as_int(int64_t low = INT64_MIN, int64_t high = INT64_MAX) const;
  /// Integer or real, finite, within [low, high].
  double as_real(double low = -1e308, double high = 1e308) const;
  const std::string& as_text() const;
  Time as_time() const { return parse_time(as_text(), place_); }
  Bytes as_bytes() const { return parse_bytes(as_text(), place_); }
  Bandwidth as_bandwidth() const { return parse_bandwidth(as_text(), place_); }
  double as_watts() const { return parse_watts(as_text(), place_); }
  FlopRate as_flop_rate() const { return parse_flop_rate(as_text(), place_); }

  const std::vector<Json>& items() const;                            // array
  const std::vector<std::pair<std::string, Json>>& members() const;  // object, in file order
  std::vector<std::string> keys() const;
  const Json* find(std::string_view key) const;  // object; null when absent
  const Json& at(std::string_view key) const;    // object; error when absent
  /// Object readers with a default for an absent key.
  int64_t integer(std::string_view key, int64_t fallback, int64_t low = INT64_MIN,
                  int64_t high = INT64_MAX) const;
  double real(std::string_view key, double fallback, double low = -1e308, double high = 1e308) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  bool boolean(std::string_view key, bool fallback) const;
  /// Error at the first key that is not among `valid`, naming the nearest valid ones.
  void only(std::initializer_list<std::string_view> valid) const;
  void only(const std::vector<std::string>& valid) const;

  /// Equal values, members in the same order, wherever they stand.
  bool operator==(const Json& other) const;

  /// Adds or replaces a member (object only).
  void set(std::string key, Json value);
  /// Replaces what stands at a dotted path ("links.pcie.bandwidth", "devices.0.model"); the parent must
  /// exist. The text is taken as JSON number, true, false or else as text. Throws InputError at `place`
  /// naming the key that does not exist and the nearest that does; a new last key is allowed only when
  /// `may_add`. Returns *this.
  Json& set_path(std::string_view path, std::string_view value, const Place& place, bool may_add = false);

  [[noreturn]] void fail(const std::string& why) const { throw InputError(place_, why); }

 private:
  friend class JsonBuilder;
  using Items = std::vector<Json>;
  using Members = std::vector<std::pair<std::string, Json>>;
  Kind kind_ = Kind::null;
  bool boolean_ = false;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string text_;
  std::shared_ptr<Items> items_;      ///< of an array
  std::shared_ptr<Members> members_;  ///< of an object
  Place place_;
};

/// Writes `content` to `path` by way of a temporary name in the same folder, then renames.
/// Throws InputError when the folder cannot be written.
void write_file(const std::string& path, std::string_view content);
/// Whole file as text ("-": stdin); throws InputError: missing, unreadable, a folder, above `limit` bytes.
std::string read_file(const std::string& path, int64_t limit = 16 << 20);

}  // namespace tandem::base
