// SPDX-License-Identifier: Apache-2.0
// docs/own-device.md does what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

const std::string& page() {
  static const std::string text = slurp(std::string(TANDEM_ROOT) + "/docs/own-device.md");
  return text;
}

TEST(OwnDevice, TheFileOfTheDocumentIsShownAndPredictedWith) {
  const Scratch scratch;
  const std::string fence = "```json device\n";
  const auto from = page().find(fence) + fence.size();
  const std::string card =
      scratch.write("my-card.json", page().substr(from, page().find("```", from) - from));
  int run = 0;
  for (auto at = page().find("\ntandem "); at != std::string::npos; at = page().find("\ntandem ", at + 1)) {
    std::string line = page().substr(at + 8, page().find('\n', at + 1) - at - 8);
    for (auto name = line.find("./my-card.json"); name != std::string::npos;
         name = line.find("./my-card.json"))
      line.replace(name, 14, card);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < line.size();) {
      const auto end = std::min(line.find(' ', i), line.size());
      words.push_back(line.substr(i, end - i));
      i = end + 1;
    }
    const ChildResult result = tool(words);
    EXPECT_EQ(result.status, 0) << line << "\n" << result.err;
    ++run;
  }
  EXPECT_EQ(run, 3);
}

TEST(OwnDevice, IsNamedWhereADeviceIsUnknownAndBelowTheList) {
  EXPECT_THAT(tool({"list", "devices"}).out, HasSubstr("docs/own-device.md"));
  const ChildResult unknown = tool({"show", "device", "rtx-9090"});
  EXPECT_EQ(unknown.status, 3);
  EXPECT_THAT(unknown.err, HasSubstr("docs/own-device.md"));
  EXPECT_THAT(unknown.err, HasSubstr("Did you mean"));
}

}  // namespace
}  // namespace tandem::tests
