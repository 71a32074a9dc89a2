// SPDX-License-Identifier: Apache-2.0
#pragma once
// A figure and how far off it may be.
#include <algorithm>
#include <initializer_list>

#include "base/json.h"

namespace tandem::plan {

/// low <= value <= high; about nine times in ten the true figure lies between the bounds, where the source of
/// the figure says how sure it is. Sums and products keep the bounds as if all terms erred in one direction,
/// so that they are rather too wide. The unit is that of the field that holds it.
struct Estimate {
  double low = 0, value = 0, high = 0;
  Estimate() = default;
  Estimate(double exact) : low(exact), value(exact), high(exact) {}
  Estimate(double least, double middle, double most) : low(least), value(middle), high(most) {}
  Estimate& operator+=(const Estimate& other) {
    low += other.low, value += other.value, high += other.high;
    return *this;
  }
  friend Estimate operator+(Estimate a, const Estimate& b) { return a += b; }
  /// Of figures that are not negative.
  friend Estimate operator*(const Estimate& a, const Estimate& b) {
    return {a.low * b.low, a.value * b.value, a.high * b.high};
  }
  /// Of a figure that is not negative over one above 0.
  friend Estimate operator/(const Estimate& a, const Estimate& b) {
    return {a.low / b.high, a.value / b.value, a.high / b.low};
  }
  bool operator==(const Estimate&) const = default;
};

/// The sum of figures that err independently of each other: the distances of the bounds add in quadrature.
Estimate independent_sum(std::initializer_list<Estimate> terms);

/// What is left of 1 of a share.
inline Estimate rest_of(const Estimate& share) {
  return {std::max(0.0, 1 - share.high), std::max(0.0, 1 - share.value), std::max(0.0, 1 - share.low)};
}

/// A number, or [low, value, high], each within [least, most]. Throws InputError.
Estimate read_estimate(const Json& json, double least, double most);

/// US dollars.
using Money = Estimate;

}  // namespace tandem::plan
