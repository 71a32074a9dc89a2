// SPDX-License-Identifier: Apache-2.0
// 120 cells: six schemes, five models, four machines. Prints the efficiency of eight devices against one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/console/table.h"
#include "tests/property/questions.h"

namespace tandem::tests {
namespace {

constexpr const char* kMachines[] = {"v100-pcie-8x", "dgx1-v100", "dgx-a100", "dgx-h100"};
constexpr std::pair<const char*, int64_t> kModels[] = {
    {"resnet50", 32}, {"vgg16", 32}, {"mobilenet-v2", 32}, {"bert-large", 8}, {"gpt2", 4}};
constexpr const char* kSchemes[] = {"allreduce",        "pytorch-ddp",  "horovod",
                                    "parameter-server", "mxnet-device", "zero:stage=1"};

TEST(Grid, NoCellScalesBetterThanItsUpdateExplains) {
  Answers answers;
  Table table({{"scheme"}, {"model"}, {"machine"}, {"efficiency", true}, {"at most", true}});
  int cells = 0;
  for (const char* scheme : kSchemes) {
    for (const auto& [model, batch] : kModels) {
      for (const char* machine : kMachines) {
        Asked asked{.model = model, .system = machine, .scheme = scheme};
        asked.precision = Precision::fp16;
        asked.batch = batch;
        const Report* one = answers.ask(asked);
        asked.devices = 8;
        const Report* eight = answers.ask(asked);
        ASSERT_TRUE(one != nullptr && eight != nullptr) << asked.text();
        const double efficiency = eight->rate.samples_per_second / one->rate.samples_per_second / 8;
        const double most = 1.02 * most_samples(answers, asked) / one->rate.samples_per_second / 8;
        EXPECT_LE(efficiency, most) << asked.text();
        table.add({scheme, model, machine, fmt::format("{:.3f}", efficiency), fmt::format("{:.3f}", most)});
        ++cells;
      }
    }
  }
  EXPECT_EQ(cells, 120);
  fmt::print("{}", table.text());
}

}  // namespace
}  // namespace tandem::tests
