// SPDX-License-Identifier: Apache-2.0
#include "exec/results/summary.h"
#include "base/statistics.h"
#include "exec/comm/ranks.h"
#include "exec/results/join_ranks.h"
#include "exec/results/power.h"
#include "exec/results/time_shares.h"
#include "exec/run/copy_route.h"
#include "exec/workers/memory.h"
#include "schemes/setup/uneven_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace tandem::exec {

namespace {

constexpr uint32_t kTimelineWorkers = 8, kTimelineIterations = 2;
/// Of the operations asked of libraries: if one refuses this share, a step is much slower.
constexpr double kHot = 0.02;

/// Turns the records of the lanes into a Report by the definitions of the simulator
/// (sim/evaluate/evaluate.h).
class Summary {
 public:
  Summary(const Run& run, const std::vector<std::unique_ptr<Worker>>& workers)
      : run_(run), plan_(run.plan()), workers_(workers) {
    begin_ = INT64_MAX;
    for (std::size_t w = 0; w < workers.size(); ++w) {
      const int32_t made = run.iterations().of(plan_.first_here() + static_cast<uint32_t>(w));
      ends_.emplace_back(static_cast<std::size_t>(made), 0);
      for (int l = 0; l < kLanes; ++l) {
        for (const Executed& e : workers[w]->executed(static_cast<Lane>(l))) {
          begin_ = std::min(begin_, e.start);
          if (e.iteration >= ends_[w].size()) continue;  // input for an iteration that did not run
          auto& end = ends_[w][e.iteration];
          end = std::max(end, e.end);
          // The copy lane runs ahead; the iteration ends with its compute and communication.
        }
      }
    }
    rounds_ = rounds();
  }

  ExecutionResult result() {
    ExecutionResult out;
    Report& r = out.report;
    const Execution& e = plan_.execution();
    r.evaluation.engine = "exec";
    r.evaluation.evaluator = std::string(e.backend->name);
    r.evaluation.reason = e.backend->describe();
    r.evaluation.seed = e.seed;
    r.setup.devices = static_cast<int64_t>(workers_.size());
    r.setup.batch_per_device = e.job.batch;
    r.setup.inputs = inputs();
    rates(out);
    if (!e.job.batches.empty()) r.notes = uneven_notes(e.job, "batches: " + batches_text(e.job.batches));
    add_measured_shares(r, run_, workers_, warm(), begin_, ends_[0]);
    stores(out);
    memory(r);
    libraries(r);
    spans(out);
    ops(out);
    calls(out);
    losses(out);
    for (std::string& remark : run_.remarks()) r.notes.push_back(std::move(remark));
    r.network.all_reduces_per_step = all_reduces();
    if (plan_.keep().norms) out.norms = mean_norms(workers_, warm() / each_step());
    if (run_.watch() != nullptr) out.samples_to_target = run_.watch()->samples();
    if (out.samples_to_target)
      out.seconds_to_target = 1e-9 * static_cast<double>(run_.watch()->when() - begin_);
    return out;
  }

  /// After result(): when the iterations of ExecutionResult::iteration_seconds ran; neighbours are one.
  const std::vector<TimeSpan>& counted() const { return counted_; }

 private:
  std::size_t warm() const {
    return static_cast<std::size_t>(plan_.warmup_of(static_cast<int32_t>(rounds_.size())));
  }

