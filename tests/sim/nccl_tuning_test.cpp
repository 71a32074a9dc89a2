// SPDX-License-Identifier: Apache-2.0
// The file of NCCL's constants: that it is whole, that rows hold from their version on, and what its reader
// refuses.
#include "sim/cost/nccl_tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/data.h"

namespace tandem::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What the reader says of the file with the first `was` replaced.
std::string refusal(const std::string& was, const std::string& now) {
  std::string text = read_file(data_root() + "/calibration/profiles/nccl_tuning.json");
  const std::size_t at = text.find(was);
  EXPECT_NE(at, std::string::npos) << was;
  text.replace(at, was.size(), now);
  try {
    read_nccl_tuning(Json::parse(text, "tuning.json"));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(NcclTuning, KnowsTheGenerationsWithNvlinkSwitches) {
  const NcclTuning& tuning = nccl_tuning();
  for (const char* architecture : {"volta", "ampere", "hopper", "blackwell"}) {
    ASSERT_NE(tuning.generation(architecture), nullptr) << architecture;
  }
  EXPECT_EQ(tuning.generation("pascal"), nullptr);
  EXPECT_EQ(tuning.generation("ampere")->switch_efficiency, 0);
  EXPECT_EQ(tuning.generation("hopper")->switch_efficiency, 0.85);
  EXPECT_EQ(tuning.generation("hopper")->cable, 20.6e9);
  EXPECT_EQ(tuning.protocol("eager"), nullptr);
}

TEST(NcclTuning, RowsHoldFromTheirVersionOn) {
  const NcclTuning::Protocol& ll = *nccl_tuning().protocol("ll");
  EXPECT_EQ(ll.rate(204).from, 218) << "the first row stands for all before it";
  EXPECT_EQ(ll.rate(220).from, 218);
  EXPECT_EQ(ll.rate(221).from, 221);
  EXPECT_EQ(ll.rate(9900).from, 221);
  EXPECT_EQ(ll.rate(220).share, 1 / 3.0);
  EXPECT_EQ(ll.rate(220).share_reducing, 0.25);
  EXPECT_EQ(ll.rate(221).share_reducing, ll.rate(221).share);
  const NcclTuning::Protocol& ll128 = *nccl_tuning().protocol("ll128");
  EXPECT_EQ(ll128.rate(228).most_per_channel.at("blackwell"), 73.4e9);
  EXPECT_EQ(ll128.rate(229).most_per_channel.at("blackwell"), 40e9);
}

TEST(NcclTuning, RefusesWhatItCannotMean) {
  EXPECT_EQ(refusal("\"split_few\": 4", "\"split_few\": 5"), "");
  EXPECT_THAT(refusal("\"cable\"", "\"cabel\""), HasSubstr("cable"));
  EXPECT_THAT(refusal("\"20.6GB/s\"", "20.6"), AllOf(HasSubstr("tuning.json:"), HasSubstr("unit")));
  EXPECT_THAT(refusal("20.6GB/s", "0GB/s"), HasSubstr("above 0"));
  EXPECT_THAT(refusal("\"switch_efficiency\": 0.85", "\"switch_efficiency\": 85"), HasSubstr("85"));
  EXPECT_THAT(refusal("\"from\": \"2.21\"", "\"from\": \"2.18\""), HasSubstr("ascending"));
  EXPECT_THAT(refusal("\"from\": \"2.21\"", "\"from\": \"new\""), HasSubstr("no version"));
  EXPECT_THAT(refusal("\"most\": {", "\"most\": {\"turing\": \"1GB/s\", "), HasSubstr("turing"));
  EXPECT_THAT(refusal("\"protocol\": \"simple\"", "\"protocol\": \"simpel\""), HasSubstr("simple"));
  EXPECT_THAT(refusal("\"most_heads\": 32", "\"most_heads\": 0"), HasSubstr("2"));
}

/// A new generation needs a rate wherever rates go by generation, and figures a source.
TEST(NcclTuning, AsksForEveryFigureAndItsSource) {
  EXPECT_THAT(refusal("\"volta\": \"39GB/s\", ", ""), HasSubstr("volta"));
  EXPECT_THAT(refusal("\"step\": \"0.6us\",", ""), HasSubstr("step"));
  EXPECT_THAT(refusal("\"source\": \"2.21", "\"spring\": \"2.21"), HasSubstr("source"));
}

TEST(NcclTuning, TreesGetMoreOfTheLinksForSomeSizes) {
  const NcclTuning::Tree& tree = nccl_tuning().tree;
  EXPECT_DOUBLE_EQ(tree.efficiency(1), 0.92 * 0.9);
  EXPECT_DOUBLE_EQ(tree.efficiency(2 << 20), 0.92 * 0.6);
  EXPECT_DOUBLE_EQ(tree.efficiency((4 << 20) - 1), 0.92 * 0.6);
  EXPECT_DOUBLE_EQ(tree.efficiency(4 << 20), 0.92 * 0.7);
  EXPECT_DOUBLE_EQ(tree.efficiency(1e12), 0.92 * 0.9);
  EXPECT_THAT(refusal("\"corrections\": [0.9,", "\"corrections\": [1.9,"), HasSubstr("tuning.json:"));
}

}  // namespace
}  // namespace tandem::tests
