// SPDX-License-Identifier: Apache-2.0
// Tab in bash, zsh and fish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "app/console/cli.h"
#include "base/text.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> offers(const std::string& shell_name, std::vector<std::string> words) {
  words.insert(words.begin(), {"completion", shell_name, "--"});
  const ChildResult r = tool(words);
  EXPECT_EQ(r.status, 0) << r.err;
  std::vector<std::string> out = base::split(r.out, '\n');
  if (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

std::vector<std::string> offers(std::vector<std::string> words) { return offers("bash", std::move(words)); }

TEST(Completion, OffersEveryVerbAndEveryOption) {
  const auto verbs = offers({""});
  for (const Verb& verb : verbs_registry().all()) {
    EXPECT_THAT(verbs, Contains(verb.name));
    const auto options = offers({std::string(verb.name), "--"});
    EXPECT_THAT(options, SizeIs(verb.flags.size() + 1));
    for (const Option& flag : verb.flags) EXPECT_THAT(options, Contains("--" + std::string(flag.name)));
  }
  EXPECT_THAT(offers({"pre"}), ElementsAre("predict"));
  EXPECT_THAT(offers({"predict", "--ba"}), ElementsAre("--batch", "--batch-split", "--batch-norm"));
}

TEST(Completion, OffersNamesAndChoicesOfValues) {
  EXPECT_THAT(offers({"predict", "--model", "lenet"}), ElementsAre("lenet5"));
  EXPECT_THAT(offers({"predict", "--model", "lenet5", "--system", ""}), Contains("dgx1-v100"));
  EXPECT_THAT(offers({"run", "--scheme", "pytorch-"}), IsSupersetOf({"pytorch-ddp", "pytorch-fsdp"}));
  EXPECT_THAT(offers({"predict", "--precision", ""}), ElementsAre("fp32", "tf32", "fp16", "bf16", "fp8"));
  EXPECT_THAT(offers({"sweep", "--precision", "fp32,b"}), ElementsAre("fp32,bf16"));
  EXPECT_THAT(offers({"plan", "--systems", "dgx-h100,dgx1-v100-"}), ElementsAre("dgx-h100,dgx1-v100-32gb"));
  EXPECT_THAT(offers({"predict", "--swap", "device=v100-pcie-"}), ElementsAre("v100-pcie-32gb"));
  EXPECT_THAT(offers("fish", {"predict", "--swap", "device=v100-pcie-"}),
              ElementsAre("device=v100-pcie-32gb"));
  EXPECT_THAT(offers({"predict", "--out", ""}), ElementsAre()) << "the shell's own files";
  EXPECT_THAT(offers({"predict", "--batch", "-"}), ElementsAre()) << "a number";
  EXPECT_THAT(offers({"nonsense", "--model", ""}), ElementsAre());
}

TEST(Completion, OffersWhatMayStandAfterAVerb) {
  EXPECT_THAT(offers({"list", "mo"}), ElementsAre("models"));
  EXPECT_THAT(offers({"show", "system", "dgx1-v100-"}), ElementsAre("dgx1-v100-32gb"));
  EXPECT_THAT(offers({"compare", "--model", "vgg16", "v100-pcie-8x", "dgx1-v100-"}),
              ElementsAre("dgx1-v100-32gb"));
  EXPECT_THAT(offers({"launch", ""}), ElementsAre("slurm", "kubernetes", "mpi"));
  EXPECT_THAT(offers({"launch", "slurm", "--shards", "8", "--", "sweep", "--batch-n"}),
              ElementsAre("--batch-norm"));
}

TEST(Completion, BashPartsWordsAtEqualsAndColons) {
  EXPECT_THAT(offers({"predict", "--model", "=", "lenet"}), ElementsAre("lenet5"));
  EXPECT_THAT(offers({"predict", "--precision", "="}), Contains("bf16"));
  EXPECT_THAT(offers("zsh", {"predict", "--model=lenet"}), ElementsAre(StartsWith("--model=lenet5")));
}

TEST(Completion, EveryOptionWithNamesHasSome) {
  for (const Verb& verb : verbs_registry().all()) {
    for (const Option& flag : verb.flags) {
      if (!flag.names().empty())
        EXPECT_THAT(offers({std::string(verb.name), "--" + std::string(flag.name), ""}), Not(SizeIs(0)))
            << verb.name << " --" << flag.name;
    }
  }
}

TEST(Completion, RefusesOtherShells) {
  const ChildResult r = tool({"completion", "zhs"});
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.err, HasSubstr("Did you mean zsh?"));
  EXPECT_EQ(tool({"help", "--format", "bash"}).out, tool({"completion", "bash"}).out);
}

