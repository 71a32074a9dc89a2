// SPDX-License-Identifier: Apache-2.0
#include "answers/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "answers/answer.h"
#include "base/in_parallel.h"
#include "sim/capacity.h"

namespace tandem::answers {

namespace {

constexpr int64_t kMostSimulated = 400, kMostSimulatedLarge = 40;
constexpr int64_t kLarge = 64;     // above it a candidate takes long to simulate
constexpr std::size_t kWave = 16;  // candidates that are judged by the same floor
/// Stages may be unequal, so a bound that assumes equal ones needs a margin.
constexpr double kSlack = 0.97;
constexpr double kNormal90 = 1.645;

/// What lets a candidate fit.
struct Saver {
  Recompute recompute;
  Offload offload;
};

ResolvedScheme resolved(const std::string& text, const Search& search) {
  ResolvedScheme out = resolve_scheme(text, Place{});
  if (search.recipe) out.recipe = *search.recipe;
  return out;
}

/// Seconds of one micro-batch on all stages of a pipeline, one after another. Any thread may call; threads
/// that ask the same at once compute it each.
class StageTimes {
 public:
  using Key = std::tuple<std::string, int64_t, int, std::string>;

  StageTimes(const Question& question, const Search& search) : q_(question), search_(search) {}

  /// Equal for candidates with equal seconds().
  static Key key(const Candidate& c, const Recompute& recompute) {
    return {c.stage_scheme, c.batch, static_cast<int>(c.precision), recompute.text()};
  }

  /// Infinite if the stage is impossible.
  double seconds(const Candidate& c, const Recompute& recompute) {
    const Key asked = key(c, recompute);
    {
      const std::lock_guard lock(mutex_);
      const auto at = known_.find(asked);
      if (at != known_.end()) return at->second;
    }
    const double found = find(c, recompute);
    const std::lock_guard lock(mutex_);
    return known_[asked] = found;
  }

  /// Bytes that one micro-batch keeps on all stages. For one thread at a time.
  double activations(const Candidate& c, const Recompute& recompute) {
    const Key asked = key(c, recompute);
    const auto at = kept_.find(asked);
    if (at != kept_.end()) return at->second;
    double bytes = 0;
    try {
      const ResolvedScheme scheme = resolved(c.stage_scheme, search_);
      const Request p = stage(c, recompute, scheme);
      bytes = static_cast<double>(memory_on(p, p.devices).activations.n);
    } catch (const InputError&) {
    }
    return kept_[asked] = bytes;
  }

 private:
  double find(const Candidate& c, const Recompute& recompute) const {
    try {
      const double one = step(c, recompute, c.stage_scheme, 1);
      if (c.expert * c.context == 1) return one;
      // Without what replicas do once per step.
      return std::max(0.0, step(c, recompute, with_settings(c.stage_scheme, "microbatches=2"), 2) - one);
    } catch (const InputError&) {
      return INFINITY;
    }
  }

  Request stage(const Candidate& c, const Recompute& recompute, const ResolvedScheme& scheme) const {
    Request p = q_.request(c.tensor * c.expert * c.context);
    p.job.scheme = &scheme;
    p.job.batch = c.batch;
    p.job.precision = c.precision;
    p.job.recompute = recompute;
    p.job.offload = {};
    p.job.optimizer = &optimizer("none");
    p.job.input = false;
    p.disturbance.emplace();
    p.stragglers = {};
    p.pauses = {};
    p.iterations = 3;  // equal without noise
    p.timeline = false;
    return p;
  }

  double step(const Candidate& c, const Recompute& recompute, const std::string& text, int64_t micro) const {
    const ResolvedScheme scheme = resolved(text, search_);
    return static_cast<double>(c.batch * micro * c.expert) / throughput(stage(c, recompute, scheme));
  }

