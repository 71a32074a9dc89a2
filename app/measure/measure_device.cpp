// SPDX-License-Identifier: Apache-2.0
#include "app/measure/measure_device.h"
#include "base/statistics.h"
#include "models/optimizer.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace tandem::app {

namespace {

constexpr int64_t kMost = int64_t{16} << 20;  ///< elements of a copy within ordinary memory

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// `copy` returns when its elements have arrived.
void add_copies(CopyWay way, const std::function<void(int64_t)>& copy, Measurements& m,
                int64_t most = kMost) {
  for (int64_t n = 256; n <= most; n *= 4) {
    std::vector<double> seconds;
    const int64_t repeats = std::clamp<int64_t>((int64_t{1} << 25) / n, 5, 200);
    for (int64_t i = 0; i < repeats; ++i) seconds.push_back(seconds_of([&] { copy(n); }));
    m.copy.push_back({1, 4.0 * static_cast<double>(n), median(seconds), 0, way});
  }
}

/// To another device, as gradients of algorithms that copy step by step.
void add_peer(const Backend& backend, DeviceSession& device, const float* from, int64_t most,
              Measurements& m) {
  const auto other = backend.open({1, Precision::fp32, 1});
  float* to = other->allocate(most);
  const auto copy = [&](int64_t n) {
    device.copy(to, from, n, Lane::comm);
    device.synchronize(Lane::comm);
  };
  add_copies(CopyWay::peer, copy, m, most);
}

void add_launches(DeviceSession& device, float* one, Measurements& m) {
  constexpr int kInRow = 500;  // below what a driver queues before the host has to wait
  const auto in_row = [&] {
    for (int i = 0; i < kInRow; ++i) device.scale(one, 1, 1, Lane::compute);
    device.synchronize(Lane::compute);
  };
  const auto alone = [&] {
    device.scale(one, 1, 1, Lane::compute);
    device.synchronize(Lane::compute);
  };
  in_row();  // the first loads the kernel
  std::vector<double> issue, round_trip;
  for (int i = 0; i < 9; ++i) issue.push_back(seconds_of(in_row) / kInRow);
  for (int i = 0; i < 101; ++i) round_trip.push_back(seconds_of(alone));
  m.launch = {median(issue), median(round_trip)};
}

/// The optimiser step of a server in the host's memory, as in `tandem run`.
void add_host_updates(Measurements& m) {
  const auto host = backends_registry().at("cpu").open({0, Precision::fp32, 1});
  const Optimizer& momentum = optimizer("momentum");
  float* values[3];
  for (float*& v : values) v = host->allocate(kMost);
  for (int64_t n = int64_t{1} << 14; n <= kMost; n *= 8) {
    Call update;
    update.function = Function::update;
    update.pass = Pass::update;
    update.shape = {n, &momentum - optimizers().data()};
    const uint32_t prepared = host->prepare(update);
    std::vector<double> seconds;
    for (int i = 0; i < 7; ++i)
      seconds.push_back(seconds_of([&] { host->launch(prepared, values, {}, Lane::compute); }));
    const Kernel kernel = update_kernel(momentum, n);
    const auto moved = static_cast<double>((kernel.read + kernel.written).n);
    m.copy.push_back({1, moved, median(seconds), 0, CopyWay::host_update});
  }
}

}  // namespace

void measure_device(const Backend& backend, Measurements& m, int64_t largest) {
  const auto device = backend.open({0, Precision::fp32, 1});
  const int64_t most = backend.asynchronous ? largest / 4 : kMost;
  float *a = device->allocate(most), *b = device->allocate(most);
  const auto within = [&](int64_t n) {
    device->copy(a, b, n, Lane::comm);
    device->synchronize(Lane::comm);
  };
  if (!backend.asynchronous) return add_copies(CopyWay::memory, within, m);
  std::vector<float> ordinary(static_cast<std::size_t>(kMost), 1), more(ordinary);
  float* pinned = device->allocate_host(most);
  const auto load = [&](int64_t n) {
    device->load(a, pinned, n, Lane::comm);
    device->synchronize(Lane::comm);
  };
  const auto save = [&](int64_t n) {
    device->save(pinned, a, n, Lane::comm);
    device->synchronize(Lane::comm);
  };
  add_copies(
      CopyWay::memory, [&](int64_t n) { std::copy_n(more.data(), n, pinned); }, m);
  add_copies(CopyWay::to_device, load, m, most);
  add_copies(CopyWay::from_device, save, m, most);
  add_copies(
      CopyWay::pageable_to_device, [&](int64_t n) { device->upload(a, ordinary.data(), n); }, m);
  add_copies(
      CopyWay::pageable_from_device, [&](int64_t n) { device->download(more.data(), a, n); }, m);
  add_copies(CopyWay::device, within, m, most);
  if (backend.units != nullptr && backend.units() > 1) add_peer(backend, *device, b, most, m);
  add_host_updates(m);
  add_launches(*device, a, m);
}

}  // namespace tandem::app
