// SPDX-License-Identifier: Apache-2.0
// Fine-tuning asked of the program: what weights that stay are kept in.
#include <gmock/gmock.h>

#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

TEST(FineTuning, StoredInHalfWeightsTakeTwoBytes) {
  const auto parameters = [](const std::string& adapter) {
    const ChildResult r =
        tool({"predict", "--model", "gpt2-medium", "--system", "dgx-a100", "--devices", "1", "--batch", "1",
              "--precision", "bf16", "--optimizer", "adamw", "--adapter", adapter, "--format", "json"});
    EXPECT_EQ(r.status, 0) << r.err;
    return Json::parse(r.out, "stdout")
        .at("reports")
        .items()
        .at(0)
        .at("memory_bytes_per_device")
        .at("parameters")
        .as_real();
  };
  const double half = parameters("qlora:rank=16,store=half");
  EXPECT_NEAR(half, 2 * 354.8e6, 0.02 * 2 * 354.8e6);
  EXPECT_LT(parameters("qlora:rank=16"), half);
  EXPECT_EQ(parameters("lora:rank=16"), half);
}

}  // namespace
}  // namespace tandem::tests
