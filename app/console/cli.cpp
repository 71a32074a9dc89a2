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
  for (const Option& flag : verb.flags) {
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
  for (const Option& flag : verb.flags) names.emplace_back(flag.name);
  const auto near = nearest(option, names, 1);
  const std::string hint = near.empty() ? "" : fmt::format(" Did you mean --{}?", near[0]);
  throw UsageError(fmt::format("{} has no option \"{}\".{} All: tandem {} --help", verb.name,
                               printable(option), hint, verb.name));
}

constexpr std::size_t kOptionWidth = 26;

/// Commands, one per line, wrapped as a shell accepts them.
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

/// `words` with options under their current names.
std::vector<std::string> renamed(const Verb& verb, std::vector<std::string> words) {
  for (std::string& word : words) {
    for (const Option& f : verb.flags) {
      const std::string before = fmt::format("--{}", f.formerly);
      if (!f.formerly.empty() && (word == before || word.starts_with(before + "=")))
        word = fmt::format("--{}{}", f.name, word.substr(before.size()));
    }
  }
  return words;
}

}  // namespace

Arguments Arguments::parse(const Verb& verb, const std::vector<std::string>& given) {
  Arguments out;
  if (verb.unchecked) return out;
  const auto dashes = verb.has_command ? std::find(given.begin(), given.end(), "--") : given.end();
  const std::vector<std::string> words(given.begin(), dashes);
  out.command_given_ = dashes != given.end();
  if (out.command_given_) out.command_.assign(dashes + 1, given.end());
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
      const auto& name = option.string_key;
      const auto flag =
          std::find_if(verb.flags.begin(), verb.flags.end(), [&](const Option& f) { return f.name == name; });
      if (out.has(name) && !flag->repeatable) {
        throw UsageError(fmt::format("--{} is given twice", name));
      }
      for (const std::string& value : option.value) out.add(name, value);
      if (flag->value.empty()) out.add(name, "");
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
  if (out.words_.size() < verb.least_words && !out.has("question"))
    throw UsageError(fmt::format("a word is missing. {}", usage));
  return out;
}

Arguments Arguments::replaced(std::string_view name, std::vector<std::string> values) const {
  Arguments out = *this;
  out.set(name, std::move(values));
  return out;
}

std::string help_page(const Verb& verb, int columns) {
  std::string out =
      fmt::format("tandem {}: {}\n\nUsage: tandem {} {}\n", verb.name, verb.summary, verb.name, verb.usage);
  if (!verb.flags.empty()) out += "\nOptions\n";
  for (const Option& flag : verb.flags) {
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
