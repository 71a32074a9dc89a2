// SPDX-License-Identifier: Apache-2.0
// What a pattern costs under a protocol, by hand.
#include "sim/cost/pattern_price.h"

#include <gtest/gtest.h>

#include "sim/cost/libraries.h"
#include "sim/cost/tuner.h"

namespace tandem::tests {
namespace {

constexpr auto kFabric = static_cast<std::size_t>(HopClass::fabric);

/// A ring of two that halve a buffer: each sends one half and puts down the other.
Pattern ring_of_two(double steps) {
  Pattern p;
  p.ring_hop = 0.5;
  p.own_copy = 0.5;
  p.load[kFabric][0] = 0.5;
  p.steps[kFabric] = steps;
  return p;
}

Protocol protocol(const std::string& name) {
  Protocol p;
  p.name = name;
  p.base = 10e-6;
  p.step[kFabric] = 5e-6;
  p.efficiency[kFabric] = 0.5;
  return p;
}

PatternPrice priced(const Pattern& p, const Protocol& protocol, double own_rate) {
  Library library;
  library.own_rate = own_rate;
  return price(p, {}, protocol, library, Overheads{}, {100e9});
}

TEST(Price, WordsArePutDownAsFastAsTheyAreSentAndBulkAtTheRateOfTheCores) {
  const double sent = 0.5 / 0.5 / 100e9;
  EXPECT_NEAR(priced(ring_of_two(1), protocol("ll"), 200e9).seconds_per_byte, sent + sent, 1e-18);
  EXPECT_NEAR(priced(ring_of_two(1), protocol("simple"), 200e9).seconds_per_byte, sent + 0.5 / 200e9, 1e-18);
  EXPECT_NEAR(priced(ring_of_two(1), protocol("ll"), 0).seconds_per_byte, sent, 1e-18) << "no limit";
}

TEST(Slices, HideHalfOfTheShorterOfStepsAndTransfer) {
  const Pattern p = ring_of_two(6);  // 30 us
  const auto seconds = [&](const std::string& name, double bytes) {
    PatternPrice out = priced(p, protocol(name), 0);
    add_slices(out, bytes, p, protocol(name));
    return out.seconds(bytes);
  };
  EXPECT_NEAR(seconds("simple", 2e6), 10e-6 + 30e-6 + 20e-6 / 2, 1e-12);
  EXPECT_NEAR(seconds("simple", 1e7), 10e-6 + 100e-6 + 30e-6 / 2, 1e-12);
  EXPECT_NEAR(seconds("ll", 1e7), 10e-6 + 100e-6 + 30e-6, 1e-12) << "words have no slices";
}

TEST(Rounds, TakeAStepForEachMemberThatReduces) {
  Library library;
  library.switch_step = 1e-6;
  library.switch_channels = 16;
  const double size = 64 << 20;
  for (const std::size_t heads : {8, 32}) {
    Pattern p;
    p.heads = heads;
    PatternPrice out;
    out.seconds_per_byte = 1 / 300e9;
    add_rounds(out, size, p, library);
    const double round = switch_round(size, heads, 16), step = static_cast<double>(heads) * 1e-6;
    EXPECT_NEAR(out.latency, 2 * (step + round / 300e9) + size / round * step, 1e-12) << heads;
  }
}

/// 24 thread blocks on A100 and H100, 32 on B200, each by its clock.
TEST(Library, PutsDownByTheClockOfItsThreadBlocks) {
  const auto rate = [](const char* system) { return library_of(System::load(system)).own_rate; };
  EXPECT_NEAR(rate("dgx-h100") / rate("dgx-a100"), 1980.0 / 1410, 1e-9);
  EXPECT_NEAR(rate("hgx-h200") / rate("dgx-h100"), 1, 1e-9) << "whatever the memory";
  EXPECT_NEAR(rate("dgx-b200") / rate("dgx-h100"), 32.0 * 1965 / (24.0 * 1980), 1e-9);
}

}  // namespace
}  // namespace tandem::tests
