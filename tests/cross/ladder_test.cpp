// SPDX-License-Identifier: Apache-2.0
// The cross-engine ladder: the same Program in the simulator and on real threads (semantics.md is what both
// obey).
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <numeric>

#include "exec/run/execute.h"
#include "sim/evaluate.h"
#include "sim/gather.h"
#include "sim/placement.h"
#include "tests/exec/deferred.h"
#include "tests/exec/forward.h"
#include "tests/sim/prediction.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

struct Setting {
  std::string scheme;
  Cluster cluster;
};

std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.scheme << " on " << s.cluster.devices;
}

/// Every scheme that can be executed, in every mode, on one and on two nodes.
std::vector<Setting> settings() {
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
      {"parameter-server", two},
      {"parameter-server:bucket=1KiB,shards=3", three},
      {"parameter-server:overlap=off", four},
      {"parameter-server:server=gpu", three},
      {"parameter-server:server=gpu,shards=2", four},
      {"parameter-server:push=node,server=nodes", grid},
      {"parameter-server:mode=async", four},
      {"parameter-server:mode=async,overlap=off,shards=2", two},
      {"parameter-server:mode=async,push=node,bucket=1KiB", grid},
      {"parameter-server:mode=ssp,slack=1,overlap=off", three},
      {"parameter-server:mode=ssp,slack=0", two},
      {"parameter-server:mode=softsync,n=2,overlap=off", four},
      {"parameter-server:mode=backup,backup=1,overlap=off", four},
      {"parameter-averaging:every=3", two},
      {"parameter-averaging:every=2,state=params+optimizer,through=allreduce", four},
      {"local-sgd:every=4", two},
      {"data-parallel-master", two},
      {"zero", two},
      {"zero:stage=1,accumulate=3,overlap=off,bucket=1KiB", four},
      {"zero:stage=2,bucket=0B", three},
      {"zero:stage=3,bucket=1KiB", grid},
      {"zero:stage=3,bucket=0B", three},
      {"zero:stage=3,overlap=off", two},
      {"zero:stage=2,accumulate=3,bucket=0B", three},
      {"zero:stage=3,accumulate=3,bucket=1KiB", grid},
      {"zero:stage=3,accumulate=2,overlap=off", two},
  };
}

const Graph& model() {
  static const Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/tiny.json");
  return graph;
}

Execution execution(const Setting& s, const ResolvedScheme& scheme, std::string_view backend,
                    int32_t iterations) {
  Execution e;
  e.job.graph = &model();
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at(backend);
  e.cluster = s.cluster;
  e.job.batch = 4;
  e.job.optimizer = &optimizer("sgd");
  e.iterations = iterations;
  e.warmup = 1;
  return e;
}

constexpr char kNull[] = "null", kCpu[] = "cpu";

/// Backends of this build that need no device, and the same behind asynchronous queues.
const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    std::vector<Backend> list = {backends_registry().at("null"), backends_registry().at("cpu"),
                                 deferred<kNull>(), deferred<kCpu>()};
    list[2].name = "deferred null";
    list[3].name = "deferred cpu";
    return list;
  }();
  return all;
}

class Ladder : public testing::TestWithParam<Setting> {};

/// The simulator's question of a setting, on a machine of one or two nodes.
Prediction prediction(const Setting& s, const ResolvedScheme& scheme, int32_t iterations) {
  static const System box = System::load("p3.8xlarge"), nodes = System::load("5090-2x", {{"nodes", "4"}});
  Prediction p = prediction_of(model(), s.cluster.nodes > 1 ? nodes : box, scheme, s.cluster.devices, 4);
  p.job.optimizer = &optimizer("sgd");
  p.disturbance = Disturbance{};
  p.iterations = iterations;
  return p;
}

bool exchanges(const Program& p, Lane lane) {
  return std::any_of(p.roles[0].ops.begin(), p.roles[0].ops.end(), [&](const Op& op) {
    return op.lane == lane && (op.kind == OpKind::send || op.kind == OpKind::recv);
  });
}

