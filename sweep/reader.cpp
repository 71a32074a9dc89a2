// SPDX-License-Identifier: Apache-2.0
#include "sweep/reader.h"

#include <algorithm>
#include <set>

#include "base/hash.h"

namespace tandem::sweep {

namespace {

/// Options that question_of() reads files for, and those that change the machine.
bool of_base(std::string_view option) {
  static const std::set<std::string_view> names = {
      "model", "adapter",           "freeze", "data", "system", "set", "without", "with-bridges", "swap",
      "place", "collective-profile"};
  return names.count(option) != 0;
}

/// A "tandem-question-1" document of options that no question could be made of.
JsonWriter document_of(const Grid::Options& options) {
  JsonWriter out = {{"schema", "tandem-question-1"}};
  std::map<std::string, JsonWriter> lists;
  for (const auto& [name, value] : options) {
    const Option& option = question_option(name);
    if (option.kind() == Option::Kind::given) {
      out[name] = value == "true";
    } else if (option.repeatable) {
      out[name].push_back(value);
    } else {
      out[name] = value;
    }
  }
  return out;
}

void refuse(AskedCell& cell, const Grid::Options& options, const std::string& why) {
  cell.question = document_of(options).dump();
  cell.refusal = why;
  Hash hash;
  hash.add(cell.question);
  cell.hash = key_text(hash.value());
}

/// Changes that lead from one cell's options to another's: an option that goes has an empty value.
Grid::Options changes(const Grid& grid, const Question& from, const Grid::Options& to) {
  Grid::Options out = to;
  for (const Axis& axis : grid.axes()) {
    const bool stays =
        std::any_of(to.begin(), to.end(), [&](const auto& o) { return o.first == axis.option; });
    if (!stays && from.given.has(axis.option)) out.emplace_back(axis.option, "");
  }
  return out;
}

constexpr std::size_t kMostBases = 256;

}  // namespace

const Question& Reader::base(const std::vector<std::size_t>& choice, const Grid::Options& options) {
  std::vector<std::size_t> key;
  for (std::size_t a = 0; a < choice.size(); ++a) {
    if (of_base(grid_.axes()[a].option)) key.push_back(choice[a]);
  }
  const auto known = bases_.find(key);
  if (known != bases_.end()) return known->second;
  // The machine of another cell with the same model, and the model of another with the same machine, are in
  // neighbours of the key; with() reads again what differs.
  const auto near = bases_.lower_bound(key);
  const auto like = near != bases_.end() ? near : bases_.empty() ? bases_.end() : std::prev(bases_.end());
  Question fresh = like == bases_.end() ? Question::of(options, hooks_)
                                        : like->second.with(changes(grid_, like->second, options), hooks_);
  fresh.programs = programs_;
  fresh.timeline = false;
  if (bases_.size() >= kMostBases) bases_.clear();
  return bases_.emplace(std::move(key), std::move(fresh)).first->second;
}

const Question* Reader::read(int64_t position, AskedCell& cell) {
  cell = {};
  cell.position = position;
  const Grid::Options options = grid_.options(position);
  try {
    const Question& like = base(grid_.choice(position), options);
    question_ = like.with(changes(grid_, like, options), hooks_);
  } catch (const InputError& error) {
    refuse(cell, options, error.what());
    return nullptr;
  } catch (const UsageError& error) {
    refuse(cell, options, error.what());
    return nullptr;
  }
  question_->timeline = false;
  cell.question = question_->to_json().dump();
  cell.hash = key_text(question_->hash());
  return &*question_;
}

std::optional<Row> answer_cell(Reader& reader, const Grid& grid, int64_t position, const std::string& known,
                               Depth depth) {
  AskedCell cell;
  const Question* question = reader.read(position, cell);
  if (cell.hash == known) return {};
  return question == nullptr ? refused_row(grid, cell, cell.refusal)
                             : answer_row(grid, cell, *question, depth);
}

namespace {

/// Reads what a value names by itself, so that a name that does not exist is an error here and now.
void check_name(const std::string& option, const std::string& value, const Hooks& hooks) {
  const Place place = option_place(option);
  if (value == kUnset) return;
  if (option == "model") {
    Values values;
    values.set("model", {value});
    read_model(values, value, place, hooks);
  }
  if (option == "system" && !is_document(value)) System::load(value, {}, place);
  if (option == "scheme") resolve_scheme(value, place);
  if (option == "recipe") load_recipe(value, place);
}

}  // namespace

void check_grid(const Grid& grid, const Hooks& hooks, const std::atomic<bool>* stop) {
  for (const Axis& axis : grid.axes()) {
    for (const std::string& value : axis.values) check_name(axis.option, value, hooks);
  }
  // The first cell, and those that differ from it in one value. What is wrong for one machine or model alone
  // is the reason of its cells.
  Hooks quiet = hooks;
  quiet.note = nullptr;
  std::optional<Question> first;
  const auto check = [&](int64_t position) {
    const Grid::Options options = grid.options(position);
    try {
      if (position == 0) {
        first = Question::of(options, quiet);
      } else if (first) {
        first->with(changes(grid, *first, options), quiet);
      } else {
        Question::of(options, quiet);
      }
    } catch (const InputError&) {
    }
  };
  check(0);
  int64_t stride = grid.cells();
  for (const Axis& axis : grid.axes()) {
    stride /= static_cast<int64_t>(axis.values.size());
    if (axis.option == "model" || axis.option == "system") continue;
    for (std::size_t v = 1; v < axis.values.size() && (stop == nullptr || !*stop); ++v)
      check(stride * static_cast<int64_t>(v));
  }
}

}  // namespace tandem::sweep
