// SPDX-License-Identifier: Apache-2.0
// Executes a Program for real on this machine.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "answers/progress.h"
#include "answers/question.h"
#include "app/analysis/asking.h"
#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/progress_text.h"
#include "app/console/report_text.h"
#include "app/measure/cross_check.h"
#include "base/host_load.h"
#include "exec/batch_speeds.h"
#include "exec/comm/ranks.h"
#include "exec/execute.h"
#include "exec/workers/memory.h"

namespace tandem::app {

namespace {

/// The parsed options; owns what it names.
struct RunRequest {
  Graph graph;
  ResolvedScheme scheme;
  ResolvedScheme alone;  ///< for one worker, if the scheme needs several to hold a model
  std::optional<Dataset> data, test;
  std::optional<StoredImages> stored;
  std::optional<TokenFiles> tokens;
  std::optional<Checkpoint> start;
  Execution execution;
  std::vector<int64_t> devices;
  AskedBatches asked = {};
  int64_t nodes = 1;
  std::optional<ProgressQuestion> target = {};
};

Execution::Rate read_rate(const Arguments& a) {
  Execution::Rate r;
  r.base = a.real("learning-rate", 0.01, 1e-12, 1e6);
  r.scale = a.has("lr-scale");
  r.warmup = a.integer("lr-warmup", 0, 0, 1'000'000'000);
  r.by_staleness = a.has("lr-by-staleness");
  if (a.has("lr-warmup") && !r.scale) throw UsageError("--lr-warmup needs --lr-scale");
  return r;
}

void read_rate_limit(const Arguments& a, RunRequest& request) {
  if (!a.has("rate-limit")) {
    if (a.has("added-latency"))
      throw UsageError("--added-latency needs --rate-limit, e.g. --rate-limit 1Gbit/s");
    return;
  }
  if (request.nodes < 2)
    throw UsageError("--rate-limit slows the links between nodes: say --nodes 2 or more");
  request.execution.rate_limit =
      RateLimit{a.value("rate-limit", "", parse_bandwidth), a.value("added-latency", "0us", parse_time)};
}

/// "1=2": worker 1 takes twice as long.
void read_throttle(const Arguments& a, RunRequest& request) {
  const int64_t most = *std::max_element(request.devices.begin(), request.devices.end());
  const auto place = option_place("throttle");
  for (const std::string& text : a.all("throttle")) {
    const auto equals = text.find('=');
    if (equals == std::string::npos)
      refuse_option("throttle", fmt::format("\"{}\" is not worker=factor, for example 1=2", printable(text)));
    const int64_t worker = parse_integer(text.substr(0, equals), 0, most - 1, place);
    request.execution.throttle.emplace_back(static_cast<uint32_t>(worker),
                                            parse_real(text.substr(equals + 1), 1, 1000, place));
  }
}

Cluster cluster_of(int64_t devices, int64_t nodes) {
  if (devices % nodes != 0)
    refuse_option("nodes", fmt::format("{} devices do not divide over {} nodes", devices, nodes));
  return {devices, nodes, devices / nodes};
}

/// Refuses before hours of work what would fail after them.
void read_checkpoint(const Arguments& a, RunRequest& request) {
  if (a.has("resume"))
    request.start = load_checkpoint(a.required("checkpoint", "state.tandem"), request.graph,
                                    *request.execution.job.optimizer);
  if (request.start) request.execution.start = &*request.start;
  if (a.has("checkpoint-every")) {
    a.required("checkpoint", "state.tandem");
    if (a.has("target-loss")) throw UsageError("--target-loss and --checkpoint-every cannot be combined");
    if (ranks().several())
      throw UsageError("--checkpoint-every is for one process: under mpirun the state is kept at the end");
  }
  if (!a.has("checkpoint")) return;
  if (request.devices.size() != 1)
    throw UsageError("--checkpoint keeps one run's state: give one number of --devices");
  const auto folder = std::filesystem::absolute(a.text("checkpoint", "")).parent_path();
  if (!std::filesystem::is_directory(folder))
    throw InputError(option_place("checkpoint"),
                     fmt::format("there is no folder {}", printable(folder.string())));
}

/// A run of one worker for the speed-up has no server, whatever the scheme.
void check_staleness(const RunRequest& request) {
  if (!request.execution.rate.by_staleness) return;
  Execution e = request.execution;
  e.cluster = cluster_of(*std::max_element(request.devices.begin(), request.devices.end()), request.nodes);
  if (make_program(e).stores.empty())
    throw InputError(
        option_place("lr-by-staleness"),
        fmt::format("{} on {} device{} has no server that counts versions; a parameter server on "
                    "several has: --scheme parameter-server:mode=async --devices 2",
                    request.scheme.name, e.cluster.devices, e.cluster.devices == 1 ? "" : "s"));
}

void read_target(const Arguments& a, RunRequest& request) {
  request.target = read_progress_question(a);
  if (a.has("loss-window") && !a.has("target-loss")) throw UsageError("--loss-window needs --target-loss");
  if (a.has("target-loss"))
    request.execution.target = LossTarget{request.target->value, a.integer("loss-window", 1024, 1, 1 << 30)};
}

void read_data(const Arguments& a, RunRequest& request) {
  Execution& e = request.execution;
  const std::string data = a.text("data", "synthetic");
  e.job.loading = read_loading(a, 1);
  if (is_stored(data)) {
    request.stored = StoredImages::open(data);
    e.stored = &*request.stored;
    e.job.loading.data = e.stored->describe();
    return;
  }
  for (const char* flag : {"decode-workers", "prefetch"}) {
    if (a.has(flag))
      throw UsageError(fmt::format("--{} is for pictures in storage: --data FOLDER or FILE.rec", flag));
  }
  if (data == "synthetic") return;
  if (is_tokens(data)) {
    request.tokens = TokenFiles::open(data, token_sequence(request.graph));
    e.tokens = &*request.tokens;
    return;
  }
  request.data = load_dataset(data, false);
  request.test = load_dataset(data, true);
  e.data = &*request.data;
}

/// Without --devices: all GPUs, or two processors.
int64_t usual_devices(const Execution& e) {
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  if (e.backend->units != nullptr && e.backend->missing().empty())
    return std::clamp<int64_t>(e.backend->units(), 1, 1024);
  return std::min<int64_t>(2, cores);
}

std::unique_ptr<RunRequest> read_request(const Arguments& a) {
  auto request = std::make_unique<RunRequest>(
      RunRequest{read_model(a, a.required("model", "lenet5"), option_place("model")),
                 resolve_scheme(a.text("scheme", "allreduce"), option_place("scheme")),
                 resolve_scheme("allreduce", option_place("scheme")),
                 {},
                 {},
                 {},
                 {},
                 {},
                 {},
                 {},
                 {},
                 1});
  Execution& e = request->execution;
  e.job.graph = &request->graph;
  e.job.scheme = &request->scheme;
  e.backend = &read_backend(a);
  const int64_t processes = ranks().size;
  request->asked = read_batch_split(a);
  const auto listed = static_cast<int64_t>(request->asked.batches.size());
  request->devices = a.integers("devices",
                                {listed > 0      ? listed
                                 : processes > 1 ? processes
                                                 : usual_devices(e)},
                                1, 1024);
  check_counts(request->asked, request->devices);
  request->nodes = a.integer("nodes", processes, 1, 64);
  if (processes > 1 && request->nodes != processes)
    refuse_option("nodes", fmt::format("mpirun started {} processes: each is a node", processes));
  e.job.batch = read_batch(a, request->asked, 1'000'000);
  e.job.precision = read_precision(a, *e.backend);
  e.job.optimizer = &a.value("optimizer", "momentum", optimizer);
  if (!e.job.optimizer->updates())
    refuse_option("optimizer", "a run updates parameters; \"none\" is only for predictions");
  if (!e.job.optimizer->executed())
    refuse_option("optimizer", fmt::format("\"{}\" is only predicted so far", e.job.optimizer->name));
  e.job.recompute = a.value("recompute", e.job.scheme->recompute.text(), parse_recompute);
  e.job.offload = a.value("offload", "off", parse_offload);
  if (e.job.offload.activations)
    refuse_option("offload",
                  "activations are offloaded only in predictions; a run has optimizer, gradients and "
                  "parameters");
  e.job.sync_batch_norm = read_batch_norm(a);
  // If a device is timed from the host, some steps are timed op by op, some issued op by op, the others
  // replayed.
  const bool afar = e.backend->asynchronous;
  e.iterations = static_cast<int32_t>(a.integer("iterations", afar ? 100 : 30, 1, 100'000'000));
  e.warmup = static_cast<int32_t>(
      a.integer("warmup", std::min(afar ? 10 : 3, e.iterations - 1), 0, e.iterations - 1));
  e.seed = static_cast<uint64_t>(a.integer("seed", 1, 0, INT64_MAX));
  e.threads = static_cast<int>(a.integer("threads", 1, 1, 1024));
  e.bind = a.value("bind", "core", parse_bind);
  if (a.has("bind") && !e.backend->on_processors)
    refuse_option("bind", fmt::format("workers of backend {} are bound to no processors", e.backend->name));
  e.route = a.value("route", "auto", parse_peer_route);
  e.rate = read_rate(a);
  read_rate_limit(a, *request);
  read_throttle(a, *request);
  read_data(a, *request);
  read_target(a, *request);
  read_checkpoint(a, *request);
  for (const int64_t n : request->devices) cluster_of(n, request->nodes);
  check_staleness(*request);
  return request;
}

Execution execution_of(const RunRequest& request, int64_t devices) {
  Execution e = request.execution;
  e.cluster = cluster_of(devices, devices == 1 ? 1 : request.nodes);
  if (e.cluster.nodes < 2) e.rate_limit.reset();
  if (devices > 1) e.job.batches = request.asked.batches;
  const auto replica = request.scheme.scheme->replica_devices;
  if (devices == 1 && replica != nullptr && replica(request.scheme.options) > 1)
    e.job.scheme = &request.alone;
  return e;
}

Keep kept(const Arguments& a, const RunRequest& request, int64_t devices) {
  Keep keep;
  keep.parameters = a.has("checkpoint") || request.test.has_value();
  keep.norms = a.has("measure-noise") && devices > 1;
  if (!a.has("no-meter")) keep.meter = kMeter;
  return keep;
}

/// One run on that many devices, with a line of progress; with the workers' batches (measured if they go by
/// speed), and what can stop it.
Execution ready(const RunRequest& request, int64_t devices, Progress& progress) {
  Execution e = execution_of(request, devices);
  if (request.asked.split == BatchSplit::speed && devices > 1) {
    progress.show(fmt::format("{} workers: how fast each is", devices));
    e.job.batches = batches_by_speed(e);
  }
  e.stop = &interrupted;
  return e;
}

ExecutionResult run_once(const Arguments& a, const RunRequest& request, int64_t devices, int32_t iterations,
                         Progress& progress) {
  Execution e = ready(request, devices, progress);
  e.iterations = iterations;
  e.progress = [&](int32_t i) {
    progress.show(fmt::format("{} worker{}: iteration {} of {}", devices, devices == 1 ? "" : "s",
                              std::min(i + 1, e.iterations), e.iterations),
                  static_cast<double>(i) / e.iterations);
  };
  if (iterations < request.execution.iterations) e.target.reset();  // only a rate is needed
  return execute(e, kept(a, request, devices));
}

Checkpoint state_of(const ExecutionResult& r, int64_t iteration) {
  return {iteration, r.parameters, r.state, r.buffers, r.averaging};
}

/// The run in pieces of --checkpoint-every iterations; each continues from the state that the previous one
/// wrote. Rates are those of the last piece.
ExecutionResult run_in_pieces(const Arguments& a, const RunRequest& request, int64_t devices,
                              Progress& progress) {
  const int32_t all = request.execution.iterations;
  const auto piece = static_cast<int32_t>(a.integer("checkpoint-every", all, 1, 100'000'000));
  const int64_t before = request.start ? request.start->iteration : 0;
  const Execution whole = ready(request, devices, progress);
  Checkpoint state;
  ExecutionResult out;
  for (int32_t done = 0; done < all && (done == 0 || !interrupted);) {
    Execution e = whole;
    e.iterations = std::min(piece, all - done);
    e.warmup = std::min(e.warmup, e.iterations - 1);
    if (done > 0) e.start = &state;
    e.progress = [&](int32_t i) {
      progress.show(fmt::format("{} worker{}: iteration {} of {}", devices, devices == 1 ? "" : "s",
                                std::min(done + i + 1, all), all),
                    static_cast<double>(done + i) / all);
    };
    ExecutionResult r = execute(e, kept(a, request, devices));
    const bool stopped = static_cast<int32_t>(r.losses.size()) < e.iterations;
    done += static_cast<int32_t>(r.losses.size());
    r.report.evaluation.wall_seconds += out.report.evaluation.wall_seconds;
    r.report.staleness.all.merge(out.report.staleness.all);
    r.losses.insert(r.losses.begin(), out.losses.begin(), out.losses.end());
    out = std::move(r);
    state = state_of(out, before + done);
    if (stopped) break;
    if (done < all)
      save_checkpoint(a.text("checkpoint", ""), request.graph, *request.execution.job.optimizer, state);
  }
  if (static_cast<int32_t>(out.losses.size()) > piece)
    out.report.notes.push_back(
        fmt::format("the state was written every {} iterations; rates are those after the last time", piece));
  return out;
}

/// Of this run: when the loss was reached, and what samples are worth with its gradients' noise.
void add_progress_of(const Arguments& a, const RunRequest& request, ExecutionResult& r) {
  Report& report = r.report;
  if (a.has("measure-noise") && report.setup.devices > 1) {
    const int64_t big = report.setup.samples_per_iteration;
    const auto noise = noise_scale(r.norms, big / report.setup.devices, big);
    if (noise)
      report.training.noise = {noise->samples, noise->low, noise->high};
    else
      report.notes.push_back("gradient noise scale not estimated: too few steps; raise --iterations");
  }
  if (!request.target) return;
  ProgressQuestion question = *request.target;
  const bool measures = report.training.noise && !question.noise_scale;
  if (measures) question.noise_scale = report.training.noise->samples;
  const Execution e = execution_of(request, report.setup.devices);
  add_progress(question, request.graph, make_program(e), report);
  TrainingProgress& p = *report.progress;
  if (measures) p.noise_source = "measured in this run";
  if (!request.execution.target) return;
  p.measured = r.samples_to_target.has_value();
  if (!p.measured) {
    p.unknown = {fmt::format("samples to loss {:g}: not reached after {} iterations", question.value,
                             request.execution.iterations)};
    return;
  }
  p.unknown.clear();
  p.samples = static_cast<double>(*r.samples_to_target);
  p.steps = *p.samples / p.step_samples;
  p.seconds = p.seconds_low = p.seconds_high = r.seconds_to_target;
}

void finish(const Arguments& a, const RunRequest& request, ExecutionResult& r) {
  if (!r.samples_to_target && static_cast<int64_t>(r.losses.size()) < request.execution.iterations)
    r.report.notes.push_back(
        fmt::format("stopped after {} of {} iterations", r.losses.size(), request.execution.iterations));
  if (r.losses.empty()) return;
  r.report.training = {
      request.data.has_value() || !r.losses.empty(), r.losses.front(), r.losses.back(), -1, {}};
  if (request.execution.backend->name == "null") r.report.training.real = false;
  add_progress_of(a, request, r);
  if (r.report.training.real && !std::isfinite(r.report.training.last_loss))
    r.report.notes.push_back(fmt::format("training diverged: the loss is not a number (learning rate {:g})",
                                         request.execution.rate.base));
  if (request.test && r.report.training.real)
    r.report.training.accuracy = accuracy(request.graph, *request.execution.backend, *request.test, r);
  if (!a.has("checkpoint")) return;
  const int64_t before = request.start ? request.start->iteration : 0;
  save_checkpoint(a.text("checkpoint", ""), request.graph, *request.execution.job.optimizer,
                  state_of(r, before + static_cast<int64_t>(r.losses.size())));
}

/// On GPUs: the gain from replaying a captured graph, and the share of library calls.
std::string steps_text(const Report& r) {
  std::string out;
  if (r.iteration.eager > 0 && r.iteration.replayed > 0)
    out += fmt::format("\n{} device{}: a step takes {:.3f} ms replayed as a graph, {:.3f} ms issued op by op",
                       r.setup.devices, r.setup.devices == 1 ? "" : "s", 1e3 * r.iteration.replayed,
                       1e3 * r.iteration.eager);
  int64_t calls = 0, refused = 0;
  for (const LibraryUse& u : r.libraries) {
    calls += u.calls;
    refused += u.refused.empty() ? 0 : u.calls;
  }
  if (calls > 0)
    out += fmt::format("\n{} of {} calls that libraries were asked for run there, {} on own kernels",
                       calls - refused, calls, refused);
  return out;
}

std::string text(const RunRequest& request, const std::vector<Report>& reports, const std::string& format,
                 int columns) {
  const Execution& e = request.execution;
  std::string out =
      fmt::format("{} · {} · backend {} ({}) · {}\n\n{}", request.graph.name(), request.scheme.name,
                  e.backend->name, e.backend->describe(), batch_text(request.graph, e.job.batch),
                  report_table(reports).as(format, columns));
  for (const Report& r : reports) {
    for (const std::string& n : r.notes) out += "\n" + n;
    out += steps_text(r);
    if (const std::string drawn = drawn_line(r); !drawn.empty())
      out += fmt::format("\n{} device{}: {}", r.setup.devices, r.setup.devices == 1 ? "" : "s", drawn);
    if (!r.training.real) continue;
    const double last = r.training.last_loss;
    out += fmt::format("\n{} device{}: loss {:.4g} -> {}", r.setup.devices, r.setup.devices == 1 ? "" : "s",
                       r.training.first_loss, std::isfinite(last) ? fmt::format("{:.4g}", last) : "none");
    if (r.training.accuracy >= 0)
      out += fmt::format(", {:.1f} % of held-out samples right", 100 * r.training.accuracy);
    if (const auto& noise = r.training.noise)
      out += fmt::format("\nGradient noise scale {} samples (90 %: {} .. {})", grouped(noise->samples),
                         grouped(noise->low), noise->high < 1e15 ? grouped(noise->high) : "unbounded");
  }
  const std::string progress = progress_lines(reports);
  return out + "\n" + progress;
}

int run_asked(const Arguments& a) {
  const std::string format = format_of(a);
  check_out(a);
  const auto request = with_places(a, [&] { return read_request(a); });
  // Before the first of several runs, not after it.
  for (const int64_t n : request->devices) {
    if (!request->execution.backend->missing().empty()) continue;
    check_memory(execution_of(*request, n), kept(a, *request, n));
    check_cores(execution_of(*request, n));
  }
  if (!ranks().several()) catch_interrupts();
  const HostUsage before = host_usage();
  std::vector<Report> reports;
  {
    Progress progress(a);
    std::optional<double> one;
    const bool lists_one =
        std::find(request->devices.begin(), request->devices.end(), 1) != request->devices.end();
    const int32_t all = request->execution.iterations;
    if (!lists_one) {  // for the speed-up: a rate needs no more iterations than this
      const int32_t few = std::min(all, request->execution.warmup + 30);
      if (ranks().rank == 0) one = run_once(a, *request, 1, few, progress).report.rate.samples_per_second;
      meet_ranks();  // nobody computes at the same time
    }
    for (const int64_t n : request->devices) {
      if (interrupted) break;
      if (n == 1 && ranks().rank > 0) {
        meet_ranks();
        continue;
      }
      ExecutionResult r = a.has("checkpoint-every") ? run_in_pieces(a, *request, n, progress)
                                                    : run_once(a, *request, n, all, progress);
      if (n == 1) meet_ranks();
      if (ranks().rank > 0) continue;  // rank 0 reports for all
      if (n == 1) one = r.report.rate.samples_per_second;
      finish(a, *request, r);
      reports.push_back(std::move(r.report));
    }
    for (Report& r : reports) {
      if (a.has("no-timeline")) r.timeline.clear();
      if (one.value_or(0) > 0) r.scaling.speedup = r.rate.samples_per_second / *one;
      r.scaling.efficiency = r.scaling.speedup / static_cast<double>(r.setup.devices);
    }
  }
  if (!reports.empty()) {
    if (format == "json")
      put_result(a, reports_to_json(reports, a.has("reproducible")));
    else
      put_page(a, format == "csv" ? report_csv(reports) : text(*request, reports, format, result_columns(a)));
  }
  // Other processes of the same run do not count as other programs.
  if (!ranks().several() && request->execution.backend->on_processors) {
    if (const std::string busy = busy_while(load_between(before, host_usage())); !busy.empty()) note(a, busy);
  }
  if (interrupted && reports.empty())
    note(a, "stopped before the run: one worker was being timed, for the speed-up");
  return interrupt_code();
}

}  // namespace

namespace {

Option data_flag() {
  return {"data", "NAME|FILE|FOLDER",
          "synthetic (default), digits, .csv files with the class last, joined by commas; pictures: a folder "
          "with a folder of JPEG or PNG files for each class, or a .rec file; text of language models: raw "
          "token ids in tokens:FILE.bin, several files joined by commas, a folder or a pattern, followed by "
          "type=uint16 (default) or type=uint32, skip=BYTES of a header"};
}

std::vector<Option> run_flags() {
  std::vector<Option> out{
      {"model", "NAME|FILE", "what to train (tandem list models); NAME:key=value overrides its parameters"},
      {"scheme", "NAME[:key=value,...]", "synchronisation scheme; default allreduce"},
      {"devices", "N[,N...]",
       "worker counts; default 2, or 1 on one processor; on GPUs as many as there are. One worker is run "
       "first, for the speed-up"},
      {"batch", "N", "samples per worker and iteration; default 32"},
      batch_split_flag(),
      {"backend", "NAME", "cpu (default), null (computes nothing), cuda if its plugin is installed"},
      {"precision", "fp32|tf32|fp16|bf16|fp8", "default fp32; the others on GPUs"},
      {"route", "auto|peer|staged",
       "between GPUs: auto (default), peer (directly, or refused) or staged (through host memory)"},
      {"iterations", "N",
       "of each worker; default 30, on GPUs 100. Where workers do not wait for each other: N for each in "
       "all, of which fast ones make more"},
      {"warmup", "N", "iterations left out of the figures; default 3, on GPUs 10"},
      {"optimizer", "NAME", "momentum (default) or another (tandem list optimizers)"},
      recompute_flag(),
      {"offload", "off|WHAT[+WHAT...]",
       "what is kept in the host's memory: optimizer (its state; the host makes the update), gradients, "
       "parameters (zero:stage=3); default off"},
      batch_norm_flag(),
      {"learning-rate", "RATE", "default 0.01"},
      {"lr-scale", "", "times the number of workers (linear scaling)"},
      {"lr-warmup", "N", "iterations in which the rate rises from RATE to its full value"},
      {"lr-by-staleness", "",
       "divide the rate by the gradient's staleness: parameter-server with mode=async, ssp or "
       "softsync"},
      data_flag(),
      {"threads", "N", "processors that compute together for one worker; default 1"},
      {"bind", "core|numa|none",
       "what a worker's threads are bound to: their own processors (default), those of a NUMA node, to "
       "which workers are dealt out evenly, or nothing"},
      {"nodes", "N", "emulate this many nodes: messages between them go over TCP"},
      {"rate-limit", "BANDWIDTH", "slow the links between nodes down, e.g. 1Gbit/s", false, "pace"},
      {"added-latency", "TIME", "and delay what arrives, e.g. 50us", false, "pace-latency"},
      {"throttle", "WORKER=FACTOR",
       "emulate a slower device: this worker's calls take FACTOR times as long, e.g. 1=2", true},
      {"seed", "N", "of start values, samples and noise; default 1"},
      {"checkpoint", "FILE", "write the state there at the end"},
      {"checkpoint-every", "N",
       "with --checkpoint: write it after every N iterations too, of which a run that is cut off loses no "
       "more"},
      {"resume", "", "start from the state in --checkpoint"},
      format_flag(),
      out_flag(),
      no_timeline_flag(),
      {"reproducible", "", "leave out of JSON what differs between runs (wall time)"},
      wide_flag(),
      quiet_flag()};
  const std::vector<Option> progress = progress_flags();
  out.insert(out.end() - 5, progress.begin(), progress.end());
  out.insert(out.end() - 5,
             {{"loss-window", "SAMPLES",
               "with --target-loss: the loss is the mean of this many last samples; default 1024"},
              {"measure-noise", "",
               "measure the gradient noise scale from each worker's gradients and their sum: two workers or "
               "more with --scheme allreduce"},
              no_meter_flag()});
  const std::vector<Option> tuning = fine_tuning_flags(), loading = loading_flags();
  out.insert(out.begin(), question_flag());
  out.insert(out.begin() + 2, tuning.begin(), tuning.end());
  out.insert(out.end() - 11, loading.begin(), loading.end());
  return out;
}

}  // namespace

namespace {

int run(const Arguments& a) { return run_asked(with_question(a, run_flags())); }

}  // namespace

void register_run(Registry<Verb>& registry) {
  registry.add(
      {.name = "run",
       .summary = "execute the same program for real on this machine: throughput, staleness, loss",
       .usage = "--model NAME [options]",
       .flags = run_flags(),
       .run = run,
       .details =
           "Ctrl-C ends after the running iteration, writes what was done and exits with 130.\n\nExamples\n"
           "  tandem run --model digits-cnn --data digits --devices 1,2 --iterations 200\n"
           "  tandem run --model resnet20-cifar --scheme parameter-server:mode=async --devices 2"});
}

}  // namespace tandem::app