  std::size_t each_step() const { return static_cast<std::size_t>(plan_.micro_batches()); }
  /// (end, worker, iteration) of every iteration, in time order.
  std::vector<std::tuple<int64_t, uint32_t, uint32_t>> in_order() const {
    std::vector<std::tuple<int64_t, uint32_t, uint32_t>> out;
    for (uint32_t w = 0; w < ends_.size(); ++w) {
      for (uint32_t i = 0; i < ends_[w].size(); ++i) out.emplace_back(ends_[w][i], w, i);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  /// Ends as in Trace::iteration_end.
  std::vector<int64_t> rounds() const {
    std::vector<int64_t> out;
    if (!free_running(plan_.program())) {
      out.assign(ends_[0].size(), 0);
      for (const auto& ends : ends_) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], ends[i]);
      }
      return out;
    }
    const auto all = in_order();
    for (std::size_t i = ends_.size(); i <= all.size(); i += ends_.size())
      out.push_back(std::get<0>(all[i - 1]));
    if (out.empty() && !all.empty()) out.push_back(std::get<0>(all.back()));  // stopped in the first
    int64_t together = INT64_MAX;                                             // until the first has none left
    for (const auto& ends : ends_) together = std::min(together, ends.empty() ? 0 : ends.back());
    while (out.size() > 1 && out.back() > together) out.pop_back();
    return out;
  }

  std::vector<std::pair<std::string, std::string>> inputs() const {
    const Execution& e = plan_.execution();
    std::vector<std::pair<std::string, std::string>> in = {{"model", e.job.graph->name()},
                                                           {"system", "this machine"},
                                                           {"scheme", e.job.scheme->name},
                                                           {"devices", std::to_string(workers_.size())},
                                                           {"batch_per_device", std::to_string(e.job.batch)},
                                                           {"precision", std::string(name(e.job.precision))},
                                                           {"optimizer", std::string(e.job.optimizer->name)},
                                                           {"input", e.data != nullptr     ? e.data->name
                                                                     : e.stored != nullptr ? e.stored->path()
                                                                     : e.tokens != nullptr ? e.tokens->name()
                                                                                           : "synthetic"},
                                                           {"backend", std::string(e.backend->name)},
                                                           {"threads", std::to_string(e.threads)}};
    if (e.job.recompute != Recompute{}) in.emplace_back("recompute", e.job.recompute.text());
    if (e.bind != Bind::core) in.emplace_back("bind", std::string(name(e.bind)));
    if (const std::string route = route_text(plan_); !route.empty()) in.emplace_back("route", route);
    if (!e.job.batches.empty()) in.emplace_back("batch_split", batches_text(e.job.batches));
    for (const auto& [worker, factor] : e.throttle)
      in.emplace_back(fmt::format("throttle.{}", worker), fmt::format("{:g}", factor));
    for (const auto& [key, value] : e.job.scheme->options.all()) in.emplace_back("scheme." + key, value);
    return in;
  }

  /// How the iterations of a step were issued to asynchronous devices: the same way by all workers. If
  /// workers do not wait for each other, and on other devices, iterations are equal.
  Issued issued(std::size_t iteration, std::size_t each) const {
    const std::vector<Issued>& all = workers_[0]->issued();
    if (all.empty() || free_running(plan_.program())) return Issued::timed;
    Issued out = all.at(iteration);
    for (std::size_t i = iteration; i < iteration + each; ++i) {
      const bool usual = all.at(i) == Issued::eager || all.at(i) == Issued::replayed;
      if (!usual) return all.at(i);
      if (all.at(i) == Issued::eager) out = Issued::eager;
    }
    return out;
  }

