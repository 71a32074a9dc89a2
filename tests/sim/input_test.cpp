// SPDX-License-Identifier: Apache-2.0
// Real input, by what its slowest stage must give.
#include <gtest/gtest.h>

#include "sim/cost/input_costs.h"
#include "tests/sim/prediction.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

double rate(const System& system, int64_t devices, int64_t batch) {
  static const Graph graph = Graph::load("alexnet");  // 4.2 ms to decode, 110 KB stored, 588 KiB decoded
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Request p = prediction_of(graph, system, scheme, devices, batch);
  p.job.input = true;
  p.check_memory = false;
  p.disturbance = Disturbance{};
  return simulate(p).rate.samples_per_second;
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

/// alexnet on one device from a data set of 10,000 samples of 100 KB.
double loaded(const System::Sets& sets, Loading loading, int64_t devices = 1, const char* on = "v100-pcie-8x",
              const char* with = "allreduce") {
  static const Graph graph = Graph::load("alexnet");
  const System system = System::load(on, sets);
  const ResolvedScheme scheme = resolve_scheme(with, {});
  Request p = prediction_of(graph, system, scheme, devices, 16);
  p.job.input = true;
  if (!loading.data) loading.data = StoredData{10'000, 100e3, 0, ImageFormat::jpeg, true};  // not encoded
  p.job.loading = loading;
  p.check_memory = false;
  p.disturbance = Disturbance{};
  return simulate(p).rate.samples_per_second;
}

TEST(Input, OfManySmallFilesIsLimitedByMetadataAndOperations) {
  const auto with = [](const char* limit, const char* value) {
    return System::Sets{{"host.local_storage", "50MB/s"}, {std::string("host.local_") + limit, value}};
  };
  EXPECT_NEAR(loaded(with("metadata", "200"), {}), 200, 2);
  EXPECT_NEAR(loaded(with("operations", "120"), {}), 120, 1.2);
  EXPECT_NEAR(loaded(with("latency", "10ms"), {.workers = 2}), 100, 1) << "two threads wait 20 ms a file";
  Loading records;
  records.data = StoredData{10'000, 100e3, 0, ImageFormat::jpeg, false};
  EXPECT_NEAR(loaded(with("metadata", "200"), records), 500, 5) << "50 MB/s: nothing is opened";
  EXPECT_NEAR(loaded(with("operations", "120"), records), 120 * 131072 / 100e3, 1.6);
}

TEST(Input, ComesFromThePageCacheAfterTheFirstEpoch) {
  const System::Sets slow{{"host.local_storage", "10MB/s"}},
      room = {{"host.local_storage", "10MB/s"}, {"host.page_cache", "750MB"}},
      all = {{"host.local_storage", "10MB/s"}, {"host.page_cache", "2GB"}};
  EXPECT_NEAR(loaded(slow, {}), 100, 1);
  EXPECT_NEAR(loaded(room, {}), 400, 4) << "three quarters are there";
  EXPECT_NEAR(loaded(room, {.first_epoch = true}), 100, 1);
  EXPECT_GT(loaded(all, {}), 1000) << "nothing is read";
}

TEST(Input, IsStagedToTheNodesOwnDisks) {
  const System::Sets disks{
      {"host.local_storage", "20MB/s"}, {"host.shared_storage", "30MB/s"}, {"nodes", "2"}};
  EXPECT_NEAR(loaded(disks, {}, 16, "ethernet-cluster"), 300, 3);
  EXPECT_NEAR(loaded(disks, {.staged = true}, 16, "ethernet-cluster"), 400, 4);
}

TEST(Input, StagesOverlapAsFarAsBatchesArePrefetched) {
  // Read, then decoded: 10 ms each of a batch of 16, everything else is short.
  const System::Sets sets{{"host.local_storage", "160MB/s"}, {"host.cores", "1"}, {"host.core_speed", "1"}};
  Loading one;
  one.data = StoredData{10'000, 100e3, 1, ImageFormat::jpeg, false};
  const double decode = 16 * 4.2e-3 * 100 / 110, read = 10e-3;
  one.prefetch = 1;
  EXPECT_NEAR(loaded(sets, one), 16 / (decode + read), 0.03 * 16 / decode) << "one after the other";
  one.prefetch = 0;
  const double serial = 16 / loaded(sets, one);
  EXPECT_GT(serial, decode + read) << "and the device computes behind that";
  Loading ready = one;
  ready.decoded = true;
  EXPECT_NEAR(serial, decode + read + 16 / loaded(sets, ready), 1e-3 * serial) << "read, decode, copy, step";
  one.prefetch = 2;
  EXPECT_NEAR(loaded(sets, one), 16 / decode, 0.03 * 16 / decode) << "the slowest";
  one.workers = 1;
  EXPECT_NEAR(loaded({{"host.cores", "64"}, {"host.core_speed", "2"}}, one), 2 * 16 / decode,
              0.01 * 32 / decode)
      << "one thread of many cores";
  one.on_device = true;
  EXPECT_GT(loaded(sets, one), 1000) << "no core decodes";
}

/// What a script without a loader reads lies in the step: of all devices where one process drives them.
TEST(Input, IsReadByTheScriptItselfWithoutPrefetch) {
  Loading script;
  script.data = StoredData{10'000, 100e3, 1, ImageFormat::jpeg, false};
  script.prefetch = 0;
  script.workers = 1;
  Loading ready = script;
  ready.decoded = true;
  const System::Sets sets{{"host.cores", "64"}, {"host.core_speed", "1"}, {"host.local_storage", "100GB/s"}};
  const auto reading = [&](const char* scheme, int64_t devices) {
    const auto step = [&](const Loading& how) {
      return 16 * static_cast<double>(devices) / loaded(sets, how, devices, "v100-pcie-8x", scheme);
    };
    return step(script) - step(ready);
  };
  const double one = 16 * 4.2e-3 * 100 / 110;
  EXPECT_NEAR(reading("allreduce", 1), one, 0.01 * one);
  EXPECT_NEAR(reading("allreduce", 4), one, 0.01 * one) << "each device has a process";
  EXPECT_NEAR(reading("pytorch-dataparallel", 1), one, 0.01 * one);
  EXPECT_LT(reading("pytorch-dataparallel", 4), 4.04 * one);
  EXPECT_GT(reading("pytorch-dataparallel", 4), 3 * one) << "parameters are sent meanwhile";
}

TEST(Input, IsCopiedEncodedWhereTheDeviceDecodes) {
  const Graph graph = Graph::load("alexnet");
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  Job job{&graph, &scheme, 16, Precision::fp32, &optimizer("momentum")};
  const auto bytes = [&](CopyKind kind) {
    const Program program = compile(job, {1, 1, 1});
    for (const Op& op : program.roles[0].ops) {
      if (op.kind == OpKind::copy && program.copies[op.what].kind == kind) return op.bytes.n;
    }
    return int64_t{-1};
  };
  const int64_t stored = 16 * graph.sample().stored.n, decoded = 16 * graph.sample().decoded.n;
  EXPECT_EQ(bytes(CopyKind::read), stored);
  EXPECT_EQ(bytes(CopyKind::decode), decoded);
  EXPECT_EQ(bytes(CopyKind::input), decoded);
  job.loading.on_device = true;
  EXPECT_EQ(bytes(CopyKind::decode), -1);
  EXPECT_EQ(bytes(CopyKind::input), stored);
  EXPECT_EQ(bytes(CopyKind::decode_device), decoded);
  job.loading.decoded = true;
  EXPECT_EQ(bytes(CopyKind::read), -1);
  EXPECT_EQ(bytes(CopyKind::input), decoded);
}

/// By the source in sim/cost/input_costs.h: 7,830 images of 551 x 676 a second.
TEST(Input, IsDecodedOnTheDeviceByPixels) {
  const Graph graph = Graph::load("alexnet");
  Job job{&graph, nullptr, 16, Precision::fp32, &optimizer("momentum")};
  EXPECT_NEAR(device_decode_seconds(job), 500.0 * 375 / (7830.0 * 551 * 676), 1e-12)
      << "ImageNet's mean image";
  job.loading.decode_seconds = 8.4e-3;
  EXPECT_NEAR(device_decode_seconds(job), 2 * 500.0 * 375 / (7830.0 * 551 * 676), 1e-12) << "twice as large";
  job.loading.data = StoredData{10'000, 100e3, 551 * 676, ImageFormat::jpeg, true};
  EXPECT_NEAR(device_decode_seconds(job), 1.0 / 7830, 1e-12);
}

/// Where launches bind, a host that began before the first samples would let the device go faster for some
/// steps.
TEST(Input, NoHostIsAheadOfTheFirstSamples) {
  const Graph graph = Graph::load("mobilenet-v2");
  const System system = System::load("2080ti-pcie-8x");
  for (const char* name : {"parameter-server", "parameter-server:server=gpu", "allreduce"}) {
    const ResolvedScheme scheme = resolve_scheme(name, {});
    const auto after = [&](int32_t iterations, bool input) {
      Request p = prediction_of(graph, system, scheme, 8, 16);
      p.job.precision = Precision::fp16;
      p.job.input = input;
      p.disturbance = Disturbance{};
      p.iterations = iterations;
      return simulate(p).rate.samples_per_second;
    };
    const double steady = after(100, true);
    EXPECT_NEAR(after(8, true) / steady, 1, 0.006) << name;
    EXPECT_NEAR(after(100, false) / steady, 1, 0.002) << name;
  }
}

}  // namespace
}  // namespace tandem::tests
