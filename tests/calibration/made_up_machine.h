// SPDX-License-Identifier: Apache-2.0
#pragma once
// A machine made up for tests: measurements made from known parameters, and predictions by the profile that
// is fitted to them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <string>

#include "calibration/fit/machine_fit.h"
#include "models/graph.h"
#include "models/layers/layer.h"
#include "models/optimizer.h"
#include "sim/simulate.h"

namespace tandem::tests {

inline constexpr double kBase = 2e-6, kPerFlop = 1e-11, kPerByte = 1e-10, kOverhead = 5e-6, kWake = 4e-5;

inline double truth(const Kernel& k) {
  return kBase + kPerFlop * static_cast<double>(k.flops.n) +
         kPerByte * static_cast<double>(k.read.n + k.written.n);
}

/// Two workers make products a tenth slower.
inline double slow(const Kernel& k) { return k.kind == KernelKind::gemm ? 1.1 : 1.0; }

/// A step of a ring over loopback; CPU seconds per byte of an all-reduce of two.
inline double tcp_step(double bytes, double rate) { return 2e-5 + bytes * (rate > 0 ? 1 / rate : 3e-10); }
inline constexpr double kTcpCpu = 3e-10;
inline constexpr double kSigma = 0.01;  ///< of steps

inline Measurements made() {
  Measurements m;
  m.machine = "made up";
  m.date = "2026-01-01";
  m.versions = "test";
  m.cores = 2;
  const char* models[] = {"mlp", "mlp:hidden=256", "mlp:hidden=384,layers=3", "digits-mlp", "lenet5"};
  for (const char* model : models) {
    const Graph graph = Graph::load(model);
    for (int64_t workers = 1; workers <= 2; ++workers) {
      const auto alone = static_cast<uint32_t>(m.graphs.size() - static_cast<std::size_t>(workers - 1));
      double sum = 0;
      const auto add = [&](Kernel k) {
        const double t = truth(k) * (workers == 2 ? slow(k) : 1);
        sum += t * static_cast<double>(k.repeat);
        m.kernels.push_back({k, alone, workers, t, 0, 30, 0});
      };
      for (const Lowered& l : graph.lower(32, Precision::fp32)) {
        for (const auto* list : {&l.forward, &l.backward_data, &l.backward_weights}) {
          for (const Kernel& k : *list) add(k);
        }
      }
      add(update_kernel(optimizer("momentum"), graph.parameter_elements()));
      if (workers == 2) sum *= std::exp(kSigma * normal_score(2, 2));  // both wait for the slower
      const double reduce = workers == 2 ? 2e-5 + 4e-10 * static_cast<double>(graph.parameter_elements()) : 0;
      m.graphs.push_back({model, 32, workers, 10,
                          sum + 10 * kOverhead + reduce + (workers == 2 ? 2 * kWake : 0), kSigma, reduce});
      if (workers == 2)
        m.all_reduce.push_back({2, 4.0 * static_cast<double>(graph.parameter_elements()), reduce});
    }
  }
  for (double bytes = 1024; bytes < 1e8; bytes *= 8) m.copy.push_back({1, bytes, bytes / 1e10});
  for (const double rate : {0.0, 125e6, 1.25e9}) {
    for (double bytes = 4096; bytes < 1e8; bytes *= 2)
      m.tcp.push_back({2, rate, bytes, 2 * tcp_step(bytes / 2, rate), bytes * kTcpCpu});
  }
  return m;
}

/// Where the measurements' profile lies for a prediction to read.
inline std::string profile_of(const Measurements& m, const char* name) {
  std::string file = testing::TempDir() + "machine_fit_" + name + ".json";
  std::ofstream(file) << fit_machine(m).profile;
  return file;
}

struct Case {
  const char* model;
  const char* scheme;
  int64_t devices = 1, batch = 32;
  const char* rate_limit = nullptr;  ///< of links between the devices, each a node of its own; none: one node
  int32_t iterations = 0;            ///< 0: as many as simulate() takes
  std::optional<Disturbance> disturbance = Disturbance{};  ///< none: as the profile has it
};

inline Report predict(const Case& c, const std::string& profile, Precision precision = Precision::fp32,
                      const char* machine = "local") {
  const Graph graph = Graph::load(c.model);
  const System system = c.rate_limit == nullptr
                            ? System::load(machine)
                            : System::load("local-nodes", {{"network.bandwidth", c.rate_limit}});
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  Request p;
  p.job.graph = &graph;
  p.system = &system;
  p.job.scheme = &scheme;
  p.devices = c.devices;
  p.job.batch = c.batch;
  p.job.precision = precision;
  p.job.optimizer = &optimizer("momentum");
  p.job.input = false;
  p.profile = profile;
  p.check_memory = false;
  if (c.iterations > 0) p.iterations = c.iterations;
  p.disturbance = c.disturbance;
  return simulate(p);
}

/// As made(), and behind it all graphs once more in bf16, where kernels take a quarter of the time.
inline Measurements made_in_two() {
  Measurements m = made();
  const auto graphs = static_cast<uint32_t>(m.graphs.size());
  for (uint32_t g = 0; g < graphs; ++g) {
    m.graphs.push_back(m.graphs[g]);
    m.graphs.back().precision = Precision::bf16;
  }
  std::vector<MeasuredKernel> halves = m.kernels;
  for (MeasuredKernel& k : halves) {
    k.graph += graphs;
    k.median /= 4;
    const double waits = k.workers == 2 ? std::exp(kSigma * normal_score(2, 2)) : 1;
    m.graphs[k.graph + static_cast<std::size_t>(k.workers) - 1].step_median -=
        3 * k.median * static_cast<double>(k.kernel.repeat) * waits;
  }
  m.kernels.insert(m.kernels.end(), halves.begin(), halves.end());
  return m;
}

/// Bytes per second of each way that a GPU has.
inline constexpr double kWays[kCopyWays] = {1e10, 5e9, 4e9, 2e9, 1e9, 1e12, 2e10, 1.5e10};

/// The machine's workers are GPUs, `peers` of which reach each other.
inline Measurements made_apart(bool peers) {
  Measurements m = made();
  m.copy.clear();
  for (int way = 0; way < kCopyWays; ++way) {
    if (static_cast<CopyWay>(way) == CopyWay::peer && !peers) continue;
    for (double bytes = 1024; bytes < 1e8; bytes *= 8)
      m.copy.push_back({1, bytes, bytes / kWays[way], 0, static_cast<CopyWay>(way)});
  }
  m.launch = {3e-6, 9e-6};
  return m;
}

/// Worker 0 is a fifth slower than worker 1.
inline MeasuredWorkers uneven_workers() {
  return {"mlp", {std::vector<double>(100, 0.012), std::vector<double>(100, 0.01)}};
}

}  // namespace tandem::tests
