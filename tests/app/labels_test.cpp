// SPDX-License-Identifier: Apache-2.0
// A changed machine says so wherever it is named, and reports are called by what tells them apart.
#include "answers/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pictures/pictures.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Report report(const std::vector<std::pair<std::string, std::string>>& inputs, int64_t devices = 8) {
  Report r;
  r.setup.inputs = inputs;
  r.setup.devices = devices;
  return r;
}

TEST(Labels, ASystemIsCalledByItsChanges) {
  EXPECT_EQ(app::changed_system("5090-2x", {}), "5090-2x");
  EXPECT_EQ(app::changed_system("5090-2x", {{"device", "./cards/rtx-pro-6000.json"}, {"place", "0,1"}}),
            "5090-2x with rtx-pro-6000, on devices 0,1");
  EXPECT_EQ(app::changed_system("dgx-h100", {{"nodes", "4"}, {"without", "nvlink"}}),
            "dgx-h100 with nodes=4, without nvlink");
}

TEST(Labels, OptionsTellSchemesApart) {
  const auto server = [](const std::string& mode) {
    return report({{"model", "resnet50"}, {"scheme", "parameter-server"}, {"scheme.mode", mode}});
  };
  EXPECT_THAT(app::distinguishing_labels({server("async"), server("ssp"), server("softsync")}),
              ElementsAre("mode=async", "mode=ssp", "mode=softsync"));
  const Report ring = report({{"model", "resnet50"}, {"scheme", "allreduce"}, {"scheme.algorithm", "ring"}});
  EXPECT_THAT(app::distinguishing_labels({ring, server("async")}),
              ElementsAre("allreduce", "parameter-server"));
  EXPECT_THAT(app::distinguishing_labels({ring, ring}), ElementsAre("", ""));
}

TEST(Labels, OfBothEnginesWhatOnlyOneKnowsTellsNothing) {
  Report predicted = report({{"model", "lenet5"}, {"scheme", "allreduce"}, {"recipe", "pytorch"}}),
         executed = report({{"model", "lenet5"}, {"scheme", "allreduce"}});
  executed.evaluation.engine = "exec";
  EXPECT_THAT(app::distinguishing_labels({predicted, executed}), ElementsAre("predicted", "executed"));
}

TEST(Labels, SeriesOfAPictureAreApartByMemoryAndOptions) {
  Report plain = report({{"model", "gpt2"}, {"system", "dgx-a100"}, {"scheme", "allreduce"}});
  Report half = plain, swapped = plain;
  half.setup.inputs.emplace_back("memory.weights", "half");
  swapped.setup.inputs.emplace_back("system_label", "dgx-a100 with h100-sxm");
  std::vector<std::string> titles;
  for (const app::Series& s : app::series_of({plain, half, swapped})) titles.push_back(s.title);
  EXPECT_THAT(titles, ElementsAre("dgx-a100", "dgx-a100, weights=half", "dgx-a100 with h100-sxm"));
}

TEST(ChangedMachine, SaysSoInHeadingJsonCsvAndComparison) {
  const Scratch scratch;
  for (const auto& [option, value, words] :
       {std::tuple{"--swap", "device=rtx-4090", "v100-pcie-8x with rtx-4090"},
        std::tuple{"--set", "links.pcie.bandwidth=32GB/s", "v100-pcie-8x with links.pcie.bandwidth=32GB/s"},
        std::tuple{"--place", "2,3", "v100-pcie-8x on devices 2,3"}}) {
    std::vector<std::string> ask = {"predict", "--model", "lenet5",    "--system", "v100-pcie-8x",
                                    option,    value,     "--devices", "2"};
    const std::string text = tool(ask).out;
    EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr(words));
    ask.insert(ask.end(), {"--format", "csv"});
    EXPECT_THAT(tool(ask).out, HasSubstr(words));
    ask.back() = "json";
    EXPECT_EQ(last_report(tool(ask).out).at("inputs").at("system_label").as_text(), words);
    const std::string file = scratch.file("changed.json"), plain = scratch.file("plain.json");
    ask.insert(ask.end(), {"--out", file});
    tool(ask);
    tool({"predict", "--model", "lenet5", "--system", "v100-pcie-8x", "--devices", "2", "--format", "json",
          "--out", plain});
    EXPECT_THAT(tool({"compare", plain, file}).out, HasSubstr(std::string("B  lenet5 on ") + words));
  }
}

TEST(ChangedMachine, MemoryAndRecomputationStandInTheHeading) {
  const std::string text =
      tool({"predict", "--model", "gpt2", "--system", "dgx-a100", "--devices", "1", "--batch", "1",
            "--precision", "bf16", "--recompute", "blocks", "--memory", "weights=half"})
          .out;
  EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("recompute blocks · weights=half"));
}

TEST(ChangedMachine, CollectivesAndSystemsToo) {
  EXPECT_THAT(tool({"collective", "--system", "dgx1-v100", "--without", "nvlink", "--sizes", "1MiB"}).out,
              HasSubstr("on dgx1-v100 without nvlink"));
  EXPECT_THAT(tool({"show", "system", "dgx1-v100", "--swap", "device=p100-sxm2"}).out,
              HasSubstr("dgx1-v100 with p100-sxm2: "));
}

TEST(ChangedMachine, ModelsOfFilesAreCalledAsTheFileIs) {
  const Scratch scratch;
  const std::string file = scratch.write(
      "small-gpt.json",
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 64, "n_head": 2,
          "vocab_size": 100, "n_positions": 32})");
  const ChildResult r = tool({"predict", "--model", file, "--system", "dgx1-v100", "--devices", "1"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("small-gpt · "));
}

TEST(Words, OfWhatIsWrongNameTheOption) {
  const auto wrong = [](const std::vector<std::string>& words) { return tool(words).err; };
  EXPECT_THAT(wrong({"predict", "--model", "gpt2:layers=-3", "--system", "dgx-a100"}),
              HasSubstr("with layers=-3: "));
  const std::string unit =
      wrong({"predict", "--model", "lenet5", "--system", "dgx1-v100", "--set", "links.pcie.bandwidth=32"});
  EXPECT_THAT(unit, HasSubstr("a quantity needs its unit"));
  EXPECT_THAT(unit, Not(HasSubstr("quotes")));
  const std::string ways =
      wrong({"predict", "--model", "lenet5", "--system", "dgx-h100", "--set", "links.ib.bandwidth=40GB/s"});
  for (const char* way : {"network.bandwidth", "network.oversubscription", "faults.node0/nic0"})
    EXPECT_THAT(ways, HasSubstr(way));
  const ChildResult twice =
      tool({"predict", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "1,2,2"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, HasSubstr("2 is there twice"));
}

}  // namespace
}  // namespace tandem::tests
