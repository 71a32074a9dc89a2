// SPDX-License-Identifier: Apache-2.0
// Several processes under mpirun compute what one process does. Skipped where there is no mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "exec/execute.h"
#include "schemes/collectives/collectives.h"
#include "tests/app/mpirun.h"

namespace tandem::tests {
namespace {

std::vector<std::string> training(const std::string& scheme, int iterations = 20) {
  return {
      "run",      "--model", "digits-mlp", "--data", "digits",   "--iterations", std::to_string(iterations),
      "--format", "json",    "--devices",  "4",      "--scheme", scheme};
}

TEST(Mpi, ProcessesTrainWhatThreadsDo) {
  for (const char* scheme : {"allreduce:algorithm=ring", "parameter-server", "parameter-server:shards=1",
                             "zero:stage=3", "hybrid:sharding=3", "allreduce:cycle=500us",
                             "parameter-averaging:every=2,through=cpu,state=params+optimizer"}) {
    const ChildResult apart = mpirun(2, training(scheme));
    if (absent(apart)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
    ASSERT_EQ(apart.status, 0) << apart.err;
    const ChildResult together = tool(training(scheme));
    const Json a = last_report(apart.out), t = last_report(together.out);
    EXPECT_EQ(a.at("devices").as_int(), 4);
    EXPECT_GT(a.at("samples_per_second").as_real(), 0);
    for (const char* key : {"first_loss", "last_loss", "accuracy"})
      EXPECT_NEAR(a.at("training").at(key).as_real(), t.at("training").at(key).as_real(), 1e-3)
          << scheme << " " << key;
  }
}

/// What rank_groups_program.cpp trains, with threads of this process.
ExecutionResult in_one_process(uint32_t workers, bool integers) {
  const Graph graph = Graph::load("digits-mlp");
  const ResolvedScheme scheme = resolve_scheme("allreduce:bucket=8KiB", {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at("cpu");
  e.cluster = {workers, 1, workers};
  e.job.batch = 8;
  e.job.optimizer = &optimizer("momentum");
  e.iterations = 12;
  e.integer_gradients = integers;
  return execute(e, {false, false, true});
}

/// As NCCL's groups: begun by one process, told to the others, and the schedules over MPI where one of them
/// cannot take part.
TEST(Mpi, GroupsOfADeviceLibraryReachOverProcesses) {
  const ExecutionResult together = in_one_process(2, false);
  for (const char* mode : {"take", "refuse"}) {
    const ChildResult r = mpirun(2, {mode}, TANDEM_RANK_GROUPS);
    if (absent(r)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
    ASSERT_EQ(r.status, 0) << r.err;
    const Json apart = Json::parse(r.out, mode);
    EXPECT_EQ(apart.at("runs").as_int(0), std::string(mode) == "take" ? 12 : 0) << "once an iteration";
    for (std::size_t i = 0; i < together.losses.size(); ++i)
      EXPECT_NEAR(apart.at("losses").items()[i].as_real(), together.losses[i], 1e-4) << mode;
    for (std::size_t i = 0; i < 100; ++i)
      ASSERT_NEAR(apart.at("parameters").items()[i].as_real(), together.parameters[i], 1e-4) << mode;
  }
}

/// As NCCL's send and receive: named algorithms over processes, of one member each and of two.
TEST(Mpi, SchedulesOfALibrarysMessagesSumExactlyOverProcesses) {
  for (const uint32_t workers : {2U, 4U}) {
    const ExecutionResult together = in_one_process(workers, true);
    for (const CollectiveAlgorithm& a : collectives_registry().all()) {
      if (!a.supports(CollKind::all_reduce, {workers, workers / 2, false})) continue;
      // Half of the algorithms in numbers of 2 bytes, in which these sums are exact as well.
      const std::string algorithm = std::string(a.name) + (a.name.size() % 2 == 0 ? ",gradients=fp16" : "");
      const ChildResult r = mpirun(2, {"exchange", algorithm, std::to_string(workers)}, TANDEM_RANK_GROUPS);
      if (absent(r)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
      ASSERT_EQ(r.status, 0) << algorithm << " " << r.err;
      const Json apart = Json::parse(r.out, algorithm);
      EXPECT_GE(apart.at("runs").as_int(0), 12 * workers / 2) << "each member of the first process";
      EXPECT_EQ(apart.at("runs").as_int(0) % 12, 0) << "every iteration alike";
      for (std::size_t i = 0; i < 100; ++i)
        ASSERT_EQ(apart.at("parameters").items()[i].as_real(), static_cast<double>(together.parameters[i]))
            << algorithm << " " << workers;
    }
  }
}

TEST(Mpi, StalenessIsThatOfAllProcesses) {
  const ChildResult r = mpirun(2, training("parameter-server:mode=async,overlap=off"));
  if (absent(r)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  ASSERT_EQ(r.status, 0) << r.err;
  const Json report = last_report(r.out);
  int64_t gradients = 0;
  for (const Json& bin : report.at("staleness").at("histogram").items())
    gradients += bin.at("count").as_int(0);
  EXPECT_EQ(gradients, 4 * (20 - 3) * 2) << "workers x iterations after warm-up x a shard on each process";
}

/// Partners are drawn among the workers of all processes; the accuracy is that of the mean of all models.
TEST(Mpi, GossipReachesModelsOfOtherProcesses) {
  for (const char* scheme : {"gossip", "gossip:partner=ring,overlap=off"}) {
    const ChildResult r = mpirun(4, training(scheme, 60));
    if (absent(r)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
    ASSERT_EQ(r.status, 0) << r.err;
    const Json report = last_report(r.out);
    EXPECT_EQ(report.at("devices").as_int(), 4);
    EXPECT_LT(report.at("training").at("last_loss").as_real(),
              0.7 * report.at("training").at("first_loss").as_real());
    EXPECT_GT(report.at("training").at("accuracy").as_real(), 0.5);
    int64_t gradients = 0;
    for (const Json& bin : report.at("staleness").at("histogram").items())
      gradients += bin.at("count").as_int(0);
    EXPECT_EQ(gradients, 4 * (60 - 3)) << "workers x iterations after warm-up";
  }
}

/// srun that was not told which way its processes find each other would start as many runs of one worker.
/// srun_test.py asks a real one.
TEST(Mpi, KnowsSrun) {
  const ChildResult r =
      shell("SLURM_STEP_NUM_TASKS=4 \"$0\" run --model digits-mlp --devices 1 --iterations 2");
  EXPECT_EQ(r.status, 3) << r.out;
  EXPECT_THAT(r.err, ::testing::HasSubstr("say srun --mpi=pmix"));
  EXPECT_EQ(
      shell("SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 \"$0\" run --model digits-mlp --devices 1 --iterations 2")
          .status,
      0)
      << "within a job, alone";
}

TEST(Mpi, RefusesWhatProcessesCannotDo) {
  const ChildResult store =
      mpirun(2, {"run", "--model", "lenet5", "--scheme", "parameter-server:server=nodes"});
  if (absent(store)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  EXPECT_EQ(store.status, 3);
  EXPECT_THAT(store.err, ::testing::HasSubstr("only simulated"));
  const ChildResult nodes = mpirun(2, {"run", "--model", "lenet5", "--nodes", "4", "--devices", "4"});
  EXPECT_EQ(nodes.status, 2);
  EXPECT_THAT(nodes.err, ::testing::HasSubstr("each is a node"));
}

}  // namespace
}  // namespace tandem::tests
