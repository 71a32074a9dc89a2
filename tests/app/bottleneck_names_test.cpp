// SPDX-License-Identifier: Apache-2.0
// What binds a step is called by its name: threads of sockets, the library's kernels, parts of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "answers/elasticity.h"
#include "app/console/report_text.h"
#include "base/text.h"
#include "models/optimizer.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> over_sockets(const std::vector<std::string>& more) {
  std::vector<std::string> words = split(
      "predict --model bert-large --system ethernet-cluster --swap device=a100-pcie-40gb --devices 16 "
      "--scheme pytorch-ddp --batch 8 --precision fp16 --optimizer adamw --quiet",
      ' ');
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(BottleneckNames, SocketThreadsAreNoDecodingCores) {
  for (const std::string rate : {"25Gbit/s", "100Gbit/s", "400Gbit/s"}) {
    const std::string text = tool(over_sockets({"--set", "network.bandwidth=" + rate})).out;
    EXPECT_THAT(text, AllOf(HasSubstr("threads, which feed the sockets"), Not(HasSubstr("decode input")),
                            HasSubstr("Twice as many of them, or cores twice as fast, would give"),
                            HasSubstr("--set network.transport.name=rdma")))
        << rate;
  }
  const Json bound =
      last_report(tool(over_sockets({"--format", "json", "--input", "synthetic"})).out).at("bottleneck");
  EXPECT_EQ(bound.at("resource").as_text(), "threads");
  EXPECT_GT(bound.at("elasticity").as_real(), 0.5);
  EXPECT_THAT(tool(over_sockets({"--set", "network.bandwidth=1Gbit/s"})).out, HasSubstr("network bandwidth"));
  EXPECT_THAT(tool(over_sockets({"--set", "network.transport.name=rdma"})).out, Not(HasSubstr("sockets")));
}

/// On 8 H100 a tensor's all-gather is as fast as NCCL's kernels move it; NVLink would carry more.
TEST(BottleneckNames, TheLibrarysKernelsBindWhereCablesDoNot) {
  const Question q = Question::of({{"model", "llama2-7b:sequence=2048"},
                                   {"system", "dgx-h100"},
                                   {"scheme", "hybrid:tensor=8,sequence=on,microbatches=4"},
                                   {"devices", "8"},
                                   {"batch", "2"},
                                   {"precision", "bf16"}});
  double library = 0, cables = 1;
  for (const Elasticity& e : elasticities(q, false)) {
    if (e.resource.path == "library") library = *e.at[0];
    if (e.resource.path == "links.nvlink.bandwidth") cables = *e.at[0];
  }
  EXPECT_GT(library, 0.1);
  EXPECT_LT(cables, 0.01);
  Report r;
  r.bottleneck.resource = "library";
  EXPECT_EQ(resource_words(r), "what the collective library's kernels move");
}

TEST(BottleneckNames, PartsOfTheHost) {
  for (const auto& [set, words] : {std::pair{"host.local_storage=50MB/s", "local storage, "},
                                   std::pair{"host.cores=2", "the cores that decode input, "},
                                   std::pair{"host.local_operations=100", "local storage's operations, "},
                                   std::pair{"host.shared_storage=100MB/s", "shared storage, "}}) {
    const std::string text = tool({"predict", "--model", "resnet50", "--system", "dgx1-v100", "--devices",
                                   "8", "--precision", "fp16", "--quiet", "--set", set})
                                 .out;
    EXPECT_THAT(text, HasSubstr(words)) << set;
  }
}

}  // namespace
}  // namespace tandem::tests
