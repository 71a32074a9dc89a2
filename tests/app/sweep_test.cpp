// SPDX-License-Identifier: Apache-2.0
// The verb that answers a grid: its file, what is shown of it, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/app/mpirun.h"

namespace tandem::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> small_sweep(const std::string& out, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"sweep",   "--model", "lenet5",    "--system", "dgx1-v100,v100-pcie-8x",
                                    "--batch", "8,32",    "--devices", "1,4,16",   "--out",
                                    out};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(SweepVerb, WritesAFileThatShowAndExportRead) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite");
  const ChildResult result = tool(small_sweep(file));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("12 of 12 cells: 8 answered, 0 do not fit, 4 refused"));
  EXPECT_THAT(tool(small_sweep(file, {"--quiet"})).err, "");

  const ChildResult text = shell("COLUMNS=80 \"$0\" sweep show '" + file + "'");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("model lenet5"), HasSubstr("samples/s"), HasSubstr("Refused: ")));
  for (const std::string& line : split(text.out, '\n')) EXPECT_LE(line.size(), 80u) << line;
  const std::string shown = tool({"sweep", "show", file, "--format", "json", "--top", "3"}).out;
  const Json json = Json::parse(shown, "stdout");
  EXPECT_EQ(json.at("schema").as_text(), "tandem-sweep-1");
  ASSERT_EQ(json.at("rows").items().size(), 3u);
  EXPECT_GT(json.at("rows").items()[0].at("samples_per_second").as_real(), 1000);
  EXPECT_EQ(tool({"report", scratch.write("shown.json", shown)}).status, 0);

  const ChildResult csv = tool({"sweep", "export", file, "--format", "csv"});
  EXPECT_THAT(csv.out,
              StartsWith("hash,position,status,reason,model,system,devices,batch,samples_per_second,"));
  EXPECT_EQ(split(csv.out, '\n').size(), 14u);
}

TEST(SweepVerb, SortsByAnyColumn) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite");
  ASSERT_EQ(tool(small_sweep(file)).status, 0);
  const auto batches = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"sweep", "show", file, "--sort", "batch", "--format", "csv"};
    words.insert(words.end(), more.begin(), more.end());
    return split(tool(words).out, '\n');
  };
  EXPECT_THAT(batches({})[1], HasSubstr(",32,"));
  EXPECT_THAT(batches({"--ascending"})[1], HasSubstr(",8,"));
  const ChildResult wrong = tool({"sweep", "show", file, "--sort", "memory"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("memory_bytes"));
}

TEST(SweepVerb, TakesAQuestionsFile) {
  const Scratch scratch;
  const std::string question =
      scratch.write("q.json", tool(small_predict({"--format", "json", "--batch", "8"})).out);
  const std::string file = scratch.file("grid.sqlite");
  const ChildResult result = tool(
      {"sweep", "--question", question, "--scheme", "allreduce,fsdp", "--depth", "report", "--out", file});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("4 of 4 cells: 4 answered"));
  EXPECT_THAT(tool({"sweep", "export", file}).out, HasSubstr("lenet5,dgx1-v100,2,fsdp,8,"));
}

TEST(SweepVerb, MergeSaysWhatIsMissing) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite"), whole = scratch.file("whole.sqlite");
  for (const char* shard : {"0/2", "1/2"}) ASSERT_EQ(tool(small_sweep(file, {"--shard", shard})).status, 0);
  const std::string first = scratch.file("grid.shard-0-of-2.sqlite"),
                    second = scratch.file("grid.shard-1-of-2.sqlite");
  const ChildResult half = tool({"sweep", "merge", first, "--out", file});
  EXPECT_EQ(half.status, 1);
  EXPECT_THAT(half.err, HasSubstr("6 of shard 1/2"));
  const ChildResult both = tool({"sweep", "merge", first, second, "--out", file});
  EXPECT_EQ(both.status, 0) << both.err;
  ASSERT_EQ(tool(small_sweep(whole)).status, 0);
  EXPECT_EQ(tool({"sweep", "export", file}).out, tool({"sweep", "export", whole}).out);
}

/// A grid that takes minutes is stopped once its file is there.
TEST(SweepVerb, KeepsWhatIsFinishedWhenInterrupted) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite");
  const ChildResult result = shell(
      "f='" + file +
      "'; \"$0\" sweep --model lenet5 --system dgx1-v100 --devices 1,2,3,4,5,6,7,8 --batch "
      "$(seq -s, 1 100) --seed $(seq -s, 1 500) --out \"$f\" & "
      "until \"$0\" sweep show \"$f\" 2>/dev/null | grep -q samples/s; do :; done; kill -TERM $!; wait $!");
  EXPECT_EQ(result.status, 143) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("of 400,000 cells"), HasSubstr("The same command goes on")));
  EXPECT_THAT(tool({"sweep", "show", file}).out, HasSubstr("of 400,000 cells"));
}

/// Writes a file of its own, or none where DuckDB is missing: then it says what to install.
TEST(SweepVerb, ExportsParquetWhereDuckDbIs) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite"), out = scratch.file("it's [1].parquet");
  ASSERT_EQ(tool(small_sweep(file, {"--set", "host.cores=default,8"})).status, 0);
  EXPECT_THAT(tool({"sweep", "export", file, "--format", "parquet"}).err, HasSubstr("--out is missing"));
  const ChildResult result = tool({"sweep", "export", file, "--format", "parquet", "--out", out});
  if (result.status == 0) {
    EXPECT_THAT(slurp(out), StartsWith("PAR1"));
  } else {
    EXPECT_EQ(result.status, 4);
    EXPECT_THAT(result.err, HasSubstr("pip install duckdb"));
  }
}

