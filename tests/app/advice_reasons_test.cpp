// SPDX-License-Identifier: Apache-2.0
// Why advice leaves devices idle, and what it says that would be worth more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ChildResult advice(const std::string& words) { return tool(split("advise " + words, ' ')); }

Json advised(const std::string& words) {
  const ChildResult result = advice(words + " --format json --quiet");
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.out, "stdout");
}

TEST(AdviceReasons, DevicesAreIdleWhereSamplesDoNotDivide) {
  const std::string ask = "--model resnet50 --system dgx-a100 --precision fp16 --devices ";
  for (const auto& [devices, samples, all] : {std::tuple{6, 256, 258}, std::tuple{7, 128, 133}}) {
    const std::string there = ask + std::to_string(devices) + " --global-batch ";
    EXPECT_THAT(advice(there + std::to_string(samples)).out,
                AllOf(HasSubstr("of " + std::to_string(devices) + " devices: " + std::to_string(samples) +
                                " samples in a step do not divide by " + std::to_string(devices)),
                      HasSubstr("--global-batch " + std::to_string(all) + " would use all"),
                      Not(HasSubstr("would not make a step"))));
    const Json first = advised(there + std::to_string(all)).at("choices").items()[0];
    EXPECT_EQ(first.at("devices").as_int(), devices) << "as promised";
  }
}

TEST(AdviceReasons, AFewSamplesAreWorthMore) {
  const std::string ask = "--model resnet50 --system dgx1-v100 --precision fp16 --devices 8 --global-batch ";
  const std::string few = advice(ask + "8").out;
  EXPECT_THAT(
      few, AllOf(HasSubstr("A larger batch is worth more: "), HasSubstr(" samples in a step instead of 8 "),
                 HasSubstr("the learning rate belongs to the batch")));
  EXPECT_THAT(advice(ask + "1024").out, Not(HasSubstr("A larger batch is worth more")));
  const std::string one = advice(ask + "1").out;
  EXPECT_THAT(one, AllOf(HasSubstr(" · 1 sample in a step · "), Not(HasSubstr("1 samples"))));
}

/// What does not fit beside LoRA's whole weights is asked again with weights of 4 bits.
TEST(AdviceReasons, WeightsAreStoredInFewerBitsWhereNothingElseFits) {
  const ChildResult result = advice(
      "--model llama3-70b:sequence=1024 --system workstation-2x --swap device=rtx-5090 --devices 2 "
      "--global-batch 2 --precision bf16 --optimizer adamw --adapter lora:rank=16");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("so with weights in 4 bits, --adapter qlora:rank=16"));
  EXPECT_THAT(result.out, HasSubstr("llama3-70b, qlora:rank=16"));
}

}  // namespace
}  // namespace tandem::tests
