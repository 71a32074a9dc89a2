// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem::tests {
namespace {

TEST(Units, AreReadExactly) {
  EXPECT_EQ(parse_time("25us").ps, 25'000'000);
  EXPECT_EQ(parse_time("1.5 ms").ps, 1'500'000'000);
  EXPECT_EQ(parse_time("2h").ps, 7'200'000'000'000'000);
  EXPECT_EQ(parse_bytes("25MiB").n, 25 << 20);
  EXPECT_EQ(parse_bytes("25MB").n, 25'000'000);
  EXPECT_DOUBLE_EQ(parse_bandwidth("100Gbit/s").bytes_per_second, 12.5e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("1GiB/s").bytes_per_second, 1073741824.0);
  EXPECT_DOUBLE_EQ(parse_flop_rate("15.7TFLOP/s").flops_per_second, 15.7e12);
  EXPECT_EQ(parse_flops("8.2GFLOP").n, 8'200'000'000);
  EXPECT_EQ(parse_watts("0.3kW"), 300);
}

TEST(Units, RefuseWhatIsNotAQuantity) {
  for (const char* text : {"", "25", "us", "-1us", "nanus", "infus", "1e999us", "25 parsec", "25uss",
                           "0x10us", "1,5us", "25us ", "10MiB"}) {
    EXPECT_THROW(parse_time(text), InputError) << text;
  }
  EXPECT_THROW(parse_bytes("1e19B"), InputError);
  EXPECT_THROW(parse_bytes("9e6TiB TiB"), InputError);
  EXPECT_THROW(parse_bandwidth("1e300TB/s"), InputError) << "the product is infinite";
}

TEST(Units, ErrorsNameThePlaceAndTheUnits) {
  const Place place{std::make_shared<const std::string>("box.json"), 3, 9};
  try {
    parse_bandwidth("32", place);
    FAIL() << "a bare number was read";
  } catch (const InputError& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.rfind("box.json:3:9: ", 0), 0u) << what;
    EXPECT_NE(what.find("GB/s"), std::string::npos) << what;
    EXPECT_NE(what.find("unit is missing"), std::string::npos) << what;
  }
}

TEST(Units, SumsAndProductsAreChecked) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((Bytes{most - 1} + Bytes{1}).n, most);
  EXPECT_THROW(Bytes{most} + Bytes{1}, InputError);
  EXPECT_THROW(Bytes{most / 2} * 3, InputError);
  EXPECT_THROW(Time{most} + Time{1}, InputError);
  EXPECT_THROW(Flops{most} * 2, InputError);
  EXPECT_THROW(checked_mul(most, -2), InputError);
  EXPECT_EQ(checked_add(-5, 3), -2);
}

TEST(Units, SecondsRoundToPicoseconds) {
  EXPECT_EQ(Time::from_seconds(1.4e-12).ps, 1);
  EXPECT_EQ(Time::from_seconds(0.365).ps, 365'000'000'000);
  EXPECT_DOUBLE_EQ(Time{365'000'000'000}.seconds(), 0.365);
  EXPECT_THROW(Time::from_seconds(1e8), InputError);
  EXPECT_THROW(Time::from_seconds(std::numeric_limits<double>::quiet_NaN()), InputError);
  EXPECT_THROW(Time::from_seconds(std::numeric_limits<double>::infinity()), InputError);
}

TEST(Units, AreWrittenForPeople) {
  EXPECT_EQ(to_text(Time{25'000'000}), "25 us");
  EXPECT_EQ(to_text(Time{0}), "0 ns");
  EXPECT_EQ(to_text(Bytes{11LL << 30}), "11 GiB");
  EXPECT_EQ(to_text(Bandwidth{12.5e9}), "12.5 GB/s");
  EXPECT_EQ(to_text(FlopRate{15.7e12}), "15.7 TFLOP/s");
  EXPECT_EQ(count_text(138357544), "138 M");
  EXPECT_EQ(count_text(25.6e6), "25.6 M");
  EXPECT_EQ(count_text(999), "999");
}

TEST(Units, WhatIsWrittenReadsBackWithinItsDigits) {
  for (int64_t n = 1; n < int64_t{1} << 50; n = n * 3 + 1) {
    EXPECT_NEAR(static_cast<double>(parse_bytes(to_text(Bytes{n})).n), static_cast<double>(n),
                0.006 * static_cast<double>(n) + 0.5);
    EXPECT_NEAR(static_cast<double>(parse_time(to_text(Time{n})).ps), static_cast<double>(n),
                0.006 * static_cast<double>(n) + 5);
  }
}

TEST(Units, SpansMayBeLongerThanATime) {
  EXPECT_EQ(parse_seconds("50000h"), 1.8e8);
  EXPECT_EQ(parse_seconds("2d"), 172800);
  EXPECT_EQ(parse_seconds("1.5 min"), 90);
  for (const char* bad : {"50000", "3weeks", "-1h", "nan h", ""})
    EXPECT_THROW(parse_seconds(bad), InputError) << bad;
  EXPECT_EQ(seconds_text(1.8e8), "2083 d");
  EXPECT_EQ(seconds_text(0.5), "500 ms");
}

}  // namespace
}  // namespace tandem::tests
