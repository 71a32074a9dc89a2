// SPDX-License-Identifier: Apache-2.0
// All-reduce between two workers next to what memory alone allows, and over a limited link next to its rate.
#include <benchmark/benchmark.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "exec/comm/collective.h"
#include "exec/comm/tcp_transport.h"
#include "exec/device/cpu/kernel.h"

namespace tandem::tests {
namespace {

constexpr int kSpins = 2000;
constexpr int64_t kPiece = 16 * 1024;  ///< elements that stay in a cache between sum and copy

/// As workers are: else the two may share a processor and each wait for the other's time slice.
void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

double quantile(std::vector<double> values, double q) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(values.size()) * q);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}
double median(const std::vector<double>& values) { return quantile(values, 0.5); }

/// Two threads do `work(rank)` at the same time, again and again; gives the seconds until both are done, from
/// when both are awake.
class Pair {
 public:
  explicit Pair(std::function<void(uint32_t)> work) : work_(std::move(work)), other_([this] { serve(); }) {
    pin(0);
  }
  ~Pair() {
    last_ = true;
    go_.add(2);
    other_.join();
  }
  double seconds() {
    go_.add();
    ready_.wait(++round_, abort_, kSpins);
    const int64_t start = now_ns();
    go_.add();
    work_(0);
    done_.wait(round_, abort_, kSpins);
    return static_cast<double>(now_ns() - start) * 1e-9;
  }

 private:
  void serve() {
    pin(1);
    for (uint32_t round = 1;; ++round) {
      go_.wait(2 * round - 1, abort_, kSpins);
      ready_.add();
      go_.wait(2 * round, abort_, kSpins);
      if (last_) return;
      work_(1);
      done_.add();
    }
  }
  std::function<void(uint32_t)> work_;
  Abort abort_;
  Counter go_, ready_, done_;
  uint32_t round_ = 0;
  std::atomic<bool> last_ = false;
  std::thread other_;
};

/// Bound: each worker adds half a buffer to another half and writes the sum into both, all bytes that an
/// all-reduce must move, with nothing to wait for and no line written by the other.
void all_reduce(benchmark::State& state) {
  const int64_t n = state.range(0) / 4, half = n / 2;
  const auto size = static_cast<std::size_t>(n);
  std::vector<float> mine[2] = {std::vector<float>(size), std::vector<float>(size)};
  std::vector<float> theirs[2] = {std::vector<float>(size), std::vector<float>(size)};
  Abort abort;
  GroupCollective group(CollKind::all_reduce, "auto", 2, 1, abort, kSpins);
  Pair collective([&](uint32_t rank) { group.run(rank, mine[rank].data(), n); });
  Pair memory([&](uint32_t rank) {
    for (int64_t at = 0; at < half; at += kPiece) {
      float *a = mine[rank].data() + at, *b = theirs[rank].data() + at;
      const int64_t piece = std::min(kPiece, half - at);
      cpu::accumulate(a, b, piece);
      std::memcpy(b, a, static_cast<std::size_t>(piece) * 4);
    }
  });
  std::vector<double> real, bound;
  for (auto _ : state) {
    bound.push_back(memory.seconds());
    real.push_back(collective.seconds());
    state.SetIterationTime(real.back());
  }
  // A neighbour on the processors disturbs both; the quiet tenth of each says what they are.
  state.counters["quiet_us"] = quantile(real, 0.1) * 1e6;
  state.counters["quiet_ratio"] = quantile(real, 0.1) / quantile(bound, 0.1);
  state.counters["median_ratio"] = median(real) / median(bound);
}
BENCHMARK(all_reduce)->RangeMultiplier(4)->Range(1 << 10, 1 << 26)->UseManualTime();

/// Ring all-reduce of two nodes: each port passes one buffer. `rate`: buffer over the median time, as a share
/// of the link's rate; the kernel passes the first 64-128 KB of an idle connection faster.
void rate_limited_ring(benchmark::State& state) {
  const int64_t n = state.range(0) / 4;
  const double rate = 1e9 / 8 * static_cast<double>(state.range(1));
  std::vector<float> mine[2] = {std::vector<float>(static_cast<std::size_t>(n)),
                                std::vector<float>(static_cast<std::size_t>(n))};
  Abort abort;
  TcpTransport transport(2, RateLimit{{rate}, {}}, abort);
  GroupCollective group(CollKind::all_reduce, "ring", 2, 1, abort, 20, {&transport, 0, {0, 1}});
  Pair collective([&](uint32_t rank) { group.run(rank, mine[rank].data(), n); });
  std::vector<double> real;
  for (auto _ : state) {
    real.push_back(collective.seconds());
    state.SetIterationTime(real.back());
  }
  state.counters["median_us"] = median(real) * 1e6;
  state.counters["rate"] = static_cast<double>(state.range(0)) / median(real) / rate;
}
BENCHMARK(rate_limited_ring)
    ->ArgNames({"bytes", "gbit"})
    ->ArgsProduct({{1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24}, {1, 10}})
    ->UseManualTime();

}  // namespace
}  // namespace tandem::tests
