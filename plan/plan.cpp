// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <fmt/format.h>

#include <cmath>
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

std::vector<int64_t> parse_nodes(std::string_view text, const Place& place) {
  std::set<int64_t> out;
  for (const std::string& part : base::split(text, ',')) {
    const auto dots = part.find("..");
    if (dots == std::string::npos) {
      out.insert(answers::parse_integer(part, 1, kMostNodes, place));
      continue;
    }
    const int64_t first = answers::parse_integer(part.substr(0, dots), 1, kMostNodes, place);
    const int64_t last = answers::parse_integer(part.substr(dots + 2), 1, kMostNodes, place);
    if (last < first)
      throw InputError(place, fmt::format("\"{}\" ends before it begins: write {}..{}", part, last, first));
    add_range(first, last, out);
  }
  return {out.begin(), out.end()};
}

double parse_dollars(std::string_view text, const Place& place) {
  std::string rest;
  for (const char c : text) {
    if (c != ',' && c != ' ' && c != '_') rest += c;
  }
  const auto end = rest.find_first_not_of("0123456789.");
  const std::string number = rest.substr(0, end);
  std::string unit = end == std::string::npos ? "" : rest.substr(end);
  double scale = 1;
  for (const auto& [letter, factor] : {std::pair{'k', 1e3}, std::pair{'M', 1e6}, std::pair{'G', 1e9}}) {
    if (unit.empty() || unit[0] != letter) continue;
    scale = factor;
    unit.erase(0, 1);
    break;
  }
  if (unit != "USD")
    throw InputError(place, fmt::format("\"{}\" is no sum in US dollars: write 8000USD, 50kUSD or 2MUSD{}",
                                        base::printable(std::string(text)),
                                        unit.empty() ? "" : "; other currencies are not converted"));
  const double value = answers::parse_real(number, 0, 1e15, place) * scale;
  if (!(value > 0)) throw InputError(place, "a budget is above 0");
  return value;
}

}  // namespace tandem::plan
