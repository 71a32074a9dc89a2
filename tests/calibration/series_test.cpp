// SPDX-License-Identifier: Apache-2.0
#include "calibration/validate/series.h"

#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

TEST(AskedOnce, WhatTablesAskTwiceGoesTogetherAndTheMostDevicesFirst) {
  const Json table = Json::parse(R"({"rows": [
    {"model": "gpt2", "batch": 8, "value": 1, "note": "first"},
    {"model": "gpt2", "batch": 16, "value": 2},
    {"model": "gpt2", "batch": 8, "value": 3},
    {"model": "gpt2", "batch": 8, "value": 4, "precision": "fp16"}]})",
                                 "table");
  const Json other = Json::parse(R"({"rows": [{"model": "gpt2", "batch": 8, "value": 5}]})", "other");
  std::vector<Asked> all;
  for (const Json& row : table.at("rows").items()) all.push_back({&row, &table, 2});
  all.push_back({other.at("rows").items().data(), &other, 3});
  constexpr std::string_view kTold[] = {"value", "note"};
  std::vector<std::vector<std::size_t>> members;
  for (const AskedOnce& group : asked_once(all, kTold)) members.push_back(group.members);
  EXPECT_EQ(members, (std::vector<std::vector<std::size_t>>{{0, 2}, {4}, {1}, {3}}));
}

}  // namespace
}  // namespace tandem::tests
