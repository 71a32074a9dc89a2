// SPDX-License-Identifier: Apache-2.0
#include "sim/evaluate/inbox.h"

#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

/// A version that says where it belongs.
constexpr uint32_t stamp(uint32_t instance, uint32_t key, uint32_t source, uint32_t number) {
  return 1000 * instance + 100 * key + 10 * source + number;
}

TEST(Inbox, KeepsEveryBoxApartWhileItGrows) {
  constexpr uint32_t kInstances = 3, kKeys = 2, kSources = 2, kMessages = 5;
  sim::Inbox inbox(kInstances, kKeys, kSources);
  for (uint32_t n = 1; n <= kMessages; ++n) {
    for (uint32_t i = 0; i < kInstances; ++i) {
      for (uint32_t k = 0; k < kKeys; ++k) {
        for (uint32_t s = 0; s < kSources; ++s) {
          inbox.arrive(i, k, s, n, stamp(i, k, s, n));
        }
      }
    }
  }
  for (uint32_t n = 1; n <= kMessages; ++n) {
    for (uint32_t i = 0; i < kInstances; ++i) {
      for (uint32_t k = 0; k < kKeys; ++k) {
        ASSERT_TRUE(inbox.ready(i, k));
        inbox.take(i, k);
        EXPECT_EQ(inbox.taken(i, k), n);
        for (uint32_t s = 0; s < kSources; ++s) EXPECT_EQ(inbox.version(i, k, s), stamp(i, k, s, n));
      }
    }
  }
  EXPECT_FALSE(inbox.ready(0, 0));
}

TEST(Inbox, IsReadyWhenAllSourcesHaveSentTheNextOne) {
  sim::Inbox inbox(1, 1, 2);
  inbox.arrive(0, 0, 0, 1, 7);
  inbox.arrive(0, 0, 0, 2, 8);  // two of one source are not one of both
  EXPECT_FALSE(inbox.ready(0, 0));
  inbox.arrive(0, 0, 1, 1, 9);
  ASSERT_TRUE(inbox.ready(0, 0));
  inbox.take(0, 0);
  EXPECT_EQ(inbox.version(0, 0, 0), 7);
  EXPECT_EQ(inbox.version(0, 0, 1), 9);
  EXPECT_FALSE(inbox.ready(0, 0)) << "the second of source 1 is missing";
}

}  // namespace
}  // namespace tandem::tests