/// A shell on a terminal, as people have it.
class Typing {
 public:
  Typing(std::vector<std::string> words, const Scratch& folder) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    winsize size{24, 200, 0, 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    setenv("PATH", (folder.file("") + ":" + std::getenv("PATH")).c_str(), 1);
    setenv("HOME", folder.file("").c_str(), 1);
    setenv("TERM", "dumb", 1);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  ~Typing() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(terminal_);
  }
  Typing(const Typing&) = delete;
  Typing& operator=(const Typing&) = delete;

  /// False if the shell ended without saying so.
  bool sees(const std::string& text) {
    while (shown_.find(text) == std::string::npos) {
      char buffer[4096];
      const ssize_t got = read(terminal_, buffer, sizeof buffer);
      if (got <= 0) return false;
      shown_.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }
  void type(const std::string& keys) {
    shown_.clear();
    ASSERT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  const std::string& shown() const { return shown_; }

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

bool installed(const std::string& name) { return shell("command -v " + name).status == 0; }

/// A "tandem" that completes as the program does and otherwise says how it was called; its script beside it.
void put_tandem(const Scratch& folder, const std::string& shell_name) {
  const std::string path =
      folder.write("tandem", "#!/bin/sh\nif [ \"$1\" = completion ]; then exec '" TANDEM_BINARY
                             "' \"$@\"; fi\nprintf 'called'; printf '<%s>' \"$@\"; echo\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  folder.write("script", tool({"completion", shell_name}).out);
}

void types_and_completes(Typing& session, const Scratch& folder) {
  session.type("PS1='rea''dy> '; . " + folder.file("script") + "\n");
  ASSERT_TRUE(session.sees("ready> ")) << session.shown();
  session.type("tandem pre\t--model lenet\t--system=dgx1-v100-\t--precision bf\t\n");
  EXPECT_TRUE(session.sees("called<predict><--model><lenet5><--system=dgx1-v100-32gb><--precision><bf16>"))
      << session.shown();
  session.type("tandem sweep --precision fp32,tf\t --out script\t\n");
  EXPECT_TRUE(session.sees("called<sweep><--precision><fp32,tf32><--out><script>")) << session.shown();
}

TEST(Completion, TabInBash) {
  if (!installed("bash")) GTEST_SKIP() << "no bash";
  const Scratch folder;
  put_tandem(folder, "bash");
  Typing session({"bash", "--norc", "--noprofile", "-i"}, folder);
  types_and_completes(session, folder);
}

TEST(Completion, TabInZsh) {
  if (!installed("zsh")) GTEST_SKIP() << "no zsh";
  const Scratch folder;
  put_tandem(folder, "zsh");
  Typing session({"zsh", "-f", "-i"}, folder);
  session.type("autoload -Uz compinit; compinit -u -d " + folder.file("dump") + "\n");
  types_and_completes(session, folder);
}

TEST(Completion, TabInFish) {
  if (!installed("fish")) GTEST_SKIP() << "no fish";
  const Scratch folder;
  put_tandem(folder, "fish");
  const auto completes = [&](const std::string& line) {
    return shell("cd " + folder.file("") +
                 " && HOME=$PWD PATH=$PWD:$PATH fish --no-config -c 'source script; complete -C \"" + line +
                 "\"'")
        .out;
  };
  EXPECT_THAT(completes("tandem pre"), StartsWith("predict\tsimulate"));
  EXPECT_EQ(completes("tandem predict --model lenet"), "lenet5\n");
  EXPECT_EQ(completes("tandem predict --model=lenet"), "--model=lenet5\n");
  EXPECT_THAT(completes("tandem predict --batch-n"), StartsWith("--batch-norm\tthe samples"));
  EXPECT_THAT(completes("tandem predict --out scr"), HasSubstr("script"));
}

}  // namespace
}  // namespace tandem::tests
