// SPDX-License-Identifier: Apache-2.0
#include "answers/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "base/text.h"
#include "topologies/edits.h"

namespace tandem::answers {

namespace {

[[noreturn]] void refuse(const Place& place, const std::string& what) {
  throw UsageError(InputError(place, what).what());
}

}  // namespace

std::string Values::text(std::string_view name, std::string_view fallback) const {
  const auto at = values_.find(name);
  return at == values_.end() ? std::string(fallback) : at->second.back();
}

std::string Values::required(std::string_view name, std::string_view example) const {
  if (!has(name)) throw UsageError(fmt::format("--{} is missing, for example --{} {}", name, name, example));
  return text(name, "");
}

std::vector<std::string> Values::all(std::string_view name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? std::vector<std::string>{} : at->second;
}

int64_t Values::integer(std::string_view name, int64_t fallback, int64_t low, int64_t high) const {
  return has(name) ? parse_integer(text(name, ""), low, high, option_place(name)) : fallback;
}

double Values::real(std::string_view name, double fallback, double low, double high) const {
  return has(name) ? parse_real(text(name, ""), low, high, option_place(name)) : fallback;
}

std::vector<int64_t> Values::integers(std::string_view name, std::vector<int64_t> fallback, int64_t low,
                                      int64_t high) const {
  if (!has(name)) return fallback;
  std::vector<int64_t> out;
  for (const std::string& part : split(text(name, ""), ',')) {
    at_item(name, out.size(), [&] {
      const int64_t value = parse_integer(part, low, high, option_place(name));
      if (std::find(out.begin(), out.end(), value) != out.end())
        refuse_option(name, fmt::format("{} is there twice", value));
      out.push_back(value);
      if (out.size() > 1000) refuse_option(name, "more than 1000 values");
    });
  }
  return out;
}

std::string Values::choice(std::string_view name, std::string_view fallback,
                           const std::vector<std::string>& valid) const {
  std::string value = text(name, fallback);
  if (std::find(valid.begin(), valid.end(), value) == valid.end()) {
    refuse_option(name, fmt::format("no \"{}\".{} Valid: {}", printable(value), did_you_mean(value, valid),
                                    fmt::join(valid, ", ")));
  }
  return value;
}

void refuse_option(std::string_view name, const std::string& what) { refuse(option_place(name), what); }

Place option_place(std::string_view name) {
  Place place;
  place.file = std::make_shared<const std::string>(fmt::format("--{}", name));
  return place;
}

int64_t parse_integer(std::string_view text, int64_t low, int64_t high, const Place& place) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc::invalid_argument || read.ptr != end) {
    refuse(place, fmt::format("\"{}\" is not a whole number", printable(text)));
  }
  if (read.ec != std::errc{} || value < low || value > high) {
    refuse(place, fmt::format("{} is outside {} .. {}", printable(text), low, high));
  }
  return value;
}

double parse_real(std::string_view text, double low, double high, const Place& place) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc::invalid_argument || read.ptr != end || std::isnan(value)) {
    refuse(place, fmt::format("\"{}\" is not a number", printable(text)));
  }
  if (read.ec != std::errc{} || !(value >= low && value <= high)) {
    refuse(place, fmt::format("{} is outside {} .. {}", printable(text), low, high));
  }
  return value;
}

void Values::set(std::string_view name, std::vector<std::string> values) {
  documents_.erase(std::string(name));
  if (values.empty()) {
    values_.erase(std::string(name));
  } else {
    values_[std::string(name)] = std::move(values);
  }
}

Place Values::place(std::string_view name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? Place{} : at->second.whole;
}

std::vector<Place> Values::places(std::string_view name) const {
  std::vector<Place> out;
  const auto at = places_.find(name);
  if (at != places_.end()) out = at->second.items;
  out.resize(all(name).size(), place(name));
  return out;
}

void Values::blame_item(std::string_view name, std::size_t item, std::string_view message) const {
  const auto at = places_.find(name);
  if (at == places_.end() || item >= at->second.items.size() || !message.starts_with("--")) return;
  const Place& where = at->second.items[item];
  if (where.line > 0) throw InputError(where, std::string(message.substr(2)));
}

void Values::holds(std::string_view name, const Json& document) {
  documents_[std::string(name)] = std::make_shared<const Json>(document);
}

namespace {

/// Places of a document's values, in one order for equal documents.
void append_places(const Json& value, std::vector<Place>& to) {
  to.push_back(value.place());
  if (value.is_array()) {
    for (const Json& item : value.items()) append_places(item, to);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.members()) append_places(member, to);
  }
}

}  // namespace

std::string Values::within_file(std::string_view name, std::string_view message) const {
  const auto at = documents_.find(name);
  std::smatch found;
  std::string text(message);
  static const std::regex placed(R"(^(\w+):(\d{1,9}):(\d{1,9}): )");
  if (at == documents_.end() || !std::regex_search(text, found, placed) || found[1].str() != name)
    return text;
  const std::pair wanted(std::stoi(found[2]), std::stoi(found[3]));
  std::vector<Place> here, there;
  append_places(Json::parse(this->text(name, ""), std::string(name)), here);
  append_places(*at->second, there);
  TANDEM_CHECK(here.size() == there.size());
  std::size_t blamed = 0;  // the last value that begins before the place
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (std::pair(here[i].line, here[i].column) <= wanted) blamed = i;
  }
  return fmt::format("{}: {}: {}", there[blamed].text(), name, found.suffix().str());
}

std::string Values::located(std::string_view message) const {
  if (!message.starts_with("--")) return std::string(message);
  const std::string_view about = message.substr(2);
  const std::string name(about.substr(0, about.find_first_of(": ")));
  Place where = place(name);
  const auto look_among = [&](const std::string& option, const auto& said) {
    const std::vector<std::string> values = all(option);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (message.starts_with(said(values[i]) + ": ")) where = places(option)[i];
    }
  };
  look_among(name, [&](const std::string& value) { return fmt::format("--{} {}", name, printable(value)); });
  look_among("set", [](const std::string& value) {  // "--set nodes=none: ...", "--without nvlank: ..."
    const auto equals = std::min(value.find('='), value.size() - 1);
    return set_option(value.substr(0, equals), value.substr(equals + 1));
  });
  return where.line == 0 ? std::string(message) : fmt::format("{}: {}", where.text(), about);
}

}  // namespace tandem::answers