  const Question& q_;
  const Search& search_;
  std::mutex mutex_;
  std::map<Key, double> known_, kept_;
};

/// Upper bound of samples/s for micro-batches like these.
double bound(const Candidate& c, int64_t samples, double seconds) {
  const auto stages = static_cast<double>(c.pipeline), chunks = static_cast<double>(c.chunks);
  const double fill = c.zero_bubble ? 0 : (stages - 1) / chunks;
  const double step = kSlack * seconds * (static_cast<double>(c.micro_batches) + fill) / stages;
  return step > 0 ? static_cast<double>(samples) / step : INFINITY;
}

/// Least device memory for parameters and optimiser state, without what may be offloaded.
double least_bytes(const Graph& graph, const Candidate& c, const Optimizer& optimizer) {
  const auto dealt = static_cast<double>(graph.dealt_elements());
  const auto all = static_cast<double>(graph.parameter_elements());
  const auto parts = static_cast<double>(c.tensor * c.pipeline);
  const double elements = (all - dealt) / parts + dealt / (parts * static_cast<double>(c.expert));
  const auto holders = static_cast<double>(c.replicas * c.context);
  constexpr int64_t kMany = 1 << 20;
  const double state = optimizer.factored || optimizer.paged
                           ? 0
                           : static_cast<double>(optimizer.device_state(kMany, 0, 1, true)) / kMany;
  const bool within_nodes = c.scheme.find("sharding-group=node") != std::string::npos;
  if (within_nodes) return 0;
  return elements * (element_bytes(c.precision) / (c.sharding >= 3 ? holders : 1) +
                     state / (c.sharding >= 1 ? holders : 1));
}

/// The result for one candidate.
struct Verdict {
  enum class State : uint8_t { refused, too_big, beaten, simulated } state = State::refused;
  double rate = 0, bound = 0;
  Saver saver;
  Bytes needs, capacity;
  HostMemory host = {};  ///< too little for what fits the devices
  std::string refusal;
};

class Searcher {
 public:
  Searcher(const Question& question, const Space& space, const Search& search)
      : q_(question), space_(space), search_(search), times_(question, search) {}

  Advice run() {
    gather();
    go_through(false);
    if (best_.empty() && !search_.offload) go_through(true);
    return finish();
  }

 private:
  void gather() {
    say("listing ways ...");
    all_ = candidates(space_);
    const Recompute again = search_.recompute.value_or(Recompute{});
    std::map<StageTimes::Key, std::size_t> stages;
    for (std::size_t i = 0; i < all_.size(); ++i) stages.emplace(StageTimes::key(all_[i], again), i);
    std::vector<std::size_t> distinct;
    for (const auto& [key, at] : stages) distinct.push_back(at);
    say(fmt::format("timing {} kinds of stage of {} ways ...", distinct.size(), all_.size()));
    in_parallel(distinct.size(), search_.threads, [&](std::size_t i) {
      if (!stopped()) times_.seconds(all_[distinct[i]], again);
    });
    for (const Candidate& c : all_)
      bounds_.push_back(stopped() ? INFINITY : bound(c, space_.samples, times_.seconds(c, again)));
    order_.resize(all_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return bounds_[a] > bounds_[b]; });
  }

  /// Candidates below this rate do not matter: the second best of different shape.
  double floor() const {
    std::vector<double> rates;
    for (const auto& [shape, at] : best_) rates.push_back(verdicts_.at(at).rate);
    std::sort(rates.rbegin(), rates.rend());
    const std::size_t wanted = std::min<std::size_t>(2, search_.top);
    return rates.size() < wanted ? 0 : rates[wanted - 1];
  }

  int64_t most_simulated() const { return space_.devices > kLarge ? kMostSimulatedLarge : kMostSimulated; }

