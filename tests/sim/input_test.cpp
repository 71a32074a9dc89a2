// SPDX-License-Identifier: Apache-2.0
// Real input, by what its slowest stage must give.
#include <gtest/gtest.h>

#include "tests/sim/prediction.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

double rate(const System& system, int64_t devices, int64_t batch) {
  static const Graph graph = Graph::load("alexnet");  // 4.2 ms to decode, 110 KB stored, 588 KiB decoded
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Prediction p = prediction_of(graph, system, scheme, devices, batch);
  p.job.input = true;
  p.check_memory = false;
  p.disturbance = Disturbance{};
  return simulate(p).samples_per_second;
}

TEST(Input, IsDecodedByTheCoresOfEachNode) {
  const System::Sets few{{"host.cores", "2"}, {"host.core_speed", "1.5"}, {"host.local_storage", "100GB/s"}};
  const System one = System::load("v100-pcie-8x", few);
  for (const int64_t batch : {32, 64}) {
    for (const int64_t devices : {1, 2, 8})
      EXPECT_NEAR(rate(one, devices, batch), 2 * 1.5 / 4.2e-3, 0.01 * 2 * 1.5 / 4.2e-3)
          << batch << " " << devices;
  }
  System::Sets nodes = few;
  nodes.emplace_back("nodes", "3");
  EXPECT_NEAR(rate(System::load("ethernet-cluster", nodes), 24, 16), 3 * 2 * 1.5 / 4.2e-3, 0.02 * 2143);
}

TEST(Input, IsReadFromTheNodesStorageAndFromTheSharedOne) {
  const System local =
      System::load("v100-pcie-8x", {{"host.local_storage", "11MB/s"}, {"host.cores", "1000"}});
  EXPECT_NEAR(rate(local, 4, 16), 100, 1);
  const System shared = System::load(
      "ethernet-cluster",
      {{"host.local_storage", "100GB/s"}, {"host.shared_storage", "22MB/s"}, {"host.cores", "1000"}});
  EXPECT_NEAR(rate(shared, 24, 16), 200, 2) << "one for all nodes";
}

}  // namespace
}  // namespace tandem::tests
