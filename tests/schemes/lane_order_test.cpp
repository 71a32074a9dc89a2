// SPDX-License-Identifier: Apache-2.0
// Which schemes leave a worker's lanes nothing to do at the same time.
#include "schemes/program/lane_order.h"

#include <gtest/gtest.h>

#include "schemes/setup/job.h"
#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

bool one_by_one(const std::string& scheme, bool input = false) {
  const Graph graph = Graph::load("lenet5");
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Job job;
  job.graph = &graph;
  job.scheme = &resolved;
  job.batch = 8;
  job.optimizer = &optimizer("momentum");
  job.input = input;
  job.loading.decoded = true;
  const Program program = compile(job, {2, 1, 2});
  return one_after_another(program, program.roles[0]);
}

TEST(LaneOrder, OfSchemes) {
  for (const char* scheme : {"parameter-server:mode=async,overlap=off",
                             "parameter-server:mode=ssp,overlap=off", "allreduce:overlap=off",
                             "local-sgd:every=10", "post-local-sgd:after=20,every=5", "gossip:overlap=off"})
    EXPECT_TRUE(one_by_one(scheme)) << scheme;
  for (const char* scheme :
       {"parameter-server:mode=async,bucket=0B", "allreduce:bucket=1KiB,first-bucket=1KiB", "gossip",
        "delayed-allreduce:delay=2"})
    EXPECT_FALSE(one_by_one(scheme)) << scheme;
  EXPECT_FALSE(one_by_one("parameter-server:mode=async,overlap=off", true)) << "input is copied ahead";
}

/// In iterations without the sum the update follows the backward pass all the same: here it does not wait.
TEST(LaneOrder, CountsIterationsThatLackAnOp) {
  Builder b;
  RoleBuilder w = b.role("worker", Mesh{{{"data", 2}}});
  const OpId made = w.compute({}, "step");
  const OpId sum = w.collective(CollKind::all_reduce, 1, Bytes{4}, "auto", "sum").after(made).every(2);
  OpHandle moved = w.compute({}, "move").after(sum).on(Lane::host);
  EXPECT_FALSE(one_after_another(b.program(), b.program().roles[0]))
      << "what is moved waits for nothing where there is no sum";
  moved.after(made);
  EXPECT_FALSE(one_after_another(b.program(), b.program().roles[0])) << "nor does the next step for that";
}

}  // namespace
}  // namespace tandem::tests