  void go_through(bool offload) {
    offload_ = offload;
    too_big_.clear();
    int extra = 4;  // waves for more choices than the first two
    for (std::size_t next = 0; next < order_.size();) {
      const double least = floor();
      const bool decided = bounds_[order_[next]] <= least;
      if (simulated_ >= most_simulated()) {
        complete_ = decided;
        return;
      }
      if (decided && (best_.size() >= search_.top || extra-- == 0)) return;
      std::vector<std::size_t> wave;
      for (; next < order_.size() && wave.size() < kWave; ++next) {
        const std::size_t i = order_[next];
        if (decided && best_.count(all_[i].shape()) > 0) continue;
        if (worth_judging(i)) wave.push_back(i);
      }
      judge(wave, decided ? 0 : least);
      if (stopped()) {
        complete_ = false;
        return;
      }
    }
  }

  /// Not known to be too big.
  bool worth_judging(std::size_t i) {
    const Candidate& c = all_[i];
    if (!(bounds_[i] > 0)) return false;
    const auto at = too_big_.find(c.split());
    if (at != too_big_.end() && c.batch >= at->second) return false;
    const Device& device = space_.system->device(space_.system->accelerator(0));
    if (offload_ || (search_.offload && search_.offload->any())) return true;
    double least = least_bytes(*space_.graph, c, *q_.optimizer);
    const auto capacity = static_cast<double>(device.memory.n);
    if (least <= capacity) {
      // The first stage holds as many micro-batches as there are stages, or all. The outputs of the last
      // layers are on the last stage: one of the two holds at least half of everything.
      const Recompute again = search_.recompute.value_or(Recompute{.blocks = true});
      const double held =
          static_cast<double>(std::min(c.micro_batches, c.pipeline)) / static_cast<double>(c.pipeline);
      least += (c.pipeline > 1 ? 0.5 : 0.95) * held * times_.activations(c, again);
    }
    if (least <= capacity) return true;
    Outcome& outcome = outcome_of(c);
    const Bytes needs{static_cast<int64_t>(least)};
    if (outcome.needs.n == 0 || needs < outcome.needs)
      outcome.needs = needs, outcome.capacity = device.memory;
    return false;
  }

  void judge(const std::vector<std::size_t>& wave, double least) {
    std::vector<Verdict> found(wave.size());
    in_parallel(wave.size(), search_.threads, [&](std::size_t i) {
      if (!stopped()) found[i] = verdict(all_[wave[i]], least);
    });
    for (std::size_t i = 0; i < wave.size(); ++i) keep(wave[i], std::move(found[i]));
    judged_ += wave.size();
    const std::size_t most = static_cast<std::size_t>(most_simulated());
    const std::size_t share =
        std::max(100 * judged_ / all_.size(), 100 * static_cast<std::size_t>(simulated_) / most);
    say(fmt::format("looked into {} of {} ways, simulated {} of at most {} ...{}", judged_, all_.size(),
                    simulated_, most, time_left(share)));
  }

  /// Cheapest first.
  std::vector<Saver> savers(const ResolvedScheme& scheme) const {
    std::vector<Recompute> again = {{}, {.norms = true, .activations = true}, {.blocks = true}};
    if (search_.recompute) again = {*search_.recompute};
    std::vector<Saver> out;
    if (!offload_) {
      for (const Recompute& r : again) out.push_back({r, search_.offload.value_or(Offload{})});
      return out;
    }
    if (scheme.scheme->offloads == nullptr) return out;
    const Offload can = scheme.scheme->offloads(scheme.options);
    for (const Offload& o : {Offload{.optimizer = true}, Offload{.optimizer = true, .gradients = true},
                             Offload{.optimizer = true, .gradients = true, .parameters = true}}) {
      if (o.within(can)) out.push_back({again.back(), o});
    }
    return out;
  }

