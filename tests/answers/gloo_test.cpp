// SPDX-License-Identifier: Apache-2.0
// Gloo on processors: its thread works on the cores that compute and sleeps while it waits.
#include <gtest/gtest.h>

#include "answers/answer.h"

namespace tandem::tests {
namespace {

double gloo_rate(const char* bandwidth, const char* scheme) {
  const Question q = Question::of({{"model", "alexnet"},
                                   {"system", "local-nodes"},
                                   {"set", "nodes=2"},
                                   {"set", "communication.library=gloo"},
                                   {"set", std::string("network.bandwidth=") + bandwidth},
                                   {"scheme", scheme},
                                   {"batch", "8"},
                                   {"input", "synthetic"},
                                   {"jitter", "0"},
                                   {"devices", "2"}});
  return answers::predict(q, 2, answers::Depth::rate).rate.samples_per_second;
}

TEST(Gloo, HidesTheLinkAndNotItsThread) {
  const double fast = gloo_rate("100GB/s", "allreduce:overlap=on,update=all") /
                      gloo_rate("100GB/s", "allreduce:overlap=off,update=all");
  EXPECT_NEAR(fast, 1, 0.02) << "one core computes and moves bytes, whatever the order";
  const double slow = gloo_rate("2Gbit/s", "allreduce:overlap=on,update=all") /
                      gloo_rate("2Gbit/s", "allreduce:overlap=off,update=all");
  EXPECT_GT(slow, 1.05) << "the core computes while the link is busy";
}

TEST(Gloo, CopiesIntoBucketsTakeTheCoreToo) {
  const double with = gloo_rate("100GB/s", "pytorch-ddp:overlap=on"),
               without = gloo_rate("100GB/s", "pytorch-ddp:overlap=off");
  EXPECT_NEAR(with / without, 1, 0.02);
}

}  // namespace
}  // namespace tandem::tests
