// SPDX-License-Identifier: Apache-2.0
#pragma once
// Days on which figures were true: prices above all. Nothing here reads a clock.
#include <compare>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::plan {

/// A day of the Gregorian calendar, or a month or a year where the source says no more (day, or month and
/// day, are then 0). Compared by the earliest day that it may mean.
struct Date {
  int year = 0, month = 0, day = 0;
  /// "2026-11-09", "2026-11" or "2026", from 1970 to 9999. Throws InputError at `place`.
  static Date parse(std::string_view text, const Place& place = {});
  std::string text() const;
  auto operator<=>(const Date&) const = default;
};

/// Days from one to the other, each taken as the earliest day that it may mean; negative if `to` is earlier.
int days_between(const Date& from, const Date& to);
/// "3 days old", "20 months old", "4 years old": of `date` on `today`. "today" for the same day.
std::string age_text(const Date& date, const Date& today);

}  // namespace tandem::plan
