// SPDX-License-Identifier: Apache-2.0
// What a run's devices draw, by emulated meters: an NVML of two GPUs, and files as Linux has them of
// processors.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "exec/device/forward.h"
#include "exec/device/gauge.h"
#include "exec/device/nvml.h"
#include "exec/execute.h"
#include "exec/run/meter.h"
#include "tests/exec/emulated_nvml.h"

namespace tandem::tests {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

TimedReading at(double seconds, PowerReading said) { return {static_cast<int64_t>(seconds * kSecond), said}; }

TEST(Metered, CountsWithinTheStretches) {
  std::vector<TimedReading> readings;
  for (int i = 0; i < 100; ++i) {  // 100 W before 5 s, 300 W after
    const double t = 0.1 * i + 0.05, joules = t < 5 ? 100 * t : 500 + 300 * (t - 5);
    PowerReading said{t < 5 ? 100 : 300, joules};
    said.clock_mhz = t < 5 ? 1980 : 1500;
    said.by_power = t >= 7.5;
    said.by_heat = i == 60;
    readings.push_back(at(t, said));
  }
  const MeteredDevice d = metered(readings, {{5 * kSecond, 10 * kSecond}});
  EXPECT_EQ(d.readings, 50);
  EXPECT_TRUE(d.counter);
  EXPECT_NEAR(d.watts, 300, 1e-6);
  EXPECT_EQ(d.least, 300);
  EXPECT_NEAR(d.clock_mhz, 1500, 1e-9);
  EXPECT_NEAR(d.by_power, 0.5, 1e-12);
  EXPECT_NEAR(d.by_heat, 0.02, 1e-12);
  // What is drawn between two stretches counts for neither.
  const MeteredDevice apart = metered(readings, {{0, kSecond}, {9 * kSecond, 10 * kSecond}});
  EXPECT_EQ(apart.readings, 20);
  EXPECT_NEAR(apart.watts, 200, 1e-6);
  EXPECT_EQ(apart.least, 100);
  EXPECT_EQ(apart.most, 300);
  EXPECT_EQ(metered(readings, {}).readings, 0);
}

/// The first reading of a processor has joules and no watts yet.
TEST(Metered, DoesNotTakeUnknownWattsForNone) {
  std::vector<TimedReading> readings;
  for (int i = 0; i < 20; ++i) {
    PowerReading said;
    if (i > 0) said.watts = 50 + i % 2;
    readings.push_back(at(i, said));
  }
  const MeteredDevice d = metered(readings, {{0, 20 * kSecond}});
  EXPECT_EQ(d.least, 50);
  EXPECT_EQ(d.most, 51);
  EXPECT_NEAR(d.watts, 50.5, 0.05);
}

TEST(Metered, DoesNotTrustACounterThatRunsBackwards) {
  std::vector<TimedReading> readings;
  for (int i = 0; i < 20; ++i) readings.push_back(at(i, {250 + i % 2, i < 12 ? 1000 + 400 * i : 10 * i}));
  const MeteredDevice d = metered(readings, {{0, 20 * kSecond}});
  EXPECT_FALSE(d.counter);
  EXPECT_NEAR(d.watts, 250.5, 1e-9);
  // Nor in one that stands still while watts are drawn.
  for (TimedReading& r : readings) r.said.joules = 7;
  EXPECT_FALSE(metered(readings, {{0, 20 * kSecond}}).counter);
}

/// With the emulated library, whose state a test sets; it is open in all tests.
class Nvml : public testing::Test {
 protected:
  Nvml() {
    setenv("TANDEM_NVML", TANDEM_NVML, 1);
    library_ = dlopen(TANDEM_NVML, RTLD_NOW);
    auto* state = reinterpret_cast<EmulatedNvml* (*)()>(dlsym(library_, kEmulatedNvml));
    nvml_ = state();
    for (EmulatedGpu& gpu : nvml_->gpus) {
      gpu.power_status = gpu.energy_status = gpu.other_status = 0;
      gpu.mig = 0;
      gpu.reasons = 0;
    }
    nvml_->init_status = nvml_->reads = nvml_->most_inside = 0;
  }
  ~Nvml() override {
    EXPECT_EQ(nvml_->open, 0) << "the library was not closed";
    unsetenv("TANDEM_NVML");
    dlclose(library_);
  }
  static std::string missing(const std::vector<std::string>& addresses) {
    const PowerGauges gauges = nvml_gauges(addresses);
    EXPECT_TRUE(gauges.devices.empty());
    return gauges.missing;
  }
  void wait_for_reads(int more) const {
    const int until = nvml_->reads + more;
    while (nvml_->reads < until) std::this_thread::sleep_for(1ms);
  }

