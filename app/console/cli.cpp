// SPDX-License-Identifier: Apache-2.0
#include "app/console/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>

#include "app/console/terminal.h"
#include "base/text.h"

namespace tandem::app {

namespace po = boost::program_options;

namespace {

po::options_description describe(const Verb& verb) {
  po::options_description out;
  for (const Flag& flag : verb.flags) {
    const std::string name(flag.name);
    if (flag.value.empty()) {
      out.add_options()(name.c_str(), "");
    } else {
      out.add_options()(name.c_str(), po::value<std::vector<std::string>>()->composing(), "");
    }
  }
  return out;
}

[[noreturn]] void unknown_option(const Verb& verb, std::string option) {
  option.erase(0, option.find_first_not_of('-'));
  std::vector<std::string> names;
  for (const Flag& flag : verb.flags) names.emplace_back(flag.name);
  const auto near = nearest(option, names, 1);
  const std::string hint = near.empty() ? "" : fmt::format(" Did you mean --{}?", near[0]);
  throw UsageError(fmt::format("{} has no option \"{}\".{} All: tandem {} --help", verb.name,
                               printable(option), hint, verb.name));
}

[[noreturn]] void refuse(const Place& place, const std::string& what) {
  throw UsageError(InputError(place, what).what());
}

constexpr std::size_t kOptionWidth = 26;

/// Commands, one a line, broken as a shell takes them.
std::string shell_lines(std::string_view text, int columns) {
  std::string out;
  for (const std::string& command : split(text, '\n')) {
    std::vector<std::string> lines = split(wrapped(command, columns - 4), '\n');
    for (std::size_t i = 0; i < lines.size(); ++i) out += (i == 0 ? lines[i] : " \\\n  " + lines[i]);
    out += "\n";
  }
  out.pop_back();
  return out;
}

/// `words` with options under their names of today.
std::vector<std::string> renamed(const Verb& verb, std::vector<std::string> words) {
  for (std::string& word : words) {
    for (const Flag& f : verb.flags) {
      const std::string before = fmt::format("--{}", f.formerly);
      if (!f.formerly.empty() && (word == before || word.starts_with(before + "=")))
        word = fmt::format("--{}{}", f.name, word.substr(before.size()));
    }
  }
  return words;
}

}  // namespace

Arguments Arguments::parse(const Verb& verb, const std::vector<std::string>& words) {
  Arguments out;
  if (verb.unchecked) return out;
  const po::options_description description = describe(verb);
  namespace style = po::command_line_style;
  try {
    const auto parsed = po::command_line_parser(renamed(verb, words))
                            .options(description)
                            .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                            .run();
    for (const auto& option : parsed.options) {
      if (option.position_key >= 0) {
        out.words_.insert(out.words_.end(), option.value.begin(), option.value.end());
        continue;
      }
      auto& values = out.values_[option.string_key];
      const auto flag = std::find_if(verb.flags.begin(), verb.flags.end(),
                                     [&](const Flag& f) { return f.name == option.string_key; });
      if (!values.empty() && !flag->repeatable) {
        throw UsageError(fmt::format("--{} is given twice", option.string_key));
      }
      values.insert(values.end(), option.value.begin(), option.value.end());
      if (flag->value.empty()) values.emplace_back();
    }
  } catch (const po::unknown_option& error) {
    unknown_option(verb, error.get_option_name());
  } catch (const po::invalid_command_line_syntax& error) {
    throw UsageError(fmt::format("{}. See: tandem {} --help", printable(error.what()), verb.name));
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}. See: tandem {} --help", printable(error.what()), verb.name));
  }
  for (const std::string& word : out.words_) {
    if (word.size() > 1 && word[0] == '-') unknown_option(verb, word);
  }
  const std::string usage = fmt::format("Usage: tandem {} {}", verb.name, verb.usage);
  if (out.words_.size() > verb.most_words) {
    throw UsageError(
        fmt::format("\"{}\" is one word too many. {}", printable(out.words_[verb.most_words]), usage));
  }
  if (out.words_.size() < verb.least_words) throw UsageError(fmt::format("a word is missing. {}", usage));
  return out;
}

std::string Arguments::text(std::string_view name, std::string_view fallback) const {
  const auto at = values_.find(name);
  return at == values_.end() ? std::string(fallback) : at->second.back();
}

std::string Arguments::required(std::string_view name, std::string_view example) const {
  if (!has(name)) throw UsageError(fmt::format("--{} is missing, for example --{} {}", name, name, example));
  return text(name, "");
}

std::vector<std::string> Arguments::all(std::string_view name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? std::vector<std::string>{} : at->second;
}

Arguments Arguments::replaced(std::string_view name, std::vector<std::string> values) const {
  Arguments out = *this;
  if (values.empty()) {
    out.values_.erase(std::string(name));
  } else {
    out.values_[std::string(name)] = std::move(values);
  }
  return out;
}

int64_t Arguments::integer(std::string_view name, int64_t fallback, int64_t low, int64_t high) const {
  return has(name) ? parse_integer(text(name, ""), low, high, option_place(name)) : fallback;
}

double Arguments::real(std::string_view name, double fallback, double low, double high) const {
  return has(name) ? parse_real(text(name, ""), low, high, option_place(name)) : fallback;
}

std::vector<int64_t> Arguments::integers(std::string_view name, std::vector<int64_t> fallback, int64_t low,
                                         int64_t high) const {
  if (!has(name)) return fallback;
  std::vector<int64_t> out;
  for (const std::string& part : split(text(name, ""), ',')) {
    const int64_t value = parse_integer(part, low, high, option_place(name));
    if (std::find(out.begin(), out.end(), value) != out.end())
      refuse_option(name, fmt::format("{} is there twice", value));
    out.push_back(value);
    if (out.size() > 1000) refuse_option(name, "more than 1000 values");
  }
  return out;
}

std::string Arguments::choice(std::string_view name, std::string_view fallback,
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

std::string help_page(const Verb& verb, int columns) {
  std::string out =
      fmt::format("tandem {}: {}\n\nUsage: tandem {} {}\n", verb.name, verb.summary, verb.name, verb.usage);
  if (!verb.flags.empty()) out += "\nOptions\n";
  for (const Flag& flag : verb.flags) {
    const std::string left = fmt::format("--{}{}{}", flag.name, flag.value.empty() ? "" : " ", flag.value);
    out += left.size() > kOptionWidth ? fmt::format("  {}\n  {:{}}  {}\n", left, "", kOptionWidth, flag.help)
                                      : fmt::format("  {:{}}  {}\n", left, kOptionWidth, flag.help);
  }
  if (!verb.details.empty()) out += fmt::format("\n{}\n", verb.details);
  const std::size_t examples = std::min({out.find("\nExample\n"), out.find("\nExamples\n"), out.size()});
  return wrapped(std::string_view(out).substr(0, examples), columns) +
         shell_lines(std::string_view(out).substr(examples), columns);
}

}  // namespace tandem::app
