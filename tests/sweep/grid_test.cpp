// SPDX-License-Identifier: Apache-2.0
// How options become axes, cells and shards.
#include "sweep/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/sweep/grids.h"

namespace tandem::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Given with(Given options) {
  Given out = {{"model", "lenet5"}, {"system", "dgx1-v100"}, {"devices", "1"}};
  out.insert(out.end(), options.begin(), options.end());
  return out;
}

/// The values of an axis by its column.
std::vector<std::string> axis(const Given& options, const std::string& column) {
  const sweep::Grid grid = grid_of(with(options));
  for (const sweep::Axis& a : grid.axes()) {
    if (a.column == column) return a.values;
  }
  return {};
}

TEST(Grids, DivideListsAtTheirCommas) {
  EXPECT_THAT(axis({{"batch", "8,16"}}, "batch"), ElementsAre("8", "16"));
  EXPECT_THAT(axis({{"batch", "8,16"}, {"batch", "4"}}, "batch"), ElementsAre("8", "16", "4"));
  EXPECT_THAT(axis({{"scheme", "hybrid:tensor=2,pipeline=2,fsdp"}}, "scheme"),
              ElementsAre("hybrid:tensor=2,pipeline=2", "fsdp"));
  EXPECT_THAT(axis({{"memory", "weights=fp32,update=each"}, {"memory", "default"}}, "memory"),
              ElementsAre("weights=fp32,update=each", "default"));
  EXPECT_THAT(axis({{"place", "0,1"}, {"place", "0,4"}}, "place"), ElementsAre("0,1", "0,4"));
  EXPECT_THAT(axis({{"set", "nodes=1,2"}, {"set", "host.cores=default,12"}}, "set.nodes"),
              ElementsAre("nodes=1", "nodes=2"));
  EXPECT_THAT(axis({{"set", "nodes=1,2"}, {"set", "host.cores=default,12"}}, "set.host.cores"),
              ElementsAre("default", "host.cores=12"));
  EXPECT_THAT(axis({{"with", "1 lenet5,2 lenet5"}, {"with", "1 vgg16"}}, "with_2"), ElementsAre("1 vgg16"));
  EXPECT_THAT(axis({{"swap", "device=rtx-3090,rtx-4090"}}, "swap"),
              ElementsAre("device=rtx-3090", "device=rtx-4090"));
}

TEST(Grids, HaveEveryCombinationOnce) {
  const sweep::Grid grid = grid_of(small_grid());
  EXPECT_EQ(grid.cells(), 144);
  std::set<std::vector<std::string>> seen;
  for (int64_t i = 0; i < grid.cells(); ++i) EXPECT_TRUE(seen.insert(grid.values(i)).second) << i;
}

TEST(Grids, ComeBackFromJson) {
  const sweep::Grid grid = grid_of(small_grid());
  EXPECT_TRUE(sweep::Grid::from_json(Json::parse(grid.to_json().dump(), "grid")) == grid);
}

TEST(Grids, KnowNoOrderOfTheOptions) {
  Given options = small_grid();
  const sweep::Grid grid = grid_of(options);
  std::reverse(options.begin(), options.end());
  EXPECT_TRUE(grid_of(options) == grid);
}

TEST(Grids, RefuseWhatIsNoGrid) {
  const auto refusal = [](const Given& options) -> std::string {
    try {
      grid_of(with(options));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({{"batch", "8,16,8"}}), HasSubstr("--batch: 8 is there twice"));
  EXPECT_THAT(refusal({{"batch", "8,08"}}), HasSubstr("there twice"));
  EXPECT_THAT(refusal({{"batch", "default,32"}}), HasSubstr("there twice"));
  EXPECT_THAT(refusal({{"staged", "default,false"}}), HasSubstr("there twice"));
  EXPECT_EQ(refusal({{"seed", "9007199254740992,9007199254740993"}}), "");  // the same as real numbers
  EXPECT_THAT(refusal({{"batch", "8,"}}), HasSubstr("empty value"));
  EXPECT_THAT(refusal({{"set", "nodes"}}), HasSubstr("path=value"));
  EXPECT_THAT(refusal({{"set", "nodes=1,host.cores=2"}}), HasSubstr("two things"));
  EXPECT_THAT(refusal({{"set", "nodes=1"}, {"set", "nodes=2"}}), HasSubstr("nodes=A,B"));
  EXPECT_THAT(refusal({{"staged", "perhaps"}}), HasSubstr("neither true nor false"));
  std::string many = "1";
  for (int i = 2; i <= 5000; ++i) many += "," + std::to_string(i);
  EXPECT_THAT(refusal({{"batch", many}, {"seed", many}}), HasSubstr("more than 10000000 cells"));
}

TEST(Shards, AreAllOfTheGridAndShareNothing) {
  const sweep::Grid grid = grid_of(small_grid());
  for (const int64_t count : {1, 2, 3, 8, 100, 1000}) {
    std::multiset<int64_t> all;
    for (int64_t i = 0; i < count; ++i) {
      for (const int64_t position : grid.order({i, count})) all.insert(position);
    }
    EXPECT_EQ(all.size(), 144u) << count;
    EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 144u) << count;
  }
}

/// The cells with the most devices are every eighth, say: no shard gets them all.
TEST(Shards, AreEvenWhateverStride) {
  for (const int64_t count : {2, 7, 8, 64}) {
    for (const int64_t stride : {1, 2, 7, 8, 64, 100}) {
      std::vector<int64_t> of(static_cast<std::size_t>(count));
      const int64_t cells = 100 * count;
      for (int64_t i = 0; i < cells; ++i)
        ++of[static_cast<std::size_t>(sweep::Shard::index_of(i * stride, count))];
      for (const int64_t each : of) EXPECT_NEAR(static_cast<double>(each), 100, 25) << count << " " << stride;
    }
  }
}

TEST(Shards, AreNumberedFromZero) {
  const Place place = option_place("shard");
  EXPECT_EQ(sweep::Shard::parse("7/8", place).text(), "7/8");
  EXPECT_THAT(refusal_of([&] { sweep::Shard::parse("8/8", place); }), HasSubstr("numbered 0 to 7"));
  EXPECT_THAT(refusal_of([&] { sweep::Shard::parse("3", place); }), HasSubstr("not i/n"));
  EXPECT_THROW(sweep::Shard::parse("-1/8", place), UsageError);
  EXPECT_THROW(sweep::Shard::parse("0/0", place), UsageError);
  EXPECT_EQ(sweep::shard_file("a/grid.sqlite", {3, 8}), "a/grid.shard-3-of-8.sqlite");
  EXPECT_EQ(sweep::shard_file("grid.sqlite", {}), "grid.sqlite");
}

TEST(Order, KeepsTogetherWhatTrainsTheSame) {
  const sweep::Grid grid = grid_of(small_grid());
  const std::vector<int64_t> order = grid.order({});
  std::set<std::vector<std::string>> before;
  std::vector<std::string> last;
  for (const int64_t position : order) {
    std::vector<std::string> training;
    const std::vector<std::string> values = grid.values(position);
    for (std::size_t a = 0; a < values.size(); ++a) {
      if (!sweep::of_machine(grid.axes()[a].option)) training.push_back(values[a]);
    }
    if (training == last) continue;
    EXPECT_TRUE(before.insert(training).second);
    last = training;
  }
  EXPECT_EQ(before.size(), 12u);
}

}  // namespace
}  // namespace tandem::tests