  void* library_;
  EmulatedNvml* nvml_;
};

TEST_F(Nvml, SaysWhatAGpuDraws) {
  const PowerGauges gauges = nvml_gauges({kSecondGpu, kFirstGpu, kSecondGpu});
  EXPECT_EQ(gauges.source, "NVML 580.159.04");
  ASSERT_EQ(gauges.devices.size(), 2U);  // workers share one
  EXPECT_EQ(gauges.devices[0]->name(), kSecondGpu);
  EmulatedGpu& gpu = nvml_->gpus[1];
  gpu.milliwatts = 612345;
  gpu.sm_mhz = 1890;
  gpu.memory_mhz = 3201;
  gpu.celsius = 61;
  gpu.energy = 5'000'000'000'000;  // more than 32 bits hold
  gpu.grows = 0;
  const PowerReading r = gauges.devices[0]->read();
  EXPECT_NEAR(r.watts.value(), 612.345, 1e-9);
  EXPECT_NEAR(r.joules.value(), 5e9, 1e-3);
  EXPECT_EQ(r.clock_mhz, 1890);
  EXPECT_EQ(r.memory_mhz, 3201);
  EXPECT_EQ(r.celsius, 61);
  gpu.grows = 40000;
}

TEST_F(Nvml, TellsPowerFromHeat) {
  const PowerGauges gauges = nvml_gauges({kFirstGpu});
  const auto held = [&](unsigned long long reasons) {
    nvml_->gpus[0].reasons = reasons;
    const PowerReading r = gauges.devices.at(0)->read();
    return std::pair(r.by_power, r.by_heat);
  };
  EXPECT_EQ(held(0), std::pair(false, false));
  EXPECT_EQ(held(0x1 | 0x2 | 0x10 | 0x100),
            std::pair(false, false));  // idle, settings, boost together, display
  EXPECT_EQ(held(0x4), std::pair(true, false));
  EXPECT_EQ(held(0x8), std::pair(true, false));
  EXPECT_EQ(held(0x8 | 0x80), std::pair(true, false));
  EXPECT_EQ(held(0x8 | 0x40), std::pair(false, true));
  EXPECT_EQ(held(0x4 | 0x20), std::pair(true, true));
}

TEST_F(Nvml, SaysWhyItIsMissing) {
  EXPECT_THAT(missing({"0000:01:00.0"}), HasSubstr("GPU 0000:01:00.0 is not known to NVML"));
  nvml_->gpus[1].mig = 1;
  EXPECT_THAT(missing({kFirstGpu, kSecondGpu}), HasSubstr("divided by MIG"));
  nvml_->gpus[1].mig = 0;
  nvml_->gpus[0].power_status = nvml_->gpus[0].energy_status = nvml::kNotSupported;
  EXPECT_THAT(missing({kFirstGpu}), HasSubstr("does not say its power: Not Supported"));
  nvml_->init_status = 9;
  EXPECT_THAT(missing({kSecondGpu}), HasSubstr("NVML does not start"));
  setenv("TANDEM_NVML", "/nowhere/libnvidia-ml.so", 1);
  EXPECT_THAT(missing({kFirstGpu}), HasSubstr("/nowhere/libnvidia-ml.so"));
  setenv("TANDEM_NVML", TANDEM_STRANGER, 1);
  EXPECT_THAT(missing({kFirstGpu}), HasSubstr("no NVML that is known here: it has no nvmlInit_v2"));
}

TEST_F(Nvml, DoesWithoutWhatOldDriversLack) {
  setenv("TANDEM_NVML", TANDEM_OLD_NVML, 1);
  const PowerGauges gauges = nvml_gauges({kFirstGpu});
  ASSERT_EQ(gauges.devices.size(), 1U) << gauges.missing;
  const PowerReading r = gauges.devices[0]->read();
  EXPECT_NEAR(r.watts.value(), 400, 1e-9);
  EXPECT_FALSE(r.joules);
  EXPECT_EQ(r.clock_mhz, 0);
  EXPECT_FALSE(r.by_power || r.by_heat);
}

TEST_F(Nvml, ReadsOfOneThreadUntilItIsStopped) {
  nvml_->gpus[0].milliwatts = 400000;
  nvml_->gpus[1].milliwatts = 200000;
  nvml_->gpus[1].energy_status = nvml::kNotSupported;
  Meter meter(nvml_gauges({kFirstGpu, kSecondGpu}), 1ms);
  wait_for_reads(50);
  meter.stop();
  const int reads = nvml_->reads;
  const Metered all = meter.over({{0, INT64_MAX}});
  ASSERT_EQ(all.devices.size(), 2U) << all.missing;
  EXPECT_TRUE(all.devices[0].counter);
  EXPECT_FALSE(all.devices[1].counter);
  EXPECT_NEAR(all.devices[1].watts, 200, 1e-9);
  EXPECT_THAT(all.devices[1].name, HasSubstr(kSecondGpu));
  EXPECT_EQ(nvml_->most_inside, 1);
  meter.stop();
  EXPECT_EQ(nvml_->reads, reads);
  EXPECT_THAT(meter.over({{0, 1}}).missing, HasSubstr("10 are needed"));
}

TEST_F(Nvml, GivesUpADeviceThatIsLost) {
  Meter meter(nvml_gauges({kFirstGpu, kSecondGpu}), 1ms);
  wait_for_reads(50);
  nvml_->gpus[1].power_status = nvml_->gpus[1].energy_status = nvml::kGpuIsLost;
  wait_for_reads(20);  // of which those of the lost one end with the third
  meter.stop();
  const Metered all = meter.over({{0, INT64_MAX}});
  EXPECT_TRUE(all.devices.empty());
  EXPECT_THAT(all.missing, HasSubstr("0000:d8:00.0 does not say its power: GPU is lost"));
}

/// A run of `workers` on the null device, on GPUs that they share, as long as `go` says.
class MeteredRun : public Nvml {
 protected:
  MeteredRun()
      : graph_(Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json")),
        scheme_(resolve_scheme("allreduce", {})),
        backend_(backends_registry().at("null")) {
    backend_.gauges = [](const std::vector<uint32_t>& indices) {
      std::vector<std::string> addresses;
      for (const uint32_t i : indices) addresses.emplace_back(i % 2 == 0 ? kFirstGpu : kSecondGpu);
      return nvml_gauges(addresses);
    };
    backend_.on_processors = false;
    e_.job.graph = &graph_;
    e_.job.scheme = &scheme_;
    e_.backend = &backend_;
    e_.cluster = {3, 1, 3};
    e_.job.batch = 4;
    e_.job.optimizer = &optimizer("sgd");
    e_.iterations = 100'000'000;
    e_.warmup = 1;
    keep_.meter = 1ms;
    e_.stop = &stop_;
    e_.progress = [this](int32_t) {  // of worker 0, after its first iteration: the warm-up
      if (first_ == 0) first_ = nvml_->reads;
      if (nvml_->reads > first_ + 100) stop_ = true;
    };
  }
  Graph graph_;
  ResolvedScheme scheme_;
  Backend backend_;
  std::atomic<bool> stop_{false};
  Execution e_;
  Keep keep_;
  int first_ = 0;  ///< reads until the end of the warm-up
};

TEST_F(MeteredRun, ReportsWhatItDrew) {
  nvml_->gpus[0].milliwatts = 600000;
  nvml_->gpus[1].milliwatts = 400000;
  for (EmulatedGpu& gpu : nvml_->gpus) gpu.energy_status = nvml::kNotSupported;
  nvml_->gpus[0].reasons = 0x4;
  const ExecutionResult r = execute(e_, keep_);
  ASSERT_TRUE(r.report.time.power) << testing::PrintToString(r.report.notes);
  const DevicePower& p = *r.report.time.power;
  const double seconds = std::accumulate(r.iteration_seconds.begin(), r.iteration_seconds.end(), 0.0),
               step = seconds / static_cast<double>(r.iteration_seconds.size());
  EXPECT_NEAR(p.watts, 500, 1e-9);
  EXPECT_NEAR(p.joules_per_step, 1000 * step, 1e-9 * step);
  EXPECT_NEAR(p.joules_per_sample, p.joules_per_step / 12, 1e-12);
  ASSERT_TRUE(p.readings);
  EXPECT_EQ(p.readings->source, "NVML 580.159.04");
  EXPECT_EQ(p.readings->devices, 2);
  EXPECT_FALSE(p.readings->counter);
  EXPECT_EQ(p.readings->least, 400);
  EXPECT_EQ(p.readings->most, 600);
  EXPECT_NEAR(p.readings->held_by_power, 0.5, 1e-12);
  EXPECT_EQ(p.readings->held_by_heat, 0);
}

TEST_F(MeteredRun, LeavesTheWarmUpOut) {
  e_.warmup = 50;
  for (EmulatedGpu& gpu : nvml_->gpus) {
    gpu.energy_status = nvml::kNotSupported;
    gpu.milliwatts = 900000;
  }
  int counted_from = 0;
  e_.progress = [&](int32_t i) {
    if (i == 20) {
      wait_for_reads(8);
      for (EmulatedGpu& gpu : nvml_->gpus) gpu.milliwatts = 400000;
      wait_for_reads(8);  // the last that began before has ended
    }
    if (i == e_.warmup) counted_from = nvml_->reads;
    if (i > e_.warmup && nvml_->reads > counted_from + 100) stop_ = true;
  };
  const ExecutionResult r = execute(e_, keep_);
  ASSERT_TRUE(r.report.time.power) << testing::PrintToString(r.report.notes);
  EXPECT_EQ(r.report.time.power->readings->most, 400);
}

TEST_F(MeteredRun, SaysWhyItDoesNotKnow) {
  nvml_->gpus[1].mig = 1;
  e_.iterations = 5;
  const ExecutionResult r = execute(e_, keep_);
  EXPECT_FALSE(r.report.time.power);
  EXPECT_THAT(r.report.notes,
              testing::Contains(HasSubstr("power not known: GPU 0000:d8:00.0 is divided by MIG")));
  nvml_->gpus[1].mig = 0;
  keep_.meter = 1h;
  EXPECT_THAT(execute(e_, keep_).report.notes, testing::Contains(HasSubstr("more iterations")));
  keep_.meter = 0ms;
  nvml_->reads = 0;
  EXPECT_THAT(execute(e_, keep_).report.notes, testing::Not(testing::Contains(HasSubstr("power"))));
  EXPECT_EQ(nvml_->reads, 0);
}

TEST_F(MeteredRun, StopsReadingWhenTheRunFails) {
  /// Fails at its first launch, before which devices were read.
  class Failing : public ForwardDevice {
   public:
    Failing() : ForwardDevice(backends_registry().at("null").open({})) {}
    void launch(uint32_t, std::span<float* const>, const IterationState&, Lane) override {
      throw DeviceError("out of order");
    }
  };
  backend_.open = [](const DeviceOptions&) -> std::unique_ptr<DeviceSession> {
    return std::make_unique<Failing>();
  };
  EXPECT_THROW(execute(e_, keep_), DeviceError);
  EXPECT_EQ(nvml_->open, 0);
  const int reads = nvml_->reads;
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(nvml_->reads, reads);
}

class Rapl : public testing::Test {
 protected:
  Rapl() {
    std::string pattern = (fs::temp_directory_path() / "tandem-rapl-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("TANDEM_POWERCAP", folder_.c_str(), 1);
  }
  ~Rapl() override {
    unsetenv("TANDEM_POWERCAP");
    fs::remove_all(folder_);
  }
  void zone(const std::string& zone, const std::string& name, int64_t range, int64_t energy) const {
    fs::create_directories(folder_ / zone);
    write(zone + "/name", name);
    write(zone + "/max_energy_range_uj", std::to_string(range));
    write(zone + "/energy_uj", std::to_string(energy));
  }
  void write(const std::string& file, const std::string& content) const {
    std::ofstream(folder_ / file) << content << "\n";
  }
  fs::path folder_;
};

TEST_F(Rapl, ReadsPackagesAlone) {
  zone("intel-rapl:0", "package-0", 1'000'000, 900'000);
  zone("intel-rapl:0:0", "dram", 1'000'000, 1);
  zone("intel-rapl:1", "psys", 1'000'000, 1);
  zone("intel-rapl:2", "package-1", 1'000'000, 5);
  zone("intel-rapl-mmio:0", "package-0", 1'000'000, 5);
  const PowerGauges gauges = rapl_gauges();
  ASSERT_EQ(gauges.devices.size(), 2U) << gauges.missing;
  EXPECT_EQ(gauges.devices[0]->name(), "package-0");
  EXPECT_EQ(gauges.devices[1]->name(), "package-1");
  const auto joules = [&] { return gauges.devices[0]->read().joules.value(); };
  const double first = joules();
  write("intel-rapl:0/energy_uj", "100000");  // it began again
  EXPECT_NEAR(joules() - first, 0.2, 1e-12);
  write("intel-rapl:0/energy_uj", "300000");
  EXPECT_NEAR(joules() - first, 0.4, 1e-12);
  write("intel-rapl:0/energy_uj", "299999");
  EXPECT_NEAR(joules() - first, 1.399999, 1e-12);
  fs::remove(folder_ / "intel-rapl:0/energy_uj");
  EXPECT_THROW(joules(), DeviceError);
}

TEST_F(Rapl, SaysWhyItIsMissing) {
  EXPECT_THAT(rapl_gauges().missing, HasSubstr("no package"));
  zone("intel-rapl:0", "package-0", 1'000'000, 5);
  fs::remove(folder_ / "intel-rapl:0/energy_uj");
  EXPECT_THAT(rapl_gauges().missing, HasSubstr("energy_uj cannot be read"));
  setenv("TANDEM_POWERCAP", "/nowhere", 1);
  EXPECT_THAT(rapl_gauges().missing, HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace tandem::tests
