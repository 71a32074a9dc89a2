// SPDX-License-Identifier: Apache-2.0
#include "app/measure/cross_check.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <latch>
#include <map>
#include <thread>

#include "app/console/cli.h"
#include "app/console/version.h"
#include "app/measure/measure_device.h"
#include "app/measure/measure_input.h"
#include "base/data.h"
#include "base/statistics.h"
#include "base/text.h"
#include "calibration/fit/energy_parts.h"
#include "exec/comm/collective.h"
#include "exec/comm/tcp_transport.h"
#include "exec/device/cores.h"
#include "exec/device/gauge.h"

namespace tandem::app {

namespace {

double spread(const std::vector<double>& v) {
  const double m = quantile(v, 0.5);
  return m > 0 ? (quantile(v, 0.75) - quantile(v, 0.25)) / 2 / 0.6745 / m : 0;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(now));
}

std::string suite_model(const std::string& text) {
  return text.starts_with("calibration/") ? data_root() + "/" + text : text;
}

constexpr int64_t kMostTimeSliced = 16;  ///< cores up to which running twice as many workers is informative

struct SuiteGraph {
  std::string model;
  int64_t batch = 1;
};

/// Only graphs that would take a processor minutes keep a GPU busy.
Json suite_file(const Backend& backend) {
  const char* file = backend.asynchronous ? "suite-gpu.json" : "suite.json";
  return Json::load(fmt::format("{}/calibration/suite/{}", data_root(), file));
}

std::vector<SuiteGraph> suite(const Backend& backend) {
  std::vector<SuiteGraph> out;
  const Json document = suite_file(backend);
  for (const Json& g : document.at("graphs").items()) {
    g.only({"model", "batch"});
    out.push_back({g.at("model").as_text(), g.at("batch").as_int(1)});
  }
  return out;
}

/// The times of a layer's calls, assigned to its priced kernels: a call without its own kernel (a fill, a
/// copy that the model counts elsewhere) is added to the call before it in the same pass, or else to the
/// next.
void add_kernels(const ExecutionResult& r, uint32_t graph, int64_t workers,
                 std::vector<MeasuredKernel>& out) {
  std::map<std::pair<uint32_t, bool>, std::vector<const CallTime*>> passes;  // layer, forward
  for (const CallTime& c : r.calls) {
    passes[{c.call.pass == Pass::update ? UINT32_MAX - static_cast<uint32_t>(c.call.shape[0] % 1000003)
                                        : c.call.layer,
            c.call.pass == Pass::forward}]
        .push_back(&c);
  }
  for (const auto& [key, calls] : passes) {
    double carried = 0;
    std::size_t last = out.size();
    const std::size_t first = out.size();
    for (const CallTime* c : calls) {
      const double t = quantile(c->seconds, 0.5);
      if (c->call.kernels.empty()) {
        if (out.size() > first)
          out[last].median += t;
        else
          carried += t;
        continue;
      }
      // Several kernels in one call share its time by their operations and bytes.
      double all = 0;
      const auto weight = [](const Kernel& k) {
        return (static_cast<double>(k.flops.n) / 16 + static_cast<double>(k.read.n + k.written.n)) *
               static_cast<double>(k.repeat);
      };
      for (const Kernel& k : c->call.kernels) all += weight(k);
      last = out.size();
      for (const Kernel& k : c->call.kernels) {
        const double share = all > 0 ? weight(k) / all : 1 / static_cast<double>(c->call.kernels.size());
        MeasuredKernel m{k,
                         graph,
                         workers,
                         (t + carried) * share / static_cast<double>(k.repeat),
                         spread(c->seconds),
                         static_cast<int64_t>(c->seconds.size()),
                         c->dropped};
        out.push_back(std::move(m));
      }
      carried = 0;
    }
  }
}

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// A ring all-reduce of two emulated nodes on an idle machine: its time, and its load on the cores.
void measure_ring(const std::optional<RateLimit>& rate_limit, int64_t elements, int repeats,
                  Measurements& m) {
  constexpr uint32_t kRanks = 2;
  Abort abort;
  TcpTransport transport(kRanks, rate_limit, abort);
  GroupCollective group(CollKind::all_reduce, "ring", kRanks, 1, abort, 0, {&transport, 0, {0, 1}});
  std::vector<double> seconds;
  const auto rank = [&](uint32_t r) {
    std::vector<float> buffer(static_cast<std::size_t>(elements), 1);
    try {
      for (int i = 0; i < repeats; ++i) {
        const int64_t began = group.run(r, buffer.data(), elements);
        if (r == 0) seconds.push_back(static_cast<double>(now_ns() - began) * 1e-9);
      }
    } catch (const Stopped&) {
    }
  };
  const double before = cpu_seconds();
  std::thread other(rank, 1);
  rank(0);
  other.join();
  if (abort.why()) std::rethrow_exception(abort.why());
  const double cpu = (cpu_seconds() - before) / repeats / kRanks;
  m.tcp.push_back({kRanks, rate_limit ? rate_limit->bandwidth.bytes_per_second : 0,
                   4.0 * static_cast<double>(elements), quantile(seconds, 0.5), cpu});
}

void measure_tcp(bool quick, const Tell& tell, Measurements& m) {
  for (const double rate : {0.0, 125e6, 1.25e9}) {
    tell(rate > 0 ? fmt::format("measuring links limited to {}", to_text(Bandwidth{rate}))
                  : "measuring loopback",
         1);
    std::optional<RateLimit> rate_limit;
    if (rate > 0) rate_limit = RateLimit{{rate}, {}};
    for (int64_t n = 1024; n <= int64_t{1} << (quick ? 20 : 22); n *= 2)
      measure_ring(rate_limit, n, n > 500000 ? 6 : 20, m);
  }
}

ExecutionResult run_suite_graph(const Backend& backend, const SuiteGraph& g, Precision precision,
                                const char* scheme_name, int64_t workers, int32_t iterations, Keep keep,
                                const std::atomic<bool>* stop) {
  const Graph graph = Graph::load(suite_model(g.model));
  const ResolvedScheme scheme = resolve_scheme(scheme_name, {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backend;
  e.cluster = {workers, 1, workers};
  e.job.batch = g.batch;
  e.job.precision = precision;
  e.job.optimizer = &optimizer("momentum");
  e.iterations = iterations;
  e.stop = stop;
  return execute(e, keep);
}

/// Of one repetition. On a GPU some steps are timed call by call, and others give the step time.
int32_t iterations(const Backend& backend, bool quick) {
  if (quick) return backend.asynchronous ? 36 : 14;
  return backend.asynchronous ? 54 : 15;
}

/// Drift between cores depends on the observation time: the same for every graph.
int32_t steps_of_a_second(const SuiteGraph& g, bool quick, const Measurements& m) {
  double step = 0;  // of as many workers as were measured
  for (const MeasuredGraph& of : m.graphs) {
    if (of.model == g.model && of.batch == g.batch && of.ops > 0) step = of.step_median;
  }
  const double seconds = quick ? 0.5 : 1;
  return static_cast<int32_t>(std::clamp(seconds / std::max(step, 1e-9), 40.0, 800.0));
}

/// How steps differ on separate cores.
void measure_workers(const Backend& backend, const SuiteGraph& g, bool quick, const std::atomic<bool>* stop,
                     Measurements& m) {
  const ExecutionResult r = run_suite_graph(backend, g, Precision::fp32, "local-sgd:every=65535", m.cores,
                                            steps_of_a_second(g, quick, m), {}, stop);
  if (stop != nullptr && stop->load()) return;
  MeasuredWorkers row{g.model, r.worker_seconds};
  if (!row.steps.empty() && !row.steps[0].empty()) m.workers.push_back(std::move(row));
}

/// Two threads per core that only read the clock: where it jumps, the other was running.
void measure_turns(bool quick, Measurements& m) {
  const int64_t length = quick ? 300'000'000 : 600'000'000;  // ns
  constexpr int64_t kAway = 100'000;                         // ns; less is an interrupt
  std::vector<std::vector<double>> turns(static_cast<std::size_t>(2 * m.cores));
  const auto cores =
      assign_cores(machine_processors(), {Bind::core, static_cast<uint32_t>(turns.size()), 1, 0});
  std::vector<std::thread> threads;
  std::latch ready(2 * m.cores);
  for (std::size_t i = 0; i < turns.size(); ++i)
    threads.emplace_back([&, i] {
      bind_thread(cores[i].compute);
      ready.arrive_and_wait();
      const int64_t first = now_ns();
      int64_t began = 0;
      for (int64_t last = first, now = first; now < first + length; last = now) {
        now = now_ns();
        if (now - last < kAway) continue;
        if (began > 0 && last > began) turns[i].push_back(static_cast<double>(last - began) * 1e-9);
        began = now;
      }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& of_thread : turns) m.turns.insert(m.turns.end(), of_thread.begin(), of_thread.end());
}

/// Total seconds of all calls of a step.
double add_collectives(const ExecutionResult& r, int64_t workers, Measurements& m) {
  double sum = 0;
  for (const OpTime& op : r.ops) {
    if (op.collective_bytes == 0 || op.seconds.empty()) continue;
    const double seconds = quantile(op.seconds, 0.5);
    m.all_reduce.push_back({workers, static_cast<double>(op.collective_bytes), seconds, op.estimate,
                            CopyWay::memory, op.in_row});
    sum += seconds;
  }
  return sum;
}

/// Of steps without timers, for a second and a half: a meter needs more than the kernels' times do.
std::optional<DevicePower> drawn(const Backend& backend, const SuiteGraph& g, const MeasuredGraph& found,
                                 const std::atomic<bool>* stop) {
  constexpr double kSeconds = 1.5;
  const double steps = kSeconds / std::max(found.step_median, 1e-9);
  const auto few = iterations(backend, true);
  return run_suite_graph(backend, g, found.precision, "allreduce", 1,
                         few + static_cast<int32_t>(std::clamp(1.25 * steps, 20.0, 200000.0)),
                         {.meter = kMeter}, stop)
      .report.time.power;
}

/// Whether the backend's device says what it draws.
bool has_meter(const Backend& backend) {
  return backend.gauges != nullptr && !backend.gauges({0}).devices.empty();
}

/// One after another, each with 1 .. `most` workers.
void measure_graphs(const Backend& backend, const std::vector<SuiteGraph>& graphs, Precision precision,
                    int64_t most, const MeasureSettings& settings, const Tell& tell,
                    const std::atomic<bool>* stop, const Save& save, Measurements& m) {
  const bool meters = settings.meter && has_meter(backend);
  const double steps = static_cast<double>(graphs.size()) * static_cast<double>(most);
  double done = 0;
  for (const SuiteGraph& g : graphs) {
    for (int64_t workers = 1; workers <= most; ++workers) {
      if (stop != nullptr && stop->load()) return;
      tell(fmt::format("measuring {} in {} with {} worker{}", g.model, name(precision), workers,
                       workers == 1 ? "" : "s"),
           done++ / steps);
      const ExecutionResult r =
          run_suite_graph(backend, g, precision, "allreduce", workers, iterations(backend, settings.quick),
                          {true, false, false}, stop);
      const auto index = static_cast<uint32_t>(m.graphs.size());
      int64_t ops = 0;
      for (const OpTime& op : r.ops) ops += op.seconds.empty() ? 0 : 1;
      m.graphs.push_back({g.model, g.batch, workers, ops, quantile(r.iteration_seconds, 0.5),
                          spread(r.iteration_seconds), 0, precision});
      // Kernels of several workers are compared with those that the same graph had with one.
      const auto alone = static_cast<uint32_t>(index + 1 - static_cast<uint32_t>(workers));
      add_kernels(r, alone, workers, m.kernels);
      if (workers > 1) m.graphs.back().all_reduce = add_collectives(r, workers, m);
      if (workers == 1 && meters) m.graphs.back().power = drawn(backend, g, m.graphs.back(), stop);
      if (m.graphs.back().power && !backend.on_processors)
        m.graphs.back().power->parts = energy_parts(m, index);
      if (save) save(m);
    }
  }
}

Precision supported_precision(const std::string& text, const Place& place, const Backend& backend) {
  Call product;
  product.function = Function::gemm;
  const Precision p = parse_precision(text, place);
  if (backend.supports(product, p)) return p;
  std::vector<std::string_view> valid;
  for (int i = 0; i < kPrecisions; ++i) {
    if (backend.supports(product, static_cast<Precision>(i)))
      valid.push_back(name(static_cast<Precision>(i)));
  }
  throw InputError(place, fmt::format("backend {} does not compute in {}; it does in {}", backend.name,
                                      name(p), fmt::join(valid, ", ")));
}

}  // namespace

const Backend& read_backend(const Arguments& arguments) {
  return arguments.value("backend", "cpu", [](const std::string& name, const Place& place) -> const Backend& {
    return backends_registry().at(name, place);
  });
}

Option no_meter_flag() {
  return {"no-meter", "", "do not read what the devices draw (NVML of GPUs, RAPL of processors)"};
}

Precision read_precision(const Arguments& arguments, const Backend& backend) {
  return arguments.value("precision", "fp32", [&](const std::string& text, const Place& place) {
    return supported_precision(text, place, backend);
  });
}

std::vector<Precision> read_precisions(const Arguments& arguments, std::string_view fallback,
                                       const Backend& backend) {
  return arguments.value("precision", fallback, [&](const std::string& text, const Place& place) {
    std::vector<Precision> out;
    for (const std::string& each : split(text, ',')) {
      const Precision p = supported_precision(each, place, backend);
      if (std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
    }
    return out;
  });
}

void measure_collectives(const Backend& backend, int64_t most, int64_t bytes, const Tell& tell,
                         const std::atomic<bool>* stop, Measurements& m) {
  for (int64_t workers = 2; workers <= most; ++workers) {
    tell(fmt::format("measuring all-reduces among {} workers", workers), 1);
    // Hidden layers of n neurons have n x n parameters.
    for (int64_t hidden = 8; 4 * hidden * hidden <= bytes; hidden *= 2) {
      if (stop != nullptr && stop->load()) return;
      const SuiteGraph g{fmt::format("mlp:inputs=8,hidden={},layers=2", hidden), 1};
      const char* one_bucket = "allreduce:overlap=off,bucket=1GiB,first-bucket=1GiB";
      add_collectives(
          run_suite_graph(backend, g, Precision::fp32, one_bucket, workers, 20, {true, false, false}, stop),
          workers, m);
    }
  }
}

Measurements measure_machine(const Backend& backend, const MeasureSettings& settings, const Tell& tell,
                             const std::atomic<bool>* stop, const Save& save) {
  const auto& precisions = settings.precisions;
  const bool quick = settings.quick;
  Measurements m;
  m.machine = backend.describe();
  m.date = today();
  m.versions = "tandem " + version();
  m.cores = backend.units != nullptr ? backend.units() : std::max(1U, std::thread::hardware_concurrency());
  const auto graphs = suite(backend);
  // Workers time-slice a core, but share a GPU in ways that have to be measured.
  const int64_t shared = backend.asynchronous ? 4 : 1;
  const int64_t usual = std::min<int64_t>(std::max(m.cores, shared), quick ? 2 : 8);
  const int64_t most = settings.workers > 0 ? settings.workers : usual;
  if (backend.asynchronous) measure_device(backend, m);  // seconds, and a fit needs it
  for (std::size_t i = 0; i < precisions.size(); ++i) {
    const Tell part = [&](const std::string& what, double share) {
      tell(what, (static_cast<double>(i) + share) / static_cast<double>(precisions.size()));
    };
    measure_graphs(backend, graphs, precisions[i], most, settings, part, stop, save, m);
    if (stop != nullptr && stop->load()) return m;
  }
  const bool time_sliced = !backend.asynchronous && m.cores <= kMostTimeSliced;
  for (std::size_t i = 0; i < graphs.size() && time_sliced; i += graphs.size() / 4) {
    if (stop != nullptr && stop->load()) return m;
    tell(fmt::format("measuring {} with workers that do not wait", graphs[i].model), 1);
    measure_workers(backend, graphs[i], quick, stop, m);
  }
  if (time_sliced) measure_turns(quick, m);
  if (!backend.asynchronous) measure_device(backend, m);
  tell("measuring how pictures are read and decoded", 1);
  measure_input(quick, m);
  if (backend.asynchronous)
    measure_collectives(backend, most, suite_file(backend).integer("largest_all_reduce_bytes", 67108864, 256),
                        tell, stop, m);
  if (!backend.asynchronous && (stop == nullptr || !stop->load())) measure_tcp(quick, tell, m);
  return m;
}

Measurements measure_repeatedly(const Backend& backend, const MeasureSettings& settings, const Tell& tell,
                                const std::atomic<bool>* stop,
                                const std::function<bool(int64_t repetition)>& between, const Save& save) {
  const int64_t repetitions = settings.repetitions;
  Measurements out;
  const HostUsage before = host_usage();
  const auto stopped = [stop] { return stop != nullptr && stop->load(); };
  for (int64_t repetition = 0; repetition < repetitions && !stopped(); ++repetition) {
    const double part = between ? 0.4 : 1;  // of the repetition's time
    const Tell of_all = [&](const std::string& what, double share) {
      tell(what, (static_cast<double>(repetition) + part * share) / static_cast<double>(repetitions));
    };
    MeasureSettings now = settings;
    now.meter = settings.meter && repetition == 0;
    const Measurements m = measure_machine(backend, now, of_all, stop, repetition == 0 ? save : Save{});
    if (repetition == 0)
      out = m;
    else if (!stopped())
      out = fastest_of(out, m);
    if (between && (stopped() || !between(repetition))) break;
  }
  out.load = load_between(before, host_usage());
  return out;
}

}  // namespace tandem::app
