// SPDX-License-Identifier: Apache-2.0
// Job files: what engines would read, and the whole of a Slurm job with a stand-in for sbatch.
// tests/app/launch_slurm.py strikes a real Slurm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/app/mpirun.h"

namespace tandem::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> launched(std::vector<std::string> before, const std::string& out,
                                  const std::vector<std::string>& more = {}) {
  before.insert(before.begin(), "launch");
  before.insert(before.end(), {"--", "sweep", "--model", "lenet5", "--system", "dgx1-v100", "--devices",
                               "1,2,4", "--batch", "8,16", "--set", "host.cores=8,16", "--out", out});
  before.insert(before.end(), more.begin(), more.end());
  return before;
}

/// Stands for sbatch: runs each task of an array, or of a job without one, at once. Fails where an option is
/// not the expected one.
constexpr const char* kSbatch = R"(#!/bin/sh
script=$(cat)
array=
for word; do
  case $word in
    --array=*) array=${word#*=} ;;
    --parsable | --job-name=tandem-my-grid | --job-name=tandem-my-grid-merge | --open-mode=append) ;;
    --dependency=afterany:77 | '--comment=two words') ;;
    *) echo "option $word" >&2; exit 1 ;;
  esac
done
first=${array%-*} last=${array#*-}
[ -n "$array" ] || first=0 last=0
for task in $(seq "$first" "$last"); do
  echo "$script" | SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=1 SLURM_CPUS_ON_NODE=2 sh
  echo "task $array $task: $?" >>"$LOG"
done
echo '77;here'
)";

TEST(Launch, SlurmTasksAnswerShardsWhichAreMerged) {
  const Scratch scratch;
  const std::string log = scratch.file("log"), out = scratch.file("My 'grid'.sqlite"),
                    job = scratch.file("job.sh");
  std::filesystem::permissions(scratch.write("sbatch", kSbatch), std::filesystem::perms::owner_all);
  const ChildResult made =
      tool(launched({"slurm", "--shards", "3", "--option=--comment=two words", "--out", job}, out));
  ASSERT_EQ(made.status, 0) << made.err;
  const auto run = [&](const std::string& tasks) {
    const std::string folder = scratch.file("");
    return run_child(
        {"sh", "-c", "LOG='" + log + "' PATH='" + folder + "':\"$PATH\" sh '" + job + "' " + tasks}, "", "",
        kPatience);
  };
  // One task alone: the merge says what the others lack. Its count of tasks is 1, and nobody reads it.
  const ChildResult one = run("1-1");
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.err, AllOf(HasSubstr("of shard 0/3"), HasSubstr("of shard 2/3")));
  EXPECT_EQ(one.err.find("of shard 1/3,"), std::string::npos);
  const ChildResult all = run("");
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.err, HasSubstr("12 of 12 cells"));
  EXPECT_EQ(slurp(log),
            "task 1-1 1: 0\ntask  0: 1\ntask 0-2 0: 0\ntask 0-2 1: 0\ntask 0-2 2: 0\ntask  0: 0\n");

  const std::string whole = scratch.file("whole.sqlite");
  auto words = launched({}, whole);
  ASSERT_EQ(tool({words.begin() + 2, words.end()}).status, 0);
  EXPECT_EQ(tool({"sweep", "export", out}).out, tool({"sweep", "export", whole}).out);
}

