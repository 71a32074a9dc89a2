// SPDX-License-Identifier: Apache-2.0
// Every trait of published logs that a reader has to cope with, in small logs of our own.
#include "calibration/logs/nccl_tests.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem::tests {
namespace {

NcclRuns read_all(const std::string& text) { return read_nccl_tests(text, "log.txt"); }

NcclLog read(const std::string& text) {
  const NcclRuns log = read_all(text);
  EXPECT_EQ(log.runs.size(), 1u);
  return log.runs.at(0);
}

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

TEST(NcclTests, TheFirstLineNamesTheLibrary) {
  const std::string table =
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
      "algbw   busbw  "
      "#wrong\n   268435456      33554432     float    none      -1  5702.31   47.07   23.54       0  "
      "5688.19   47.19   "
      "23.60       0\n";
  const auto version = [&](const std::string& line) {
    return read_nccl_tests(line + "\n" + table, "log").runs.at(0).version;
  };
  EXPECT_EQ(version("# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22805"), "2.28.5");
  EXPECT_EQ(version("0: # nccl-tests version 2.18.3 nccl-headers=23005"), "2.30.5");
  EXPECT_EQ(version("# nccl-library=2804"), "2.8.4");
  EXPECT_EQ(version("# nccl-library=none"), "");
  EXPECT_EQ(version("# nccl-library=22803\nNCCL version 2.27.3+cuda12.9"), "2.27.3");
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
      "  Rank  1 Group  0 Pid   6899 on a device  0 [0000:04:00] NVIDIA H100 80GB HBM3\n" +
      kRow);
  EXPECT_EQ(log.harness.iterations, 200);
  EXPECT_EQ(log.devices, 2);
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
  const NcclRuns log =
      read_all("host:1:1 [0] NCCL INFO NCCL version 2.20.5+cuda12.4\n" + kRow +
               "host:1:9 [0] NCCL INFO Channel 00/24 :    0   1   2   3\n"
               "     2097152        524288     float     sum      -1    209.7 host:1:1 [0] NCCL INFO\n"
               "     4194304       1048576     float     sum      -1    41.94   10.00   17.50      0\n");
  EXPECT_EQ(log.runs[0].version, "2.20.5");
  EXPECT_EQ(log.runs[0].rows.size(), 1u);
  EXPECT_EQ(log.damaged, 2);  // one mixed with a debug line, one whose figures contradict each other
}

