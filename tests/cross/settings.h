// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every scheme that can be executed, in every mode, as questions to both engines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "exec/execute.h"
#include "sim/simulate.h"
#include "tests/exec/deferred.h"
#include "topologies/system.h"

namespace tandem::tests {

/// What a gradient is computed from.
enum class Reads : uint8_t {
  fresh,    ///< the latest parameters: staleness 0
  bounded,  ///< at most as stale as the store's slack allows
  stale,    ///< whatever is there
  delayed,  ///< those of SettingFacts::late iterations ago
};

/// What the tests must know of a setting and cannot ask its Program.
struct SettingFacts {
  Reads reads = Reads::fresh;
  int32_t late = 0;  ///< iterations at the end of a run whose gradients are not applied any more
  int32_t sums_until =
      0;                ///< iterations at the beginning in which workers that average sum gradients instead
  double rounding = 0;  ///< how far the mean of all gradients may be missed; < 0: it is not what comes out
  bool one_process = false;  ///< it cannot be spread over nodes
};

struct Setting {
  std::string scheme;
  Cluster cluster;
  SettingFacts facts = {};
  std::string_view offload = "off";
};

inline std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.scheme << " on " << s.cluster.devices << ", offload " << s.offload;
}

/// Every scheme that can be executed, in every mode, on one and on two nodes.
inline std::vector<Setting> settings() {
  using enum Reads;
  const Cluster one{1, 1, 1}, two{2, 1, 2}, three{3, 1, 3}, four{4, 1, 4}, grid{4, 2, 2};
  return {
      {"allreduce", one},
      {"allreduce:bucket=0B", two},
      {"allreduce:bucket=4KiB,algorithm=ring", three},
      {"allreduce:algorithm=tree,overlap=off", four},
      {"allreduce:algorithm=double-tree,bucket=1KiB", four},
      {"allreduce:algorithm=halving-doubling", three},
      {"allreduce:algorithm=hierarchical,bucket=1KiB", grid},
      {"allreduce:algorithm=central", three},
      {"allreduce:accumulate=3,bucket=1KiB", two},
      {"allreduce:compression=fp16,bucket=1KiB", two},
      {"allreduce:compression=fp16,overlap=off,accumulate=2", grid},
      {"allreduce:gradients=fp16,bucket=1KiB,algorithm=ring", three},
      {"allreduce:gradients=fp16,accumulate=3", grid},
      {"allreduce:gradients=fp16,priority=on,partition=512B,bucket=0B", two, {.late = 1}},
      {"allreduce:compression=int8", two, {.rounding = -1}},
      {"allreduce:compression=int8,bucket=1KiB,error-feedback=off", grid, {.rounding = -1}},
      {"allreduce:compression=topk,density=1,bucket=1KiB", three},
      {"allreduce:compression=topk,density=0.05,accumulate=2", grid, {.rounding = -1}},
      {"allreduce:compression=powersgd,rank=1", two, {.rounding = -1}},
      {"allreduce:compression=powersgd,bucket=1KiB,overlap=off", grid, {.rounding = -1}},
      {"allreduce:priority=on,partition=512B,bucket=0B", three, {.late = 1}},
      {"allreduce:priority=on,overlap=off,bucket=0B", grid, {.late = 1}},
      {"allreduce:partition=256B,algorithm=ring", two},
      {"allreduce:comm-cores=1,bucket=1KiB", two},
      {"allreduce:comm-cores=1,algorithm=ring", grid},
      {"allreduce:cycle=200us,bucket=1KiB", two},
      {"allreduce:cycle=1ms", grid},
      {"allreduce:cycle=100us,accumulate=3,overlap=off,bucket=2KiB", three},
      {"allreduce:cycle=100us,priority=on,partition=512B", two, {.late = 1}},
      {"hybrid:microbatches=1,partition=256B,bucket=0B", grid},
      {"hybrid:microbatches=1,priority=on,partition=512B,bucket=0B", three, {.late = 1}},
      {"hybrid:microbatches=1,cycle=200us,bucket=1KiB", two},
      {"hybrid:microbatches=1,cycle=100us,bucket=2KiB,priority=on,partition=512B", grid, {.late = 1}},
      {"parameter-server", two},
      {"parameter-server:bucket=1KiB,shards=3", three},
      {"parameter-server:overlap=off", four},
      {"parameter-server:server=gpu", three, {.late = 1}},
      {"parameter-server:server=gpu,shards=2", four},
      {"parameter-server:server=gpu,placement=largest-first,bucket=0B", three},
      {"parameter-server:shards=2,placement=in-order,bucket=1KiB", three},
      {"parameter-server:push=node,server=nodes,placement=round-robin,bucket=0B", grid},
      {"parameter-server:mode=async,placement=largest-first,bucket=0B,shards=3", four, {.reads = stale}},
      {"parameter-server:mode=ssp,slack=1,pull=separate,placement=in-order,bucket=0B,shards=2",
       three,
       {.reads = bounded}},
      {"parameter-server:compression=topk,density=1,bucket=1KiB,shards=2,placement=largest-first", two},
      {"parameter-server:push=node,server=nodes", grid},
      {"parameter-server:compression=int8,shards=3", three, {.rounding = -1}},
      {"parameter-server:compression=topk,density=1,bucket=1KiB", grid},
      {"parameter-server:compression=topk,density=0.05,mode=async", two, {.reads = stale, .rounding = -1}},
      {"parameter-server:priority=on,partition=512B,bucket=0B", three},
      {"parameter-server:server=gpu,priority=on,partition=256B,bucket=0B", two, {.late = 1}},
      {"parameter-server:push=node,priority=on,partition=256B,bucket=0B", grid},
      {"parameter-server:mode=async,priority=on,partition=1KiB,overlap=off", four, {.reads = stale}},
      {"parameter-server:mode=async", four, {.reads = stale}},
      {"parameter-server:mode=async,overlap=off,shards=2", two, {.reads = stale}},
      {"parameter-server:mode=async,push=node,bucket=1KiB", grid, {.reads = stale}},
      {"parameter-server:mode=async,rate=delay-adaptive", two, {.reads = stale, .rounding = -1}},
      {"parameter-server:pull=separate", three},
      {"parameter-server:pull=separate,push=node,bucket=1KiB", grid},
      {"parameter-server:mode=async,pull=separate,bucket=1KiB,shards=2", three, {.reads = stale}},
      {"parameter-server:mode=ssp,slack=1,overlap=off,pull=separate", four, {.reads = bounded}},
      {"parameter-server:mode=ssp,slack=1,overlap=off", three, {.reads = bounded}},
      {"parameter-server:mode=ssp,slack=0", two, {.reads = bounded}},
      {"parameter-server:mode=softsync,n=2,overlap=off", four, {.reads = stale}},
      {"parameter-server:mode=backup,backup=1,overlap=off", four, {.reads = stale}},
      {"parameter-averaging:every=3", two},
      {"parameter-averaging:every=2,state=params+optimizer,through=allreduce", four},
      {"parameter-averaging:every=3,through=cpu", two},
      {"parameter-averaging:every=2,through=cpu,state=params+optimizer", four},
      {"local-sgd:every=3,through=cpu,state=params+optimizer", grid},
      {"local-sgd:every=2,through=cpu", grid},
      {"local-sgd:every=4", two},
      {"diloco:every=3,outer=sgd,outer-rate=1", two},
      {"diloco:every=4", four, {.rounding = -1}},
      {"diloco:every=3,outer=momentum,outer-rate=1,outer-momentum=0.5", grid, {.rounding = -1}},
      {"bmuf:every=4", two, {.rounding = -1}},
      {"bmuf:every=2,nesterov=off", three, {.rounding = -1}},
      {"elastic-averaging:every=3", two, {.rounding = -1}},
      {"elastic-averaging:every=2,rate=0.5", grid, {.rounding = -1}},
      {"elastic-averaging:mode=async,every=1", three, {.reads = stale, .rounding = -1}},
      {"elastic-averaging:mode=async,every=1,server=nodes", grid, {.reads = stale, .rounding = -1}},
      {"post-local-sgd:after=4,every=4", two, {.sums_until = 4}},
      {"post-local-sgd:after=5,every=3,bucket=1KiB", grid, {.sums_until = 5}},
      {"post-local-sgd:after=100,bucket=0B", three, {.sums_until = 100}},
      {"delayed-allreduce", two, {.reads = delayed, .late = 1}},
      {"delayed-allreduce:delay=3,bucket=1KiB", grid, {.reads = delayed, .late = 3}},
      {"async-diloco:every=1", three, {.reads = stale, .rounding = -1}},
      {"async-diloco:every=1,worker=node,server=nodes,bucket=1KiB", grid, {.reads = stale, .rounding = -1}},
      {"gossip", three, {.reads = stale, .rounding = 1e-4}},
      {"gossip:overlap=off", four, {.reads = stale, .rounding = 1e-4}},
      {"gossip:partner=ring", grid, {.reads = stale, .rounding = 1e-4}},
      {"hogwild", three, {.reads = stale, .one_process = true}},
      {"hierarchical-local-sgd:every=2,rounds=2", grid},
      {"data-parallel-master", two, {.one_process = true}},
      {"zero", two},
      {"zero:stage=1,accumulate=3,overlap=off,bucket=1KiB", four},
      {"zero:stage=2,bucket=0B", three},
      {"zero:stage=1,gradients=fp16,bucket=1KiB", four},
      {"zero:stage=3,gradients=fp16,accumulate=2,bucket=1KiB", three},
      {"zero:stage=2,gradients=fp16,sharding-group=node,bucket=1KiB", grid},
      {"zero:stage=3,bucket=1KiB", grid},
      {"zero:stage=3,bucket=0B", three},
      {"zero:stage=3,overlap=off", two},
      {"zero:stage=2,accumulate=3,bucket=0B", three},
      {"zero:stage=3,accumulate=3,bucket=1KiB", grid},
      {"zero:stage=3,accumulate=2,overlap=off", two},
      {"zero:stage=1,sharding-group=node,accumulate=2", grid},
      {"zero:stage=2,sharding-group=node,accumulate=3,bucket=1KiB", grid},
      {"zero:stage=3,sharding-group=node,accumulate=2,overlap=off", grid, {}, "optimizer+parameters"},
      {"zero:stage=3,sharding-group=node,bucket=1KiB", grid},
      {"allreduce", one, {}, "optimizer"},
      {"allreduce:bucket=1KiB,accumulate=3", three, {}, "optimizer"},
      {"allreduce:overlap=off,update=all", two, {}, "optimizer+gradients"},
      {"zero:stage=1,accumulate=3,bucket=1KiB", four, {}, "optimizer"},
      {"zero:stage=2,bucket=0B", three, {}, "optimizer+gradients"},
      {"zero:stage=2,accumulate=2,overlap=off", two, {}, "optimizer"},
      {"zero:stage=2,accumulate=3,bucket=1KiB", three, {}, "optimizer+gradients"},
      {"zero:stage=2,accumulate=3,bucket=1KiB", one, {}, "optimizer+gradients"},
      {"zero:stage=3,accumulate=3,bucket=1KiB", grid, {}, "optimizer+gradients+parameters"},
      {"zero:stage=3,bucket=1KiB", grid, {}, "optimizer"},
      {"zero:stage=3,bucket=1KiB", one, {}, "optimizer+parameters"},
      {"zero:stage=3,accumulate=3,bucket=1KiB", one, {}, "optimizer+parameters"},
      {"zero:stage=3,bucket=1KiB", grid, {}, "optimizer+gradients+parameters"},
      {"zero:stage=3,bucket=0B,accumulate=3", three, {}, "optimizer+parameters"},
      {"zero:stage=3,overlap=off", two, {}, "optimizer+parameters"},
  };
}

