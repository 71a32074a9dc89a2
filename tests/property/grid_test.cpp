// 120 cells: six schemes, five models, four machines. Prints the efficiency of eight devices against one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "app/table.h"
#include "tests/property/questions.h"

namespace tandem::test {
namespace {

constexpr const char* kMachines[] = {"v100-pcie-8x", "dgx1-v100", "dgx-a100", "dgx-h100"};
constexpr std::pair<const char*, int64_t> kModels[] = {
    {"resnet50", 32}, {"vgg16", 32}, {"mobilenet-v2", 32}, {"bert-large", 8}, {"gpt2", 4}};
struct Way {
  const char* scheme;
  bool spreads_update;  ///< over the devices or to servers: then several do save what one does alone
};
constexpr Way kWays[] = {{"allreduce", false},       {"pytorch-ddp", false}, {"horovod", false},
                         {"parameter-server", true}, {"mxnet-device", true}, {"zero:stage=1", true}};

/// Share of its step that a device alone spends on updating parameters.
double update_share(const Report& one) {
  double update = 0, all = 0;
  for (const TimelineEntry& e : one.timeline) {
    if (e.role != "worker" || e.lane != "compute") continue;
    all += e.end_seconds - e.start_seconds;
    if (e.label.rfind("update", 0) == 0) update += e.end_seconds - e.start_seconds;
  }
  return all > 0 ? update / all : 0;
}

TEST(Grid, DISABLED_NoCellScalesBetterThanItsUpdateExplains) {
  Answers answers;
  Table table({{"scheme"}, {"model"}, {"machine"}, {"efficiency", true}, {"at most", true}});
  int cells = 0;
  for (const Way& way : kWays) {
    for (const auto& [model, batch] : kModels) {
      for (const char* machine : kMachines) {
        Asked asked{.model = model, .system = machine, .scheme = way.scheme};
        asked.precision = Precision::fp16;
        asked.batch = batch;
        const Report* one = answers.ask(asked);
        asked.devices = 8;
        const Report* eight = answers.ask(asked);
        ASSERT_TRUE(one != nullptr && eight != nullptr) << asked.text();
        const double efficiency = eight->samples_per_second / one->samples_per_second / 8;
        // Momentum's update reads and writes five tensors once: it is never much of a step.
        EXPECT_LT(update_share(*one), 0.1) << asked.text();
        const double most = 1.02 / (way.spreads_update ? 1 - update_share(*one) * 7 / 8 : 1);
        EXPECT_LE(efficiency, most) << asked.text();
        table.add(
            {way.scheme, model, machine, fmt::format("{:.3f}", efficiency), fmt::format("{:.3f}", most)});
        ++cells;
      }
    }
  }
  EXPECT_EQ(cells, 120);
  fmt::print("{}", table.text());
}

}  // namespace
}  // namespace tandem::test
