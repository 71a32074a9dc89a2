// SPDX-License-Identifier: Apache-2.0
#include "plan/date.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <vector>

#include "base/text.h"

namespace tandem::plan {

namespace {

/// A number of exactly `digits` digits; -1 where it is none.
int number_of(std::string_view text, std::size_t digits) {
  int out = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool all = error == std::errc() && end == text.data() + text.size();
  return all && text.size() == digits && text.front() != '-' ? out : -1;
}

std::chrono::sys_days earliest(const Date& date) {
  return std::chrono::year(date.year) / std::max(1, date.month) / std::max(1, date.day);
}

std::string old(int64_t n, std::string_view unit) {
  return fmt::format("{} {}{} old", n, unit, n == 1 ? "" : "s");
}

}  // namespace

Date Date::parse(std::string_view text, const Place& place) {
  const auto parts = split(text, '-');
  Date out;
  out.year = number_of(parts[0], 4);
  if (parts.size() > 1) out.month = number_of(parts[1], 2);
  if (parts.size() > 2) out.day = number_of(parts[2], 2);
  bool valid = parts.size() <= 3 && out.year >= 1970;
  if (parts.size() > 1) valid = valid && out.month >= 1 && out.month <= 12;
  if (parts.size() > 2)
    valid = valid && (std::chrono::year(out.year) / std::max(1, out.month) / std::max(0, out.day)).ok();
  if (!valid)
    throw InputError(place, fmt::format("\"{}\" is no date. Valid: 2026-11-09, 2026-11 or 2026, from 1970",
                                        printable(text)));
  return out;
}

std::string Date::text() const {
  if (month == 0) return fmt::format("{:04}", year);
  if (day == 0) return fmt::format("{:04}-{:02}", year, month);
  return fmt::format("{:04}-{:02}-{:02}", year, month, day);
}

int days_between(const Date& from, const Date& to) {
  return static_cast<int>((earliest(to) - earliest(from)).count());
}

std::string age_text(const Date& date, const Date& today) {
  constexpr double kMonth = 365.25 / 12;
  const int days = days_between(date, today);
  if (days <= 0) return "today";
  if (days < 2 * kMonth) return old(days, "day");
  const auto months = static_cast<int64_t>(days / kMonth);
  return months < 48 ? old(months, "month") : old(months / 12, "year");
}

}  // namespace tandem::plan
