// SPDX-License-Identifier: Apache-2.0
// What may stand last on a command line, from the table of verbs and their options.
#include <fmt/format.h>

#include <algorithm>

#include "app/console/cli.h"
#include "app/console/manual.h"
#include "app/console/output.h"
#include "app/console/terminal.h"
#include "app/show/lists.h"
#include "base/text.h"

namespace tandem::app {

namespace {

using Words = std::vector<std::string>;

struct Offer {
  std::string word;
  std::string_view about{};
};

constexpr int kAboutColumns = 60;

/// Words of the option's value; `typed` is what stands of it. Of a list they follow those before the comma.
std::vector<Offer> values_of_flag(const Option& flag, std::string_view typed) {
  std::vector<Offer> out;
  const std::size_t comma = flag.listed() ? typed.rfind(',') : std::string_view::npos;
  std::string before(typed.substr(0, comma == std::string_view::npos ? 0 : comma + 1));
  for (const std::string_view choice : flag.choices()) out.push_back({before + std::string(choice)});
  if (flag.names().empty()) return out;
  before += flag.value.substr(0, flag.value.find("NAME"));  // "device=NAME"
  for (const std::string& name : listed_names(flag.names())) out.push_back({before + name});
  return out;
}

/// The option that a word names, "--batch" or "--batch=4"; its value is the next word, or after "=".
const Option* flag_of(const Verb& verb, std::string_view word) {
  if (!word.starts_with("--")) return nullptr;
  const std::string_view name = word.substr(2, word.find('=') - 2);
  const auto found =
      std::find_if(verb.flags.begin(), verb.flags.end(), [&](const Option& f) { return f.name == name; });
  return found == verb.flags.end() || found->value.empty() ? nullptr : &*found;
}

bool value_is_next(const Verb& verb, const std::string& word) {
  return word.find('=') == std::string::npos && flag_of(verb, word) != nullptr;
}

/// `words`: all after the verb; the last is being typed.
std::vector<Offer> offers_of_verb(const Verb& verb, const Words& words) {
  const std::string& typed = words.back();
  if (words.size() > 1 && value_is_next(verb, words[words.size() - 2]))
    return values_of_flag(*flag_of(verb, words[words.size() - 2]), typed);
  std::vector<Offer> out;
  if (const std::size_t equals = typed.find('='); equals != std::string::npos && typed[0] == '-') {
    if (const Option* flag = flag_of(verb, typed)) out = values_of_flag(*flag, typed.substr(equals + 1));
    for (Offer& offer : out) offer.word = typed.substr(0, equals + 1) + offer.word;
    return out;
  }
  if (typed.starts_with("-")) {
    for (const Option& flag : verb.flags) out.push_back({fmt::format("--{}", flag.name), flag.help});
    out.push_back({"--help", "this verb's page"});
    return out;
  }
  Words before;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (value_is_next(verb, words[i])) {
      ++i;
    } else if (!words[i].starts_with("-")) {
      before.push_back(words[i]);
    }
  }
  if (verb.next != nullptr) {
    for (std::string& word : verb.next(before)) out.push_back({std::move(word)});
  }
  return out;
}

/// `words`: all after "tandem".
std::vector<Offer> offers_of(const Words& words) {
  if (words.size() == 1) {
    std::vector<Offer> out;
    for (const Verb& verb : verbs_registry().all()) out.push_back({std::string(verb.name), verb.summary});
    out.insert(out.end(), {{"--help", "all verbs"}, {"--version", "which build this is"}});
    return out;
  }
  const Verb* verb = verbs_registry().find(words[0]);
  if (verb == nullptr) return {};
  const auto dashes = std::find(words.begin(), words.end() - 1, "--");
  if (verb->has_command && dashes != words.end() - 1) return offers_of({dashes + 1, words.end()});
  return offers_of_verb(*verb, {words.begin() + 1, words.end()});
}

/// bash parts words at "=" and ":", and replaces what stands after the last of them.
Words joined_again(const Words& words) {
  Words out;
  bool joins = false;
  for (const std::string& word : words) {
    const bool breaks = !word.empty() && word.find_first_not_of("=:") == std::string::npos;
    if ((breaks || joins) && !out.empty()) {
      out.back() += word;
    } else {
      out.push_back(word);
    }
    joins = breaks;
  }
  return out;
}

/// As the shell reads it: zsh and fish also show what a word is about.
std::string line_for(const std::string& shell, const Offer& offer, std::size_t kept_by_bash) {
  if (shell == "bash") return offer.word.substr(kept_by_bash) + "\n";
  std::string word;
  for (const char c : offer.word) word += shell == "zsh" && c == ':' ? "\\:" : std::string(1, c);
  if (offer.about.empty()) return word + "\n";
  return word + (shell == "zsh" ? ":" : "\t") + cut_off(offer.about, kAboutColumns) + "\n";
}

std::string offered(const std::string& shell, const Words& given) {
  Words words = shell == "bash" ? joined_again(given) : given;
  if (words.empty()) words.emplace_back();
  const std::string& typed = words.back();
  const std::size_t broken = typed.find_last_of("=:");
  std::string out;
  for (const Offer& offer : offers_of(words)) {
    if (offer.word.starts_with(typed))
      out += line_for(shell, offer, broken == std::string::npos ? 0 : broken + 1);
  }
  return out;
}

int completion(const Arguments& arguments) {
  const std::string& shell = arguments.words()[0];
  const Words& shells = completed_shells();
  if (std::find(shells.begin(), shells.end(), shell) == shells.end())
    throw UsageError(fmt::format("\"{}\" is none of bash, zsh and fish.{}", printable(shell),
                                 did_you_mean(shell, shells)));
  write_stdout(arguments.command_given() ? offered(shell, arguments.command()) : completion_script(shell));
  return 0;
}

}  // namespace

void register_completion(Registry<Verb>& registry) {
  registry.add({.name = "completion",
                .summary = "what lets bash, zsh or fish complete verbs, options, their values and names",
                .usage = "bash|zsh|fish",
                .least_words = 1,
                .most_words = 1,
                .next = [](const Words& before) { return before.empty() ? completed_shells() : Words(); },
                .run = completion,
                .details = "Prints a short script, which asks this program at each Tab: after --model the "
                           "names of tandem list models, after --precision its formats. In what bash and zsh "
                           "read at their start stands source <(tandem completion bash) or source <(tandem "
                           "completion zsh), in fish's config tandem completion fish | source. An installed "
                           "package has all three in place.",
                .has_command = true});
}

}  // namespace tandem::app
