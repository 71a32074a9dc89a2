// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace tandem::base {

int64_t checked_add(int64_t a, int64_t b, const char* what) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) throw InputError(fmt::format("{} is too large", what));
  return out;
}

int64_t checked_mul(int64_t a, int64_t b, const char* what) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) throw InputError(fmt::format("{} is too large", what));
  return out;
}

Time Time::from_seconds(double s) {
  const double ps = s * 1e12;
  if (!(std::abs(ps) < 9.2e18)) throw InputError("simulated time (limit 106 days) is too large");
  return {std::llround(ps)};
}

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kTime[] = {{"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                          {"s", 1},      {"min", 60},  {"h", 3600}};
constexpr Unit kSpans[] = {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
constexpr double kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi;
constexpr Unit kBytes[] = {{"B", 1},     {"KB", 1e3},  {"kB", 1e3},  {"MB", 1e6},  {"GB", 1e9},
                           {"TB", 1e12}, {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}};
constexpr Unit kBandwidth[] = {{"B/s", 1},      {"KB/s", 1e3},      {"MB/s", 1e6},      {"GB/s", 1e9},
                               {"TB/s", 1e12},  {"MiB/s", kMi},     {"GiB/s", kGi},     {"bit/s", 0.125},
                               {"Kbit/s", 125}, {"Mbit/s", 1.25e5}, {"Gbit/s", 1.25e8}, {"Tbit/s", 1.25e11},
                               {"Gb/s", 1.25e8}};
constexpr Unit kFlops[] = {{"FLOP", 1},    {"KFLOP", 1e3},  {"MFLOP", 1e6},
                           {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}};
constexpr Unit kFlopRate[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
constexpr Unit kWatts[] = {{"W", 1}, {"kW", 1e3}, {"MW", 1e6}};

double parse(std::string_view text, std::span<const Unit> units, const char* what, const char* example,
             const Place& place) {
  const auto fail = [&](const std::string& why) -> double {
    std::string names;
    for (const Unit& u : units) names += (names.empty() ? "" : ", ") + std::string(u.name);
    throw InputError(
        place, fmt::format("\"{}\" is not a {}: {}. Write a number and its unit, such as \"{}\"; units: {}",
                           printable(text), what, why, example, names));
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return fail("no number at its start");
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (!std::isfinite(number)) return fail("not a finite number");
  if (number < 0) return fail("it is negative");
  if (unit.empty()) return fail("the unit is missing");
  for (const Unit& u : units) {
    if (u.name != unit) continue;
    const double value = number * u.factor;
    return std::isfinite(value) ? value : fail("it is too large");
  }
  return fail(fmt::format("unknown unit \"{}\"", printable(unit)));
}

int64_t whole(double value, std::string_view text, const char* what, const Place& place) {
  if (!(value < 9.2e18))
    throw InputError(place, fmt::format("{} \"{}\" is too large", what, printable(text)));
  return std::llround(value);
}

struct Scale {
  double from;
  double factor;
  const char* name;
};

std::string scaled(double value, std::span<const Scale> scales) {
  const Scale* chosen = &scales.front();
  for (const Scale& s : scales) {
    if (std::abs(value) >= s.from) chosen = &s;
  }
  const double v = value / chosen->factor;
  const int digits = std::abs(v) >= 99.95 ? 0 : std::abs(v) >= 9.995 ? 1 : 2;
  std::string number = fmt::format("{:.{}f}", v, digits);
  if (number.find('.') != std::string::npos) {
    while (number.back() == '0') number.pop_back();
    if (number.back() == '.') number.pop_back();
  }
  return chosen->name[0] == '\0' ? number : number + " " + chosen->name;
}

}  // namespace

Time parse_time(std::string_view text, const Place& place) {
  return {whole(parse(text, kTime, "time", "25us", place) * 1e12, text, "time", place)};
}
double parse_seconds(std::string_view text, const Place& place) {
  return parse(text, kSpans, "time", "30min", place);
}
Bytes parse_bytes(std::string_view text, const Place& place) {
  return {whole(parse(text, kBytes, "size", "25MiB", place), text, "size", place)};
}
Bandwidth parse_bandwidth(std::string_view text, const Place& place) {
  return {parse(text, kBandwidth, "bandwidth", "12GB/s", place)};
}
FlopRate parse_flop_rate(std::string_view text, const Place& place) {
  return {parse(text, kFlopRate, "compute rate", "15.7TFLOP/s", place)};
}
Flops parse_flops(std::string_view text, const Place& place) {
  return {whole(parse(text, kFlops, "FLOP count", "8.2GFLOP", place), text, "FLOP count", place)};
}
double parse_watts(std::string_view text, const Place& place) {
  return parse(text, kWatts, "power", "300W", place);
}

std::string seconds_text(double seconds) {
  static constexpr Scale kScales[] = {{0, 1e-9, "ns"},  {1e-6, 1e-6, "us"}, {1e-3, 1e-3, "ms"},  {1, 1, "s"},
                                      {600, 60, "min"}, {36000, 3600, "h"}, {864000, 86400, "d"}};
  return scaled(seconds, kScales);
}
std::string to_text(Time t) {
  static constexpr Scale kScales[] = {{0, 1e-9, "ns"}, {1e-6, 1e-6, "us"}, {1e-3, 1e-3, "ms"},
                                      {1, 1, "s"},     {600, 60, "min"},   {36000, 3600, "h"}};
  return scaled(t.seconds(), kScales);
}
std::string to_text(Bytes b) {
  static constexpr Scale kScales[] = {
      {0, 1, "B"}, {kKi, kKi, "KiB"}, {kMi, kMi, "MiB"}, {kGi, kGi, "GiB"}, {kTi, kTi, "TiB"}};
  return scaled(static_cast<double>(b.n), kScales);
}
std::string to_text(Bandwidth b) {
  static constexpr Scale kScales[] = {
      {0, 1, "B/s"}, {1e3, 1e3, "KB/s"}, {1e6, 1e6, "MB/s"}, {1e9, 1e9, "GB/s"}, {1e12, 1e12, "TB/s"}};
  return scaled(b.bytes_per_second, kScales);
}
std::string to_text(FlopRate r) {
  static constexpr Scale kScales[] = {{0, 1, "FLOP/s"},
                                      {1e6, 1e6, "MFLOP/s"},
                                      {1e9, 1e9, "GFLOP/s"},
                                      {1e12, 1e12, "TFLOP/s"},
                                      {1e15, 1e15, "PFLOP/s"}};
  return scaled(r.flops_per_second, kScales);
}
std::string to_text(Flops f) {
  static constexpr Scale kScales[] = {
      {0, 1, "FLOP"}, {1e6, 1e6, "MFLOP"}, {1e9, 1e9, "GFLOP"}, {1e12, 1e12, "TFLOP"}, {1e15, 1e15, "PFLOP"}};
  return scaled(static_cast<double>(f.n), kScales);
}
std::string count_text(double n) {
  static constexpr Scale kScales[] = {
      {0, 1, ""}, {1e3, 1e3, "K"}, {1e6, 1e6, "M"}, {1e9, 1e9, "G"}, {1e12, 1e12, "T"}};
  return scaled(n, kScales);
}

std::string grouped(double value) {
  const double size = std::abs(value);
  std::string text = fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
  const std::size_t stop = text[0] == '-' ? 1 : 0;
  for (std::size_t at = std::min(text.find('.'), text.size()); at > stop + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string whole(int64_t count) {
  return count < 1000 ? std::to_string(count) : grouped(static_cast<double>(count));
}

}  // namespace tandem::base