TEST(Launch, KubernetesJobsAnswerShardsByTheirIndex) {
  const Scratch scratch;
  const ChildResult made = tool(launched(
      {"kubernetes", "--shards", "3", "--image", "an/image:1", "--claim", "files"}, "$(grid).sqlite"));
  ASSERT_EQ(made.status, 0) << made.err;
  const auto first = made.out.find("---\n"), second = made.out.find("---\n", first + 1);
  ASSERT_NE(second, std::string::npos) << made.out;
  for (const std::string& line : split(made.out.substr(0, first), '\n')) {
    if (!line.empty()) EXPECT_THAT(line, StartsWith("# "));
  }
  const Json sweep = Json::parse(made.out.substr(first + 4, second - first - 4), "the first job");
  const Json merge = Json::parse(made.out.substr(second + 4), "the second job");
  EXPECT_EQ(sweep.at("spec").at("completions").as_int(), 3);
  EXPECT_EQ(sweep.at("spec").at("completionMode").as_text(), "Indexed");
  EXPECT_TRUE(merge.at("spec").at("suspend").as_bool());
  const auto words_of = [](const Json& job) {
    std::string out;
    for (const Json& word :
         job.at("spec").at("template").at("spec").at("containers").items()[0].at("command").items())
      out += (out.empty() ? "" : " ") + word.as_text();
    return out;
  };
  EXPECT_EQ(
      words_of(sweep),
      "tandem sweep --model lenet5 --system dgx1-v100 --devices 1,2,4 --batch 8,16 --set host.cores=8,16 "
      "--out $$(grid).sqlite --threads 1 --shard $(SHARD)/3");
  EXPECT_EQ(words_of(merge), "tandem sweep merge --shards 3 --out $$(grid).sqlite");
  for (const Json* job : {&sweep, &merge}) {
    const Json& pod = job->at("spec").at("template").at("spec");
    EXPECT_EQ(pod.at("volumes").items()[0].at("persistentVolumeClaim").at("claimName").as_text(), "files");
    EXPECT_EQ(pod.at("containers").items()[0].at("image").as_text(), "an/image:1");
  }
}

TEST(Launch, MpiRanksShareOneSweep) {
  const ChildResult made =
      tool(launched({"mpi", "--shards", "4", "--option=--oversubscribe", "--program", "tandem"}, "g.sqlite"));
  EXPECT_EQ(
      made.out,
      "mpirun -n 4 --oversubscribe tandem sweep --model lenet5 --system dgx1-v100 --devices 1,2,4 --batch "
      "8,16 --set host.cores=8,16 --out g.sqlite\n");
}

std::vector<std::string> launched_run(std::vector<std::string> before,
                                      const std::vector<std::string>& more = {}) {
  before.insert(before.begin(), "launch");
  before.insert(before.end(), {"--", "run", "--model", "lenet5", "--devices", "2", "--iterations", "4",
                               "--format", "json", "--no-timeline"});
  before.insert(before.end(), more.begin(), more.end());
  return before;
}

TEST(Launch, MpiStartsARun) {
  const Scratch scratch;
  const std::string report = scratch.file("report.json"), script = scratch.file("run.sh");
  const ChildResult made = tool(launched_run({"mpi", "--processes", "2", "--option=--oversubscribe",
                                              "--option=--allow-run-as-root", "--out", script},
                                             {"--out", report}));
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(slurp(script),
              StartsWith("mpirun -n 2 --oversubscribe --allow-run-as-root " TANDEM_BINARY " run "));
  const ChildResult run = shell("command -v mpirun >/dev/null || exit 127; sh '" + script + "'");
  if (absent(run)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(last_report(slurp(report)).at("devices").as_int(), 2);
}

/// With a stand-in for sbatch, which runs the job, and one for srun.
TEST(Launch, SlurmStartsARun) {
  const Scratch scratch;
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"sbatch", "#!/bin/sh\necho \"$@\" >\"${0%/*}/said\"; sh\n"},
           {"srun", "#!/bin/sh\n[ \"$1\" = --mpi=pmix ] || exit 1; shift; exec \"$@\"\n"}})
    std::filesystem::permissions(scratch.write(name, text), std::filesystem::perms::owner_all);
  const std::string report = scratch.file("a report.json"), script = scratch.file("run.sh");
  ASSERT_EQ(tool(launched_run({"slurm", "--processes", "2", "--option=--partition=short", "--out", script},
                              {"--out", report}))
                .status,
            0);
  const std::string folder = scratch.file("");
  const ChildResult run =
      run_child({"sh", "-c", "PATH='" + folder + "':\"$PATH\" sh '" + script + "'"}, "", "", kPatience);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(
      slurp(scratch.file("said")),
      "--job-name=tandem-a-report --ntasks=2 --ntasks-per-node=1 --open-mode=append --partition=short\n");
  EXPECT_EQ(last_report(slurp(report)).at("devices").as_int(), 2);
}