  Verdict verdict(const Candidate& c, double least) {
    Verdict out;
    out.bound = bound(c, space_.samples, times_.seconds(c, search_.recompute.value_or(Recompute{})));
    try {
      const ResolvedScheme scheme = resolved(c.scheme, search_);
      Request p = q_.request(c.devices);
      p.job.scheme = &scheme;
      p.job.batch = c.batch;
      p.job.precision = c.precision;
      p.timeline = false;
      out.state = Verdict::State::too_big;
      const std::vector<Saver> ways = savers(scheme);
      // Most are too big: ask about the largest saving first, with fewer micro-batches.
      if (ways.empty() || hopeless(p, c, ways.back(), out)) return out;
      // If the largest saving fills the host's memory, a smaller one may fit.
      const bool most = fits(p, ways.back(), out);
      if (!most && out.host.needed.n == 0) return out;
      for (const Saver& saver : ways) {
        if (&saver == &ways.back() ? !most : !fits(p, saver, out)) continue;
        out.saver = saver;
        out.state = Verdict::State::beaten;
        if (!(saver.recompute == Recompute{}) && !search_.recompute)
          out.bound = bound(c, space_.samples, times_.seconds(c, saver.recompute));
        if (out.bound <= least) return out;
        p.job.recompute = saver.recompute;
        p.job.offload = saver.offload;
        out.rate = throughput(p);
        out.state = Verdict::State::simulated;
        return out;
      }
    } catch (const InputError& e) {
      out.state = Verdict::State::refused;
      out.refusal = e.what();
    }
    return out;
  }

  /// Beyond two micro-batches a stage, the peak of a stage grows only by an allocator's rounding.
  bool hopeless(Request p, const Candidate& c, const Saver& saver, Verdict& out) const {
    constexpr double kRounding = 0.97;
    const int64_t few = 2 * c.pipeline;
    if (c.pipeline == 1 || c.micro_batches <= few) return false;
    const ResolvedScheme scheme = resolved(fmt::format("{},microbatches={}", c.scheme, few), search_);
    p.job.scheme = &scheme;
    p.job.recompute = saver.recompute;
    p.job.offload = saver.offload;
    const MemoryUse memory = memory_on(p, p.devices);
    out.capacity = memory.capacity;
    out.needs = memory.needed();
    return kRounding * static_cast<double>(memory.needed().n) > static_cast<double>(memory.capacity.n);
  }

  static bool fits(Request p, const Saver& saver, Verdict& out) {
    p.job.recompute = saver.recompute;
    p.job.offload = saver.offload;
    const MemoryUse memory = memory_on(p, p.devices);
    if (out.needs.n == 0 || memory.needed() < out.needs) out.needs = memory.needed();
    out.capacity = memory.capacity;
    if (memory.needed() <= memory.capacity && !memory.node.fits()) out.host = memory.node;
    return memory.fits();
  }

  Outcome& outcome_of(const Candidate& c) { return outcomes_[c.family]; }

  void keep(std::size_t i, Verdict v) {
    const Candidate& c = all_[i];
    Outcome& outcome = outcome_of(c);
    switch (v.state) {
      case Verdict::State::refused:
        if (outcome.refusal.empty()) outcome.refusal = v.refusal;
        return;
      case Verdict::State::too_big: {
        if (outcome.needs.n == 0 || (v.needs.n > 0 && v.needs < outcome.needs)) outcome.needs = v.needs;
        if (v.capacity.n > 0) outcome.capacity = v.capacity;
        if (v.host.needed.n > 0 && (outcome.host.needed.n == 0 || v.host.needed < outcome.host.needed))
          outcome.host = v.host;
        auto [at, fresh] = too_big_.emplace(c.split(), c.batch);
        at->second = std::min(at->second, c.batch);
        return;
      }
      case Verdict::State::beaten:
        outcome.at_most = std::max(outcome.at_most, v.bound);
        return;
      case Verdict::State::simulated:
        break;
    }
    ++simulated_;
    outcome.rate = std::max(outcome.rate, v.rate);
    const double rate = v.rate;
    verdicts_[i] = std::move(v);
    auto [at, fresh] = best_.emplace(c.shape(), i);
    // Among equals the first candidate wins, in whatever order they were judged.
    const double before = verdicts_[at->second].rate;
    if (rate > before || (rate == before && i < at->second)) at->second = i;
  }

