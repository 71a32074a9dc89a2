// SPDX-License-Identifier: Apache-2.0
#include "schemes/program/deps.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::tests {
namespace {

std::vector<uint32_t> ops(const Deps& deps) {
  std::vector<uint32_t> out;
  for (const Dep& d : deps) out.push_back(d.op);
  return out;
}

/// As a vector does, within what an op keeps in itself and beyond.
TEST(Deps, AreAVector) {
  std::vector<uint32_t> same;
  Deps deps;
  EXPECT_TRUE(deps.empty());
  for (uint32_t i = 0; i < 40; ++i) {
    deps.push_back({i * 0x10001, static_cast<uint16_t>(i)});
    same.push_back(i * 0x10001);
    EXPECT_EQ(ops(deps), same);
    EXPECT_EQ(deps[i].lag, i);
    Deps copy(deps);
    const Deps moved(std::move(copy));
    EXPECT_EQ(ops(moved), same);
    copy = moved;  // a moved one can be written again
    copy.push_back({7, 0});
    EXPECT_EQ(copy.size(), same.size() + 1);
    copy = copy.size() > 3 ? Deps{} : Deps{{1, 0}, {2, 0}, {3, 0}};
    EXPECT_EQ(ops(moved), same);
  }
  for (; !same.empty(); same.pop_back(), deps.pop_back()) EXPECT_EQ(ops(deps), same);
  EXPECT_THROW((void)deps.at(0), std::out_of_range);
  deps.push_back({5, 1});
  deps.clear();
  EXPECT_TRUE(deps.empty());
}

}  // namespace
}  // namespace tandem::tests
