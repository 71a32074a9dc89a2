// SPDX-License-Identifier: Apache-2.0
// Traces of the PyTorch profiler whose every time is known.
#include "calibration/traces/kineto.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "calibration/traces/trace_summary.h"

namespace tandem::tests {
namespace {

using calibration::Trace;
using calibration::TracedKind;
using calibration::TraceSummary;
using ::testing::HasSubstr;

std::string traced(const std::string& name) {
  return std::string(TANDEM_ROOT) + "/tests/fuzz/corpus/kineto/" + name;
}

Trace trace_in(std::string_view text) { return read_kineto(calibration::bytes_of(text), "t.json"); }

std::string refusal(std::string_view text) {
  try {
    trace_in(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// A product of 3 ms; from its third millisecond on 2 ms of all-reduce; 0.1 ms later a copy of 0.5 ms; the
/// host launches the next step 10 ms after this one.
TEST(Kineto, TellsWhereTheTimeOfAStepGoes) {
  const Trace trace = read_kineto(calibration::open_bytes(traced("three_steps")), "three_steps");
  EXPECT_EQ(trace.device, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(trace.world_size, 2);
  EXPECT_EQ(trace.nccl, "2.27.3");
  EXPECT_EQ(trace.steps.size(), 3U);

  const TraceSummary s = summary_of(trace);
  constexpr double kExact = 1e-9;
  EXPECT_EQ(s.steps, 2);  // the third has no end
  EXPECT_NEAR(s.step_median, 0.010, kExact);
  EXPECT_NEAR(s.compute, 0.003, kExact);
  EXPECT_NEAR(s.communication, 0.002, kExact);
  EXPECT_NEAR(s.exposed_communication, 0.001, kExact);
  EXPECT_NEAR(s.exposed_copies, 0.0005, kExact);
  EXPECT_NEAR(s.idle, 0.0055, kExact);
  EXPECT_NEAR(s.idle_for_host, 0.00531, kExact);
  EXPECT_NEAR(s.launches, 3, kExact);
  ASSERT_EQ(s.collectives.size(), 1U);
  EXPECT_EQ(s.collectives[0].kind, "all-reduce");
  EXPECT_EQ(s.collectives[0].bytes, 1000 * 256 * 4);
  EXPECT_EQ(s.collectives[0].group, 2);
  EXPECT_NEAR(s.collectives[0].least, 0.002, kExact);
  ASSERT_EQ(s.kinds.size(), 3U);
  EXPECT_EQ(s.kinds[0].kind, TracedKind::matrix_product);
}

TEST(Kineto, ReadsWhatNewerProfilersSayOfCollectives) {
  const Trace trace = read_kineto(calibration::open_bytes(traced("arguments")), "arguments");
  const TraceSummary s = summary_of(trace);
  ASSERT_EQ(s.collectives.size(), 1U);
  EXPECT_EQ(s.collectives[0].kind, "all-gather");
  EXPECT_EQ(s.collectives[0].bytes, 8192 * 2);
  EXPECT_EQ(s.collectives[0].group, 8);
  EXPECT_THAT(s.notes.at(0), HasSubstr("no marks of steps"));
}

/// Steps that the first takes twice as long as are a training's; the first is the profiler's.
TEST(Kineto, LeavesOutTheWarmUp) {
  std::string events;
  double at = 0;
  for (const double length : {50, 10, 10, 10, 10}) {
    events +=
        fmt::format(R"({}{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":{},"dur":{}}},)"
                    R"({{"ph":"X","cat":"kernel","name":"k","ts":{},"dur":5,"args":{{"device":0}}}})",
                    events.empty() ? "" : ",", at, length, at + 1);
    at += length;
  }
  const TraceSummary s = summary_of(trace_in("{\"traceEvents\": [" + events + "]}"));
  EXPECT_EQ(s.steps, 3);
  EXPECT_NEAR(s.step_high, 10e-6, 1e-12);
  EXPECT_THAT(s.notes.at(0), HasSubstr("the first step took over 1.5 times"));
}

TEST(Kineto, SaysWhyAFileIsRefused) {
  EXPECT_EQ(refusal(""), "t.json: nothing in it");
  EXPECT_THAT(refusal("{\"traceEvents\": [{\"ph\""), HasSubstr("t.json: no JSON at byte 23"));
  EXPECT_THAT(refusal("{}"), HasSubstr("no \"traceEvents\""));
  EXPECT_THAT(refusal("[]"), HasSubstr("no \"traceEvents\""));
  EXPECT_THAT(refusal("{\"traceEvents\": []}"), HasSubstr("no events"));
  EXPECT_THAT(refusal(R"({"traceEvents": [{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":2}]})"),
              HasSubstr("nothing ran on a device"));
  std::ifstream file(traced("execution_trace"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(refusal(text.str()), HasSubstr("an execution trace, which has no times"));
  EXPECT_THROW(calibration::open_bytes("/no/such/file"), InputError);
}

TEST(Kineto, KindsOfKernelsGoByTheirNames) {
  const std::pair<const char*, TracedKind> kKnown[] = {
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", TracedKind::communication},
      {"void cudnn::bn_bw_1C11_kernel_new<float>", TracedKind::normalisation},
      {"sm80_xmma_fprop_implicit_gemm_f16f16", TracedKind::convolution},
      {"Cijk_Ailk_Bjlk_SB_MT64x16x16", TracedKind::matrix_product},
      {"nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", TracedKind::matrix_product},
      {"void flash_fwd_kernel<cutlass::bfloat16_t>", TracedKind::attention},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", TracedKind::optimiser},
      {"triton_poi_fused_add_relu_3", TracedKind::elementwise},
      {"something", TracedKind::other}};
  for (const auto& [name, kind] : kKnown) EXPECT_EQ(calibration::kind_of_kernel(name), kind) << name;
  EXPECT_EQ(calibration::collective_of_name("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"),
            "send-receive");
  EXPECT_EQ(calibration::collective_of_name("nccl:_reduce_scatter_base"), "reduce-scatter");
}

}  // namespace
}  // namespace tandem::tests
