// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>

#include "base/registry.h"

namespace tandem::tests {
namespace {

using Names = std::vector<std::string>;

TEST(Nearest, RanksByEditsThenByLetters) {
  EXPECT_EQ(nearest("vgg17", {"vgg11", "vgg16", "vgg19", "resnet50"}), (Names{"vgg16", "vgg19"}));
  EXPECT_EQ(nearest("resnet5", {"lenet5", "resnet50"}).front(), "resnet50");
  EXPECT_EQ(nearest("RESNET50", {"resnet50"}), Names{"resnet50"});
}

TEST(Nearest, CountsASwapAsOneEdit) {
  EXPECT_EQ(nearest("modle", {"model", "batch"}), Names{"model"});
  EXPECT_EQ(nearest("allredcue", {"allreduce", "allgather"}), Names{"allreduce"});
}

TEST(Nearest, KnowsNamesByAPart) {
  EXPECT_EQ(nearest("4090", {"rtx-3090", "rtx-4090", "a100-sxm-40gb"}), Names{"rtx-4090"});
  EXPECT_EQ(nearest("v100", {"dgx1-v100", "v100-pcie"}), (Names{"v100-pcie", "dgx1-v100"}));
}

TEST(Nearest, PutsNamesThatHoldTheWordBeforeSimilarOnes) {
  const Names devices = {"a10", "a100-pcie-40gb", "a100-sxm-40gb", "a10g", "dgx-a100"};
  EXPECT_EQ(nearest("a100", devices), (Names{"dgx-a100", "a100-sxm-40gb"}));
  EXPECT_EQ(nearest("A100-S", devices, 1), Names{"a100-sxm-40gb"});
  EXPECT_EQ(nearest("llama3.1-8b", {"llama3.2-3b", "llama3.2-1b", "llama3-8b"}, 1), Names{"llama3-8b"});
  EXPECT_EQ(nearest("llama", {"llama2-13b", "llama2-70b", "llama2-7b"}, 1), Names{"llama2-7b"});
  EXPECT_EQ(nearest("ing", {"wing", "ing-2"}), (Names{"ing-2", "wing"}));
  EXPECT_EQ(nearest("batch-size", {"seed", "batch", "bat"}), Names{"batch"});
  EXPECT_EQ(nearest("adamv", {"adam", "adamw"}).front(), "adamw");
  EXPECT_EQ(nearest("ng", {"ring"}), Names{}) << "two letters in the middle say nothing";
}

TEST(Nearest, LeavesOutAllButTheOneThatDiffersInCase) {
  EXPECT_EQ(nearest("ResNet50", {"resnet34", "resnet50", "resnet50-v1"}), Names{"resnet50"});
}

TEST(Nearest, KeepsSilentWhenNothingIsNear) {
  EXPECT_TRUE(nearest("zebra", {"resnet50", "vgg16"}).empty());
  EXPECT_TRUE(nearest("", {"resnet50"}).empty());
  EXPECT_TRUE(nearest("x", {}).empty());
  EXPECT_TRUE(nearest(std::string(100000, 'a'), {"resnet50"}).empty());
  EXPECT_EQ(did_you_mean("zebra", {"vgg16"}), "");
  EXPECT_EQ(did_you_mean("vgg17", {"vgg16", "vgg19"}), " Did you mean vgg16 or vgg19?");
}

TEST(Printable, IsSafeInATerminal) {
  EXPECT_EQ(printable("a\x1b[31m\nb"), "a\\x1b[31m\\x0ab");
  EXPECT_LE(printable(std::string(5000, 'x')).size(), 210u);
}

TEST(Places, SayWhatIsKnown) {
  EXPECT_EQ((Place{}.text()), "");
  const auto file = std::make_shared<const std::string>("a.json");
  EXPECT_EQ((Place{file, 0, 0}.text()), "a.json");
  EXPECT_EQ((Place{file, 3, 0}.text()), "a.json:3");
  EXPECT_EQ((Place{file, 3, 7}.text()), "a.json:3:7");
  EXPECT_STREQ(InputError(Place{file, 3, 7}, "no").what(), "a.json:3:7: no");
}

TEST(Checks, ABrokenInvariantIsNoInputError) {
  EXPECT_NO_THROW(TANDEM_CHECK(1 + 1 == 2));
  EXPECT_THROW(TANDEM_CHECK(1 + 1 == 3), std::logic_error);
}

struct Part {
  std::string_view name, summary;
};

TEST(Registries, FindByNameAndRefuseTwins) {
  Registry<Part> parts("parts");
  parts.add({"wheel", "turns"});
  parts.add({"axle", "carries"});
  EXPECT_EQ(parts.at("axle").summary, "carries");
  EXPECT_EQ(parts.find("door"), nullptr);
  EXPECT_EQ(parts.names(), (Names{"wheel", "axle"}));
  EXPECT_THROW(parts.add({"wheel", "again"}), std::logic_error);
  try {
    parts.at("whele");
    FAIL() << "found what does not exist";
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "no part \"whele\". Did you mean wheel? All: tandem list parts");
  }
}

}  // namespace
}  // namespace tandem::tests
