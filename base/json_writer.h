// SPDX-License-Identifier: Apache-2.0
#pragma once
// A JSON document on its way to text. Text and numbers are nlohmann-json's, which nobody else sees.
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/rooms.h"

namespace tandem::base {

class Json;

/// Null, a truth, a number, text, an array or an object whose keys keep the order in which they came:
///
///   JsonWriter out = {{"schema", "tandem-links-1"}, {"devices", names}, {"rows", JsonWriter::array()}};
///   out["rows"].push_back({{"bytes", 4096}, {"seconds", 1e-6}});
///   out["host"]["cores"] = 8;  // "host" begins as its own object
///
/// Owns all below it; copies are deep. For one thread at a time; while nobody writes, any thread may read.
class JsonWriter {
 public:
  struct Member;

  JsonWriter() = default;  ///< null
  JsonWriter(std::nullptr_t) {}
  template <std::same_as<bool> T>  // no pointer is a truth
  JsonWriter(T value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter(T value) {
    if constexpr (std::is_signed_v<T>) {
      value_ = static_cast<int64_t>(value);
    } else {
      value_ = static_cast<uint64_t>(value);
    }
  }
  /// Must be finite when it is dumped.
  template <std::floating_point T>
  JsonWriter(T value) : value_(static_cast<double>(value)) {}
  JsonWriter(std::string text) : value_(std::move(text)) {}
  JsonWriter(std::string_view text) : value_(std::string(text)) {}
  JsonWriter(const char* text) : value_(std::string(text)) {}
  /// A document as it was read; comments and places are gone.
  explicit JsonWriter(const Json& json);
  /// Null for nothing.
  template <typename T>
  JsonWriter(const std::optional<T>& value) {
    if (value) *this = JsonWriter(*value);
  }
  /// An array.
  template <typename T>
  JsonWriter(const std::vector<T>& values) {
    *this = array();
    for (const auto& value : values) push_back(value);
  }
  /// An object. Braces around one value are that value: array() makes a list of it. A key that stands twice
  /// keeps its first place and last value.
  JsonWriter(std::initializer_list<Member> members);

  static JsonWriter object();  ///< {}
  static JsonWriter array(std::initializer_list<JsonWriter> values = {});
  /// Null for NaN and infinities, where the reader of a document knows what that means.
  static JsonWriter finite_or_null(double value);

  /// The member of that name, added as null if there is none; a null becomes an object first. Valid until
  /// another member is added. O(members). TANDEM_CHECK refuses other kinds.
  JsonWriter& operator[](std::string_view key);
  JsonWriter& operator[](std::nullptr_t) = delete;  // nor of index 0
  /// At the end of the array; a null becomes an array first. TANDEM_CHECK refuses other kinds.
  void push_back(JsonWriter value);
  /// The array's last value, of which there must be one (TANDEM_CHECK). Valid until another is added.
  JsonWriter& back();
  bool is_null() const { return value_.index() == 0; }

  /// As text, without a line end after it: on one line without spaces, or with `indent` spaces a level, each
  /// value on its own line. Real numbers have the digits that read back as the same number and a point or an
  /// exponent. What is not UTF-8 in texts and keys becomes U+FFFD. Throws std::logic_error, naming the key,
  /// at a number that is not finite: a bug of whoever computed it. O(size), and a copy of the document.
  std::string dump(int indent = -1) const;
  /// As people write it: two spaces a level, but an array or object that fits into 100 columns stays on one
  /// line, apart from the outermost. O(size x depth); otherwise as dump().
  std::string dump_wrapped() const;

 private:
  struct Dumper;
  using Array = std::vector<JsonWriter>;
  using Object = std::vector<std::pair<std::string, JsonWriter>>;
  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object> value_ = nullptr;
};

/// Of nlohmann-json: "3.11.2".
std::string json_library_version();

/// One pair of the braces that make an object. The value is moved out of it.
struct JsonWriter::Member {
  std::string_view key;
  mutable JsonWriter value;
};

}  // namespace tandem::base