  Advice finish() {
    Advice out;
    out.ways = static_cast<int64_t>(all_.size());
    out.simulated = simulated_;
    out.complete = complete_;
    out.interrupted = stopped();
    if (best_.empty()) refuse();
    std::vector<std::size_t> ranked;
    for (const auto& [shape, at] : best_) ranked.push_back(at);
    std::sort(ranked.begin(), ranked.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(-verdicts_[a].rate, a) < std::pair(-verdicts_[b].rate, b);
    });
    if (ranked.size() > search_.top) ranked.resize(search_.top);
    for (const std::size_t i : ranked) {
      say(fmt::format("explaining choice {} of {} ...", out.ranked.size() + 1, ranked.size()));
      out.ranked.push_back(choice(all_[i], verdicts_[i].saver));
    }
    if (!stopped()) out.larger = larger(all_[ranked[0]], verdicts_[ranked[0]]);
    if (out.ranked.size() > 1)
      out.first_beats_second = probability_faster(out.ranked[0].report, out.ranked[1].report);
    for (std::size_t f = 0; f < space_.schemes.size(); ++f) {
      Outcome o = outcomes_[f];
      o.scheme = space_.schemes[f];
      if (o.rate == 0 && o.at_most == 0 && o.needs.n == 0) o.at_most = best_bound(f);
      out.outcomes.push_back(std::move(o));
    }
    return out;
  }