TEST_P(Ladder, TraceSatisfiesTheProgram) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  const Program p = make_program(execution(s, scheme, "null", 1));
  constexpr int32_t kIterations = 8;
  const auto& ops = p.roles[0].ops;
  for (const std::size_t backend : {0, 2}) {
    SCOPED_TRACE(backends()[backend].name);
    Execution e = execution(s, scheme, "null", kIterations);
    e.backend = &backends()[backend];
    const ExecutionResult r = execute(e, {false, true, false});
    // The clocks of devices and host agree only as far as the host's readings around an event are apart.
    const auto host = [&](uint32_t op) { return e.backend->asynchronous && exchanges(p, ops[op].lane); };
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Span> at;  // instance, iteration, op
    for (const Span& span : r.spans) {
      EXPECT_LE(span.start, span.end);
      EXPECT_TRUE(at.emplace(std::make_tuple(span.instance, span.iteration, span.op), span).second);
    }
    int64_t expected = 0;
    for (const Op& op : ops) expected += kIterations * p.micro_batches / op.every;
    EXPECT_EQ(static_cast<int64_t>(at.size()), expected * s.cluster.devices);
    for (const auto& [key, span] : at) {
      const auto [instance, iteration, index] = key;
      for (const Dep& d : ops[index].deps) {
        if (iteration < d.lag) continue;
        const auto before = at.find({instance, iteration - d.lag, d.op});
        if (before == at.end()) continue;  // it does not run in that iteration
        if (host(index) != host(d.op)) continue;
        EXPECT_GE(span.start, before->second.end) << "op " << index << " after " << d.op;
      }
      for (uint32_t other = 0; other < index; ++other) {  // lanes are in order
        if (ops[other].lane != ops[index].lane) continue;
        const auto before = at.find({instance, iteration, other});
        if (before == at.end()) continue;
        EXPECT_GE(span.start, before->second.end);
      }
      if (e.backend->asynchronous || ops[index].kind != OpKind::collective ||
          p.collectives[ops[index].what].axes + 1 != 1U << p.roles[0].mesh.axes.size())
        continue;
      for (uint32_t member = 0; member < s.cluster.devices; ++member)
        EXPECT_GE(span.end, at.at({member, iteration, index}).start)
            << "a collective ends when all have arrived";
    }
  }
}

/// The solution of a square system, by elimination with row exchanges.
std::vector<double> solved(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t most = k;
    for (std::size_t r = k; r < n; ++r) most = std::abs(a[r][k]) > std::abs(a[most][k]) ? r : most;
    std::swap(a[k], a[most]);
    std::swap(b[k], b[most]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == k || a[k][k] == 0) continue;
      const double factor = a[r][k] / a[k][k];
      for (std::size_t c = k; c < n; ++c) a[r][c] -= factor * a[k][c];
      b[r] -= factor * b[k];
    }
  }
  for (std::size_t k = 0; k < n; ++k) b[k] /= a[k][k];
  return b;
}

/// Which of the gradients, (worker, iteration), reached elements [first, first + elements): each whole or not
/// at all, and there are more elements than gradients, so that the first elements' sums tell which.
std::vector<int> kept_in(const std::vector<float>& parameters, int64_t first, int64_t elements,
                         const std::vector<std::pair<uint32_t, uint32_t>>& made) {
  const std::size_t gradients = made.size();
  const auto gradient = [&](std::size_t g, int64_t element) {
    return integer_gradient(made[g].first, made[g].second, element);
  };
  std::vector<std::vector<double>> a(gradients, std::vector<double>(gradients));
  std::vector<double> b(gradients);
  for (std::size_t i = 0; i < gradients; ++i) {
    const int64_t element = first + static_cast<int64_t>(i);
    for (std::size_t g = 0; g < gradients; ++g) a[i][g] = gradient(g, element);
    b[i] = -parameters[static_cast<std::size_t>(element)];
  }
  std::vector<int> kept;
  for (const double x : solved(a, b)) {
    EXPECT_NEAR(x, std::round(x), 1e-6);
    kept.push_back(static_cast<int>(std::lround(x)));
    EXPECT_TRUE(kept.back() == 0 || kept.back() == 1) << "merged " << x << " times";
  }
  for (int64_t i = first; i < first + elements; ++i) {
    int64_t sum = 0;
    for (std::size_t g = 0; g < gradients; ++g) sum += kept[g] * gradient(g, i);
    EXPECT_EQ(static_cast<double>(parameters[static_cast<std::size_t>(i)]), static_cast<double>(-sum)) << i;
  }
  return kept;
}