/// Those whose workers can be on nodes of their own.
inline std::vector<Setting> settings_over_links() {
  std::vector<Setting> out;
  for (const Setting& s : settings()) {
    if (s.cluster.devices > 1 && !s.facts.one_process) out.push_back(s);
  }
  return out;
}

inline const Graph& model() {
  static const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  return graph;
}

inline Execution execution(const Setting& s, const ResolvedScheme& scheme, std::string_view backend,
                           int32_t iterations) {
  Execution e;
  e.job.graph = &model();
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at(backend);
  e.cluster = s.cluster;
  e.job.batch = 4;
  e.job.optimizer = &optimizer("sgd");
  e.job.offload = parse_offload(s.offload, {});
  e.iterations = iterations;
  e.warmup = 1;
  // Two processors are enough to have four workers' threads where they belong.
  if (s.scheme.find("comm-cores") != std::string::npos) e.processors = Processors{{{0, 1, 0, 1, 0, 1, 0, 1}}};
  return e;
}

inline constexpr char kNull[] = "null", kCpu[] = "cpu";

/// Backends of this build that need no device, and the same behind asynchronous queues.
inline const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    std::vector<Backend> list = {backends_registry().at("null"), backends_registry().at("cpu"),
                                 deferred<kNull>(), deferred<kCpu>()};
    list[2].name = "deferred null";
    list[3].name = "deferred cpu";
    return list;
  }();
  return all;
}

