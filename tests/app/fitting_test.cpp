// SPDX-License-Identifier: Apache-2.0
// What is said where a model does not fit: quickly, never empty, and what people do first.
#include "answers/fitting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& word : split(text, ' ')) out.push_back(word);
  return out;
}

/// With what it names each time the same question has an answer.
TEST(Fitting, AdaptersAreOfferedWhatPeopleDoFirst) {
  const std::string asked =
      "predict --system 5090-2x --devices 1 --precision bf16 --optimizer adamw --batch 1 --input synthetic "
      "--format csv";
  const auto run = [&](const std::string& more) { return tool(words(asked + more)); };
  const ChildResult none = run(" --model llama3-8b --adapter lora:rank=16 --memory weights=fp32");
  EXPECT_EQ(none.status, 3);
  EXPECT_THAT(none.err, AllOf(HasSubstr("--adapter qlora"), HasSubstr("--model llama3-8b:sequence="),
                              HasSubstr("weights=half"), HasSubstr("tandem advise")));
  EXPECT_EQ(run(" --model llama3-8b --adapter qlora:rank=16 --recompute blocks").status, 0);
  EXPECT_EQ(run(" --model llama3-8b:sequence=2048 --adapter lora:rank=16 --memory weights=half").status, 0);
}

TEST(Fitting, NothingIsSimulatedWhereNothingFits) {
  const auto start = std::chrono::steady_clock::now();
  const ChildResult result =
      tool(words("predict --model llama3-70b --system dgx-h100 --set nodes=48 --devices 384 --scheme "
                 "pytorch-fsdp --batch 1 "
                 "--precision bf16 --optimizer adamw"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("--recompute blocks"));
  EXPECT_LT(took.count(), 20) << "36 s of processor time before";
}

TEST(Fitting, HostsAreFullToo) {
  const std::string asked =
      " --model llama3-70b:sequence=1024 --system workstation-2x --swap device=rtx-4090 --batch 1 "
      "--precision bf16 "
      "--optimizer adamw";
  const ChildResult result = tool(words(
      "predict" + asked +
      " --devices 2 --recompute blocks --scheme deepspeed-zero3 --offload optimizer+gradients+parameters"));
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("GiB of the host's 128 GiB"), HasSubstr("host.memory")));
  const ChildResult advice = tool(words("advise" + asked));
  EXPECT_EQ(advice.status, 3) << advice.out;
  EXPECT_THAT(advice.err, HasSubstr("of the host's 128 GiB"));
  const ChildResult enough = tool(words(
      "predict" + asked +
      " --devices 2 --recompute blocks --scheme deepspeed-zero3 --offload optimizer+gradients+parameters "
      "--set host.memory=2TiB --input synthetic --format json"));
  EXPECT_EQ(enough.status, 0) << enough.err;
}

/// Whoever trains by workers and asks for too large a model has nodes in mind.
TEST(Fitting, WorkersOfWholeNodesAreNamedWhereTheSchemeHasThem) {
  const std::string asked =
      "predict --model gpt2-xl:sequence=512 --system dgx1-v100 --set nodes=2 --devices 16 --optimizer adamw "
      "--input synthetic --quiet --format json --batch ";
  for (const std::string scheme : {"diloco:every=50", "local-sgd", "bmuf"}) {
    const ChildResult none = tool(words(asked + "4 --scheme " + scheme));
    EXPECT_EQ(none.status, 3) << none.out;
    EXPECT_THAT(none.err,
                HasSubstr("--scheme " + scheme + (scheme[0] == 'd' ? "," : ":") + "worker=node,sharding=3"));
    const std::size_t at = none.err.find("--scheme "), batch = none.err.find(" and --batch ", at);
    const std::string offered =
        none.err.substr(at, none.err.find_first_of(" ,;", at + 9 + scheme.size() + 23) - at);
    const bool fewer = batch == at + offered.size();
    const ChildResult there =
        tool(words(asked + (fewer ? none.err.substr(batch + 13, 1) : "4") + " " + offered));
    EXPECT_EQ(there.status, 0) << there.err;
  }
  const ChildResult other = tool(words(asked + "4 --scheme gossip"));
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.err, Not(HasSubstr("worker=node")));
}

}  // namespace
}  // namespace tandem::tests
