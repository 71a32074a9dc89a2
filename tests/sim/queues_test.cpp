// SPDX-License-Identifier: Apache-2.0
#include "sim/network/queues.h"

#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

TEST(LinkQueues, ServesInOrderAndNeverIdles) {
  LinkQueues q({1e12, 0.5e12});  // 1 and 2 ps a byte
  const std::vector<Use> both{{0, 1}, {1, 1}}, first{{0, 1}};
  EXPECT_EQ(q.pass(0, both, 0, 10), 20);      // the slower link decides
  EXPECT_EQ(q.pass(0, first, 0, 10), 20);     // behind 10 ps of the one before
  EXPECT_EQ(q.pass(5, both, 0, 10), 40);      // behind it on the second link, though free on the first at 30
  EXPECT_EQ(q.pass(100, first, 0, 10), 110);  // idle again
}

TEST(LinkQueues, CapsSingleTransfersOnly) {
  LinkQueues q({1e12});
  const std::vector<Use> uses{{0, 1}};
  EXPECT_EQ(q.pass(0, uses, 0.25e12, 10), 40);
  EXPECT_EQ(q.pass(0, uses, 0.25e12, 10), 40);  // side by side: the link has room for four
}

TEST(LinkQueues, NeverPassesALinkWithoutCapacity) {
  LinkQueues q({0.0});
  EXPECT_EQ(q.pass(3, std::vector<Use>{{0, 1}}, 0, 10), kNever);
}

}  // namespace
}  // namespace tandem::tests
