// SPDX-License-Identifier: Apache-2.0
#pragma once
// Values of options, wherever they were written: on a command line or in a JSON document.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answers/option.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem::answers {

/// The place to blame for an option's value; prints as "--name".
Place option_place(std::string_view name);

/// Values of options by name. The readers refuse what is wrong regardless of data files: not a number, out of
/// range, without unit, not in a fixed list. These are UsageErrors that begin with the option ("--batch") or,
/// if known, the place in the document. A name without a file is an InputError thrown by the file lookup. A
/// value: copies are independent; any thread may read one.
class Values {
 public:
  bool has(std::string_view name) const { return values_.count(name) != 0; }
  /// The value, or `fallback` when the option is absent.
  std::string text(std::string_view name, std::string_view fallback) const;
  /// The value; UsageError naming the option and an example when absent.
  std::string required(std::string_view name, std::string_view example) const;
  /// Every value of a repeatable option, in order.
  std::vector<std::string> all(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback, int64_t low, int64_t high) const;
  double real(std::string_view name, double fallback, double low, double high) const;
  /// "1,2,4,8": at least one, each within [low, high], none twice, order kept.
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback, int64_t low,
                                int64_t high) const;
  /// One of `valid`, else UsageError naming the nearest.
  std::string choice(std::string_view name, std::string_view fallback,
                     const std::vector<std::string>& valid) const;
  /// The result of `read(text, place)` for the value, or for `fallback` if the option is absent. An
  /// InputError of `read` becomes a UsageError.
  template <typename Read>
  decltype(auto) value(std::string_view name, std::string_view fallback, Read read) const {
    try {
      return read(text(name, fallback), option_place(name));
    } catch (const InputError& error) {
      throw UsageError(error.what());
    }
  }
  /// Replaces the values of an option; with none, it is absent.
  void set(std::string_view name, std::vector<std::string> values);
  /// Adds a value of an option.
  void add(std::string_view name, std::string value) {
    values_[std::string(name)].push_back(std::move(value));
  }
  /// Calls `read` with each value of a repeatable option, in order. What it throws about one that is an item
  /// of a list in a document becomes an InputError at that item.
  template <typename Read>
  void each(std::string_view name, Read read) const {
    const std::vector<std::string> values = all(name);
    for (std::size_t i = 0; i < values.size(); ++i) at_item(name, i, [&] { read(values[i]); });
  }
  /// Where an option's value is in a document, and where the items are of one that is a list there; unknown
  /// on a command line.
  void stands_at(std::string_view name, Place place, std::vector<Place> items = {}) {
    places_[std::string(name)] = {std::move(place), std::move(items)};
  }
  Place place(std::string_view name) const;
  /// Of each of its values.
  std::vector<Place> places(std::string_view name) const;
  /// The option's value is the text of this document, which keeps its places.
  void holds(std::string_view name, const Json& document);
  /// What `read` returns of the option's value. Where that is a document, an InputError that names a place in
  /// its text ("model:1:8: ...") names the place in the file that holds it instead.
  template <typename Read>
  auto within(std::string_view name, Read read) const {
    try {
      return read();
    } catch (const InputError& error) {
      throw InputError(within_file(name, error.what()));
    }
  }
  /// An error text about an option ("--batch: ..."), with its place in the document if known.
  std::string located(std::string_view message) const;
  /// All of them, from any source.
  bool operator==(const Values& other) const { return values_ == other.values_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  struct Places {
    Place whole;
    std::vector<Place> items;
  };
  std::map<std::string, Places, std::less<>> places_;
  std::map<std::string, std::shared_ptr<const Json>, std::less<>> documents_;

  std::string within_file(std::string_view name, std::string_view message) const;
  /// Throws the message at the place of the option's item, if that is known.
  void blame_item(std::string_view name, std::size_t item, std::string_view message) const;
  template <typename Read>
  void at_item(std::string_view name, std::size_t item, Read read) const {
    try {
      read();
    } catch (const UsageError& error) {
      blame_item(name, item, error.what());
      throw;
    } catch (const InputError& error) {
      blame_item(name, item, error.what());
      throw;
    }
  }
};

/// What `ask` returns. Its errors about an option that is in a document become InputErrors at that place.
template <typename Ask>
auto with_places(const Values& values, Ask ask) {
  try {
    return ask();
  } catch (const UsageError& error) {
    const std::string text = values.located(error.what());
    if (text == error.what()) throw;
    throw InputError(text);
  } catch (const InputError& error) {
    throw InputError(values.located(error.what()));
  }
}

/// A UsageError about an option's value: "--name: what".
[[noreturn]] void refuse_option(std::string_view name, const std::string& what);
/// A whole number or a finite real, else UsageError at `place` with the range.
int64_t parse_integer(std::string_view text, int64_t low, int64_t high, const Place& place);
double parse_real(std::string_view text, double low, double high, const Place& place);

}  // namespace tandem::answers
