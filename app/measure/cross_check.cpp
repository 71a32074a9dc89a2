// SPDX-License-Identifier: Apache-2.0
#include "app/measure/cross_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/data.h"
#include "base/json.h"
#include "base/statistics.h"
#include "models/adapter.h"
#include "schemes/setup/uneven_batches.h"
#include "sim/bound/placement.h"
#include "sim/simulate.h"
#include "sim/simulation.h"
#include "topologies/system.h"

namespace tandem::app {

namespace {

/// Typical GPU workloads; workers beyond the number of GPUs share them.
std::vector<CheckCase> gpu_cases(bool quick) {
  std::vector<CheckCase> out;
  const Json document = Json::load(data_root() + "/calibration/suite/check-gpu.json");
  for (const Json& c : document.at("cases").items()) {
    c.only({"model", "batch", "devices", "scheme", "iterations", "quick"});
    if (quick && !c.boolean("quick", true)) continue;
    out.push_back({c.at("model").as_text(), c.at("batch").as_int(1), c.integer("devices", 1, 1, 1024),
                   c.text("scheme", "allreduce"),
                   static_cast<int32_t>(c.integer("iterations", 100, 1, 100000))});
  }
  return out;
}

/// With and without input as the limit: large and small images, files and records.
void add_images(bool quick, std::vector<CheckCase>& out) {
  struct Setting {
    const char* model;
    int64_t batch, side, devices;
    ImageFormat format;
    bool files;
  };
  const Setting all[] = {{"resnet20-cifar", 32, 384, 1, ImageFormat::jpeg, true},
                         {"resnet20-cifar", 32, 96, 1, ImageFormat::png, false},
                         {"cifar10-cnn", 32, 512, 1, ImageFormat::jpeg, false},
                         {"cifar10-cnn", 32, 128, 1, ImageFormat::jpeg, true},
                         {"lenet5", 64, 256, 1, ImageFormat::png, true},
                         {"resnet20-cifar", 32, 256, 2, ImageFormat::jpeg, true}};
  for (const Setting& s : all) {
    if (quick && s.side != 384) continue;
    out.push_back({s.model, s.batch, s.devices, "allreduce", 20});
    MadeImages made;
    made.samples = 128;
    made.width = made.height = s.side;
    made.format = s.format;
    out.back().images = CheckImages{made, s.files, 1};
  }
}

/// Models split between two workers, sharded ones, and one that is fine-tuned.
void add_splits(const std::string& model, int64_t batch, std::vector<CheckCase>& out) {
  constexpr const char* kMixture =
      "mixtral-8x7b:layers=2,hidden=128,heads=4,kv_heads=2,head_dim=32,feed=256,vocabulary=512,sequence=64,"
      "experts=4";
  for (const char* scheme : {"pipeline:microbatches=4", "pipeline:microbatches=4,schedule=interleaved"})
    out.push_back({model, batch, 2, scheme, 8});
  for (const char* scheme :
       {"tensor-parallel", "tensor-parallel:sequence=on", "hybrid:context=2", "hybrid:sharding=3"})
    out.push_back({model, batch, 2, scheme, 15});
  out.push_back({kMixture, batch, 2, "hybrid:expert=2", 15});
  out.push_back({model, batch, 2, "allreduce", 15});
  out.back().adapter = "lora:rank=8,on=attention";
}

/// Every family of schemes that averages models or delays or weighs gradients, and every one whose workers do
/// not wait for each other: on one worker, on as many as cores and on more, and with a slow one. Gradients
/// that are compressed, cut, ordered or sharded: on as many workers as cores and more. Asynchronous ones run
/// enough iterations that the last, with less staleness, hardly count.
void add_families(std::vector<CheckCase>& out) {
  constexpr const char* kModel = "lenet5";
  constexpr int64_t kBatch = 64;
  const auto add = [&](const char* scheme, int64_t workers, int32_t iterations, double throttle) {
    out.push_back({kModel, kBatch, workers, scheme, iterations});
    out.back().throttle = throttle;
  };
  for (const char* scheme :
       {"local-sgd:every=10", "diloco:every=10", "bmuf:every=10", "elastic-averaging:every=10",
        "post-local-sgd:after=20,every=5", "delayed-allreduce:delay=2"}) {
    for (const int64_t workers : {1, 2, 4}) add(scheme, workers, 80, 1);
    add(scheme, 2, 80, 2);
  }
  for (const char* scheme :
       {"allreduce:compression=int8", "allreduce:compression=topk", "allreduce:compression=powersgd",
        "allreduce:bucket=16KiB,partition=16KiB,priority=on", "allreduce:cycle=5ms",
        "parameter-server:partition=64KiB,priority=on", "hierarchical-local-sgd", "zero:stage=2", "fsdp"}) {
    for (const int64_t workers : {2, 4}) add(scheme, workers, 80, 1);
  }
  const std::pair<const char*, int32_t> kFree[] = {
      {"parameter-server:mode=async", 200},
      {"parameter-server:mode=async,overlap=off,rate=by-staleness", 200},
      {"parameter-server:mode=ssp,slack=2,overlap=off", 200},
      {"parameter-server:mode=softsync,n=2,overlap=off", 200},
      {"hogwild", 200},
      {"gossip", 200},
      {"elastic-averaging:mode=async,every=4", 400},
      {"async-diloco:every=4", 400}};
  for (const auto& [scheme, iterations] : kFree) {
    add(scheme, 1, 80, 1);
    for (const int64_t workers : {2, 4}) {
      for (const double throttle : {1.0, 2.0}) add(scheme, workers, iterations, throttle);
    }
  }
}

}  // namespace

std::string CheckImages::text() const {
  return fmt::format("{}x{} {} {}, {} decode worker{}", made.width, made.height, name(made.format),
                     files ? "files" : "records", workers, workers == 1 ? "" : "s");
}

std::vector<CheckCase> check_cases(const Backend& backend, bool quick) {
  if (backend.asynchronous) return gpu_cases(quick);
  const std::string gpt = "transformer-tiny";
  const std::string lstm = "lstm-ptb-small";
  const std::vector<std::pair<std::string, int64_t>> models = {
      {"resnet20-cifar", 32}, {"cifar10-cnn", 32}, {"mlp", 32}, {"lenet5", 64}, {gpt, 8}, {lstm, 16}};
  std::vector<CheckCase> out;
  for (const auto& [model, batch] : models) {
    const bool short_step = model == "mlp" || model == "lenet5";
    if (quick && model != "lenet5" && model != "resnet20-cifar") continue;
    const int32_t n = short_step ? 100 : 15;
    out.push_back({model, batch, 1, "allreduce", n});
    out.push_back({model, batch, 2, "allreduce", n});
    if (model == "mlp" || model == "lenet5" || model == "resnet20-cifar")
      out.push_back({model, batch, 2, "parameter-server:mode=async,overlap=off", short_step ? 400 : 40});
    if (quick) continue;
    if (model == "resnet20-cifar") {
      out.push_back({model, batch, 2, "allreduce", n});
      out.back().sync_batch_norm = true;
    }
    if (model == "lenet5" || model == "resnet20-cifar") {
      out.push_back({model, batch, 2, "parameter-server:mode=async,overlap=off", short_step ? 400 : 100});
      out.back().throttle = 2;
    }
    if (model == "resnet20-cifar" || model == "cifar10-cnn") {
      for (const char* rate_limit : {"1Gbit/s", "10Gbit/s"}) {
        // Small buckets if there is something to overlap, else one big one.
        for (const char* scheme : {"allreduce:bucket=256KiB", "allreduce:overlap=off"})
          out.push_back({model, batch, 2, scheme, n, rate_limit});
      }
    }
    if (model == gpt) add_splits(model, batch, out);
    if (model == "lenet5") {
      add_families(out);
      out.push_back({model, batch, 2, "allreduce", 80});
      out.back().throttle = 2;
      out.back().batches = {86, 42};
    }
    if (model == "mlp") out.push_back({model, batch, 4, "parameter-server:mode=async,overlap=off", 400});
    if (model == "cifar10-cnn")
      out.push_back({model, batch, 2, "parameter-server:mode=ssp,slack=2,overlap=off", 150});
    if (model == "lenet5" || model == "cifar10-cnn") {
      out.push_back({model, batch, 2, "parameter-server:overlap=off", short_step ? 150 : 20});
      out.push_back({model, batch, 4, "parameter-server:mode=async,overlap=off", short_step ? 200 : 50});
    }
  }
  add_images(quick, out);
  return out;
}

int64_t usual_repetitions(const Backend& backend, bool quick) {
  if (backend.asynchronous) return quick ? 1 : 2;
  return quick ? 2 : 5;
}

namespace {

Graph graph_of(const CheckCase& c) {
  Graph graph = Graph::load(c.model);
  return c.adapter.empty() ? std::move(graph) : with_adapter(graph, parse_adapter(c.adapter, {}), {});
}

constexpr int64_t kUpdatesForShape = 1000;  ///< fewer tell the mean of staleness, not its distribution

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

/// Worker by worker: each compared with itself across runs.
void merge(std::vector<Histogram>& into, const std::vector<Histogram>& other) {
  into.resize(std::max(into.size(), other.size()));
  for (std::size_t i = 0; i < other.size(); ++i) into[i].merge(other[i]);
}

double largest_distance(const std::vector<Histogram>& a, const std::vector<Histogram>& b) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, total_variation(a[i], b[i]));
  return most;
}