  void rates(ExecutionResult& out) {
    Report& r = out.report;
    const std::size_t first = warm();
    const auto each = static_cast<std::size_t>(plan_.micro_batches());
    std::map<Issued, std::vector<double>> seconds;
    std::map<Issued, std::vector<TimeSpan>> times;
    for (std::size_t i = first; i + each <= rounds_.size(); i += each) {
      const int64_t before = i == 0 ? begin_ : rounds_[i - 1];
      const Issued how = issued(i, each);
      seconds[how].push_back(static_cast<double>(rounds_[i + each - 1] - before) * 1e-9);
      auto& of = times[how];
      if (of.empty() || of.back().second != before) of.emplace_back(before, before);
      of.back().second = rounds_[i + each - 1];
    }
    if (seconds.count(Issued::eager) + seconds.count(Issued::replayed) > 0) {
      r.iteration.eager = median(seconds[Issued::eager]);
      r.iteration.replayed = median(seconds[Issued::replayed]);
    }
    for (const Issued how :
         {Issued::replayed, Issued::eager, Issued::timed, Issued::captured, Issued::observed}) {
      if (!out.iteration_seconds.empty()) continue;
      out.iteration_seconds = seconds[how];
      counted_ = times[how];
    }
    int64_t end = begin_;
    for (const auto& ends : ends_) {
      auto& seconds = out.worker_seconds.emplace_back();
      for (std::size_t i = std::max(first, each); i + each <= ends.size(); i += each)
        seconds.push_back(static_cast<double>(ends[i + each - 1] - ends[i - 1]) * 1e-9);
      out.worker_iterations.push_back(static_cast<int32_t>(ends.size()));
      if (!ends.empty()) end = std::max(end, ends.back());
    }
    double total = 0;
    for (const double s : out.iteration_seconds) total += s;
    r.setup.samples_per_iteration = samples_per_step(plan_.program()) * replicas(plan_.program());
    // Each of several processes counts its own workers' part.
    const double here = static_cast<double>(workers_.size()) / static_cast<double>(plan_.workers());
    const double samples = static_cast<double>(r.setup.samples_per_iteration) * here;
    const auto counted = static_cast<double>(out.iteration_seconds.size());
    if (total > 0) r.rate.samples_per_second = samples * counted / total;
    auto sorted = out.iteration_seconds;
    std::sort(sorted.begin(), sorted.end());
    r.iteration.median = quantile(sorted, 0.5);
    r.iteration.p05 = quantile(sorted, 0.05);
    r.iteration.p95 = quantile(sorted, 0.95);
    // The mean's spread over blocks of the run: the difference to expect from another run of the same length.
    const double mean = counted > 0 ? total / counted : 0;
    double square = 0;
    for (const double s : out.iteration_seconds) square += (s - mean) * (s - mean);
    const double error = counted > 1 && mean > 0 ? std::sqrt(square / (counted - 1) / counted) / mean : 0;
    r.rate.interval = {r.rate.samples_per_second * std::exp(-1.645 * error),
                       r.rate.samples_per_second * std::exp(1.645 * error), 0.9};
    r.evaluation.wall_seconds = static_cast<double>(end - begin_) * 1e-9;
  }

  void stores(ExecutionResult& out) const {
    if (run_.store()) {
      out.report.staleness.all = run_.store()->staleness();
      for (uint32_t w = 0; w < std::min<std::size_t>(workers_.size(), 64); ++w)
        out.report.staleness.by_worker.push_back(run_.store()->staleness_of(w));
      out.versions = run_.store()->versions();
      out.dropped = run_.store()->dropped();
      out.updates = run_.store()->merged();
    }
    const int32_t delay = plan_.program().delay;
    for (uint32_t w = 0; delay > 0 && w < workers_.size(); ++w) {
      const int64_t made = run_.iterations().of(plan_.first_here() + w);
      if (made > delay) out.report.staleness.all.add(delay, made - delay);
    }
    if (!plan_.keep().parameters) return;
    const auto n = static_cast<std::size_t>(plan_.execution_graph().parameters());
    out.parameters.resize(n);
    out.state = run_.start().optimizer_state;
    if (!run_.store() || plan_.shards().exchange_parameters()) {  // workers update
      const bool each = plan_.spreads() || plan_.stages().split();
      out.averaging.resize(n * static_cast<std::size_t>(averaging_vectors(plan_.program())));
      for (uint32_t w = 0; w < (each ? workers_.size() : 1); ++w) gather(w, out);
    }
    if (run_.store()) {
      out.parameters = stored(n);
      const float* state = run_.store()->parameters() + n;
      if (plan_.shards().exchanged_vectors() > 1) out.state.assign(state, state + out.state.size());
    } else if (has_centre(plan_.program())) {
      std::copy_n(out.averaging.begin(), n, out.parameters.begin());
    }
    out.frozen = run_.start().frozen;
    buffers_of(out);
  }

