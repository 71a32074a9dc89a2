// SPDX-License-Identifier: Apache-2.0
// What a prediction is said to be bound by, against all elasticities, on a grid of 200 questions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "answers/elasticity.h"
#include "models/optimizer.h"

namespace tandem::tests {
namespace {

Question question(const std::string& model, const std::string& system, const std::string& scheme,
                  int64_t batch) {
  Question q = Question::of({{"model", model},
                             {"system", system},
                             {"scheme", scheme},
                             {"batch", std::to_string(batch)},
                             {"precision", "fp16"}});
  q.devices = {std::min<int64_t>(8, q.system.accelerator_count())};
  return q;
}

/// A model and a system.
class Bottlenecks : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

/// Eight questions about a model on a system, 25 times.
TEST_P(Bottlenecks, HaveTheLargestElasticity) {
  const auto [model, system] = GetParam();
  int asked = 0, right = 0;
  double least = 2, most = 0;
  for (const char* scheme :
       {"pytorch-ddp", "allreduce:overlap=off", "parameter-server:mode=async", "zero:stage=2"}) {
    for (const int64_t batch : {4, 64}) {
      const Question q = question(model, system, scheme, batch);
      Request p = q.request(q.devices[0]);
      p.check_memory = false;
      Report report = simulate(p);
      find_bottleneck(q, report);
      const auto all = elasticities(q, false);
      double sum = 0;
      for (const Elasticity& e : all) {
        sum += *e.at[0];
        EXPECT_GE(*e.at[0], 0) << model << " on " << system << ", " << scheme << ": " << e.resource.path;
        EXPECT_GE(*e.unlimited[0], 0)
            << model << " on " << system << ", " << scheme << ": " << e.resource.path;
      }
      least = std::min(least, sum);
      most = std::max(most, sum);
      ++asked;
      // A faster core is a faster host: the two share a figure where only the host's launches bind.
      const bool same = report.bottleneck.resource == all[0].resource.path ||
                        std::abs(report.bottleneck.elasticity.value_or(-1) - *all[0].at[0]) < 1e-6;
      right += same ? 1 : 0;
      EXPECT_TRUE(same) << model << " on " << system << ", " << scheme << ", batch " << batch << ": "
                        << report.bottleneck.resource << " " << report.bottleneck.elasticity.value_or(-1)
                        << ", but " << all[0].resource.path << " " << *all[0].at[0];
    }
  }
  fmt::print(
      "{} on {}: {} of {} named resources have the largest elasticity; elasticities add up to {:.2f} .. "
      "{:.2f}\n",
      model, system, right, asked, least, most);
  EXPECT_EQ(asked, 8);
}

INSTANTIATE_TEST_SUITE_P(Grid, Bottlenecks,
                         testing::Combine(testing::Values("resnet50", "vgg16", "alexnet", "bert-base",
                                                          "lenet5"),
                                          testing::Values("v100-pcie-8x", "dgx1-v100", "dgx-a100",
                                                          "workstation-2x", "p3.16xlarge")));

}  // namespace
}  // namespace tandem::tests
