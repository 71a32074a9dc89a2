// SPDX-License-Identifier: Apache-2.0
// Kinds of training that published rates do not speak of are predicted less surely.
#include "sim/met_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/simulate.h"

namespace tandem::tests {
namespace {

struct Asked {
  const char *model, *system, *scheme;
  Precision precision;
};

class Question {
 public:
  explicit Question(const Asked& a)
      : graph_(Graph::load(a.model)), system_(System::load(a.system)), scheme_(resolve_scheme(a.scheme, {})) {
    request_.job.graph = &graph_;
    request_.job.scheme = &scheme_;
    request_.job.optimizer = &optimizer("momentum");
    request_.job.precision = a.precision;
    request_.job.batch = 8;
    request_.system = &system_;
    request_.devices = 2;
    request_.check_memory = false;
  }
  Request& request() { return request_; }

 private:
  Graph graph_;
  System system_;
  ResolvedScheme scheme_;
  Request request_;
};

std::vector<std::string> unmet(const Asked& asked) {
  Question question(asked);
  const Request& p = question.request();
  return sim::unmet_kinds(p, used_devices(*p.system, p.devices).sorts);
}

TEST(MetKinds, OfKnownOnesNothingIsSaid) {
  EXPECT_TRUE(unmet({"resnet50", "dgx1-v100", "horovod", Precision::fp32}).empty());
  EXPECT_TRUE(unmet({"resnet50", "dgx-a100", "pytorch-ddp", Precision::bf16}).empty());
  EXPECT_TRUE(unmet({"gpt2", "dgx-h100", "pytorch-fsdp", Precision::bf16}).empty());
}

TEST(MetKinds, NamesFamilyWidthAndArchitecture) {
  const auto of_fp8 = unmet({"gpt2", "4090-pcie-8x", "allreduce", Precision::fp8});
  ASSERT_FALSE(of_fp8.empty());
  EXPECT_EQ(of_fp8[0], "transformers in fp8 on ada");
  EXPECT_THAT(unmet({"lstm-ptb", "dgx1-v100", "allreduce", Precision::fp32}),
              testing::Contains("recurrent networks in single precision on volta"));
}

TEST(MetKinds, ADividedModelIsAnotherMatter) {
  EXPECT_TRUE(unmet({"gpt2", "4090-pcie-8x", "hybrid:tensor=2", Precision::fp8}).empty());
}

TEST(MetKinds, WidenTheIntervalAndAreSaid) {
  Question known({"gpt2", "dgx-h100", "pytorch-fsdp", Precision::bf16}),
      not_known({"gpt2", "4090-pcie-8x", "pytorch-fsdp", Precision::fp8});
  const Report near = sim::simulate(known.request()), far = sim::simulate(not_known.request());
  const auto width = [](const Report& r) { return r.rate.interval.high / r.rate.interval.low; };
  EXPECT_GT(width(far), std::exp(2 * 1.645 * sim::kUnmet));
  EXPECT_LT(width(near), std::exp(2 * 1.645 * sim::kUnmet));
  const auto says = [](const Report& r) {
    return std::any_of(r.notes.begin(), r.notes.end(),
                       [](const std::string& n) { return n.starts_with("unknown kind: "); });
  };
  EXPECT_TRUE(says(far));
  EXPECT_FALSE(says(near));
  // A measured rate is of this very kind.
  Request anchored = not_known.request();
  anchored.anchor = sim::Anchor{far.rate.samples_per_second, 2};
  const Report met = sim::simulate(anchored);
  EXPECT_FALSE(says(met));
  EXPECT_LT(width(met), std::exp(2 * 1.645 * sim::kUnmet));
}

}  // namespace
}  // namespace tandem::tests
