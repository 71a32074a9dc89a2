// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace tandem::base {

namespace {

double number(const std::string& value, const OptionSpec& spec, const std::string& owner,
              const Place& place) {
  double out = 0;
  const char* end = value.data() + value.size();
  const auto r = std::from_chars(value.data(), end, out);
  if (r.ec != std::errc{} || r.ptr != end || !std::isfinite(out)) {
    throw InputError(place, fmt::format("{}: {}={} is not a number", owner, spec.name, printable(value)));
  }
  if (out < spec.low || out > spec.high) {
    throw InputError(place, fmt::format("{}: {}={} is outside {} .. {}", owner, spec.name, printable(value),
                                        spec.low, spec.high));
  }
  if (spec.type == OptionSpec::Type::count && out != std::floor(out)) {
    throw InputError(place,
                     fmt::format("{}: {}={} is not a whole number", owner, spec.name, printable(value)));
  }
  return out;
}

void validate(const OptionSpec& spec, const std::string& value, const std::string& owner,
              const Place& place) {
  switch (spec.type) {
    case OptionSpec::Type::count:
    case OptionSpec::Type::real:
      number(value, spec, owner, place);
      return;
    case OptionSpec::Type::bytes:
      parse_bytes(value, place);
      return;
    case OptionSpec::Type::time:
      parse_time(value, place);
      return;
    case OptionSpec::Type::text:
      return;
    case OptionSpec::Type::flag:
      if (value != "on" && value != "off" && value != "true" && value != "false") {
        throw InputError(place,
                         fmt::format("{}: {}={} must be on or off", owner, spec.name, printable(value)));
      }
      return;
    case OptionSpec::Type::choice: {
      const auto valid = split(spec.choices, '|');
      if (std::find(valid.begin(), valid.end(), value) == valid.end()) {
        throw InputError(place,
                         fmt::format("{}: no {} \"{}\".{} Valid: {}", owner, spec.name, printable(value),
                                     did_you_mean(value, valid), fmt::join(valid, ", ")));
      }
      return;
    }
  }
}

}  // namespace

Selection parse_selection(std::string_view text, const Place& place) {
  Selection out;
  const auto colon = text.find(':');
  out.name = std::string(text.substr(0, colon));
  if (out.name.empty())
    throw InputError(place, "the name is missing; write name or name:key=value,key=value");
  if (colon == std::string_view::npos) return out;
  for (const std::string& part : split(text.substr(colon + 1), ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError(place,
                       fmt::format("\"{}\" in \"{}\" is not key=value", printable(part), printable(text)));
    }
    std::string key = part.substr(0, equals);
    if (std::any_of(out.settings.begin(), out.settings.end(), [&](const auto& s) { return s.first == key; }))
      throw InputError(place,
                       fmt::format("\"{}\" is given twice in \"{}\"", printable(key), printable(text)));
    out.settings.emplace_back(std::move(key), part.substr(equals + 1));
  }
  return out;
}

std::string with_settings(std::string_view text, const std::string& settings) {
  if (settings.empty()) return std::string(text);
  const Selection own = parse_selection(text, {}), more = parse_selection("more:" + settings, {});
  std::string out;
  for (const auto& [key, value] : own.settings) {
    const bool replaced = std::any_of(more.settings.begin(), more.settings.end(),
                                      [&, &name = key](const auto& s) { return s.first == name; });
    if (!replaced) out += fmt::format("{}={},", key, value);
  }
  return fmt::format("{}:{}{}", own.name, out, settings);
}

Options::Options(const std::vector<OptionSpec>& specs,
                 const std::vector<std::pair<std::string, std::string>>& settings, const std::string& owner,
                 const Place& place) {
  std::vector<std::string> names;
  for (const OptionSpec& s : specs) {
    names.emplace_back(s.name);
    values_.emplace_back(s.name, s.fallback);
  }
  for (const auto& [key, value] : settings) {
    const auto at = std::find(names.begin(), names.end(), key);
    if (at == names.end()) {
      throw InputError(place, fmt::format("{} has no option \"{}\".{} Valid: {}", owner, printable(key),
                                          did_you_mean(key, names), fmt::join(names, ", ")));
    }
    const auto i = static_cast<std::size_t>(at - names.begin());
    validate(specs[i], value, owner, place);
    values_[i].second = value;
  }
}

const std::string& Options::text(std::string_view name) const {
  const auto at =
      std::find_if(values_.begin(), values_.end(), [&](const auto& v) { return v.first == name; });
  TANDEM_CHECK(at != values_.end());
  return at->second;
}
int64_t Options::count(std::string_view name) const { return static_cast<int64_t>(real(name)); }
double Options::real(std::string_view name) const {
  const std::string& v = text(name);
  double out = 0;
  std::from_chars(v.data(), v.data() + v.size(), out);
  return out;
}
Bytes Options::bytes(std::string_view name) const { return parse_bytes(text(name)); }
Time Options::time(std::string_view name) const { return parse_time(text(name)); }
bool Options::flag(std::string_view name) const { return text(name) == "on" || text(name) == "true"; }

}  // namespace tandem::base
