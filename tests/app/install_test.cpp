// SPDX-License-Identifier: Apache-2.0
// Where the program finds its data, and what an installation has beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/console/cli.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Install, DataIsFoundBesideTheProgram) {
  const Scratch folder;
  fs::create_directories(folder.file("bin"));
  fs::create_directories(folder.file("share"));
  fs::copy_file(TANDEM_BINARY, folder.file("bin/tandem"));
  fs::create_directory_symlink(TANDEM_ROOT, folder.file("share/tandem"));
  const ChildResult doctor = run_child({folder.file("bin/tandem"), "doctor"}, "", "", kPatience);
  EXPECT_EQ(doctor.status, 0) << doctor.err;
  EXPECT_THAT(doctor.out, HasSubstr(folder.file("share/tandem") + " ("));
}

TEST(Install, MissingDataIsNamed) {
  for (const std::string verb :
       {"list models", "list constants", "predict --model lenet5 --system dgx1-v100"}) {
    const ChildResult result = shell("TANDEM_DATA=/nowhere \"$0\" " + verb);
    EXPECT_EQ(result.status, 4) << verb;
    EXPECT_EQ(result.out, "") << verb;
    EXPECT_THAT(result.err, HasSubstr("no data in /nowhere")) << verb;
  }
}

TEST(Install, ManualPageNamesEveryVerb) {
  const ChildResult page = tool({"help", "--format", "man"});
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.out, StartsWith(".TH TANDEM 1"));
  for (const Verb& verb : verbs_registry().all())
    EXPECT_THAT(page.out, HasSubstr(".SS \"tandem " + std::string(verb.name) + " "));
}

}  // namespace
}  // namespace tandem::tests