double largest_difference(const std::vector<Histogram>& a, const std::vector<Histogram>& b) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(a[i].mean() - b[i].mean()));
  return most;
}

/// Several executions of the same case.
struct Runs {
  std::vector<double> samples_per_second;
  Histogram staleness;
  std::vector<Histogram> by_worker;

  explicit Runs(const std::vector<Report>& all, std::size_t first = 0, std::size_t step = 1) {
    for (std::size_t i = first; i < all.size(); i += step) {
      samples_per_second.push_back(all[i].rate.samples_per_second);
      staleness.merge(all[i].staleness.all);
      merge(by_worker, all[i].staleness.by_worker);
    }
  }
  double fastest() const { return *std::max_element(samples_per_second.begin(), samples_per_second.end()); }
};

}  // namespace

Report predict_case(const CheckCase& c, const std::string& profile, std::size_t runs,
                    std::shared_ptr<const Program>* program) {
  const Graph graph = graph_of(c);
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  System::Sets slow;
  if (c.throttle != 1)
    slow = {{fmt::format("faults.cpu{}", c.devices - 1), fmt::format("{:.17g}", 1 / c.throttle)}};
  const System system = c.rate_limit.empty()
                            ? System::load("local", slow)
                            : System::load("local-nodes", {{"network.bandwidth", c.rate_limit}});
  Request p;
  p.job.graph = &graph;
  p.system = &system;
  p.job.scheme = &scheme;
  p.devices = c.devices;
  p.job.batch = c.batch;
  p.job.precision = c.precision;
  p.job.optimizer = &optimizer(c.optimizer);
  p.job.batches = c.batches;
  p.job.sync_batch_norm = c.sync_batch_norm;
  p.job.input = c.images.has_value();
  if (c.images) {
    const TemporaryImages images(c.images->made, c.images->files);
    p.job.loading = {.workers = c.images->workers, .data = images.images().describe()};
  }
  p.profile = profile;
  p.check_memory = false;
  const auto compiled = Simulation(p).program(make_cluster(system, c.devices));
  if (program != nullptr) *program = compiled;
  if (!free_running(*compiled)) return simulate(p);
  p.iterations = c.iterations;
  Report out = simulate(p);
  for (p.seed = 2; p.seed <= runs; ++p.seed) {
    const Report other = simulate(p);
    out.staleness.all.merge(other.staleness.all);
    merge(out.staleness.by_worker, other.staleness.by_worker);
  }
  return out;
}