TEST(SweepVerb, ProcessesAnswerWhatThreadsDo) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite"), apart = scratch.file("apart.sqlite");
  const ChildResult result = mpirun(3, small_sweep(apart, {"--threads", "2"}));
  if (absent(result)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("12 of 12 cells: 8 answered, 0 do not fit, 4 refused"));
  ASSERT_EQ(tool(small_sweep(file)).status, 0);
  EXPECT_EQ(tool({"sweep", "export", apart}).out, tool({"sweep", "export", file}).out);

  // What is wrong is said once, and none waits for the others.
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {small_sweep(scratch.file("none") + "/x.sqlite"), "there is no folder"},
           {small_sweep(file, {"--precision", "fp16"}), "holds another sweep"},
           {small_sweep(file, {"--shard", "3/2"}), "shards are numbered"}}) {
    const ChildResult wrong = mpirun(3, words);
    EXPECT_NE(wrong.status, 0);
    const auto first = wrong.err.find(said);
    ASSERT_NE(first, std::string::npos) << wrong.err;
    EXPECT_EQ(wrong.err.find(said, first + 1), std::string::npos) << wrong.err;
  }
}

TEST(SweepVerb, NothingMadeOfAFileReplacesIt) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite");
  ASSERT_EQ(tool(small_sweep(file)).status, 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"sweep", "show", file}, {"sweep", "export", file}, {"report", file}}) {
    std::vector<std::string> onto_itself = words;
    onto_itself.insert(onto_itself.end(), {"--out", file});
    const ChildResult result = tool(onto_itself);
    EXPECT_EQ(result.status, 3) << words[1];
    EXPECT_THAT(result.err, HasSubstr("it would be lost"));
    EXPECT_EQ(tool({"sweep", "show", file}).status, 0);
  }
}

/// Ctrl-C: mpirun sends SIGCONT, waits (here five seconds instead of one), sends SIGTERM and SIGKILL.
TEST(SweepVerb, IsFinishedBeforeMpirunKills) {
  const Scratch scratch;
  const ChildResult result = shell(
      "cd '" + scratch.file("") +
      "' && command -v mpirun >/dev/null || exit 127\n"
      "mpirun --allow-run-as-root --oversubscribe --mca odls_base_sigkill_timeout 5 -np 3 \"$0\" sweep "
      "--model resnet50,vgg16,gpt2,alexnet --system dgx1-v100,v100-pcie-8x --batch $(seq -s, 1 99) --devices "
      "1,2,4,8 --scheme allreduce,parameter-server,local-sgd --depth full --out grid.sqlite 2>said & job=$!\n"
      "for try in $(seq 3000); do \"$0\" sweep show grid.sqlite 2>/dev/null | grep -q '[1-9] answered' && "
      "break; "
      "sleep 0.1; done\n"
      "kill -INT $job; wait $job; cat said >&2; ls");
  if (absent(result)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  EXPECT_EQ(result.out, "grid.sqlite\nsaid\n");
  EXPECT_THAT(result.err, HasSubstr("The same command goes on with the rest"));
}

TEST(SweepVerb, RefusesWhatItCannotDo) {
  const Scratch scratch;
  const std::string file = scratch.file("grid.sqlite");
  const auto refusal = [](std::vector<std::string> words, int status) {
    const ChildResult result = tool(std::move(words));
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(refusal({"sweep", "--model", "lenet5"}, 2), HasSubstr("--out is missing"));
  EXPECT_THAT(refusal({"sweep", "shwo", file}, 2), HasSubstr("Did you mean show"));
  EXPECT_THAT(refusal({"sweep", "show", file}, 3), HasSubstr("no such file"));
  EXPECT_THAT(refusal({"sweep", "show", file, "--model", "lenet5"}, 2),
              HasSubstr("--model does not go with"));
  EXPECT_THAT(refusal({"sweep", "show"}, 2), HasSubstr("takes one file"));
  EXPECT_THAT(refusal({"sweep", "merge", file}, 2), HasSubstr("--out"));
  EXPECT_THAT(refusal(small_sweep(file, {"--shard", "2/2"}), 2), HasSubstr("numbered 0 to 1"));
  EXPECT_THAT(refusal(small_sweep(file, {"--depth", "deep"}), 2), HasSubstr("rate, report, full"));
  EXPECT_THAT(refusal(small_sweep(file, {"--top", "5"}), 2), HasSubstr("sweep show"));
  EXPECT_THAT(refusal(small_sweep(""), 2), HasSubstr("--out: the file's name is empty"));
  EXPECT_THAT(refusal(small_sweep("-"), 2), HasSubstr("standard output cannot hold"));
  EXPECT_THAT(refusal(small_sweep("/dev/null"), 3), HasSubstr("/dev/null: is no regular file"));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_THAT(
      refusal({"sweep", "--model", "lenet5", "--system", "dgx1-v100", "--devices", "64,128", "--out", file},
              3),
      HasSubstr("no cell could be answered; the first: "));
}

}  // namespace
}  // namespace tandem::tests
