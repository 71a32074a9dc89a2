// SPDX-License-Identifier: Apache-2.0
#include "app/pictures/gnuplot.h"

#include <fmt/format.h>

#include "app/console/child.h"
#include "base/data.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem::app {

namespace {

/// One line of plain text: control characters become blanks (they would end the string or the cell).
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : one_line(text)) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

/// In data, double quotes would group and a leading # would comment.
std::string data_cell(std::string_view text) {
  std::string out = one_line(text);
  for (char& c : out) {
    if (c == '"') c = '\'';
  }
  if (!out.empty() && out[0] == '#') out.insert(0, " ");
  return out.empty() ? "NaN" : out;
}

constexpr std::pair<const char*, const char*> kTerminals[] = {
    {"png",
     "set terminal pngcairo noenhanced size 1200,750 font 'DejaVu Sans,13' background rgb '#FFFFFF'\n"},
    {"svg", "set terminal svg noenhanced size 1200,750 font 'DejaVu Sans,13' background rgb '#FFFFFF'\n"}};

}  // namespace

void Gnuplot::set(std::string_view variable, std::string_view text) {
  head_ += fmt::format("{} = {}\n", variable, quoted(text));
}

void Gnuplot::set(std::string_view variable, double number) {
  head_ += fmt::format("{} = {}\n", variable, cell(number));
}

void Gnuplot::data(std::string_view name, const std::vector<std::vector<std::string>>& rows) {
  head_ += fmt::format("${} << END_OF_DATA\n", name);
  for (const auto& row : rows) {
    std::string line;
    for (const std::string& text : row) line += (line.empty() ? "" : "\t") + data_cell(text);
    head_ += line + "\n";
  }
  head_ += "END_OF_DATA\n";
}

std::vector<std::string> Gnuplot::draw(const std::string& base) const {
  std::vector<std::string> files;
  const std::string body = read_file(fmt::format("{}/plots/style.gp", data_root())) +
                           read_file(fmt::format("{}/plots/{}.gp", data_root(), name_));
  for (const auto& [kind, terminal] : kTerminals) {
    const ChildResult result = run_child({"gnuplot"}, terminal + head_ + body, "gnuplot-nox");
    if (result.timed_out)
      throw InputError(fmt::format("gnuplot was stopped after 60 s while drawing {}", name_));
    if (result.status != 0 || result.out.empty()) {
      throw InputError(fmt::format("gnuplot could not draw {}: {}", name_, printable(result.err)));
    }
    files.push_back(fmt::format("{}.{}", base, kind));
    write_file(files.back(), result.out);
  }
  return files;
}

std::string cell(double value) { return fmt::format("{:.10g}", value); }

}  // namespace tandem::app
