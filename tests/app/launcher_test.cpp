// SPDX-License-Identifier: Apache-2.0
// The launcher against stand-ins for apt, cmake and ninja that log how they were called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

class Launcher : public ::testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    for (const char* folder :
         {"bin", "a tree", "a tree/base", "a tree/models", "a tree/topologies", "a tree/schemes",
          "a tree/sim", "a tree/answers", "a tree/include", "a tree/calibration", "a tree/plan",
          "a tree/pictures", "a tree/sweep", "a tree/app", "a tree/cmake", "a tree/tests"}) {
      fs::create_directories(scratch_.file(folder));
    }
    fs::copy_file(std::string(TANDEM_ROOT) + "/tandem", scratch_.file("a tree/tandem"));
    for (const char* file : {"CMakeLists.txt", "CMakePresets.json", "app/main.cpp", "tests/x_test.cpp"}) {
      scratch_.write(std::string("a tree/") + file, "");
    }
    fake("dpkg-query", "grep -qx \"${4}\" \"$LOG.installed\" 2>/dev/null && echo 'ii '");
    fake("apt-get", "case $1 in install) shift; for p; do echo $p; done >> \"$LOG.installed\";; esac");
    fake("id", "echo 0");
    fake("cmake", "mkdir -p build && : > build/build.ninja && : > build/CMakeCache.txt");
    fake("ninja",
         "printf '[1/2, 0 s] x\\n[2/2, 1 s] y\\n'; printf '#!/bin/sh\\necho \"ran:$*\"\\n' > \"$2/tandem\"; "
         "chmod +x \"$2/tandem\"");
    fake("ctest", "echo \"tested:$*\"");
  }

  /// A program that logs its call, then does `body`.
  void fake(const std::string& name, const std::string& body) {
    const std::string path =
        scratch_.write("bin/" + name, "#!/bin/sh\necho \"" + name + " $*\" >> \"$LOG\"\n" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  ChildResult launch(const std::string& words, const std::string& before = "cd /") {
    return run_child({"sh", "-c",
                      before + "; LOG='" + scratch_.file("log") + "' PATH='" + scratch_.file("bin") +
                          "':\"$PATH\" '" + scratch_.file("a tree/tandem") + "' " + words},
                     "", "", kPatience);
  }
  std::string log() const { return slurp(scratch_.file("log")); }
  void forget() { std::filesystem::remove(scratch_.file("log")); }

  Scratch scratch_;
};

TEST_F(Launcher, InstallsConfiguresBuildsAndRuns) {
  const ChildResult result = launch("list 'two words'");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "ran:list two words\n");
  EXPECT_THAT(result.err, HasSubstr("installing with apt-get: "));
  EXPECT_THAT(result.err, HasSubstr("built 2 of 2"));
  EXPECT_THAT(log(), HasSubstr("libboost-graph-dev"));
  EXPECT_THAT(log(), HasSubstr("-DTANDEM_TESTS=OFF"));
  EXPECT_EQ(log().find("libgtest-dev"), std::string::npos);
}

TEST_F(Launcher, DoesNothingWhenUpToDate) {
  ASSERT_EQ(launch("x").status, 0);
  forget();
  const ChildResult result = launch("again");
  EXPECT_EQ(result.out, "ran:again\n");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(log(), "");
}

TEST_F(Launcher, BuildsAgainAfterAChangeOnly) {
  ASSERT_EQ(launch("x").status, 0);
  for (const char* changed : {"app/main.cpp", "answers/answer.cpp", "include/tandem.h"}) {
    forget();
    const ChildResult result =
        launch("again", "sleep 0.05; touch '" + scratch_.file(std::string("a tree/") + changed) + "'");
    EXPECT_EQ(result.out, "ran:again\n");
    EXPECT_THAT(log(), HasSubstr("ninja")) << changed;
    EXPECT_EQ(log().find("cmake --preset"), std::string::npos);
  }
  forget();
  launch("again", "sleep 0.05; touch '" + scratch_.file("a tree/tests/x_test.cpp") + "'");
  EXPECT_EQ(log(), "") << "a changed test does not concern the program";
}

TEST_F(Launcher, TestBuildsEverythingAndEndsAsCtestDoes) {
  ASSERT_EQ(launch("x").status, 0);
  const ChildResult result = launch("test -L app");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "tested:--output-on-failure -j2 -L app\n");
  EXPECT_THAT(log(), HasSubstr("-DTANDEM_TESTS=ON"));
  EXPECT_THAT(log(), HasSubstr("libgtest-dev"));
}

TEST_F(Launcher, ConfiguresAnewWhereTheTreeWasMoved) {
  ASSERT_EQ(launch("x").status, 0);
  forget();
  std::filesystem::rename(scratch_.file("a tree"), scratch_.file("b tree"));
  std::filesystem::create_directory_symlink(scratch_.file("b tree"), scratch_.file("a tree"));
  EXPECT_EQ(launch("x").status, 0);
  EXPECT_THAT(log(), HasSubstr("cmake --preset"));
}

TEST_F(Launcher, SaysWhatIsMissingWithoutRights) {
  fake("id", "echo 1000");
  std::filesystem::path bin = scratch_.file("bin");
  for (const char* name : {"sh", "dirname", "find", "mkdir", "flock", "rm"}) {
    std::filesystem::create_symlink(std::string("/usr/bin/") + name, bin / name);
  }
  const ChildResult result = shell("LOG='" + scratch_.file("log") + "' PATH='" + bin.string() + "' '" +
                                   scratch_.file("a tree/tandem") + "' x");
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(result.err, HasSubstr("run as root: apt-get install"));
}

TEST_F(Launcher, ShowsWhyABuildFailed) {
  fake("ninja", "echo 'FAILED: app/x.o'; echo 'x.cpp:1: error: no'; exit 1");
  const ChildResult result = launch("x");
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("x.cpp:1: error: no"));
  EXPECT_THAT(result.err, HasSubstr("the build failed"));
}

}  // namespace
}  // namespace tandem::tests