/// Of a store that drops what comes too late, which is a matter of timing.
void expect_kept_sums(const ExecutionResult& r, const Program& p) {
  std::vector<std::pair<uint32_t, uint32_t>> made;
  for (uint32_t w = 0; w < r.worker_iterations.size(); ++w) {
    for (int32_t i = 0; i < r.worker_iterations[w]; ++i) made.emplace_back(w, i);
  }
  const auto gradients = static_cast<int64_t>(made.size());
  const int64_t shards = p.roles[p.stores[0].role].mesh.size();
  int64_t kept = 0, slices = 0;
  for (const Bucket& part : p.buckets) {
    for (int64_t s = 0; s < shards; ++s) {  // cut evenly, the first ones one element longer
      const int64_t each = part.elements / shards, rest = part.elements % shards;
      const int64_t first = part.first + each * s + std::min(rest, s), elements = each + (s < rest ? 1 : 0);
      ASSERT_GT(elements, 2 * gradients) << "too few to tell which were kept";
      const std::vector<int> which = kept_in(r.parameters, first, elements, made);
      kept += std::accumulate(which.begin(), which.end(), 0);
      ++slices;
    }
  }
  // What waits for the last gradient of its version has not reached the parameters.
  EXPECT_EQ(kept, r.versions * p.stores[0].batch);
  EXPECT_LE(kept, r.updates);
  EXPECT_EQ(r.updates + r.dropped, gradients * slices);
}

/// Gradients are integers that depend on (worker, iteration, element) only: what reaches the parameters is
/// their exact sum, in whatever order they arrived.
TEST_P(Ladder, IntegerSumsAreExact) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  for (std::size_t k = 0; k < backends().size() + 2; ++k) {
    // The last two with a node for each worker, as far as they are not on nodes yet, and messages over TCP.
    const bool linked = k >= backends().size();
    if (linked && (s.cluster.devices == 1 || s.scheme == "data-parallel-master")) continue;
    const Backend& backend = backends()[linked ? 1 + 2 * (k - backends().size()) : k];
    constexpr int32_t kIterations = 12;
    Execution e = execution(s, scheme, "cpu", kIterations);
    if (linked) e.pace = Pace{{1e9}, Time::from_seconds(20e-6)};
    if (linked && s.cluster.nodes == 1) e.cluster = {s.cluster.devices, s.cluster.devices, 1};
    e.backend = &backend;
    e.integer_gradients = true;
    const ExecutionResult r = execute(e, {false, false, true});
    const Program p = make_program(e);
    const bool averages = std::any_of(p.roles[0].ops.begin(), p.roles[0].ops.end(), [&](const Op& op) {
      return op.kind == OpKind::collective && op.payload != Payload::gradients &&
             p.collectives[op.what].kind == CollKind::all_reduce;
    });
    // One synchronous shard on every device updates in front of the next forward: the last sum is not used.
    const bool lags = s.scheme == "parameter-server:server=gpu";
    const auto elements = static_cast<int64_t>(r.parameters.size());
    ASSERT_EQ(elements, model().parameter_elements());
    EXPECT_EQ(std::accumulate(r.worker_iterations.begin(), r.worker_iterations.end(), 0),
              kIterations * p.micro_batches * s.cluster.devices);
    if (!p.stores.empty() && p.stores[0].drop_late) {
      SCOPED_TRACE(backend.name);
      expect_kept_sums(r, p);
      continue;
    }
    EXPECT_EQ(r.dropped, 0);
    for (int64_t i = 0; i < elements; ++i) {
      double sum = 0;
      for (uint32_t w = 0; w < s.cluster.devices; ++w) {
        for (int32_t t = 0; t < r.worker_iterations[w] - (lags ? 1 : 0); ++t)
          sum += integer_gradient(w, static_cast<uint32_t>(t), i);
      }
      if (averages) sum /= static_cast<double>(s.cluster.devices);
      ASSERT_EQ(static_cast<double>(r.parameters[static_cast<std::size_t>(i)]), -sum)
          << backend.name << (linked ? " over links" : "") << " element " << i;
    }
  }
}

