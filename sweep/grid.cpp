// SPDX-License-Identifier: Apache-2.0
#include "sweep/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/text.h"

namespace tandem::sweep {

namespace {

/// Options whose own values have commas: they are never divided. Several values are given one by one.
bool has_own_commas(const Option& option) {
  static const std::set<std::string_view> names = {"batch-split", "freeze",     "memory",      "pauses",
                                                   "place",       "stragglers", "with-bridges"};
  return names.count(option.name) != 0;
}

/// "nodes=1,2" of --set, "device=a,b" of --swap: nodes=1 and nodes=2.
std::vector<std::string> values_of_path(const Option& option, const std::string& text, std::string& path) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse_option(option.name,
                  fmt::format("\"{}\" is not {}, for example {}", printable(text),
                              option.name == "set" ? "path=value" : option.value,
                              option.name == "set" ? "nodes=1,2,4" : "device=rtx-3090,rtx-4090"));
  path = text.substr(0, equals);
  std::vector<std::string> out = split(std::string_view(text).substr(equals + 1), ',');
  for (std::string& value : out) {
    if (value.find('=') != std::string::npos)
      refuse_option(option.name, fmt::format("\"{}\" changes two things: give --{} for each", printable(text),
                                             option.name));
    if (!value.empty() && value != kUnset) value = path + "=" + value;
  }
  return out;
}

std::vector<std::string> values_of(const Option& option, const std::string& text, std::string& path) {
  if (option.name == "set" || option.name == "swap") return values_of_path(option, text, path);
  if (has_own_commas(option)) return {text};
  return split_names({text});
}

/// What tells a value from others: the default is what it stands for, and numbers are compared as such.
std::string meaning(const Option& option, const std::string& value) {
  const bool given = option.kind() == Option::Kind::given;
  const std::string text = value != kUnset ? value : given ? "false" : std::string(option.fallback);
  int64_t integer = 0;
  const auto exact = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (option.kind() != Option::Kind::text && exact.ec == std::errc{} &&
      exact.ptr == text.data() + text.size())
    return std::to_string(integer);
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = read.ec == std::errc{} && read.ptr == text.data() + text.size();
  return option.kind() != Option::Kind::text && whole ? fmt::format("{}", number) : text;
}

void check_values(const Option& option, const Axis& axis) {
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (value.empty())
      refuse_option(option.name, fmt::format("an empty value; {} stands for the option not given", kUnset));
    if (!seen.insert(meaning(option, value)).second)
      refuse_option(option.name, fmt::format("{} is there twice", printable(value)));
    const bool truth = value == "true" || value == "false";
    if (option.kind() == Option::Kind::given && !truth && value != kUnset)
      refuse_option(option.name, fmt::format("\"{}\" is neither true nor false", printable(value)));
  }
}

std::string column_of(const Option& option, const std::string& path, std::size_t nth) {
  std::string out(option.name);
  std::replace(out.begin(), out.end(), '-', '_');
  if (option.name == "set") return out + "." + path;
  return nth == 0 ? out : fmt::format("{}_{}", out, nth + 1);
}

/// One axis, or for a repeatable option one each time that it is given.
void add_axes(const Option& option, const std::vector<std::string>& given, std::vector<Axis>& to) {
  std::vector<Axis> out;
  for (const std::string& text : given) {
    std::string path;
    std::vector<std::string> values = values_of(option, text, path);
    if (out.empty() || option.repeatable)
      out.push_back({std::string(option.name), path, column_of(option, path, out.size()), {}});
    out.back().values.insert(out.back().values.end(), values.begin(), values.end());
  }
  for (const Axis& axis : out) {
    check_values(option, axis);
    for (const Axis& other : out) {
      if (&other != &axis && other.column == axis.column)
        refuse_option(option.name, fmt::format("{0} is there twice; its values stand together: {0}=A,B",
                                               printable(axis.path)));
    }
  }
  to.insert(to.end(), out.begin(), out.end());
}

}  // namespace

bool of_machine(std::string_view option) {
  static const std::set<std::string_view> names = {
      "system", "set",    "without", "with-bridges", "swap",    "place",  "collective-profile",
      "seed",   "jitter", "pauses",  "stragglers",   "profile", "anchor", "iterations",
      "devices"};
  return names.count(option) != 0;
}

int64_t Shard::index_of(int64_t position, int64_t count) {
  // Multiples of the golden ratio, of which any that are a fixed number apart are spread evenly.
  const uint64_t part = static_cast<uint64_t>(position) * 0x9e3779b97f4a7c15;
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>((static_cast<Wide>(part) * static_cast<uint64_t>(count)) >> 64);
}