  /// The store's parameters, or the mean of the models in this process.
  std::vector<float> stored(std::size_t n) const {
    const float* from = run_.store()->parameters();
    if (!plan_.shards().hold_models()) return {from, from + n};
    std::vector<double> sum(n);
    for (uint32_t w = plan_.first_here(); w < plan_.first_here() + plan_.here(); ++w) {
      for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(from[w * n + i]);
    }
    std::vector<float> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(sum[i] / plan_.here());
    return out;
  }

  /// Elastic averaging trains the anchor, which all workers share.
  static bool has_centre(const Program& program) {
    return std::any_of(program.tasks.begin(), program.tasks.end(),
                       [](const Task& t) { return t.averaging.rule == Averaging::Rule::elastic; });
  }

  /// Copies what only worker `w` holds to its places in the model's vectors.
  void gather(uint32_t w, ExecutionResult& out) const {
    const uint32_t instance = plan_.first_here() + w;
    const int64_t own = plan_.stages().lowered(instance).parameters();
    const int64_t all = plan_.execution_graph().parameters();
    const std::vector<Slice> held = held_by(plan_, instance);
    if (held.empty()) return;
    const std::vector<float> parameters = workers_[w]->parameters(), state = workers_[w]->state(),
                             averaging = workers_[w]->averaging();
    const bool flat = plan_.execution().job.optimizer->flat();
    for (const Slice& s : held) {
      give_mapped(plan_.stages().parameter_map(instance), parameters, own, s.first, s.elements,
                  out.parameters, all);
      if (flat)
        give_mapped(plan_.stages().parameter_map(instance), state, own, s.first, s.elements, out.state, all);
      give_mapped(plan_.stages().parameter_map(instance), averaging, own, s.first, s.elements, out.averaging,
                  all);
    }
    if (flat) return;
    const OptimizerState &whole = plan_.optimizer_state(),
                         mine(*plan_.execution().job.optimizer, plan_.stages().lowered(instance));
    ParameterMap pieces = state_map(whole, mine, plan_.stages().parameter_map(instance));
    std::erase_if(pieces, [](const MappedRange& p) { return p.copy; });
    give_mapped(pieces, state, mine.words(), 0, mine.words(), out.state, whole.words());
  }