TEST_P(Ladder, CountsEqualTheSimulators) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  constexpr int32_t kIterations = 20;
  const ExecutionResult r = execute(execution(s, scheme, "null", kIterations));
  const Plan plan = make_plan(prediction(s, scheme, kIterations));
  EvaluateOptions options;
  options.iterations = kIterations * plan.program->micro_batches;
  const Trace trace = run_events(plan, options);
  EXPECT_EQ(r.report.staleness.count() + r.dropped, trace.staleness.count() + trace.dropped)
      << "gradients that arrived";
  if (r.dropped == 0 && trace.dropped == 0) {
    EXPECT_EQ(r.versions, trace.versions);
  }
  if (s.scheme.find("mode=") == std::string::npos) {
    EXPECT_EQ(r.report.staleness.max(), 0);
  }
  const auto& store = plan.program->stores;
  if (s.scheme.find("mode=ssp") != std::string::npos) {
    // Nobody runs more than slack + 1 iterations ahead, so nothing is staler than what the others did in
    // them.
    EXPECT_LE(r.report.staleness.max(), (2 * store[0].slack + 2) * (s.cluster.devices - 1));
  }
}

/// A rate is samples of the program over the time of an iteration, in both engines, those left out whose
/// gradients were dropped.
TEST_P(Ladder, RatesCountTheProgramsSamples) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  const ExecutionResult executed = execute(execution(s, scheme, "null", 12));
  const Report predicted = simulate(prediction(s, scheme, 12));
  const Program program = make_program(execution(s, scheme, "null", 1));
  const int64_t samples = 4 * program.micro_batches * s.cluster.devices;
  EXPECT_EQ(executed.report.samples_per_iteration, samples);
  EXPECT_EQ(predicted.samples_per_iteration, samples);
  const auto& seconds = executed.iteration_seconds;
  const double mean =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  const auto count = static_cast<double>(samples);
  const double kept = executed.dropped == 0 ? 1
                                            : static_cast<double>(executed.updates) /
                                                  static_cast<double>(executed.updates + executed.dropped);
  EXPECT_NEAR(executed.report.samples_per_second * mean, kept * count, 1e-9 * count);
  if (program.stores.empty() || !program.stores[0].drop_late) {
    EXPECT_GE(predicted.samples_per_second * predicted.iteration_p95, count * (1 - 1e-6));
  }
  EXPECT_LE(predicted.samples_per_second * predicted.iteration_p05, count * (1 + 1e-6));
}

/// What an op hands to its collective or sends is what the Program says, also where parameters have 2 bytes.
TEST_P(Ladder, OpsMoveTheProgramsBytes) {
  const Setting& s = GetParam();
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Execution e = execution(s, scheme, "null", 3);
    e.job.precision = precision;
    const Program p = make_program(e);
    const ExecutionResult r = execute(e);
    for (std::size_t i = 0; i < p.roles[0].ops.size(); ++i) {
      const Op& op = p.roles[0].ops[i];
      const bool moves = op.kind == OpKind::collective || op.kind == OpKind::send;
      const int64_t moved = op.kind == OpKind::send ? r.ops[i].sent_bytes : r.ops[i].collective_bytes;
      // Shares of 2-byte elements are whole words.
      EXPECT_NEAR(static_cast<double>(moved), moves ? static_cast<double>(op.bytes.n) : 0.0,
                  4.0 * static_cast<double>(s.cluster.devices))
          << name(precision) << ", " << p.labels[op.label];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Ladder, testing::ValuesIn(settings()));

/// The same question is the same Program in both engines: every scheme and preset, every precision.
TEST(Engines, CompileEqualPrograms) {
  const System systems[] = {System::load("dgx-h100"), System::load("5090-2x", {{"nodes", "4"}})};
  const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
  std::size_t compared = 0;
  for (const SchemeEntry& entry : list_schemes()) {
    const ResolvedScheme scheme = resolve_scheme(entry.name, {});
    if (gathers(scheme.overheads))
      continue;  // its buckets follow from predicted times, which the executor lacks
    for (const System& system : systems) {
      for (int i = 0; i < 2 * kPrecisions; ++i) {
        Setting s{entry.name, make_cluster(system, 4)};
        if (s.cluster.nodes > 1 && scheme.scheme->name == "data-parallel-master") continue;  // one process
        Execution e = execution(s, scheme, "null", 1);
        Prediction p = prediction(s, scheme, 1);
        p.system = &system;
        p.job.precision = e.job.precision = static_cast<Precision>(i % kPrecisions);
        p.job.input = i >= kPrecisions;
        e.data = p.job.input ? &data : nullptr;
        EXPECT_EQ(fingerprint(*make_plan(p).program), fingerprint(make_program(e)))
            << entry.name << " in " << name(p.job.precision) << " on " << system.name();
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 2 * 2 * kPrecisions * (sync_registry().all().size() - 1));
}

TEST(Ladder, CoversEveryScheme) {
  for (const Scheme& scheme : sync_registry().all()) {
    if (!scheme.only_simulated.empty()) continue;  // refused, see below
    const auto all = settings();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Setting& s) {
      return s.scheme == scheme.name || s.scheme.starts_with(std::string(scheme.name) + ":");
    })) << scheme.name;
  }
}