TEST(Launch, KubernetesStartsARun) {
  const auto made = [](const std::string& processes) {
    const ChildResult result = tool(
        launched_run({"kubernetes", "--processes", processes, "--image", "an/image:1", "--claim", "files"}));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("# Made by: tandem launch kubernetes "));
    return Json::parse(result.out.substr(result.out.find("---\n") + 4), "the job");
  };
  const auto command = [](const Json& spec) {
    return spec.at("template").at("spec").at("containers").items()[0].at("command").items()[0].as_text();
  };
  const Json alone = made("1"), several = made("2");
  EXPECT_EQ(alone.at("kind").as_text(), "Job");
  EXPECT_EQ(command(alone.at("spec")), "tandem");
  EXPECT_EQ(several.at("kind").as_text(), "MPIJob");
  const Json& roles = several.at("spec").at("mpiReplicaSpecs");
  EXPECT_EQ(command(roles.at("Launcher")), "mpirun");
  EXPECT_EQ(roles.at("Worker").at("replicas").as_int(), 2);
  EXPECT_EQ(roles.at("Worker").at("template").at("spec").at("containers").items()[0].find("command"),
            nullptr);
}

TEST(Launch, RefusesWhatNoShardCouldDo) {
  const auto refusal = [](std::vector<std::string> words, int status) {
    const ChildResult result = tool(std::move(words));
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(refusal(launched({"slrum", "--shards", "2"}, "g"), 2), HasSubstr("Did you mean slurm"));
  EXPECT_THAT(refusal(launched({"slurm"}, "g"), 2), HasSubstr("--shards is missing"));
  EXPECT_THAT(refusal({"launch", "slurm", "--shards", "2"}, 2),
              HasSubstr("after -- stands the sweep or the run"));
  EXPECT_THAT(refusal(launched({"slurm", "--shards", "2"}, "g", {"--shard", "0/2"}), 2),
              HasSubstr("leave it out"));
  EXPECT_THAT(refusal(launched({"slurm", "--shards", "2"}, "g", {"--scheme", "fdsp"}), 3),
              HasSubstr("Did you mean fsdp"));
  EXPECT_THAT(refusal(launched({"slurm", "--shards", "2"}, "two\nlines"), 2), HasSubstr("line break"));
  EXPECT_THAT(refusal(launched({"kubernetes", "--shards", "2"}, "g"), 2), HasSubstr("--image is missing"));
  EXPECT_THAT(refusal(launched({"mpi", "--shards", "2", "--claim", "x"}, "g"), 2),
              HasSubstr("--claim is for kubernetes"));
  const std::vector<std::string> two = {"mpi", "--processes", "2"};
  EXPECT_THAT(refusal(launched_run({"mpi"}), 2), HasSubstr("--processes is missing"));
  EXPECT_THAT(refusal(launched_run({"mpi", "--shards", "2"}), 2), HasSubstr("--shards is for a sweep"));
  EXPECT_THAT(refusal(launched_run(two, {"--nodes", "2"}), 2), HasSubstr("leave --nodes out"));
  EXPECT_THAT(refusal(launched_run(two, {"--scheme", "fdsp"}), 3), HasSubstr("Did you mean fsdp"));
  EXPECT_THAT(refusal(launched_run({"mpi", "--processes", "3"}), 2),
              HasSubstr("2 devices do not divide over 3 processes"));
}

}  // namespace
}  // namespace tandem::tests
