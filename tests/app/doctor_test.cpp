// SPDX-License-Identifier: Apache-2.0
// tandem doctor on emulated machines: with and without a driver's tools, with and without a plugin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What `nvidia-smi` prints on a machine with two GPUs, underline included.
constexpr const char* kSmi = R"(#!/bin/sh
if [ "$1" = -L ]; then
  echo 'GPU 0: NVIDIA Emulated (UUID: GPU-1)'
  exit 0
fi
printf '\t\033[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\033[0m\n'
printf 'GPU0\t X \tNV18\tPIX\t0-15\t0\n'
printf 'GPU1\tNV18\t X \tSYS\t16-31\t1\n'
printf 'NIC0\tPIX\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n'
)";

TEST(Doctor, SaysWhatIsMissingForGpus) {
  const ChildResult r = shell("TANDEM_CUDA_PLUGIN=/nowhere/libtandem_cuda.so \"$0\" doctor");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("plugin absent: there is no /nowhere/libtandem_cuda.so"));
  EXPECT_THAT(r.out, HasSubstr("processor"));
  EXPECT_THAT(r.out, Not(HasSubstr("cuDNN")));
}

TEST(Doctor, ShowsTheLinksThatTheDriverShows) {
  const Scratch scratch;
  chmod(scratch.write("nvidia-smi", kSmi).c_str(), 0755);
  const ChildResult r = shell("TANDEM_CUDA_PLUGIN=/nowhere/libtandem_cuda.so PATH=" + scratch.file("") +
                              ":$PATH \"$0\" doctor --format json");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("GPU 0: NVIDIA Emulated"));
  EXPECT_THAT(r.out, HasSubstr("GPU1 NV18, NIC0 PIX, CPU Affinity 0-15, NUMA Affinity 0"));
  EXPECT_THAT(r.out, HasSubstr("GPU0 NV18, NIC0 SYS, CPU Affinity 16-31, NUMA Affinity 1"));
  EXPECT_THAT(r.out, Not(HasSubstr("\x1b")));
  Json::parse(r.out, "doctor");
}

/// With whatever plugin was built beside the program.
TEST(Doctor, RunsWithThePluginThatIsThere) {
  const ChildResult r = tool({"doctor"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("CUDA plugin"));
}

}  // namespace
}  // namespace tandem::tests