TEST(Execute, RefusesWhatIsOnlySimulated) {
  std::vector<std::string> refused = {"allreduce:compression=fp16", "allreduce:gradients=fp16"};
  for (const Scheme& scheme : sync_registry().all()) {
    if (!scheme.only_simulated.empty()) refused.emplace_back(scheme.name);
  }
  EXPECT_EQ(refused.size(), 3U);
  for (const std::string& text : refused) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    EXPECT_THROW(execute(execution({text, {2, 1, 2}}, scheme, "null", 2)), InputError) << text;
  }
}

/// N workers that sum their gradients compute what one computes on the N-fold batch.
TEST(Execute, SynchronousWorkersEqualOneWithTheWholeBatch) {
  for (const char* text : {"allreduce", "parameter-server", "parameter-server:server=gpu,shards=1", "zero",
                           "zero:stage=3,bucket=1KiB", "allreduce:accumulate=3", "zero:stage=1,accumulate=3",
                           "zero:stage=2,accumulate=3,bucket=0B", "zero:stage=3,accumulate=3,bucket=1KiB",
                           "zero:stage=3,accumulate=2,overlap=off"}) {
    const ResolvedScheme many = resolve_scheme(text, {}), one = resolve_scheme("allreduce", {});
    Execution a = execution({text, {2, 1, 2}}, many, "cpu", 5),
              b = execution({text, {1, 1, 1}}, one, "cpu", 5);
    static const Dataset data = load_dataset(std::string(TANDEM_ROOT) + "/tests/cross/points.csv", false);
    a.data = b.data = &data;
    b.batch = 2 * a.batch * make_program(a).micro_batches;
    a.rate.base = b.rate.base = 0.1;
    const auto x = execute(a, {false, false, true}).parameters,
               y = execute(b, {false, false, true}).parameters;
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5) << text << " " << i;
  }
}

/// Where the pull follows the push, a worker's gradients together are as stale as there were others merged
/// before its last one. So the worker that ends last has seen all of the others', whatever the speeds.
TEST(Execute, AsynchronousStalenessIsWorkersLessOne) {
  for (const int64_t workers : {2, 4}) {
    const Setting s{"parameter-server:mode=async,overlap=off", {workers, 1, workers}};
    const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
    const ExecutionResult r = execute(execution(s, scheme, "cpu", 400));
    EXPECT_EQ(r.report.staleness.count(), 400 * workers);
    double most = 0;
    ASSERT_EQ(r.report.staleness_by_worker.size(), static_cast<std::size_t>(workers));
    for (uint32_t w = 0; w < workers; ++w) {
      const Histogram& worker = r.report.staleness_by_worker[w];
      EXPECT_EQ(worker.count(), r.worker_iterations[w]);
      most = std::max(most, (worker.mean() + 1) * static_cast<double>(worker.count()));
    }
    EXPECT_DOUBLE_EQ(most, static_cast<double>(400 * workers));
  }
}