  /// The first replica's.
  void buffers_of(ExecutionResult& out) const {
    int64_t elements = 0;
    for (const Tensor& t : plan_.execution_graph().tensors())
      elements += t.kind == TensorKind::buffer ? t.elements : 0;
    out.buffers.resize(static_cast<std::size_t>(elements));
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      const uint32_t instance = plan_.first_here() + w;
      if (plan_.stages().place(instance).replica > (plan_.stages().split() ? 0 : plan_.first_here()))
        continue;
      for (const BufferPlace& b : buffers(plan_.execution_graph(), plan_.stages().lowered(instance))) {
        const auto values = workers_[w]->values(b.tensor);
        std::copy(values.begin(), values.end(), out.buffers.begin() + b.at);
      }
    }
  }

  void memory(Report& r) const {
    for (uint32_t w = 0; w < workers_.size(); ++w) {  // of the worker that holds most
      const MemoryUse m =
          worker_memory(plan_.execution(), plan_.program(), plan_.stages(), plan_.first_here() + w);
      if (w == 0 || m.total() > r.memory.total()) r.memory = m;
      if (!plan_.stages().split() && !plan_.stages().uneven()) break;
    }
    const auto workers = static_cast<uint32_t>(workers_.size());
    r.memory.capacity = capacity(plan_.execution(), workers);
    r.memory.node = {host_memory(plan_.execution(), plan_.keep(), plan_.program(), plan_.stages(),
                                 plan_.first_here(), workers),
                     host_capacity()};
  }

  /// If a coordinator divides a step's gradients, the mean number per step.
  double all_reduces() const {
    const LaneState& comm = workers_[0]->lane(run_.coordinator().lane());
    if (run_.coordinator().cycle() == 0 || comm.sums == 0) return 0;
    return static_cast<double>(comm.sums) * plan_.micro_batches() / static_cast<double>(ends_[0].size());
  }

  /// Calls asked of a library, equal ones together, refused ones first.
  void libraries(Report& r) const {
    double all = 0;
    for (const LibraryChoice& c : workers_[0]->choices()) {
      all += c.flops;
      const auto same = [&](const LibraryUse& u) {
        return u.call == name(c.function) && u.library == c.library && u.engine == c.engine &&
               u.refused == c.refused;
      };
      auto use = std::find_if(r.libraries.begin(), r.libraries.end(), same);
      if (use == r.libraries.end())
        use = r.libraries.insert(use, {std::string(name(c.function)), c.library, c.engine, c.refused});
      ++use->calls;
      use->workspace.n = std::max(use->workspace.n, c.workspace_bytes);
      use->share += c.flops;
    }
    std::stable_sort(r.libraries.begin(), r.libraries.end(), [](const LibraryUse& a, const LibraryUse& b) {
      return !a.refused.empty() && b.refused.empty();
    });
    for (LibraryUse& u : r.libraries) {
      if (all > 0) u.share /= all;
      if (u.refused.empty()) continue;
      r.notes.push_back(fmt::format(
          "{}{} x{}: {} refused ({}), own kernels compute {:.0f} % of the operations",
          u.share >= kHot ? "warning: " : "", u.call, u.calls, u.library, u.refused, 100 * u.share));
    }
  }

  /// First iteration of each worker in the timeline: the last ones of whoever finishes first, and what the
  /// others did at that time. Asynchronous workers may then be at earlier iterations.
  uint32_t timeline_from(uint32_t worker) const {
    const auto before_last = [](const std::vector<int64_t>& ends) {
      return static_cast<std::ptrdiff_t>(ends.size()) - static_cast<std::ptrdiff_t>(kTimelineIterations);
    };
    int64_t time = INT64_MAX;
    for (const auto& ends : ends_) {
      if (before_last(ends) > 0) time = std::min(time, ends[static_cast<std::size_t>(before_last(ends)) - 1]);
    }
    const auto& ends = ends_[worker];
    const std::ptrdiff_t last = before_last(ends);
    if (last <= 0) return 0;
    const auto at = std::lower_bound(ends.begin(), ends.begin() + last, time);
    return static_cast<uint32_t>(std::min<int64_t>(last, at - ends.begin() + 1));
  }

  void spans(ExecutionResult& out) const {
    for (uint32_t w = 0; w < workers_.size(); ++w) {
      const uint32_t from = timeline_from(w);
      for (int l = 0; l < kLanes; ++l) {
        const auto lane = static_cast<Lane>(l);
        for (const Executed& e : workers_[w]->executed(lane)) {
          if (e.op == kNoOp) continue;
          const GridPlace& place = plan_.stages().place(plan_.first_here() + w);
          const Role& role = plan_.program().roles[place.role];
          const Span span{place.role,
                          plan_.stages().split() ? place.instance : w,
                          e.iteration,
                          e.op,
                          Time{(e.start - begin_) * 1000},
                          Time{(e.end - begin_) * 1000},
                          Time{},
                          0};
          if (plan_.keep().spans) out.spans.push_back(span);
          if (w >= kTimelineWorkers || e.iteration < from || e.iteration >= from + kTimelineIterations)
            continue;
          const auto add = [&](const std::string& label, double start, double end) {
            out.report.timeline.push_back(
                {role.name, std::string(name(lane)), label, span.instance, e.iteration, start, end});
          };
          if (e.ready < e.start && role.ops[e.op].kind == OpKind::collective)
            add("waiting", static_cast<double>(e.ready - begin_) * 1e-9, span.start.seconds());
          add(plan_.program().labels[role.ops[e.op].label], span.start.seconds(), span.end.seconds());
        }
      }
    }
  }

  void ops(ExecutionResult& out) const {
    std::vector<std::size_t> first(plan_.program().roles.size(), SIZE_MAX);  // [role]: of its ops
    /// [op, iteration, group]: of the member that came last, which is the least of all.
    std::map<std::tuple<std::size_t, uint32_t, uint32_t>, double> met;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const uint32_t role = plan_.stages().place(plan_.first_here() + static_cast<uint32_t>(w)).role;
      if (first[role] == SIZE_MAX) {
        first[role] = out.ops.size();
        add_ops(*workers_[w], role, out);
      }
      for (int l = 0; l < kLanes; ++l) {
        for (const Executed& e : workers_[w]->executed(static_cast<Lane>(l))) {
          if (e.iteration < warm() || e.op == kNoOp) continue;
          const double seconds = static_cast<double>(e.end - e.start) * 1e-9;
          const std::size_t op = first[role] + e.op;
          if (meets(w, role, e.op)) {
            const auto [at, fresh] = met.try_emplace({op, e.iteration, member(w, role, e.op).group}, seconds);
            if (!fresh) at->second = std::min(at->second, seconds);
          } else {
            out.ops[op].seconds.push_back(seconds);
          }
        }
      }
    }
    for (const auto& [what, seconds] : met) out.ops[std::get<0>(what)].seconds.push_back(seconds);
  }

  GroupMember member(std::size_t worker, uint32_t role, uint32_t op) const {
    const Op& of = plan_.program().roles[role].ops[op];
    return plan_.member(plan_.program().collectives[of.what],
                        plan_.first_here() + static_cast<uint32_t>(worker));
  }
  /// Whether it is a collective of the device's library. A member's time then begins when its own lane is
  /// ready, and includes the wait for the last one.
  bool meets(std::size_t worker, uint32_t role, uint32_t op) const {
    const Op& of = plan_.program().roles[role].ops[op];
    return !workers_[worker]->issued().empty() && of.kind == OpKind::collective &&
           run_.communicators().library_made(of.what);
  }

  /// One per op of the role, from the worker's records.
  void add_ops(const Worker& worker, uint32_t role, ExecutionResult& out) const {
    const auto& ops = plan_.program().roles[role].ops;
    for (uint32_t i = 0; i < ops.size(); ++i) {
      OpTime time;
      time.role = role;
      time.op = i;
      (ops[i].kind == OpKind::send ? time.sent_bytes : time.collective_bytes) = worker.bytes(i);
      time.estimate = worker.estimate(i);
      time.in_row = worker.in_row(i);
      out.ops.push_back(std::move(time));
    }
  }

  void calls(ExecutionResult& out) const {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const auto& calls = workers_[w]->calls();
      if (w == 0 || plan_.stages().split() || plan_.stages().uneven()) {  // these have their own calls
        out.calls.insert(out.calls.end(), calls.begin(), calls.end());
        continue;
      }
      for (std::size_t i = 0; i < out.calls.size(); ++i) {
        const auto& more = calls[i].seconds;
        out.calls[i].seconds.insert(out.calls[i].seconds.end(), more.begin(), more.end());
        out.calls[i].dropped += calls[i].dropped;
      }
    }
  }

  /// Sums over the micro-batches of the stages with a loss, as a mean.
  void losses_of_stages(ExecutionResult& out) const {
    const auto each = static_cast<std::size_t>(plan_.stages().micros());
    out.losses.assign(ends_[0].size(), 0);
    double judged = 0;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (plan_.stages().lowered(plan_.first_here() + static_cast<uint32_t>(w)).losses().empty()) continue;
      judged += static_cast<double>(each);
      const auto& of = workers_[w]->losses();
      for (std::size_t i = 0; i < out.losses.size(); ++i) {
        for (std::size_t k = i * each; k < std::min((i + 1) * each, of.size()); ++k) out.losses[i] += of[k];
      }
    }
    std::vector<double> all{judged};
    if (plan_.across_processes()) sum_over_ranks(all);
    // join_ranks() averages over processes
    const double processes = plan_.across_processes() ? static_cast<double>(ranks().size) : 1;
    for (double& loss : out.losses) loss *= all[0] > 0 ? processes / all[0] : 0;
  }

  void losses(ExecutionResult& out) const {
    if (plan_.stages().split()) return losses_of_stages(out);
    const auto loss = [&](std::size_t worker, std::size_t iteration) {
      const auto& of = workers_[worker]->losses();
      const auto instance = plan_.first_here() + static_cast<uint32_t>(worker);
      return iteration < of.size() ? plan_.stages().weight(instance) * of[iteration] : 0;
    };
    std::vector<double> of_rounds;  // sums over as many iterations as there are workers
    const std::size_t n = workers_.size();
    if (free_running(plan_.program())) {
      const auto all = in_order();
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (i % n == 0) of_rounds.push_back(0);
        of_rounds.back() += loss(std::get<1>(all[i]), std::get<2>(all[i]));
      }
      if (all.size() % n != 0) of_rounds.pop_back();
    } else {
      of_rounds.assign(ends_[0].size(), 0);
      for (std::size_t i = 0; i < of_rounds.size(); ++i) {
        for (std::size_t w = 0; w < n; ++w) of_rounds[i] += loss(w, i);
      }
    }
    const auto each = static_cast<std::size_t>(plan_.micro_batches());
    for (std::size_t i = 0; i + each <= of_rounds.size(); i += each) {
      double sum = 0;
      for (std::size_t k = i; k < i + each; ++k) sum += of_rounds[k];
      out.losses.push_back(sum / static_cast<double>(n * each));
    }
  }

  const Run& run_;
  const RunPlan& plan_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  int64_t begin_ = 0;
  std::vector<std::vector<int64_t>> ends_;  ///< [worker][iteration]
  std::vector<int64_t> rounds_;             ///< [iteration]: of all together
  std::vector<TimeSpan> counted_;
};

