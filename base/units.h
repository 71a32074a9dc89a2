// SPDX-License-Identifier: Apache-2.0
#pragma once
// One type per quantity: no implicit conversion between them, text with a mandatory unit at the edge.
//
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::base {

/// a + b, a * b in int64; throw InputError("<what> is too large") on overflow.
int64_t checked_add(int64_t a, int64_t b, const char* what = "a quantity");
int64_t checked_mul(int64_t a, int64_t b, const char* what = "a quantity");

/// A span or point of virtual or real time in integer picoseconds; range +-106 days. Sums are checked.
struct Time {
  int64_t ps = 0;
  auto operator<=>(const Time&) const = default;
  double seconds() const { return static_cast<double>(ps) * 1e-12; }
  /// Rounds to the nearest picosecond; throws InputError beyond the range or for NaN.
  static Time from_seconds(double s);
};
inline Time operator+(Time a, Time b) { return {checked_add(a.ps, b.ps, "simulated time (limit 106 days)")}; }
inline Time operator-(Time a, Time b) { return {a.ps - b.ps}; }
inline Time operator*(Time a, int64_t k) { return {checked_mul(a.ps, k, "simulated time (limit 106 days)")}; }
inline Time& operator+=(Time& a, Time b) { return a = a + b; }

/// A number of bytes. Sums and products are checked.
struct Bytes {
  int64_t n = 0;
  auto operator<=>(const Bytes&) const = default;
};
inline Bytes operator+(Bytes a, Bytes b) { return {checked_add(a.n, b.n, "a byte count")}; }
inline Bytes operator-(Bytes a, Bytes b) { return {a.n - b.n}; }
inline Bytes operator*(Bytes a, int64_t k) { return {checked_mul(a.n, k, "a byte count")}; }
inline Bytes& operator+=(Bytes& a, Bytes b) { return a = a + b; }

/// Floating-point operations; a multiply-add counts 2.
struct Flops {
  int64_t n = 0;
  auto operator<=>(const Flops&) const = default;
};
inline Flops operator+(Flops a, Flops b) { return {checked_add(a.n, b.n, "a FLOP count")}; }
inline Flops operator*(Flops a, int64_t k) { return {checked_mul(a.n, k, "a FLOP count")}; }
inline Flops& operator+=(Flops& a, Flops b) { return a = a + b; }

/// Bytes per second, one direction.
struct Bandwidth {
  double bytes_per_second = 0;
  auto operator<=>(const Bandwidth&) const = default;
};
/// Floating-point operations per second.
struct FlopRate {
  double flops_per_second = 0;
  auto operator<=>(const FlopRate&) const = default;
};

// Readers of text with a mandatory unit. Each throws InputError at `place` that says what is valid.
// Units: ps ns us ms s min h; B KB MB GB TB KiB MiB GiB TiB; B/s..TB/s, MiB/s.., Kbit/s..Tbit/s;
// FLOP MFLOP.. PFLOP; FLOP/s..PFLOP/s; W kW. Decimal prefixes are powers of 1000, binary ones of 1024.
// Negative, infinite and NaN values are refused.
Time parse_time(std::string_view text, const Place& place = {});
/// In seconds, of spans that nothing simulates and that may be longer than a Time: also "d", days.
double parse_seconds(std::string_view text, const Place& place = {});
Bytes parse_bytes(std::string_view text, const Place& place = {});
Bandwidth parse_bandwidth(std::string_view text, const Place& place = {});
FlopRate parse_flop_rate(std::string_view text, const Place& place = {});
Flops parse_flops(std::string_view text, const Place& place = {});
/// In watts.
double parse_watts(std::string_view text, const Place& place = {});

// Writers for people: three significant digits and the fitting unit ("25 us", "11.0 GiB", "12.5 GB/s").
std::string to_text(Time t);
/// "48.8 h", "20.3 d": seconds that may be longer than a Time.
std::string seconds_text(double seconds);
std::string to_text(Bytes b);
std::string to_text(Bandwidth b);
std::string to_text(FlopRate r);
std::string to_text(Flops f);
/// 138357544 -> "138.4 M": plain counts with K, M, G, T.
std::string count_text(double n);

/// 1234567 -> "1,234,567"; from 1000 up without decimals, below with up to three significant digits.
std::string grouped(double value);
/// The same of a count: 58 -> "58", 1234567 -> "1,234,567".
std::string whole(int64_t count);

}  // namespace tandem::base
