// SPDX-License-Identifier: Apache-2.0
// Copies and launches of a device that its host runs ahead of, emulated by queues before the CPU's kernels.
#include "app/measure/measure_device.h"

#include <gtest/gtest.h>

#include <map>

#include "app/measure/cross_check.h"
#include "tests/exec/deferred.h"

namespace tandem::tests {
namespace {

Backend emulated(int64_t (*units)()) {
  Backend b = backends_registry().at("cpu");
  b.asynchronous = true;
  b.units = units;
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    return std::make_unique<DeferredDevice>(backends_registry().at("cpu").open(options));
  };
  return b;
}

std::map<CopyWay, int> ways(const Measurements& m) {
  std::map<CopyWay, int> out;
  for (const MeasuredTransfer& t : m.copy) {
    EXPECT_GT(t.seconds, 0) << name(t.way) << " " << t.bytes;
    ++out[t.way];
  }
  return out;
}

TEST(MeasureDevice, TimesEveryWayThatThereIs) {
  Measurements two, one, cpu;
  constexpr int64_t kLargest = int64_t{64} << 20;
  measure_device(emulated([] { return int64_t{2}; }), two, kLargest);
  const std::map<CopyWay, int> all = ways(two);
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kCopyWays));
  for (const auto& [way, sizes] : all)
    EXPECT_EQ(sizes, way == CopyWay::host_update ? 4 : 9) << name(way) << ": 1 KiB to 64 MiB";
  EXPECT_GT(two.launch.issue, 0);
  EXPECT_GT(two.launch.round_trip, 0);
  measure_device(emulated([] { return int64_t{1}; }), one, kLargest);
  EXPECT_EQ(ways(one).count(CopyWay::peer), 0U) << "there is no other device";
  EXPECT_EQ(ways(one).size(), static_cast<std::size_t>(kCopyWays - 1));
  measure_device(backends_registry().at("cpu"), cpu);
  EXPECT_EQ(ways(cpu).size(), 1U);
  EXPECT_EQ(ways(cpu).count(CopyWay::memory), 1U);
  EXPECT_EQ(cpu.launch.issue, 0);
}

TEST(MeasureDevice, TimesAllReducesBySizeAndCount) {
  Measurements m;
  measure_collectives(
      emulated([] { return int64_t{2}; }), 3, 1 << 16, [](const std::string&, double) {}, nullptr, m);
  ASSERT_EQ(m.all_reduce.size(), 10U) << "2 and 3 workers, 5 sizes each";
  for (std::size_t i = 0; i < m.all_reduce.size(); ++i) {
    const MeasuredTransfer& t = m.all_reduce[i];
    const double hidden = static_cast<double>(8 << i % 5);
    EXPECT_EQ(t.ranks, i < 5 ? 2 : 3);
    EXPECT_EQ(t.bytes, 4 * (9 * hidden + (hidden + 1) * hidden + (hidden + 1) * 10)) << "one bucket";
    EXPECT_GT(t.seconds, 0);
  }
}

}  // namespace
}  // namespace tandem::tests