/// What the workers of `cluster` learn of the digits, `samples` of them together in a step; `batches`: how
/// many each, where they differ.
inline ExecutionResult learned_digits(const char* scheme, const Cluster& cluster, int64_t samples, bool sync,
                                      const Backend& backend, const std::vector<int64_t>& batches = {}) {
  static const Graph graph = Graph::load("digits-cnn");
  static const Dataset data = load_dataset("digits", false);
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Execution e = execution({scheme, cluster}, resolved, "cpu", 4);
  e.backend = &backend;
  e.job.graph = &graph;
  e.job.sync_batch_norm = sync;
  e.job.optimizer = &optimizer("momentum");
  e.rate.base = 0.05;
  e.data = &data;
  e.job.batch = samples / cluster.devices;
  e.job.batches = batches;
  return execute(e, {false, false, true});
}

inline double furthest(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

/// The simulator's question of a setting, on a machine of one or two nodes.
inline Request prediction(const Setting& s, const ResolvedScheme& scheme, int32_t iterations) {
  static const System box = System::load("p3.8xlarge"), nodes = System::load("5090-2x", {{"nodes", "4"}});
  Request p;
  p.job.graph = &model();
  p.system = s.cluster.nodes > 1 ? &nodes : &box;
  p.job.scheme = &scheme;
  p.devices = s.cluster.devices;
  p.job.batch = 4;
  p.job.optimizer = &optimizer("sgd");
  p.job.offload = parse_offload(s.offload, {});
  p.job.input = false;
  p.disturbance = Disturbance{};
  p.iterations = iterations;
  return p;
}

}  // namespace tandem::tests
