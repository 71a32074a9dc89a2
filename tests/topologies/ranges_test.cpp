// SPDX-License-Identifier: Apache-2.0
#include "topologies/ranges.h"

#include <gmock/gmock.h>

namespace tandem::tests {
namespace {

using testing::ElementsAre;

TEST(Ranges, ExpandInOrder) {
  EXPECT_THAT(expand_range("cpu", {}), ElementsAre("cpu"));
  EXPECT_THAT(expand_range("gpu3", {}), ElementsAre("gpu3"));
  EXPECT_THAT(expand_range("gpu[0-2]", {}), ElementsAre("gpu0", "gpu1", "gpu2"));
  EXPECT_THAT(expand_range("gpu[5,0-1,7]", {}), ElementsAre("gpu5", "gpu0", "gpu1", "gpu7"));
  EXPECT_EQ(expand_range("gpu[1-1024]", {}).size(), 1024u);
}

TEST(Ranges, RefuseMalformedAndHostileOnes) {
  for (const char* bad : {"",
                          "[0-3]",
                          "gpu[",
                          "gpu[]",
                          "gpu[0-3",
                          "gpu[0-3]x",
                          "gpu[3-0]",
                          "gpu[a]",
                          "gpu[-1]",
                          "gpu[0,]",
                          "gpu[0--1]",
                          "gpu[1.5]",
                          "gpu 0",
                          "gpu>0",
                          "g\"pu",
                          "gpu[0-99999999]",
                          "gpu[0-18446744073709551615]",
                          "gpu[0-18446744073709551616]",
                          "gpu[0-1023,1024]",
                          "gpu[18446744073709551615-18446744073709551615,0-1023]"}) {
    EXPECT_THROW(expand_range(bad, {}), InputError) << bad;
  }
}

}  // namespace
}  // namespace tandem::tests