ExecutionResult execute_case(const CheckCase& c, const Backend& backend, const std::atomic<bool>* stop,
                             const std::function<void(Execution&)>& change) {
  const Graph graph = graph_of(c);
  const ResolvedScheme scheme = resolve_scheme(c.scheme, {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &scheme;
  e.backend = &backend;
  e.cluster = {c.devices, 1, c.devices};
  if (!c.rate_limit.empty()) {
    e.cluster = {c.devices, c.devices, 1};
    e.rate_limit = RateLimit{parse_bandwidth(c.rate_limit), {}};
  }
  e.job.batch = c.batch;
  e.job.batches = c.batches;
  e.job.sync_batch_norm = c.sync_batch_norm;
  e.job.precision = c.precision;
  e.job.optimizer = &optimizer(c.optimizer);
  e.iterations = c.iterations;
  e.warmup = std::max<int32_t>(3, c.iterations / 10);
  e.stop = stop;
  if (c.throttle != 1) e.throttle = {{static_cast<uint32_t>(c.devices - 1), c.throttle}};
  std::optional<TemporaryImages> images;
  if (c.images) {
    images.emplace(c.images->made, c.images->files);
    e.stored = &images->images();
    e.job.loading = {.workers = c.images->workers, .data = e.stored->describe()};
  }
  if (change) change(e);
  return execute(e);
}

std::vector<CheckRow> compare_case(const CheckCase& c, const Report& predicted,
                                   const std::vector<Report>& executed) {
  const Runs all(executed);
  const bool twice = executed.size() > 1;
  const Runs even(executed, 0, 2), odd(executed, twice ? 1 : 0, 2);
  std::vector<CheckRow> rows;
  /// `of`: executed values, in the units of `guess`.
  const auto add = [&](std::string metric, double guess, const auto& of) {
    CheckRow r;
    r.model = c.model;
    r.adapter = c.adapter;
    r.scheme = c.scheme;
    if (c.images) r.scheme += " from " + c.images->text();
    if (!c.batches.empty()) r.scheme += ", batches " + batches_text(c.batches);
    if (c.sync_batch_norm) r.scheme += ", batch norm over all";
    r.rate_limit = c.rate_limit;
    r.throttle = c.throttle;
    r.metric = std::move(metric);
    r.devices = c.devices;
    r.batch = c.batch;
    r.predicted = guess;
    r.executed = of(all);
    r.error = r.executed != 0 ? r.predicted / r.executed - 1 : 0;
    r.repeated = twice;
    r.floor = r.executed != 0 ? std::abs(of(even) - of(odd)) / r.executed : 0;
    rows.push_back(std::move(r));
  };
  add("samples_per_second", predicted.rate.samples_per_second, [](const Runs& r) { return r.fastest(); });
  rows[0].median = median(all.samples_per_second);
  rows[0].interval = true;
  rows[0].low = predicted.rate.interval.low;
  rows[0].high = predicted.rate.interval.high;
  rows[0].covered =
      rows[0].executed >= predicted.rate.interval.low && rows[0].executed <= predicted.rate.interval.high;
  if (all.staleness.max() == 0) return rows;
  add("staleness_mean", predicted.staleness.all.mean(), [](const Runs& r) { return r.staleness.mean(); });
  const auto distance = [&](const char* metric, double value, double floor) {
    add(metric, 0, [value](const Runs&) { return value; });
    rows.back().error = value;
    rows.back().floor = floor;
  };
  distance("staleness_by_worker", largest_difference(predicted.staleness.by_worker, all.by_worker),
           largest_difference(even.by_worker, odd.by_worker));
  if (all.staleness.count() >= kUpdatesForShape)
    distance("staleness_distance", total_variation(predicted.staleness.all, all.staleness),
             total_variation(even.staleness, odd.staleness));
  if (c.throttle != 1)
    distance("staleness_distance_by_worker", largest_distance(predicted.staleness.by_worker, all.by_worker),
             largest_distance(even.by_worker, odd.by_worker));
  return rows;
}

}  // namespace tandem::app
