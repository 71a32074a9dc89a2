// SPDX-License-Identifier: Apache-2.0
// Dropout's masks: drawn by counter, so that they follow from what is known of an iteration and of nothing
// else.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "exec/device/backend.h"

namespace tandem::tests {
namespace {

constexpr int64_t kElements = 100'003;

struct Dropout {
  std::unique_ptr<DeviceSession> device = backends_registry().at("cpu").open({0, Precision::fp32, 1});
  float *x = device->allocate(kElements), *y = device->allocate(kElements),
        *mask = device->allocate(kElements);
  uint32_t call;

  Dropout(float p, int64_t layer) {
    std::fill_n(x, kElements, 2.0F);
    Call c;
    c.function = Function::dropout;
    c.operands = {0, 1, 2};
    c.shape = {kElements, layer};
    c.scalars = {p};
    call = device->prepare(c);
  }
  std::vector<float> run(uint64_t seed, uint32_t instance, uint32_t iteration) {
    IterationState state;
    state.seed = seed;
    state.instance = instance;
    state.iteration = iteration;
    device->launch(call, std::array{y, x, mask}, state, Lane::compute);
    return {y, y + kElements};
  }
};

TEST(Dropout, KeepsTheExpectedShareAndTheExpectedSum) {
  for (const float p : {0.1F, 0.5F, 0.9F}) {
    const auto y = Dropout(p, 3).run(1, 0, 0);
    int64_t kept = 0;
    for (const float v : y) {
      if (v == 0) continue;
      ++kept;
      ASSERT_FLOAT_EQ(v, 2 / (1 - p));
    }
    const double n = static_cast<double>(kElements), keep = 1 - static_cast<double>(p);
    EXPECT_NEAR(static_cast<double>(kept), n * keep, 5 * std::sqrt(n * keep * (1 - keep)));
  }
}

TEST(Dropout, DiffersBySeedInstanceIterationAndLayerOnly) {
  Dropout a(0.5F, 3), b(0.5F, 4);
  const auto first = a.run(1, 0, 0);
  EXPECT_EQ(a.run(1, 0, 0), first);
  // Independent halves agree in half of the elements.
  for (const auto& other : {a.run(2, 0, 0), a.run(1, 1, 0), a.run(1, 0, 1), b.run(1, 0, 0)}) {
    int64_t equal = 0;
    for (std::size_t i = 0; i < first.size(); ++i) equal += first[i] == other[i] ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(equal), kElements / 2.0, 5 * std::sqrt(kElements / 4.0));
  }
}

}  // namespace
}  // namespace tandem::tests