Shard Shard::parse(const std::string& text, const Place& place) {
  const auto slash = text.find('/');
  if (slash == std::string::npos)
    throw InputError(place, fmt::format("\"{}\" is not i/n, for example 0/8 to 7/8", printable(text)));
  Shard out;
  out.count = parse_integer(std::string_view(text).substr(slash + 1), 1, kMost, place);
  out.index = parse_integer(std::string_view(text).substr(0, slash), 0, kMost, place);
  if (out.index >= out.count)
    throw InputError(place, fmt::format("{} shards are numbered 0 to {}", out.count, out.count - 1));
  return out;
}

std::string Shard::text() const { return fmt::format("{}/{}", index, count); }

Grid Grid::read(const Values& values) {
  values.required("model", "resnet50,vgg16");
  values.required("system", "dgx1-v100,dgx-a100");
  values.required("devices", "1,2,4,8");
  Grid out;
  for (const Option& option : question_options()) {
    if (values.has(option.name)) add_axes(option, values.all(option.name), out.axes_);
  }
  out.count();
  return out;
}

void Grid::count() {
  cells_ = 1;
  for (const Axis& axis : axes_) {
    const auto more = static_cast<int64_t>(axis.values.size());
    if (cells_ > kMostCells / more)
      throw UsageError(fmt::format("the grid has more than {} cells", kMostCells));
    cells_ *= more;
  }
}

JsonWriter Grid::to_json() const {
  JsonWriter out = JsonWriter::object();
  for (const Axis& axis : axes_)
    out[axis.column] = {{"option", axis.option}, {"path", axis.path}, {"values", axis.values}};
  return out;
}

namespace {

/// An axis of a file, which may hold anything.
void check_read(const std::vector<Axis>& before, const Axis& axis, const Json& from) {
  const auto nth = std::count_if(before.begin(), before.end(),
                                 [&](const Axis& other) { return other.option == axis.option; });
  if (axis.column != column_of(question_option(axis.option), axis.path, static_cast<std::size_t>(nth)))
    from.fail(fmt::format("\"{}\" is not the column of {}", printable(axis.column), printable(axis.option)));
  if (axis.values.empty()) from.fail("no value");
  for (const std::string& value : axis.values) {
    if (!axis.path.empty() && value != kUnset && !value.starts_with(axis.path + "="))
      from.fail(fmt::format("\"{}\" does not set {}", printable(value), printable(axis.path)));
  }
}

}  // namespace

Grid Grid::from_json(const Json& document) {
  Grid out;
  for (const auto& [column, axis] : document.members()) {
    Axis one{axis.at("option").as_text(), axis.at("path").as_text(), column, {}};
    for (const Json& value : axis.at("values").items()) one.values.push_back(value.as_text());
    check_read(out.axes_, one, axis);
    out.axes_.push_back(std::move(one));
  }
  out.count();
  return out;
}

std::vector<std::size_t> Grid::choice(int64_t position) const {
  std::vector<std::size_t> out(axes_.size());
  auto rest = static_cast<std::size_t>(position);
  for (std::size_t a = axes_.size(); a-- > 0;) {
    out[a] = rest % axes_[a].values.size();
    rest /= axes_[a].values.size();
  }
  return out;
}

std::vector<std::string> Grid::values(int64_t position) const {
  const std::vector<std::size_t> at = choice(position);
  std::vector<std::string> out;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const std::string& value = axes_[a].values[at[a]];
    const std::size_t skip = value == kUnset || axes_[a].path.empty() ? 0 : axes_[a].path.size() + 1;
    out.push_back(value.substr(skip));
  }
  return out;
}

Grid::Options Grid::options(int64_t position) const {
  const std::vector<std::size_t> at = choice(position);
  Options out;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].values[at[a]] != kUnset) out.emplace_back(axes_[a].option, axes_[a].values[at[a]]);
  }
  return out;
}

std::vector<int64_t> Grid::order(const Shard& shard) const {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < cells_; ++i) {
    if (shard.has(i)) out.push_back(i);
  }
  // How much further a cell is if the axis has its next value; first of all of what is trained.
  std::vector<int64_t> stride(axes_.size());
  int64_t next = 1;
  for (const bool machine : {true, false}) {
    for (std::size_t a = axes_.size(); a-- > 0;) {
      if (of_machine(axes_[a].option) != machine) continue;
      stride[a] = next;
      next *= static_cast<int64_t>(axes_[a].values.size());
    }
  }
  std::vector<std::pair<int64_t, int64_t>> keyed;
  for (const int64_t position : out) {
    const std::vector<std::size_t> at = choice(position);
    int64_t key = 0;
    for (std::size_t a = 0; a < at.size(); ++a) key += stride[a] * static_cast<int64_t>(at[a]);
    keyed.emplace_back(key, position);
  }
  std::sort(keyed.begin(), keyed.end());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = keyed[i].second;
  return out;
}

}  // namespace tandem::sweep