TEST(NcclTests, ReadsOneHeaderPerSize) {
  std::string text;
  for (int i = 0; i < 3; ++i) {
    text +=
        "# nThread 8 nGpus 1 minBytes 64 maxBytes 64 step: 2(factor) warmup iters: 2 iters: 5 validation: 0\n"
        "#   Rank  0 Pid   1234 on g0419 device  0 [0x01] NVIDIA GeForce RTX 4090\n"
        "#   Rank  1 Pid   1234 on g0419 device  1 [0x25] NVIDIA GeForce RTX 4090\n" +
        std::to_string(1 << (20 + i)) + "  " + std::to_string(1 << (18 + i)) + "  float  sum  " +
        std::to_string((1 << (20 + i)) * 1e-4) + "  10.00  10.00  N/A\n";
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

/// The header of one run on so many ranks, with the column names of the newer programs.
std::string header(int ranks, const std::string& columns = "redop root") {
  std::string out = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n";
  for (int i = 0; i < ranks; ++i)
    out += "#  Rank  " + std::to_string(i) + " Group  0 Pid 1 on host device  0 [0x01] NVIDIA H100\n";
  return out + "#  size count type " + columns + " time algbw busbw #wrong\n";
}

TEST(NcclTests, TellsTheKindByItsColumns) {
  struct Case {
    std::string columns, row, kind;
  };
  const std::string both = "redop root";
  for (const Case& c : {
           Case{both, "1048576 262144 float sum -1 104.9 10.00 15.00 0", "all-reduce"},
           Case{both, "1048576 262144 float sum -1 104.9 10.00 10.00 0 104.9 10.00 10.00 N/A", "sendrecv"},
           Case{both, "1048576 262144 float sum 0 104.9 10.00 10.00 0", "reduce"},
           Case{both, "1048576 65536 float sum -1 104.9 10.00 7.50 0", "reduce-scatter"},
           Case{both, "1048576 262144 float none 0 104.9 10.00 10.00 0", "broadcast"},
           Case{both, "1048576 65536 float none -1 104.9 10.00 7.50 0 104.9 10.00 7.50 0", "all-gather"},
           Case{both, "1048576 65536 float none -1 104.9 10.00 7.50 0 104.9 10.00 7.50 N/A", "all-to-all"},
           Case{both, "1048576 524288 half sum -1 104.9 10.00 15.00 0", "all-reduce"},
           Case{"redop", "1048576 262144 float sum 104.9 10.00 15.00 0e+00", "all-reduce"},
           Case{"redop", "1048576 65536 float sum 104.9 10.00 7.50 0e+00", "reduce-scatter"},
           Case{"redop", "1048576 65536 float 104.9 10.00 7.50 0e+00", "all-to-all"},
           Case{"", "1048576 65536 float 104.9 10.00 7.50 0e+00", "all-gather"},
           Case{"", "1048576 262144 float 104.9 10.00 10.00 0e+00", "sendrecv"},
           Case{"root", "1048576 262144 float 0 104.9 10.00 10.00 0e+00", "broadcast"},
       }) {
    EXPECT_EQ(read(header(4, c.columns) + c.row + "\n").kind, c.kind) << c.row;
  }
  // Two ranks: an all-reduce moves as much as it holds, as a sendrecv does, which checks nothing in place.
  const std::string two = "1048576 262144 float sum -1 104.9 10.00 10.00 ";
  EXPECT_EQ(read(header(2) + two + "0 104.9 10.00 10.00 0\n").kind, "all-reduce");
  EXPECT_EQ(read(header(2) + two + "0 104.9 10.00 10.00 N/A\n").kind, "sendrecv");
  EXPECT_EQ(read(header(2) + two + "N/A 104.9 10.00 10.00 N/A\n").undecided,
            "all-reduce and sendrecv print the same columns");
  const NcclLog unchecked =
      read(header(4) + "1048576 65536 float none -1 104.9 10.00 7.50 N/A 104.9 10.00 7.50 N/A\n");
  EXPECT_EQ(unchecked.kind, "");
  EXPECT_EQ(unchecked.undecided, "all-gather and all-to-all print the same columns");
}

TEST(NcclTests, YieldsEveryRunOfALog) {
  const std::string reduce = "1048576 262144 float sum -1 104.9 10.00 15.00 0\n",
                    gather = "1048576 65536 float none -1 52.4 20.00 15.00 0 52.4 20.00 15.00 0\n";
  const NcclRuns log = read_all("NCCL version 2.20.5\n" + header(4) + reduce + "# Avg bus bandwidth : 15\n" +
                                header(4) + gather);
  ASSERT_EQ(log.runs.size(), 2u);
  EXPECT_EQ(log.runs[0].kind, "all-reduce");
  EXPECT_EQ(log.runs[1].kind, "all-gather");
  EXPECT_EQ(log.runs[1].devices, 4);
  EXPECT_EQ(log.runs[1].version, "2.20.5");
  // Names part runs without headers; what a program says at its end begins none.
  const NcclRuns named =
      read_all("$ ./all_reduce_perf\n" + reduce +
               "# Collective test concluded: all_reduce_perf\n$ ./all_gather_perf\n" + gather);
  ASSERT_EQ(named.runs.size(), 2u);
  EXPECT_EQ(named.runs[1].kind, "all-gather");
  // Two runs of one question: the geometric mean.
  const NcclRuns twice =
      read_all(header(4) + reduce + header(4) + "1048576 262144 float sum -1 419.6 2.50 3.75 0\n");
  ASSERT_EQ(twice.runs.size(), 1u);
  EXPECT_NEAR(twice.runs[0].rows[0].seconds, 209.8e-6, 1e-7);
  EXPECT_EQ(twice.runs[0].rows[0].runs, 2);
  // On two numbers of ranks they are two.
  EXPECT_EQ(read_all(header(4) + reduce + header(8) + "1048576 262144 float sum -1 104.9 10.00 17.50 0\n")
                .runs.size(),
            2u);
}

TEST(NcclTests, ReadsMarkdownNoBreakSpacesAndPrefixes) {
  for (const char* row : {"| 1048576 | 262144 | float | sum | -1 | 104.9 | 10.00 | 17.50 | 0 |",
                          "\xC2\xA0 1048576\xC2\xA0"
                          "262144 float sum -1 104.9 10.00 17.50 0",
                          "2026-05-01 12:00:00 INFO 1048576 262144 float sum -1 104.9 10.00 17.50 0",
                          "(worker pid=17) 1048576 262144 float sum -1 104.9 10.00 17.50 0"}) {
    EXPECT_EQ(read(std::string(row) + "\n").devices, 8) << row;
  }
}

TEST(NcclTests, ReadsTablesOfAiconfigurator) {
  const NcclRuns log = read_all(
      "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
      "X,2.27.3,NVIDIA H200,all_reduce,NCCL,half,8,512,0.02\nX,2.27.3,NVIDIA "
      "H200,all_reduce,NCCL,int8,8,1024,0.9\n"
      "X,2.27.3,NVIDIA H200,alltoall,NCCL,half,4,512,0.03\nX,2.27.3,NVIDIA H200,alltoall,NCCL,half,4,,\n");
  ASSERT_EQ(log.runs.size(), 2u);
  EXPECT_EQ(log.damaged, 1);
  EXPECT_EQ(log.runs[0].kind, "all-reduce");
  EXPECT_EQ(log.runs[0].devices, 8);
  ASSERT_EQ(log.runs[0].rows.size(), 1u) << "of equal sizes the first counts";
  EXPECT_EQ(log.runs[0].rows[0].bytes, 1024);
  EXPECT_DOUBLE_EQ(log.runs[0].rows[0].seconds, 2e-5);
  EXPECT_EQ(log.runs[1].kind, "all-to-all");
  EXPECT_EQ(log.runs[1].version, "2.27.3");
}

TEST(NcclTests, RefusesWhatRanOnOneDevice) {
  try {
    read_all(header(1) + "1048576 262144 float sum -1 4.5 233.00 0.00 0\n");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("ran on one device"), std::string::npos) << error.what();
  }
}

TEST(NcclTests, CountsRanksOfAListThatLostItsHead) {
  const NcclLog log = read("#  Rank 71 Group  0 Pid  14840 on host device  3 [0x01] NVIDIA GB200\n" + kRow);
  EXPECT_EQ(log.devices, 72);
}

TEST(NcclTests, ReadsOldGathersThatLeaveTheOwnPartOut) {
  const NcclLog log = read("  32768  4096  float  13.39  1.22  1.22  0e+00  11.85  1.38  1.38  0e+00\n");
  ASSERT_EQ(log.rows.size(), 1u);
  EXPECT_EQ(log.kind, "all-gather");
  EXPECT_EQ(log.devices, 2);
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