/// Time for workers that compute nothing: each ends its k-th step at k times the length of its steps, and
/// waits until all that others have ended by then is merged.
class Clock {
 public:
  explicit Clock(std::vector<int64_t> steps) : steps_(std::move(steps)), begun_(steps_.size()) {}
  void begin(uint32_t worker, uint32_t iteration) {
    const std::lock_guard guard(mutex_);
    begun_[worker] = iteration;
    changed_.notify_all();
  }
  void end(uint32_t worker, uint32_t iteration) {
    std::unique_lock lock(mutex_);
    const int64_t now = (iteration + 1) * steps_[worker];
    // In a run's last iterations some will begin no more: then nobody is waited for.
    changed_.wait_for(lock, std::chrono::seconds(1), [&] {
      for (uint32_t other = 0; other < begun_.size(); ++other) {
        const bool first = steps_[other] < steps_[worker];  // of those that end at the same time
        if (other != worker && (begun_[other] + 1) * steps_[other] + (first ? 0 : 1) <= now) return false;
      }
      return true;
    });
  }

 private:
  std::vector<int64_t> steps_;
  std::vector<int64_t> begun_;  ///< [worker]: its iteration, all before which are merged
  std::mutex mutex_;
  std::condition_variable changed_;
};

Clock* clock = nullptr;

class Clocked : public ForwardDevice {
 public:
  Clocked(std::unique_ptr<DeviceSession> inner, uint32_t worker)
      : ForwardDevice(std::move(inner)), worker_(worker) {}
  uint32_t prepare(const Call& call) override {
    const uint32_t index = ForwardDevice::prepare(call);
    const bool backward = call.pass != Pass::forward && call.pass != Pass::update;
    if (backward && call.layer < lowest_) lowest_ = call.layer, last_ = index;
    if (call.pass == Pass::forward && first_ == UINT32_MAX) first_ = index;
    return index;
  }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    if (prepared == first_) clock->begin(worker_, step.iteration);
    if (prepared == last_) clock->end(worker_, step.iteration);
    ForwardDevice::launch(prepared, operands, step, lane);
  }

 private:
  uint32_t worker_;
  uint32_t first_ = UINT32_MAX, last_ = UINT32_MAX;  ///< an iteration's first call and its last layer's
  uint32_t lowest_ = UINT32_MAX;
};

/// While the slow one of four computes, each other pushes twice; and the run ends for all at about one time.
TEST(Execute, StalenessOfASlowWorkerIsWhatTheOthersDoMeanwhile) {
  Clock of_this({1, 1, 1, 2});
  clock = &of_this;
  Backend backend = backends_registry().at("null");
  backend.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    auto inner = backends_registry().at("null").open(options);
    if (!options.pin) return inner;  // the store's own
    return std::make_unique<Clocked>(std::move(inner), options.index);
  };
  const Setting s{"parameter-server:mode=async,overlap=off", {4, 1, 4}};
  const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
  Execution e = execution(s, scheme, "null", 100);
  e.backend = &backend;
  const ExecutionResult r = execute(e);
  EXPECT_EQ(std::accumulate(r.worker_iterations.begin(), r.worker_iterations.end(), 0), 400);
  EXPECT_NEAR(r.worker_iterations[3], 400 / 7, 2);
  EXPECT_NEAR(r.report.staleness_by_worker[3].mean(), 6, 0.3);
  EXPECT_NEAR(r.report.staleness_by_worker[0].mean(), 2.5, 0.1);
  EXPECT_NEAR(r.report.staleness.mean(), 3, 0.1);
}

/// A node's devices push a share each that no other of them changes.
TEST(Execute, StalenessOfNodesThatPushAsOneCountsNodes) {
  for (const int64_t nodes : {1, 2, 3}) {
    const Setting s{"parameter-server:mode=async,push=node,overlap=off", {2 * nodes, nodes, 2}};
    const ResolvedScheme scheme = resolve_scheme(s.scheme, {});
    const ExecutionResult r = execute(execution(s, scheme, "null", 100));
    EXPECT_LE(r.report.staleness.mean(), static_cast<double>(nodes - 1)) << nodes;
    EXPECT_EQ(r.report.staleness.count() % (2 * nodes * 100), 0) << nodes;
  }
}

}  // namespace
}  // namespace tandem::tests
