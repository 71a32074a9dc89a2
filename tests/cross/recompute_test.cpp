// SPDX-License-Identifier: Apache-2.0
// Activations that are made again: nothing that is learned changes, and memory falls as predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "exec/run/execute.h"
#include "exec/run/memory.h"
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
    for (const char* recompute : {"blocks", "norms+activations+attention", "activations"}) {
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
                    Case{"rotary.json:qk_norm=1", "pipeline:microbatches=3,schedule=zero-bubble", kTwo},
                    Case{"experts.json", "allreduce", kTwo}, Case{"resnet20-cifar", "allreduce", kOne}));

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
  EXPECT_THAT(refusal({"text.json", "tensor-parallel:sequence=on", kTwo}, "blocks"),
              HasSubstr("sequence=off is executed"));
  EXPECT_THAT(refusal({"text.json", "tensor-parallel:sequence=on", kTwo}, "norms"),
              HasSubstr("sequence=off is executed"));
}

}  // namespace
}  // namespace tandem::tests
