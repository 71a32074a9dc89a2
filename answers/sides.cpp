// SPDX-License-Identifier: Apache-2.0
#include "answers/sides.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::answers {

namespace {

constexpr const char* kBoard[] = {"without", "swap", "with-bridges", "place"};

bool of_all(std::string_view flag) {  // the same on all sides
  return flag == "model" || flag == "system" || flag == "format" || flag == "out" || flag == "quiet" ||
         flag == "anchor" || flag == "collective-profile" || flag == "set-b";
}

bool names_side(const std::string& text) {
  return text.size() > 1 && text[1] == ':' && text[0] >= 'A' && text[0] <= 'Z';
}

/// A value and the side it applies to, 0: all.
struct Said {
  char whom = 0;
  std::string value;
};

Said read_said(std::string_view option, const std::string& text, std::size_t sides) {
  if (!names_side(text)) return {0, text};
  if (text[0] >= 'A' + static_cast<char>(sides))
    refuse_option(option, fmt::format("\"{}\" is of side {}, and the last is {}", printable(text), text[0],
                                      static_cast<char>('A' + sides - 1)));
  return {text[0], text.substr(2)};
}

std::vector<Said> all_said(const Values& values, std::string_view option, std::size_t sides) {
  std::vector<Said> out;
  for (const std::string& text : values.all(option)) out.push_back(read_said(option, text, sides));
  return out;
}

/// Later ones win; removals accumulate.
void add_change(System::Sets& sets, const std::pair<std::string, std::string>& change) {
  if (change.first != "without")
    std::erase_if(sets, [&](const auto& set) { return set.first == change.first; });
  sets.push_back(change);
}

/// --place chooses devices on all sides, unless it is the only difference.
bool place_of_all(const Values& values, bool alone) {
  for (const char* option : {"without", "swap", "with-bridges", "set-b"}) {
    if (values.has(option)) return true;
  }
  return !alone;
}

void add_changes(const Values& values, bool alone, std::vector<Side>& sides) {
  /// `whom`: the side if the value names none; 0: all.
  const auto add = [&](const char* option, char whom, const auto& read) {
    values.each(option, [&](const std::string& text) {
      const Said said = read_said(option, text, sides.size());
      const char meant = said.whom != 0 ? said.whom : whom;
      for (Side& side : sides) {
        if (meant == 0 || meant == side.letter) add_change(side.sets, read(said.value));
      }
    });
  };
  add("set", 0, [](const std::string& text) { return read_set(text, "set"); });
  for (const char* option : kBoard) {
    const bool all = !alone || (option == std::string_view("place") && place_of_all(values, alone));
    add(option, all ? 0 : 'B', [&](const std::string& text) { return board_change(option, text); });
  }
  add("set-b", 'B', [](const std::string& text) { return read_set(text, "set-b"); });
}

/// The options of predict, this side's before those of all.
Values own_values(const Values& values, char letter, std::size_t sides) {
  Values out = values;
  for (const Option& flag : question_options()) {
    if (flag.value.empty() || of_all(flag.name) || !values.has(flag.name)) continue;
    std::vector<std::string> own, common;
    for (const Said& said : all_said(values, flag.name, sides)) {
      if (said.whom == letter) own.push_back(said.value);
      if (said.whom == 0) common.push_back(said.value);
    }
    if (own.empty() || flag.repeatable) own.insert(own.begin(), common.begin(), common.end());
    if (own.size() > 1 && !flag.repeatable)
      throw UsageError(fmt::format("--{} is given twice for {}", flag.name, letter));
    out.set(flag.name, own);
  }
  return out;
}

bool of_board(std::string_view option) {
  return std::find(std::begin(kBoard), std::end(kBoard), option) != std::end(kBoard);
}

/// A file's changes of the board as --set, which none takes for B's alone.
void board_as_sets(Values& file) {
  std::vector<std::string> sets = file.all("set");
  std::vector<Place> places = file.places("set");
  for (const auto& [path, value] : read_board_changes(file))
    sets.push_back(fmt::format("{}={}", path, value));
  for (const char* option : kBoard) {
    for (Place& place : file.places(option)) places.push_back(std::move(place));
    file.set(option, {});
  }
  file.set("set", std::move(sets));
  file.stands_at("set", file.place("set"), std::move(places));
}

bool same(const Side& a, const Side& b) {
  return a.system == b.system && a.sets == b.sets && a.values == b.values;
}

}  // namespace

FileRules rules_of_sides() {
  return {board_as_sets, [](std::string_view option, const std::vector<std::string>& own) {
            return option == "set" || of_board(option) ||
                   (!of_all(option) && std::all_of(own.begin(), own.end(), names_side));
          }};
}

Values values_of(const Side& side, const std::string& model) {
  Values out = side.values;
  if (out.all("model") != std::vector{model}) out.set("model", {model});
  if (out.text("system", "") != side.system) out.set("system", {side.system});
  for (const char* option : kBoard) out.set(option, {});
  std::vector<std::string> sets;
  for (const auto& [path, value] : side.sets) sets.push_back(fmt::format("{}={}", path, value));
  out.set("set", std::move(sets));
  out.stands_at("set", {});
  return out;
}

void let_sides_say(std::vector<Option>& flags) {
  for (Option& flag : flags) {
    if (!flag.value.empty() && !of_all(flag.name)) flag.repeatable = true;
  }
}

std::vector<Side> read_sides(const Values& values, std::vector<std::string> systems) {
  const bool alone = systems.size() == 1;
  if (alone) systems.push_back(systems.front());
  std::vector<Side> out(systems.size());
  for (std::size_t i = 0; i < systems.size(); ++i)
    out[i] = {static_cast<char>('A' + i),
              systems[i],
              {},
              own_values(values, static_cast<char>('A' + i), systems.size())};
  add_changes(values, alone, out);
  if (alone && same(out[0], out[1]))
    throw UsageError(
        "one system is compared with a changed version: give --without, --with-bridges, --swap, --place or "
        "--set-b, or an option of B's such as --scheme B:horovod; or name a second system");
  for (std::size_t i = 1; i < out.size(); ++i) {
    if (!out[i].sets.empty() && same(out[0], out[i]) && !values.has("set"))
      throw UsageError(
          fmt::format("{} is the same as A with all changes: say to which side they apply, for example "
                      "--swap {}:device=rtx-4090",
                      out[i].letter, out[i].letter));
  }
  return out;
}

}  // namespace tandem::answers
