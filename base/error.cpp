// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <utility>

namespace tandem::base {

std::string Place::text() const {
  std::string out = file ? printable(*file) : "";
  if (line > 0) out += fmt::format(":{}", line);
  if (line > 0 && column > 0) out += fmt::format(":{}", column);
  return out;
}

Place place_in(std::string_view message) {
  /// The number after a colon at `from`, and where it ends; 0 where there is none.
  const auto number = [&](std::size_t from) {
    int value = 0;
    const char* end = message.data() + message.size();
    if (from >= message.size() || message[from] != ':') return std::pair{0, from};
    const auto read = std::from_chars(message.data() + from + 1, end, value);
    return read.ec == std::errc{} ? std::pair{value, static_cast<std::size_t>(read.ptr - message.data())}
                                  : std::pair{0, from};
  };
  for (std::size_t at = message.find(':'); at != std::string_view::npos; at = message.find(':', at + 1)) {
    const auto [line, after] = number(at);
    const auto [column, end] = number(after);
    if (line > 0 && message.substr(end).starts_with(": "))
      return {std::make_shared<const std::string>(message.substr(0, at)), line, column};
  }
  return {};
}

InputError::InputError(const Place& place, const std::string& what)
    : std::runtime_error(place.text().empty() ? what : place.text() + ": " + what) {}

void check_failed(const char* condition, const char* file, int line) {
  throw std::logic_error(fmt::format("internal error: {}:{}: {}", file, line, condition));
}

namespace {

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  const auto same = [&](std::size_t i, std::size_t j) { return a[i] == b[j]; };
  std::vector<std::size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({row[j] + 1, last[j + 1] + 1, last[j] + (same(i, j) ? 0 : 1)});
      const bool swapped = i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j);
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row[b.size()];
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// How a candidate holds the wrong word, best first.
enum class Match { word, part, similar };

/// Of a candidate that holds the wrong word's `letters` letters at `at` (npos: it does not). Two letters
/// count where a word begins, three anywhere.
Match match_at(const std::string& candidate, std::size_t letters, std::size_t at) {
  if (at == std::string::npos) return Match::similar;
  if (at == 0 || !is_alnum(candidate[at - 1])) return Match::word;
  return letters >= 3 ? Match::part : Match::similar;
}

/// How far apart the letters are where words of equal length differ: puts vgg16 before vgg11 for "vgg17".
std::size_t letter_gap(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return 1000;
  std::size_t gap = 0;
  for (std::size_t i = 0; i < a.size(); ++i) gap += static_cast<std::size_t>(std::abs(a[i] - b[i]));
  return gap;
}

/// The part after the last dash, if it has a digit: the size of a model ("8b"), which is seldom the
/// part that is spelled wrongly.
std::string_view size_word(std::string_view name) {
  const auto dash = name.rfind('-');
  const std::string_view last = dash == std::string_view::npos ? std::string_view() : name.substr(dash + 1);
  return last.find_first_of("0123456789") == std::string_view::npos ? std::string_view() : last;
}

}  // namespace

std::vector<std::string> nearest(std::string_view wrong, const std::vector<std::string>& candidates,
                                 std::size_t most) {
  wrong = wrong.substr(0, 100);
  const std::string lower = lower_case(wrong);
  std::vector<std::tuple<Match, std::size_t, std::size_t, std::size_t>> ranked;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string candidate = lower_case(candidates[i]);
    if (candidate == lower) return {candidates[i]};
    const std::size_t length = candidate.size(),
                      at = lower.size() < 2 ? std::string::npos : candidate.find(lower);
    const std::size_t edits = distance(lower, candidate);
    if (const Match m = match_at(candidate, lower.size(), at); m != Match::similar) {
      ranked.emplace_back(m, length, at, i);
    } else if (length >= 4 && lower.starts_with(candidate) && !is_alnum(lower[length])) {
      ranked.emplace_back(Match::part, lower.size() - length, 0, i);  // "batch" for "batch-size"
    } else if (edits <= std::max<std::size_t>(1, std::max(lower.size(), length) / 3)) {
      const bool other_size = !size_word(lower).empty() && size_word(lower) != size_word(candidate);
      ranked.emplace_back(m, edits + (other_size ? 1 : 0), letter_gap(lower, candidate), i);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(most, ranked.size()); ++i)
    out.push_back(candidates[std::get<3>(ranked[i])]);
  return out;
}

std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& candidates) {
  const auto near = nearest(wrong, candidates);
  if (near.empty()) return "";
  return near.size() == 1 ? fmt::format(" Did you mean {}?", near[0])
                          : fmt::format(" Did you mean {} or {}?", near[0], near[1]);
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  if (text.size() > 200) out += "...";
  return out;
}

}  // namespace tandem::base
