// SPDX-License-Identifier: Apache-2.0
// Data sets: the shipped one as published, files that are wrong, and how samples are dealt out.
#include "exec/data/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

TEST(Data, DigitsAreThePublishedOnes) {
  const Dataset train = load_dataset("digits", false), held_out = load_dataset("digits", true);
  EXPECT_EQ(train.samples() + held_out.samples(), 1797);
  EXPECT_EQ(held_out.samples(), 359);
  EXPECT_EQ(train.classes, 10);
  EXPECT_EQ(elements(train.shape), 64);
  int64_t of_class[10] = {};
  for (const Dataset* d : {&train, &held_out}) {
    for (const int32_t label : d->labels) ++of_class[label];
    for (const float v : d->values) ASSERT_TRUE(v >= 0 && v <= 1) << v;
  }
  const int64_t published[10] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(of_class[i], published[i]) << i;
}

TEST(Data, WrongFilesAreRefusedWithTheirLine) {
  const Scratch scratch;
  const struct {
    const char *content, *expected;
  } cases[] = {{"", "no samples"},
               {"# only words\n", "no samples"},
               {"1,2,0\n3,4\n", ":2: 2 columns where the first line has 3"},
               {"1,2,0\n3,4,5,1\n", ":2: more than 3 columns"},
               {"1,2,0\n3,x,1\n", ":2: \"x\" is not a number"},
               {"1,nan,0\n", ":1: \"nan\" is not a number"},
               {"1,inf,0\n", ":1: \"inf\" is not a number"},
               {"1,2,0.5\n", "the last column is the class"},
               {"1,2,-1\n", "the last column is the class"},
               {"1,2,1e30\n", "the last column is the class"},
               {"7\n", "at least one value and a class"}};
  for (const auto& c : cases) {
    const std::string path = scratch.write("d.csv", c.content);
    try {
      load_dataset(path, false);
      ADD_FAILURE() << c.content;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.expected)) << c.content;
    }
  }
  EXPECT_THROW(load_dataset("digitz", false), InputError);
  EXPECT_THROW(load_dataset(scratch.file("absent.csv"), false), InputError);
  EXPECT_THROW(load_dataset(scratch.write("few.csv", "1,0\n2,1\n"), true), InputError);
}

TEST(Data, EveryEpochDealsEverySampleOnce) {
  const Dataset data = load_dataset("digits", false);
  const int64_t n = data.samples(), workers = 2, batch = 7;
  std::multiset<int64_t> first;
  for (int64_t k = 0; k * workers * batch < n; ++k) {
    for (int64_t w = 0; w < workers; ++w) {
      const auto dealt = batch_samples(data.samples(), 3, even_share(workers, w, batch), k);
      for (int64_t j = 0; j < batch; ++j) {
        if ((k * workers + w) * batch + j < n) first.insert(dealt[static_cast<std::size_t>(j)]);
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(first.size()), n);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), first.size());
  EXPECT_EQ(batch_samples(data.samples(), 3, even_share(2, 1, 8), 5),
            batch_samples(data.samples(), 3, even_share(2, 1, 8), 5));
  EXPECT_NE(batch_samples(data.samples(), 3, even_share(1, 0, 8), 0),
            batch_samples(data.samples(), 4, even_share(1, 0, 8), 0))
      << "the seed counts";
  // Two workers of 8 see together what one of 16 sees.
  auto together = batch_samples(data.samples(), 3, even_share(2, 0, 8), 5);
  const auto second = batch_samples(data.samples(), 3, even_share(2, 1, 8), 5);
  together.insert(together.end(), second.begin(), second.end());
  EXPECT_EQ(together, batch_samples(data.samples(), 3, even_share(1, 0, 16), 5));
  // And so do one of 13 and one of 3.
  together = batch_samples(data.samples(), 3, {16, 0, 13}, 5);
  const auto rest = batch_samples(data.samples(), 3, {16, 13, 3}, 5);
  together.insert(together.end(), rest.begin(), rest.end());
  EXPECT_EQ(together, batch_samples(data.samples(), 3, even_share(1, 0, 16), 5));
}

}  // namespace
}  // namespace tandem::tests
