// Several processes under mpirun compute what one process does. Skipped where there is no mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/child.h"
#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::test {
namespace {

ChildResult mpirun(int processes, std::vector<std::string> words) {
  std::vector<std::string> all = {"mpirun", "--allow-run-as-root",     "--oversubscribe",
                                  "-np",    std::to_string(processes), TANDEM_BINARY};
  all.insert(all.end(), words.begin(), words.end());
  try {
    return run_child(all, "", "openmpi-bin");
  } catch (const InputError&) {
    ChildResult none;  // no such program
    none.status = 127;
    return none;
  }
}

bool absent(const ChildResult& r) {
  return r.status == 127 || r.err.find("built without MPI") != std::string::npos;
}

std::vector<std::string> training(const std::string& scheme) {
  return {"run",      "--model", "digits-mlp", "--data", "digits",   "--iterations", "20",
          "--format", "json",    "--devices",  "4",      "--scheme", scheme};
}

TEST(Mpi, ProcessesTrainWhatThreadsDo) {
  for (const char* scheme :
       {"allreduce:algorithm=ring", "parameter-server", "parameter-server:shards=1", "zero:stage=3"}) {
    const ChildResult apart = mpirun(2, training(scheme));
    if (absent(apart)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
    ASSERT_EQ(apart.status, 0) << apart.err;
    const ChildResult together = tool(training(scheme));
    const Json a = Json::parse(apart.out, "mpirun"), t = Json::parse(together.out, "threads");
    EXPECT_EQ(a.at("devices").as_int(), 4);
    EXPECT_GT(a.at("samples_per_second").as_real(), 0);
    for (const char* key : {"first_loss", "last_loss", "accuracy"})
      EXPECT_NEAR(a.at("training").at(key).as_real(), t.at("training").at(key).as_real(), 1e-3)
          << scheme << " " << key;
  }
}

TEST(Mpi, StalenessIsThatOfAllProcesses) {
  const ChildResult r = mpirun(2, training("parameter-server:mode=async,overlap=off"));
  if (absent(r)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  ASSERT_EQ(r.status, 0) << r.err;
  const Json report = Json::parse(r.out, "mpirun");
  int64_t gradients = 0;
  for (const Json& bin : report.at("staleness").at("histogram").items())
    gradients += bin.at("count").as_int(0);
  EXPECT_EQ(gradients, 4 * 20 * 2) << "workers x iterations x a shard on each process";
}

TEST(Mpi, RefusesWhatProcessesCannotDo) {
  const ChildResult store =
      mpirun(2, {"run", "--model", "lenet5", "--scheme", "parameter-server:server=nodes"});
  if (absent(store)) GTEST_SKIP() << "no mpirun here, or a build without MPI";
  EXPECT_EQ(store.status, 3);
  EXPECT_THAT(store.err, ::testing::HasSubstr("only simulated"));
  const ChildResult nodes = mpirun(2, {"run", "--model", "lenet5", "--nodes", "4", "--devices", "4"});
  EXPECT_EQ(nodes.status, 3);
  EXPECT_THAT(nodes.err, ::testing::HasSubstr("each plays a node"));
}

}  // namespace
}  // namespace tandem::test