/// The traffic between nodes, and its transport.
std::string node_note(const Run& run, const ExecutionResult& out) {
  const auto steps = static_cast<int64_t>(std::max<std::size_t>(1, out.losses.size()));
  return fmt::format("between nodes {} a step were sent over {}",
                     to_text(Bytes{out.sent_between_nodes / steps}),
                     run.plan().across_processes() ? "MPI" : "TCP on this machine's loopback interface");
}

}  // namespace

ExecutionResult summarise(const Run& run, const std::vector<std::unique_ptr<Worker>>& workers,
                          const Meter* meter) {
  Summary summary(run, workers);
  ExecutionResult out = summary.result();
  out.sent_between_nodes = run.network().sent_bytes();
  if (run.plan().across_processes()) join_ranks(run, out);
  if (meter != nullptr) add_power(run.plan(), *meter, summary.counted(), out);
  Report& r = out.report;
  if (run.has_transport()) r.notes.push_back(node_note(run, out));
  if (out.dropped > 0) {
    // Samples whose gradients were dropped do not count as trained.
    const auto kept = static_cast<double>(out.updates);
    const double share = kept / (kept + static_cast<double>(out.dropped));
    for (double* rate : {&r.rate.samples_per_second, &r.rate.interval.low, &r.rate.interval.high})
      *rate *= share;
  }
  r.rate.tokens_per_second =
      r.rate.samples_per_second * static_cast<double>(run.plan().execution().job.graph->tokens_per_sample());
  return out;
}

}  // namespace tandem::exec
