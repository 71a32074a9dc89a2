// SPDX-License-Identifier: Apache-2.0
#include "topologies/devices/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "topologies/system.h"

namespace tandem::tests {
namespace {

std::string message(const std::string& text) {
  try {
    Device::from_json(Json::parse(text, "device.json"));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

constexpr const char* kGood =
    R"({"name": "x", "summary": "s", "kind": "gpu", "architecture": "volta", "peak": {"fp32": "10TFLOP/s"},
        "memory_bandwidth": "900GB/s", "memory": "16GiB", "units": 80})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Device, ReadsTheFigures) {
  const Device d = Device::load("gtx-1080-ti");
  EXPECT_EQ(d.kind, Device::Kind::gpu);
  EXPECT_EQ(d.architecture, "pascal");
  EXPECT_DOUBLE_EQ(d.peak_at(Precision::fp32).flops_per_second, 11.34e12);
  EXPECT_EQ(d.peak_at(Precision::fp16).flops_per_second, 0) << "useless FP16 must fall back to FP32";
  EXPECT_EQ(d.memory.n, int64_t{11} << 30);
  EXPECT_DOUBLE_EQ(d.memory_bandwidth.bytes_per_second, 484e9);
  EXPECT_EQ(d.units, 28);
}

TEST(Device, TpusMultiplyInBf16WhateverTheTensorsAre) {
  const Device tpu = Device::load("tpu-v3"), gpu = Device::load("v100-sxm2-16gb");
  for (const Precision p : {Precision::fp32, Precision::tf32, Precision::bf16})
    EXPECT_DOUBLE_EQ(tpu.product_peak(p).flops_per_second, 123e12) << name(p);
  EXPECT_DOUBLE_EQ(gpu.product_peak(Precision::fp32).flops_per_second,
                   gpu.peak_at(Precision::fp32).flops_per_second);
  EXPECT_DOUBLE_EQ(gpu.product_peak(Precision::bf16).flops_per_second,
                   gpu.peak_at(Precision::fp32).flops_per_second)
      << "formats without arithmetic run as fp32";
}

TEST(Device, EveryFileLoadsUnderItsOwnNameAndIsPlausible) {
  const auto all = list_devices();
  ASSERT_GE(all.size(), 60u);
  for (const auto& entry : all) {
    SCOPED_TRACE(entry.name);
    const Device d = Device::load(entry.name);
    EXPECT_EQ(d.name, entry.name);
    EXPECT_FALSE(entry.summary.empty());
    EXPECT_GE(d.year, 2012);
    const double fp32 = d.peak_at(Precision::fp32).flops_per_second;
    const double intensity = fp32 / d.memory_bandwidth.bytes_per_second;
    EXPECT_GT(intensity, 2) << "FLOP per byte";
    EXPECT_LT(intensity, 130);
    for (int p = 0; p < kPrecisions; ++p) {
      const double peak = d.peak[static_cast<std::size_t>(p)].flops_per_second;
      EXPECT_TRUE(peak == 0 || peak >= fp32) << name(static_cast<Precision>(p)) << " is slower than fp32";
    }
    EXPECT_GT(d.launch.ps, 0);
    if (d.boost_mhz > 0) {  // a fused multiply-add per lane and cycle; units have 64 or 128 lanes
      const double lanes = fp32 / (d.units * 2 * d.boost_mhz * 1e6);
      EXPECT_LT(std::min(std::abs(lanes / 64 - 1), std::abs(lanes / 128 - 1)), 0.11) << lanes;
    }
  }
}

TEST(Device, RefusesBadFiles) {
  EXPECT_EQ(message(kGood), "");
  EXPECT_NE(message(changed("\"units\"", "\"unitz\"")).find("units"), std::string::npos);
  EXPECT_NE(message(changed("16GiB", "16")).find("unit is missing"), std::string::npos);
  EXPECT_NE(message(changed("900GB/s", "-900GB/s")).find("negative"), std::string::npos);
  EXPECT_NE(message(changed("900GB/s", "1e200GB/s")).find("1000000TB/s"), std::string::npos);
  EXPECT_NE(message(changed("fp32", "fp31")).find("fp32"), std::string::npos);
  EXPECT_NE(message(changed("\"fp32\": \"10TFLOP/s\"", "")).find("fp32"), std::string::npos);
  EXPECT_NE(message(changed("\"gpu\"", "\"gpv\"")).find("Did you mean gpu"), std::string::npos);
  EXPECT_NE(message(changed("80}", "0}")).find("device.json:2:"), std::string::npos);
}

TEST(Device, NewerAndGreaterOfASeriesAreNoWeaker) {
  const std::vector<std::vector<std::string>> series = {
      {"rtx-3050", "rtx-3060", "rtx-3060-ti", "rtx-3070", "rtx-3070-ti", "rtx-3080", "rtx-3080-12gb",
       "rtx-3080-ti", "rtx-3090", "rtx-3090-ti"},
      {"rtx-4060", "rtx-4060-ti", "rtx-4070", "rtx-4070-super", "rtx-4070-ti", "rtx-4070-ti-super",
       "rtx-4080", "rtx-4080-super", "rtx-4090", "rtx-5090"},
      {"rtx-5060", "rtx-5060-ti", "rtx-5070", "rtx-5070-ti", "rtx-5080", "rtx-5090"},
      {"rtx-4060", "rtx-5060"},
      {"rtx-4070", "rtx-5070"},
      {"rtx-4080", "rtx-5080"},
      {"mi300x", "mi325x", "mi350x", "mi355x"},
      {"tpu-v3", "tpu-v4", "tpu-v6e"}};
  for (const auto& names : series) {
    for (std::size_t i = 1; i < names.size(); ++i) {
      const Device less = Device::load(names[i - 1]), more = Device::load(names[i]);
      EXPECT_GE(more.peak_at(Precision::bf16).flops_per_second,
                less.peak_at(Precision::bf16).flops_per_second)
          << names[i];
      EXPECT_GE(more.memory_bandwidth.bytes_per_second, less.memory_bandwidth.bytes_per_second) << names[i];
    }
  }
}

TEST(Device, UnknownNameSaysTheNearest) {
  try {
    Device::load("gtx-1080-it");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("gtx-1080-ti"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tandem::tests
