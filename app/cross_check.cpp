#include "app/cross_check.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <thread>

#include "app/version.h"
#include "base/data.h"
#include "exec/network.h"
#include "sim/simulate.h"
#include "topologies/system.h"

namespace tandem {

namespace {

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double at = q * static_cast<double>(v.size() - 1);
  const auto i = static_cast<std::size_t>(at);
  const double next = i + 1 < v.size() ? v[i + 1] : v[i];
  return v[i] + (next - v[i]) * (at - static_cast<double>(i));
}

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

struct SuiteGraph {
  std::string model;
  int64_t batch = 1;
};

std::vector<SuiteGraph> suite() {
  std::vector<SuiteGraph> out;
  const Json document = Json::load(data_root() + "/calibration/suite/suite.json");
  for (const Json& g : document.at("graphs").items()) {
    g.only({"model", "batch"});
    out.push_back({g.at("model").as_text(), g.at("batch").as_int(1)});
  }
  return out;
}

/// The times of a layer's calls, charged to its priced kernels: a call without a kernel of its own (a fill, a
/// copy that the model counts with another) goes to the one before it in the same pass, or else behind it.
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

void measure_copies(const Backend& backend, Measurements& m) {
  const auto device = backend.open({0, Precision::fp32, 1, false});
  constexpr int64_t kMost = int64_t{16} << 20;
  float* a = device->allocate(kMost);
  float* b = device->allocate(kMost);
  for (int64_t n = 256; n <= kMost; n *= 4) {
    std::vector<double> seconds;
    const int64_t repeats = std::clamp<int64_t>((int64_t{1} << 25) / n, 5, 200);
    for (int64_t i = 0; i < repeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      device->copy(a, b, n, Lane::comm);
      device->synchronize(Lane::comm);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    m.copy.push_back({1, 4.0 * static_cast<double>(n), quantile(seconds, 0.5)});
  }
}

}  // namespace

Measurements measure_machine(const Backend& backend, bool quick, const Tell& tell,
                             const std::atomic<bool>* stop) {
  Measurements m;
  m.machine = backend.describe();
  m.date = today();
  m.versions = "tandem " + version();
  m.cores = std::max(1U, std::thread::hardware_concurrency());
  const auto graphs = suite();
  const int64_t most = std::min<int64_t>(m.cores, quick ? 2 : 8);
  const double steps = static_cast<double>(graphs.size()) * static_cast<double>(most);
  double done = 0;
  const ResolvedScheme scheme = resolve_scheme("allreduce", {});
  for (const SuiteGraph& g : graphs) {
    const Graph graph = Graph::load(suite_model(g.model));
    for (int64_t workers = 1; workers <= most; ++workers) {
      if (stop != nullptr && stop->load()) return m;
      tell(fmt::format("measuring {} with {} worker{}", g.model, workers, workers == 1 ? "" : "s"),
           done++ / steps);
      Execution e;
      e.graph = &graph;
      e.scheme = &scheme;
      e.backend = &backend;
      e.cluster = {workers, 1, workers};
      e.batch = g.batch;
      e.optimizer = &optimizer("momentum");
      e.iterations = quick ? 14 : 36;
      e.stop = stop;
      const ExecutionResult r = execute(e, {true, false, false});
      const auto index = static_cast<uint32_t>(m.graphs.size());
      int64_t ops = 0;
      for (const OpTime& op : r.ops) ops += op.seconds.empty() ? 0 : 1;
      m.graphs.push_back(
          {g.model, g.batch, workers, ops, quantile(r.iteration_seconds, 0.5), spread(r.iteration_seconds)});
      // Kernels of several workers belong to the graph as measured with one, to be held against each other.
      const auto alone = static_cast<uint32_t>(index + 1 - static_cast<uint32_t>(workers));
      add_kernels(r, alone, workers, m.kernels);
      if (workers == 1) continue;
      for (const OpTime& op : r.ops) {
        if (op.collective_bytes == 0 || op.seconds.empty()) continue;
        const double seconds = quantile(op.seconds, 0.5);
        m.all_reduce.push_back({workers, static_cast<double>(op.collective_bytes), seconds});
        m.graphs.back().all_reduce += seconds;
      }
    }
  }
  measure_copies(backend, m);
  return m;
}

std::vector<CheckCase> check_cases(bool quick) {
  const std::string gpt = "transformer-tiny";
  const std::string lstm = "lstm-ptb-small";
  const std::vector<std::pair<std::string, int64_t>> models = {
      {"resnet20-cifar", 32}, {"cifar10-cnn", 32}, {"mlp", 32}, {"lenet5", 64}, {gpt, 8}, {lstm, 16}};
  std::vector<CheckCase> out;
  for (const auto& [model, batch] : models) {
    const bool short_step = model == "mlp" || model == "lenet5";
    if (quick && model != "lenet5" && model != "resnet20-cifar") continue;
    const int32_t n = short_step ? 200 : 30;
    out.push_back({model, batch, 1, "allreduce", n});
    out.push_back({model, batch, 2, "allreduce", n});
    if (model == "mlp" || model == "lenet5" || model == "resnet20-cifar")
      out.push_back({model, batch, 2, "parameter-server:mode=async,overlap=off",
                     short_step ? 1000
                     : quick    ? 40
                                : 150});
    if (quick) continue;
    if (model == "lenet5" || model == "cifar10-cnn") {
      out.push_back(
          {model, batch, 2, "parameter-server:mode=ssp,slack=2,overlap=off", short_step ? 500 : 40});
      out.push_back({model, batch, 2, "parameter-server:overlap=off", short_step ? 300 : 40});
      out.push_back({model, batch, 4, "parameter-server:mode=async,overlap=off", short_step ? 500 : 60});
      out.push_back(
          {model, batch, 4, "parameter-server:mode=softsync,n=2,overlap=off", short_step ? 500 : 60});
    }
  }
  return out;
}

namespace {

double total_variation(const Histogram& a, const Histogram& b) {
  std::map<int64_t, double> difference;
  for (const auto& bin : a.bins())
    difference[bin.value] += static_cast<double>(bin.count) / static_cast<double>(a.count());
  for (const auto& bin : b.bins())
    difference[bin.value] -= static_cast<double>(bin.count) / static_cast<double>(b.count());
  double sum = 0;
  for (const auto& [value, d] : difference) sum += std::abs(d);
  return sum / 2;
}

}  // namespace

std::vector<CheckRow> check_case(const CheckCase& c, const std::string& profile, const Backend& backend,
                                 const std::atomic<bool>* stop) {
  const Graph graph = Graph::load(c.model);
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  const System system = System::load("local");
  Prediction p;
  p.graph = &graph;
  p.system = &system;
  p.scheme = &scheme;
  p.devices = c.devices;
  p.batch = c.batch;
  p.optimizer = &optimizer("momentum");
  p.input = false;
  p.profile = profile;
  p.check_memory = false;
  if (c.scheme.find("mode=") != std::string::npos) p.iterations = c.iterations;
  const Report predicted = simulate(p);
  Execution e;
  e.graph = &graph;
  e.scheme = &scheme;
  e.backend = &backend;
  e.cluster = {c.devices, 1, c.devices};
  e.batch = c.batch;
  e.optimizer = p.optimizer;
  e.iterations = c.iterations;
  e.warmup = std::max<int32_t>(3, c.iterations / 10);
  e.stop = stop;
  const ExecutionResult first = execute(e), second = execute(e);
  std::vector<CheckRow> rows;
  const auto add = [&](std::string metric, double guess, double a, double b) {
    CheckRow r{c.model, c.scheme, std::move(metric), c.devices, c.batch, guess, (a + b) / 2, 0, 0,
               false,   false};
    r.error = r.executed != 0 ? r.predicted / r.executed - 1 : 0;
    r.floor = r.executed != 0 ? std::abs(a - b) / r.executed : 0;
    rows.push_back(std::move(r));
  };
  add("samples_per_second", predicted.samples_per_second, first.report.samples_per_second,
      second.report.samples_per_second);
  rows.back().interval = true;
  rows.back().covered =
      rows.back().executed >= predicted.interval.low && rows.back().executed <= predicted.interval.high;
  if (first.report.staleness.max() > 0) {
    add("staleness_mean", predicted.staleness.mean(), first.report.staleness.mean(),
        second.report.staleness.mean());
    add("staleness_distance", 0, total_variation(predicted.staleness, first.report.staleness),
        total_variation(predicted.staleness, second.report.staleness));
    rows.back().error = rows.back().executed;
    rows.back().floor = total_variation(first.report.staleness, second.report.staleness);
  }
  return rows;
}

}  // namespace tandem
