// SPDX-License-Identifier: Apache-2.0
// Every trait of published logs that a reader has to cope with, in small logs of our own.
#include "calibration/logs/nccl_tests.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::tests {
namespace {

NcclLog read(const std::string& text) { return read_nccl_tests(text, "log.txt"); }

const std::string kRow =
    "     1048576        262144     float     sum      -1    104.9   10.00   17.50      0\n";

TEST(NcclTests, ReadsTheTableWithRootAndWrongColumns) {
  const NcclLog log = read(
      "# nThread 2 nGpus 4 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 30 agg iters: "
      "1\n"
      "#  Rank  0 Group  0 Pid   855 on hosta device  0 [0xa4] NVIDIA A100-SXM4-80GB\n"
      "#  Rank  1 Group  0 Pid   855 on hostb device  1 [0xa5] NVIDIA A100-SXM4-80GB\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
      "algbw\n"
      "           8             2     float     sum      -1    21.03    0.00    0.00      0    20.98    0.00 "
      "   0.00"
      "      0\n" +
      kRow + "# Avg bus bandwidth    : 8.75\n");
  EXPECT_EQ(log.devices, 2);
  EXPECT_EQ(log.nodes, 2);
  EXPECT_EQ(log.device, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(log.harness.threads, 2);
  EXPECT_EQ(log.harness.gpus_per_thread, 4);
  EXPECT_EQ(log.harness.iterations, 30);
  ASSERT_EQ(log.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 21.03e-6);  // out of place
  EXPECT_DOUBLE_EQ(log.rows[1].busbw, 17.5e9);
  EXPECT_EQ(log.damaged, 0);
}

TEST(NcclTests, ReadsOlderTablesWithoutRootAndWithFloatErrors) {
  const NcclLog log = read(
      "   1048576        262144   float     sum    104.9   10.00   17.50  2e-07    104.9   10.00   17.50  "
      "1e-07\n"
      "   2097152        524288   float            209.7   10.00    8.75  0e+00\n"    // gathers have no
                                                                                      // operation
      "   4194304       1048576   float       0    419.4   10.00   10.00    N/A\n");  // broadcasts have a
                                                                                      // root
  ASSERT_EQ(log.rows.size(), 3u);
  EXPECT_DOUBLE_EQ(log.rows[2].seconds, 419.4e-6);
}

TEST(NcclTests, SeesThroughPrefixesIndentsAndLineEnds) {
  for (const std::string& prefix : {std::string("[1,0]<stdout>:"), std::string("0: "), std::string("   "),
                                    std::string("    [1,0]<stdout>:"), std::string("\t")}) {
    const NcclLog log = read(prefix + kRow.substr(0, kRow.size() - 1) + "\r\n");
    ASSERT_EQ(log.rows.size(), 1u) << prefix;
    EXPECT_EQ(log.rows[0].bytes, 1048576);
  }
}

TEST(NcclTests, ReadsHeadersThatLostTheirCommentMarks) {
  const NcclLog log = read(
      "nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 200 agg\n"
      "  Rank  0 Group  0 Pid   6899 on a device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n" +
      kRow);
  EXPECT_EQ(log.harness.iterations, 200);
  EXPECT_EQ(log.devices, 1);
  EXPECT_EQ(log.device, "NVIDIA H100 80GB HBM3");
}

TEST(NcclTests, LeavesOutRowsOfNoBytesAndRepeatedSizes) {
  const NcclLog log =
      read("           0             0     float     sum      -1     6.36    0.00    0.00      0\n" + kRow +
           "     1048576        262144     float     sum      -1    524.3    2.00    3.50      0\n");
  ASSERT_EQ(log.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 104.9e-6);
}

TEST(NcclTests, SkipsDebugLinesAndCountsRowsThatTheyBroke) {
  const NcclLog log =
      read("host:1:1 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n" + kRow +
           "host:1:9 [0] NCCL INFO Channel 00/24 :    0   1   2   3\n"
           "     2097152        524288     float     sum      -1    209.7 host:1:1 [0] NCCL INFO\n"
           "     4194304       1048576     float     sum      -1    41.94   10.00   17.50      0\n");
  EXPECT_EQ(log.version, "2.20.5");
  EXPECT_EQ(log.rows.size(), 1u);
  EXPECT_EQ(log.damaged, 2);  // one mixed with a debug line, one whose figures contradict each other
}

TEST(NcclTests, ReadsOneHeaderPerSize) {
  std::string text;
  for (int i = 0; i < 3; ++i) {
    text +=
        "# nThread 8 nGpus 1 minBytes 64 maxBytes 64 step: 2(factor) warmup iters: 2 iters: 5 validation: 0\n"
        "#   Rank  0 Pid   1234 on g0419 device  0 [0x01] NVIDIA GeForce RTX 4090\n"
        "#   Rank  1 Pid   1234 on g0419 device  1 [0x25] NVIDIA GeForce RTX 4090\n" +
        std::to_string(1 << (20 + i)) + "  1  float  sum  " + std::to_string((1 << (20 + i)) * 1e-4) +
        "  10.00  10.00  N/A\n";
  }
  const NcclLog log = read(text);
  EXPECT_EQ(log.rows.size(), 3u);
  EXPECT_EQ(log.devices, 2);
  EXPECT_EQ(log.harness.threads, 8);
  EXPECT_EQ(log.harness.iterations, 5);
}

TEST(NcclTests, TellsTheKindByProgramOrByBusBandwidth) {
  EXPECT_EQ(read("$ mpirun ./build/reduce_scatter_perf -b 8\n" + kRow).kind, "reduce-scatter");
  EXPECT_EQ(read("./build/all_gather_perf -b 8\n" + kRow).kind, "all-gather");
  EXPECT_EQ(read("1048576 262144 float sum -1 104.9 10.00 8.75 0\n").kind, "");
  // Bus bandwidth of 17.5 is 10 times 2 * 7 / 8.
  EXPECT_EQ(read(kRow).kind, "all-reduce");
  EXPECT_EQ(read(kRow).devices, 8);
}

TEST(NcclTests, CountsRanksOfAListThatLostItsHead) {
  const NcclLog log = read("#  Rank 71 Group  0 Pid  14840 on host device  3 [0x01] NVIDIA GB200\n" + kRow);
  EXPECT_EQ(log.devices, 72);
}

TEST(NcclTests, ReadsOldGathersThatLeaveTheOwnPartOut) {
  const NcclLog log = read("  32768  4096  float  13.39  1.22  1.22  0e+00  11.85  1.38  1.38  0e+00\n");
  ASSERT_EQ(log.rows.size(), 1u);
  EXPECT_EQ(log.kind, "");
}

TEST(NcclTests, ReadsJson) {
  const NcclLog log = read(R"({"nccl_version": 22703, "args": ["./all_reduce_perf", "-b", "8"],
    "config": {"ngpus": 4, "nthreads": 1, "iterations": 40},
    "devices": [{"hostname": "a", "device_info": "NVIDIA H100"}, {"hostname": "a", "device_info": "NVIDIA H100"}],
    "results": [{"size": 1048576, "out_of_place": {"time": "104.9", "alg_bw": "10.00", "bus_bw": "17.50"}},
                {"size": 2097152, "out_of_place": {"time": 209.7, "alg_bw": 10.0, "bus_bw": 17.5}},
                {"size": 0, "out_of_place": {"time": 5.0, "alg_bw": 0, "bus_bw": 0}}]})");
  EXPECT_EQ(log.version, "2.27.3");
  EXPECT_EQ(log.kind, "all-reduce");
  EXPECT_EQ(log.devices, 2);
  EXPECT_EQ(log.nodes, 1);
  EXPECT_EQ(log.harness.gpus_per_thread, 4);
  EXPECT_EQ(log.harness.iterations, 40);
  ASSERT_EQ(log.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(log.rows[0].seconds, 104.9e-6);
}

TEST(NcclTests, RefusesTextsWithoutRowsAndSaysWhy) {
  const auto refusal = [](const std::string& text) {
    try {
      read(text);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal("").find("no row"), std::string::npos);
  EXPECT_NE(refusal("hello\nworld\n").find("log.txt"), std::string::npos);
  EXPECT_NE(refusal("  1048576  262144  float  sum  -1  104.9\n").find("cut"), std::string::npos);
  EXPECT_NE(refusal("{\"results\": [").find("log.txt"), std::string::npos);
}

TEST(NcclTests, RecognisesItsOwn) {
  EXPECT_TRUE(looks_like_nccl_tests("# nThread 1 nGpus 8 minBytes 8\n"));
  EXPECT_TRUE(looks_like_nccl_tests("# size count type redop root time algbw busbw\n"));
  EXPECT_FALSE(looks_like_nccl_tests("        GPU0    GPU1    CPU Affinity\nGPU0     X      NV1\n"));
  EXPECT_FALSE(looks_like_nccl_tests("{\"schema\": \"tandem-report-1\"}"));
}

}  // namespace
}  // namespace tandem::tests
