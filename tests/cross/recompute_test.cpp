// SPDX-License-Identifier: Apache-2.0
// Activations that are made again: nothing that is learned changes, and memory falls as predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "exec/execute.h"
#include "exec/layout/memory.h"
#include "sim/memory/memory.h"
#include "sim/simulate.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string model, scheme;
  Cluster cluster;
  Precision precision = Precision::fp32;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.model << ", " << c.scheme << " on " << c.cluster.devices;
}

const Graph& graph_of(const std::string& model) {
  static std::map<std::string, Graph> known;
  const auto at = known.find(model);
  if (at != known.end()) return at->second;
  const bool file = model.find(".json") != std::string::npos;
  return known.emplace(model, Graph::load(file ? std::string(TANDEM_ROOT) + "/tests/cross/" + model : model))
      .first->second;
}

Execution execution_of(const Case& c, const ResolvedScheme& scheme, const char* recompute) {
  Execution e;
  e.job.graph = &graph_of(c.model);
  e.job.scheme = &scheme;
  e.job.recompute = parse_recompute(recompute, {});
  e.backend = &backends_registry().at("cpu");
  e.cluster = c.cluster;
  e.job.batch = 4;
  e.job.precision = c.precision;
  e.job.optimizer = &optimizer("adam");
  e.iterations = 5;
  e.warmup = 1;
  e.rate.base = 0.01;
  return e;
}

class Recomputing : public testing::TestWithParam<Case> {};

/// The same kernels in the same order on the same numbers: dropout draws the same masks, and running
/// statistics move once.
TEST_P(Recomputing, ChangesNoBitOfWhatIsLearned) {
  const Case& c = GetParam();
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  for (const Backend& backend : {backends()[1], backends()[3]}) {
    Execution e = execution_of(c, scheme, "off");
    e.backend = &backend;
    const ExecutionResult kept = execute(e, {false, false, true});
    ASSERT_TRUE(std::isfinite(kept.losses.back()));
    EXPECT_NE(kept.losses.front(), kept.losses.back());
    const bool divides = c.scheme.find("sequence=on") != std::string::npos;
    for (const char* recompute :
         {"blocks", divides ? "activations+attention" : "norms+activations+attention", "activations"}) {
      SCOPED_TRACE(std::string(recompute) + ", " + std::string(backend.name));
      e.job.recompute = parse_recompute(recompute, {});
      const ExecutionResult again = execute(e, {false, false, true});
      EXPECT_EQ(again.losses, kept.losses);
      EXPECT_EQ(again.parameters, kept.parameters);
      EXPECT_EQ(again.state, kept.state);
      EXPECT_EQ(again.buffers, kept.buffers);
    }
  }
}

const Cluster kOne{1, 1, 1}, kTwo{2, 1, 2}, kFour{4, 1, 4};
const char* const kLlama =
    "llama3.2-1b:layers=3,hidden=32,heads=4,kv_heads=2,head_dim=8,feed=64,vocabulary=50,sequence=8";

INSTANTIATE_TEST_SUITE_P(
    All, Recomputing,
    testing::Values(Case{"again.json", "allreduce", kTwo},
                    Case{"again.json", "allreduce:accumulate=2,bucket=1KiB", kTwo},
                    Case{"again.json", "zero:stage=3,bucket=1KiB", kTwo},
                    Case{"again.json", "local-sgd:every=2", kTwo},
                    Case{"again.json", "pipeline:microbatches=4", kTwo},
                    Case{"again.json", "pipeline:microbatches=4,schedule=gpipe", kFour},
                    Case{"text.json", "allreduce", kOne}, Case{"text.json", "parameter-server", kTwo},
                    Case{"text.json", "delayed-allreduce", kTwo},
                    Case{"rotary.json", "hybrid:tensor=2,pipeline=2,microbatches=3", kFour},
                    Case{"rotary.json", "hybrid:tensor=2,sequence=on,pipeline=2,microbatches=3", kFour},
                    Case{"rotary.json:qk_norm=1", "pipeline:microbatches=3,schedule=zero-bubble", kTwo},
                    Case{"experts.json", "allreduce", kTwo}, Case{"resnet20-cifar", "allreduce", kOne}));

/// Of the first worker, as it allocates them and as they are predicted, in bytes over the micro-batches that
/// there is room for, or that are under way at once.
struct Activations {
  double executed = 0, predicted = 0;
};

Activations activations(const Case& c, const char* recompute, double slots, double held) {
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  Execution e = execution_of(c, scheme, recompute);
  e.job.batch = 16;
  e.iterations = 2;
  e.backend = &backends()[0];
  const MemoryUse executed = execute(e).report.memory;
  const Workload work = make_workload(e.job);
  MemoryHabits habits;
  habits.gradients_stay = true;  // as an executor's
  const auto roles = memory_by_role(work, Device::load("h100-sxm"), compile(e.job, work, e.cluster), habits);
  return {static_cast<double>(executed.activations.n) / slots,
          static_cast<double>(roles[0].memory.activations.n) / held};
}

/// By how much activations take less room than where all are kept.
void expect_fall(const Case& c, const char* recompute, double within, double slots = 1, double held = 1) {
  const Activations kept = activations(c, "off", slots, held), again = activations(c, recompute, slots, held);
  const double executed = kept.executed - again.executed, predicted = kept.predicted - again.predicted;
  EXPECT_GT(executed, 0.2 * kept.executed) << c << ", " << recompute;
  EXPECT_NEAR(executed / predicted, 1, within) << c << ", " << recompute;
}

TEST(Recomputation, FreesTheMemoryThatIsPredicted) {
  const char* const text = "transformer-tiny:layers=8";
  const char* const llama =
      "llama3.2-1b:layers=6,hidden=64,heads=4,kv_heads=2,head_dim=16,feed=256,"
      "vocabulary=500,sequence=64";
  const char* const images = "resnet20-cifar:depth=9";
  expect_fall({text, "allreduce", kOne}, "blocks", 0.03);
  expect_fall({text, "allreduce", kOne}, "norms+activations", 0.08);
  expect_fall({llama, "allreduce", kOne}, "blocks", 0.08);
  expect_fall({llama, "allreduce", kOne}, "norms+activations", 0.08);
  expect_fall({images, "allreduce", kOne}, "blocks", 0.03);
  expect_fall({text, "tensor-parallel", kTwo}, "blocks", 0.08);
  expect_fall({text, "tensor-parallel", kTwo}, "norms+activations", 0.08);
  expect_fall({text, "tensor-parallel:sequence=on", kTwo}, "blocks", 0.08);
  // Two micro-batches are under way, and room for one more where messages come in.
  expect_fall({text, "pipeline:microbatches=8", kTwo}, "blocks", 0.08, 3, 2);
}

std::string refusal(const Case& c, const char* recompute) {
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  try {
    execute(execution_of(c, scheme, recompute));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Recomputation, SaysWhatItCannotMakeAgain) {
  EXPECT_THAT(refusal({"experts.json", "hybrid:expert=2", kTwo}, "blocks"),
              HasSubstr("tokens for experts that are dealt over them"));
  EXPECT_THAT(refusal({"text.json", "hybrid:context=2", kTwo}, "blocks"), HasSubstr("--recompute blocks"));
  EXPECT_THAT(refusal({"text.json", "hybrid:context=2", kTwo}, "attention"),
              HasSubstr("keys and values of a sequence that they divide"));
  EXPECT_THAT(refusal({"text.json", "tensor-parallel:sequence=on", kTwo}, "norms"),
              HasSubstr("blocks, or sequence=off, is executed"));
}

}  // namespace
}  // namespace tandem::tests
