// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <regex>
#include <set>

#include "base/text.h"
#include "base/units.h"

namespace tandem::plan {

namespace {

constexpr int64_t kMostNodes = 1'000'000;

/// 1, 2, 3, 4, 6, 8, 12, 16 ... from `first` to `last`, and both of these.
void add_range(int64_t first, int64_t last, std::set<int64_t>& out) {
  out.insert({first, last});
  for (int64_t n = 1; n <= last; n *= 2) {
    for (const int64_t m : {n, n + n / 2}) {
      if (m >= first && m <= last) out.insert(m);
    }
  }
}

}  // namespace

std::string_view to_text(Aim aim) {
  constexpr std::string_view kNames[] = {"soonest", "cheapest", "least-energy"};
  return kNames[static_cast<int>(aim)];
}

double PlanCandidate::value(Aim aim) const {
  if (aim == Aim::soonest) return finish.value;
  if (aim == Aim::least_energy) return joules.value;
  return cost ? cost->total().value : INFINITY;
}

namespace {

/// A number in which commas, spaces or underscores may group thousands. Throws InputError for what could be
/// read in two ways: in "8,5" and "8.000" the mark is a decimal point to some and groups thousands to others.
double read_grouped(const std::string& text, bool scaled, const Place& place) {
  static const std::regex plain(R"(\d*\.?\d*)"), groups(R"(\d{1,3}([,_ ]\d{3})+(\.\d*)?)"),
      thousands(R"(\d{1,3}\.\d{3})");
  if ((!std::regex_match(text, plain) && !std::regex_match(text, groups)) ||
      (!scaled && std::regex_match(text, thousands)))
    throw InputError(place,
                     fmt::format("\"{}\" can be read in two ways: write thousands as 8000 or 8,000 and "
                                 "a half as 0.5",
                                 text));
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  return answers::parse_real(digits, 0, 1e15, place);
}

}  // namespace

std::vector<int64_t> parse_nodes(std::string_view text, const Place& place) {
  std::set<int64_t> out;
  for (const std::string& part : base::split(text, ',')) {
    const auto dots = part.find("..");
    if (dots == std::string::npos) {
      out.insert(answers::parse_integer(part, 1, kMostNodes, place));
      continue;
    }
    if (dots == 0 || dots + 2 == part.size())
      throw InputError(place, fmt::format("\"{}\" is no range: write both ends, such as 1..64", part));
    const int64_t first = answers::parse_integer(part.substr(0, dots), 1, kMostNodes, place);
    const int64_t last = answers::parse_integer(part.substr(dots + 2), 1, kMostNodes, place);
    if (last < first)
      throw InputError(place, fmt::format("\"{}\" ends before it begins: write {}..{}", part, last, first));
    add_range(first, last, out);
  }
  return {out.begin(), out.end()};
}

double parse_dollars(std::string_view text, const Place& place) {
  const auto end = std::min(text.size(), text.find_first_not_of("0123456789., _"));
  const auto digits = text.substr(0, end).find_last_not_of(' ') + 1;
  const std::string number(text.substr(0, digits));
  std::string unit(text.substr(end));
  double scale = 1;
  for (const auto& [letter, factor] : {std::pair{'k', 1e3}, std::pair{'M', 1e6}, std::pair{'G', 1e9}}) {
    if (unit.empty() || unit[0] != letter) continue;
    scale = factor;
    unit.erase(0, 1);
    break;
  }
  const bool other = !unit.empty() && unit.find_first_of("0123456789.+-") == std::string::npos;
  if (unit != "USD" || number.empty())
    throw InputError(place,
                     fmt::format("\"{}\" is no sum in US dollars: write 8000USD, 50kUSD or 2MUSD{}",
                                 base::printable(std::string(text)),
                                 other && unit != "USD" ? "; other currencies are not converted" : ""));
  const double value = read_grouped(number, scale > 1, place) * scale;
  if (!(value > 0)) throw InputError(place, fmt::format("\"{}\" is not above 0", std::string(text)));
  return value;
}

}  // namespace tandem::plan