  /// Of a scheme without judged candidates.
  double best_bound(std::size_t family) const {
    double out = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].family == family) out = std::max(out, bounds_[i]);
    }
    return out;
  }

  /// With more samples per step: the first choice with larger batches or more of them, and pure data
  /// parallelism.
  std::optional<Advice::Larger> larger(const Candidate& c, const Verdict& first) {
    constexpr double kWorthTelling = 1.1, kLittle = 1.05;
    std::optional<Advice::Larger> out;
    double before = first.rate;
    for (const int64_t factor : {2, 4, 8}) {
      if (stopped() || (space_.devices > kLarge && factor > 2)) break;
      say(fmt::format("the first choice with {} times the samples in a step ...", factor));
      const int64_t samples = checked_mul(space_.samples, factor, "the samples of a step");
      std::vector<Advice::Larger> ways = {{samples, c.scheme, c.devices, c.batch * factor}};
      if (resolved(c.scheme, search_).scheme->pipeline != nullptr && c.micro_batches > 1)
        ways.push_back({samples,
                        with_settings(c.scheme, fmt::format("microbatches={}", c.micro_batches * factor)),
                        c.devices, c.batch});
      if (space_.schemes[0] == "allreduce" && samples % space_.devices == 0)
        ways.push_back({samples, "allreduce", space_.devices, samples / space_.devices});
      double best = 0;
      for (Advice::Larger& way : ways) {
        way.rate = rate_of(way, c.precision, first.saver);
        if (way.rate <= best) continue;
        best = way.rate;
        if (best > kWorthTelling * first.rate && best > kLittle * before) out = way;
      }
      before = std::max(before, best);
    }
    return out;
  }

  /// 0 if it does not fit or is impossible.
  double rate_of(const Advice::Larger& way, Precision precision, const Saver& saver) const {
    try {
      const ResolvedScheme scheme = resolved(way.scheme, search_);
      Request p = q_.request(way.devices);
      p.job.scheme = &scheme;
      p.job.batch = way.batch;
      p.job.precision = precision;
      p.job.recompute = saver.recompute;
      p.job.offload = saver.offload;
      p.timeline = false;
      return memory_on(p, p.devices).fits() ? throughput(p) : 0;
    } catch (const InputError&) {
      return 0;
    }
  }

  /// By the elapsed time and the share of the search that is done, in per cent.
  std::string time_left(std::size_t share) const {
    const auto passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (share == 0 || passed < 5) return "";
    return fmt::format(
        " {} %, at most {:.0f} s left", share,
        passed * static_cast<double>(100 - std::min<std::size_t>(share, 100)) / static_cast<double>(share));
  }

  [[noreturn]] void refuse() {
    if (stopped()) throw InputError("interrupted before a way was found");
    if (all_.empty())
      throw InputError(fmt::format("no way to train {} with {} in a step on at most {} devices",
                                   space_.graph->name(), samples_words(space_.samples), space_.devices));
    std::string why;
    Bytes needs, capacity;
    HostMemory host;
    for (const auto& [family, o] : outcomes_) {
      if (o.host.needed.n > 0 && (host.needed.n == 0 || o.host.needed < host.needed)) host = o.host;
      if (o.needs.n > 0 && (needs.n == 0 || o.needs < needs)) needs = o.needs, capacity = o.capacity;
      if (why.empty()) why = o.refusal;
    }
    if (needs.n == 0)
      throw InputError(fmt::format("none of {} ways to train {} with {} in a step is possible{}{}",
                                   all_.size(), space_.graph->name(), samples_words(space_.samples),
                                   why.empty() ? "" : ": ", why));
    const std::string offloaded =
        host.needed.n == 0
            ? ""
            : fmt::format(", but then {} of the host's {}", to_text(host.needed), to_text(host.capacity));
    throw InputError(fmt::format(
        "none of {} ways to train {} on at most {} devices fits: the one that needs least takes {} of {} a "
        "device{}; more devices, a smaller --global-batch or a smaller optimiser may help",
        all_.size(), space_.graph->name(), space_.devices, to_text(needs), to_text(capacity), offloaded));
  }

  Choice choice(const Candidate& c, const Saver& saver) const {
    Question own = q_.with({{"scheme", c.scheme},
                            {"devices", std::to_string(c.devices)},
                            {"batch", std::to_string(c.batch)},
                            {"precision", std::string(name(c.precision))},
                            {"recompute", saver.recompute.text()},
                            {"offload", saver.offload.text()}});
    own.timeline = false;
    return {c, saver.recompute, saver.offload,
            predict(own, c.devices, stopped() ? Depth::report : Depth::full)};
  }

  bool stopped() const { return search_.stop != nullptr && *search_.stop; }

  void say(std::string_view text) const {
    if (search_.progress) search_.progress(text);
  }

  const Question& q_;
  const Space& space_;
  const Search& search_;
  StageTimes times_;
  std::vector<Candidate> all_;
  std::vector<double> bounds_;
  std::vector<std::size_t> order_;
  std::map<std::size_t, Verdict> verdicts_;  ///< of what was simulated
  std::map<std::string, std::size_t> best_;  ///< by shape
  std::map<std::string, int64_t> too_big_;   ///< by split: the smallest batch that does not fit
  std::map<std::size_t, Outcome> outcomes_;  ///< by family
  int64_t simulated_ = 0;
  std::size_t judged_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool offload_ = false, complete_ = true;
};

}  // namespace

std::string samples_words(int64_t count) { return fmt::format("{} sample{}", count, count == 1 ? "" : "s"); }

double probability_faster(const Report& a, const Report& b) {
  const Report::Interval ratio = ratio_interval(b, a);
  const double mean = std::log(a.rate.samples_per_second / b.rate.samples_per_second);
  const double sigma = (mean > 0 ? mean - std::log(ratio.low) : std::log(ratio.high) - mean) / kNormal90;
  if (!(sigma > 0)) return mean > 0 ? 1 : mean < 0 ? 0 : 0.5;
  return 0.5 * std::erfc(-mean / (sigma * std::sqrt(2.0)));
}

Advice advise(const Question& question, const Space& space, const Search& search) {
  return Searcher(question, space, search).run();
}

}  // namespace tandem::answers
