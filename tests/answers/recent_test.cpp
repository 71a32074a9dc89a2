// SPDX-License-Identifier: Apache-2.0
// What is kept between questions, and what is read each time.
#include "answers/recent.h"

#include <gtest/gtest.h>

namespace tandem::tests {
namespace {

using answers::Recent;
using answers::Values;

Values asked(const std::string& model, const std::string& change) {
  Values out;
  out.set("model", {model});
  out.set("system", {"dgx1-v100"});
  out.set("devices", {"2"});
  out.set("set", {change});
  return out;
}

/// A rate has a slash and is no path: such questions share what they compile.
TEST(Recent, KeepsWhatWasMadeForRates) {
  Recent recent;
  const auto first = recent.question(asked("lenet5", "links.nvlink.bandwidth=20GB/s"), false);
  const auto other = recent.question(asked("lenet5", "links.nvlink.bandwidth=21GB/s"), false);
  ASSERT_NE(first->programs, nullptr);
  EXPECT_EQ(first->programs, other->programs);
}

TEST(Recent, ReadsFilesEachTime) {
  Recent recent;
  const auto kept = recent.question(asked("lenet5", "links.nvlink.bandwidth=20GB/s"), false);
  const auto read = recent.question(
      asked(std::string(TANDEM_ROOT) + "/models/zoo/lenet5.json", "links.nvlink.bandwidth=20GB/s"), false);
  EXPECT_NE(read->programs, kept->programs);
}

}  // namespace
}  // namespace tandem::tests
