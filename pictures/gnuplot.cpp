// SPDX-License-Identifier: Apache-2.0
#include "pictures/gnuplot.h"

#include <fmt/format.h>

#include "base/child.h"
#include "base/data.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem::pictures {

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

/// Both terminals draw a point as 4/3 pixels: gnuplot's png does so by itself.
std::string terminal(std::string_view kind) {
  return fmt::format("set terminal {} noenhanced size {},{} font 'DejaVu Sans,13' background rgb '#FFFFFF'\n",
                     kind == "svg" ? "svg fontscale 1.33333" : "pngcairo", kPictureWidth, kPictureHeight);
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

/// The heading as the document's title, which viewers show as a tooltip, and a family of letters of the same
/// widths, or at least without serifs, where DejaVu is not installed.
void finish_svg(std::string& svg, std::string_view heading) {
  replace_all(svg, "<title>Gnuplot</title>", fmt::format("<title>{}</title>", xml(heading)));
  replace_all(svg, "font-family=\"DejaVu Sans\"", "font-family=\"DejaVu Sans, Verdana, sans-serif\"");
}

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

void Gnuplot::heading(std::string_view text, std::string_view below) {
  const double most = kPictureWidth - 40;
  heading_ = one_line(text);
  set("heading", text);
  set("heading_size", fitting_size(text, 16, most));
  set("subheading", below);
  set("subheading_size", fitting_size(below, 11, most));
}

std::vector<std::string> write_pictures(const Pictures& pictures) {
  std::vector<std::string> files;
  for (const Picture& picture : pictures) {
    for (const char* kind : {"png", "svg"}) {
      files.push_back(fmt::format("{}.{}", picture.name, kind));
      write_file(files.back(), picture.plot.drawn(kind));
    }
  }
  return files;
}

std::string Gnuplot::drawn(std::string_view kind) const {
  const std::string body = read_file(fmt::format("{}/plots/style.gp", data_root())) +
                           read_file(fmt::format("{}/plots/{}.gp", data_root(), name_));
  ChildResult result = run_child({"gnuplot"}, terminal(kind) + head_ + body, "gnuplot-nox");
  if (result.timed_out)
    throw InputError(
        fmt::format("gnuplot was stopped after {} s while drawing {}", kMostSeconds.count(), name_));
  if (result.status != 0 || result.out.empty())
    throw InputError(fmt::format("gnuplot could not draw {}: {}", name_,
                                 printable(result.err.empty() ? "no reason given" : result.err)));
  if (kind == "svg") finish_svg(result.out, heading_);
  return std::move(result.out);
}

double text_width(std::string_view text, double points) {
  constexpr std::string_view kNarrow = "fijlrtI .,:;'|/()[]!-", kWide = "mwMW%@";
  double ems = 0;  // advances of DejaVu Sans, each class by its widest letter
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;  // the rest of a letter beyond ASCII
    const bool capital = (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
    ems += kNarrow.find(c) != std::string_view::npos                 ? 0.42
           : kWide.find(c) != std::string_view::npos                 ? 1.0
           : capital || c == '+' || c == '>' || c == '<' || c == '=' ? 0.84
                                                                     : 0.65;
  }
  return ems * points * 4 / 3;
}

double fitting_size(std::string_view text, double points, double pixels) {
  const double needed = text_width(text, points);
  return needed <= pixels ? points : points * pixels / needed;
}

std::string cell(double value) { return fmt::format("{:.10g}", value); }

}  // namespace tandem::pictures
