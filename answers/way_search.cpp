// SPDX-License-Identifier: Apache-2.0
#include "answers/way_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/in_parallel.h"
#include "sim/capacity.h"
#include "sim/simulate.h"

namespace tandem::answers {

namespace {

constexpr int64_t kMostSimulated = 400, kMostSimulatedLarge = 40;
constexpr int64_t kLarge = 64;  // above it a candidate takes long to simulate
/// Candidates that are refined at once, on however many threads.
constexpr std::size_t kWave = 4;
/// Refinements for more choices than the first two.
constexpr int64_t kExtra = 400;
/// The share of a device's memory that a way which is not tight may take.
constexpr double kRoomy = 0.9;

/// Of what shorter models say that a step takes so much is taken for sure.
constexpr double kSure = 0.995;

/// What is known of a candidate.
enum class Level : uint8_t {
  peak,        ///< its arithmetic at peak
  stage,       ///< a stage's time, and that the least it must hold fits
  shorter,     ///< what shorter models would take
  undisturbed  ///< all but contention and noise, and that it fits
};

/// A candidate that waits to be refined.
struct Waiting {
  double bound = 0;  ///< samples/s at most
  std::size_t at = 0;
  Level level = Level::peak;
  std::size_t saver = 0;
  /// The best first; among equals what is known best, then in the order of candidates.
  bool operator<(const Waiting& other) const {
    return std::tuple(-bound, -static_cast<int>(level), at, saver) <
           std::tuple(-other.bound, -static_cast<int>(other.level), other.at, other.saver);
  }
};

/// What refining found.
struct Refined {
  enum class State : uint8_t { refused, too_big, waits, found } state = State::waits;
  Waiting next;
  double rate = 0;
  bool tight = false;  ///< it fits, but leaves too little room
  Bytes needs = {}, capacity = {};
  HostMemory host = {};  ///< too little for what fits the devices
  std::string refusal = {};
};

class WaySearch {
 public:
  WaySearch(const Question& question, const Space& space, const Search& search, WayBounds& bounds)
      : q_(question), space_(space), search_(search), bounds_(bounds) {}

  Ways run() {
    search_.say("listing ways ...");
    all_ = candidates(space_);
    for (const bool offload : {false, true}) {
      offload_ = offload;
      for (const bool last : {false, true}) {
        last_ = last;
        roomy_ = !last && !search_.full_memory;
        start();
        go();
        if (search_.stopped() || best_.size() >= search_.top || tight_.empty()) break;
      }
      if (!best_.empty() || search_.offload || search_.stopped()) break;
    }
    return finish();
  }

 private:
  /// All candidates wait; last of all those that left too little room.
  void start() {
    const std::set<std::size_t> again = std::move(tight_);
    waiting_.clear();
    tight_.clear();
    extra_ = kExtra;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (last_ && again.count(i) == 0) continue;
      waiting_.insert({bounds_.peak_rate(all_[i]), i});
    }
  }

  /// Candidates below this rate do not matter: the second best of different shape.
  double floor() const {
    const std::size_t wanted = std::min<std::size_t>(2, search_.top);
    if (best_.size() < wanted) return 0;
    std::vector<double> rates;
    for (const auto& [shape, way] : best_) rates.push_back(way.rate);
    std::sort(rates.rbegin(), rates.rend());
    return rates[wanted - 1];
  }

  int64_t most_simulated() const { return space_.devices > kLarge ? kMostSimulatedLarge : kMostSimulated; }

  void go() {
    while (!waiting_.empty() && !search_.stopped()) {
      const bool decided = waiting_.begin()->bound <= floor();
      if (decided && (best_.size() >= search_.top || extra_ <= 0)) return;
      if (simulated_ >= most_simulated()) {
        complete_ = complete_ && decided;
        return;
      }
      std::vector<Waiting> wave;
      while (!waiting_.empty() && wave.size() < (search_.until == Until::stage ? 1 : kWave)) {
        const Waiting next = *waiting_.begin();
        waiting_.erase(waiting_.begin());
        if (!beaten(next)) wave.push_back(next);
      }
      refine(wave);
      if (decided) extra_ -= static_cast<int64_t>(wave.size());
    }
    complete_ = complete_ && !search_.stopped();
  }

  /// A faster way of its shape is known, or a smaller one that divides the model as it does did not fit.
  bool beaten(const Waiting& w) {
    const auto best = best_.find(all_[w.at].shape());
    if (best != best_.end() && (w.bound <= best->second.rate || (last_ && !best->second.tight))) return true;
    const WayBounds::TooBig* known = bounds_.too_big(misfit(w));
    if (known == nullptr || !known->covers(all_[w.at])) return false;
    if (known->tight) tight_.insert(w.at);
    return true;
  }

  WayBounds::Misfit misfit(const Waiting& w) const { return {all_[w.at].split(), w.saver, roomy_, offload_}; }

  void refine(const std::vector<Waiting>& wave) {
    std::vector<Refined> found(wave.size());
    in_parallel(wave.size(), search_.threads, [&](std::size_t i) {
      if (search_.stopped()) return;
      try {
        found[i] = refined(wave[i]);
      } catch (const InputError& e) {
        found[i].state = Refined::State::refused;
        found[i].refusal = e.what();
      }
    });
    for (std::size_t i = 0; i < wave.size(); ++i) keep(wave[i], std::move(found[i]));
    const auto most = static_cast<std::size_t>(most_simulated());
    const auto part = [](std::size_t done, std::size_t of) {
      return static_cast<double>(done) / static_cast<double>(of);
    };
    const std::size_t decided = all_.size() - std::min(all_.size(), waiting_.size());
    search_.say(fmt::format("{} ways left of {}, simulated {} of at most {} ...", waiting_.size(),
                            all_.size(), simulated_, most),
                std::min(1.0, std::max(part(static_cast<std::size_t>(simulated_), most),
                                       part(decided, all_.size()))));
  }

  Refined refined(const Waiting& w) {
    switch (w.level) {
      case Level::peak:
        return with_stage(w);
      case Level::stage:
        return search_.until == Until::stage ? found(w) : shorter(w);
      case Level::shorter:
        return undisturbed(w);
      case Level::undisturbed:
        break;
    }
    return simulated(w);
  }

  /// Cheapest first.
  std::vector<Saver> savers(const Candidate& c) const {
    std::vector<Recompute> again = {{}, {.norms = true, .activations = true}, {.blocks = true}};
    if (search_.recompute) again = {*search_.recompute};
    std::vector<Saver> out;
    if (!offload_ || search_.offload) {
      for (const Recompute& r : again) out.push_back({r, search_.offload.value_or(Offload{})});
      return out;
    }
    const ResolvedScheme scheme = bounds_.resolved(c.scheme);
    if (scheme.scheme->offloads == nullptr) return out;
    const Offload can = scheme.scheme->offloads(scheme.options);
    for (const Offload& o : {Offload{.optimizer = true}, Offload{.optimizer = true, .gradients = true},
                             Offload{.optimizer = true, .gradients = true, .parameters = true}}) {
      if (o.within(can)) out.push_back({again.back(), o});
    }
    return out;
  }

  /// The first saver whose least need fits.
  Refined with_stage(Waiting w) const {
    const Candidate& c = all_[w.at];
    const std::vector<Saver> ways = savers(c);
    Refined out;
    out.state = Refined::State::too_big;
    for (; w.saver < ways.size(); ++w.saver) {
      const Saver& saver = ways[w.saver];
      if (!may_fit(c, saver, out)) continue;
      w.bound = std::min(w.bound, bounds_.stage_rate(c, saver.recompute));
      w.level = Level::stage;
      out.state = w.bound > 0 ? Refined::State::waits : Refined::State::refused;
      out.next = w;
      return out;
    }
    return out;
  }

  /// Whether the least that it must hold fits.
  bool may_fit(const Candidate& c, const Saver& saver, Refined& out) const {
    out.capacity = space_.system->device(space_.system->accelerator(0)).memory;
    const double least = bounds_.least_bytes(c, saver.recompute, saver.offload);
    if (least <= static_cast<double>(out.capacity.n) * (roomy_ ? kRoomy : 1)) return true;
    const Bytes needs{static_cast<int64_t>(least)};
    if (out.needs.n == 0 || needs < out.needs) out.needs = needs;
    if (roomy_ && needs <= out.capacity) out.tight = true;
    return false;
  }

  Request request(const Candidate& c, const Graph& graph, const Saver& saver,
                  const ResolvedScheme& scheme) const {
    Request p = q_.request(c.devices);
    p.job.graph = &graph;
    p.job.scheme = &scheme;
    p.job.batch = c.batch;
    p.job.precision = c.precision;
    p.job.recompute = saver.recompute;
    p.job.offload = saver.offload;
    p.timeline = false;
    p.priced = priced_;
    return p;
  }

  /// A pipeline is full with two micro-batches a stage: more take the same time each, and of memory they take
  /// only what an allocator rounds. Steps of two and three for each stage stand for those of more than four.
  static bool many(const Candidate& c) { return c.micro_batches > 4 * c.pipeline; }
  ResolvedScheme with_micro_batches(const Candidate& c, int64_t count) const {
    return bounds_.resolved(
        with_settings(c.scheme, fmt::format("{}={}", bounds_.micro_batch_option(c), count)));
  }
  ResolvedScheme full_pipeline(const Candidate& c) const {
    return many(c) ? with_micro_batches(c, 3 * c.pipeline) : bounds_.resolved(c.scheme);
  }

  /// Of a step, by what `rate` tells of a request.
  template <typename Rate>
  std::optional<double> step_rate(const Candidate& c, const Graph& graph, const Saver& saver,
                                  Rate rate) const {
    if (!many(c)) return rate(request(c, graph, saver, bounds_.resolved(c.scheme)));
    const int64_t few = 2 * c.pipeline, more = 3 * c.pipeline;
    const auto seconds = [&](int64_t count) -> std::optional<double> {
      const ResolvedScheme scheme = with_micro_batches(c, count);
      const std::optional<double> found = rate(request(c, graph, saver, scheme));
      if (!found) return std::nullopt;
      return static_cast<double>(c.batch * c.replicas * count) / *found;
    };
    const auto first = seconds(few), second = seconds(more);
    if (!first || !second) return std::nullopt;
    const double each = std::max(0.0, *second - *first) / static_cast<double>(more - few);
    return static_cast<double>(c.batch * c.replicas * c.micro_batches) /
           (*first + each * static_cast<double>(c.micro_batches - few));
  }
  /// Empty where it is no bound.
  static std::optional<double> undisturbed_rate(const Request& p) {
    const Undisturbed found = sim::undisturbed(p);
    return found.bound ? std::optional(found.rate) : std::nullopt;
  }

  /// By two shorter models (WayBounds::shorter), in a straight line, which is not exact.
  Refined shorter(Waiting w) const {
    const Candidate& c = all_[w.at];
    const auto models = bounds_.shorter(c);
    if (!models) return undisturbed(w);
    const Saver saver = savers(c)[w.saver];
    Refined out;
    const auto seconds = [&](const Graph& graph) -> std::optional<double> {
      const auto rate = step_rate(c, graph, saver, undisturbed_rate);
      return rate ? std::optional(1 / *rate) : std::nullopt;
    };
    const auto few = seconds(*models->few), more = seconds(*models->more);
    if (few && more) w.bound = std::min(w.bound, 1 / (kSure * models->line(*few, *more)));
    w.level = Level::shorter;
    out.next = w;
    return out;
  }

  Refined undisturbed(Waiting w) const {
    const Candidate& c = all_[w.at];
    const Saver saver = savers(c)[w.saver];
    Refined out;
    if (!fits(request(c, q_.graph, saver, full_pipeline(c)), out)) return next_saver(w, std::move(out));
    if (const auto best = step_rate(c, q_.graph, saver, undisturbed_rate)) w.bound = std::min(w.bound, *best);
    w.level = Level::undisturbed;
    out.next = w;
    return out;
  }

  Refined simulated(Waiting w) const {
    const Candidate& c = all_[w.at];
    const Saver saver = savers(c)[w.saver];
    Refined out;
    if (many(c) && !roomy_ && !fits(request(c, q_.graph, saver, bounds_.resolved(c.scheme)), out))
      return next_saver(w, std::move(out));
    if (search_.until == Until::simulated) w.bound = *step_rate(c, q_.graph, saver, quiet_throughput);
    return found(w);
  }

  static Refined found(const Waiting& w) {
    Refined out;
    out.state = Refined::State::found;
    out.rate = w.bound;
    return out;
  }

  Refined next_saver(Waiting w, Refined out) const {
    ++w.saver;
    w.level = Level::peak;
    out.state = w.saver < savers(all_[w.at]).size() ? Refined::State::waits : Refined::State::too_big;
    out.next = w;
    return out;
  }

  bool fits(const Request& p, Refined& out) const {
    const Bytes usable = p.system->device(p.system->accelerator(0)).usable;
    const double most = static_cast<double>(usable.n) * (roomy_ ? kRoomy : 1);
    const MemoryUse memory = memory_on(p, p.devices, {static_cast<int64_t>(most)});
    out.needs = memory.needed();
    out.capacity = memory.capacity;
    if (memory.needed() <= memory.capacity && !memory.node.fits()) out.host = memory.node;
    if (!memory.fits()) return false;
    const bool roomy =
        static_cast<double>(memory.needed().n) <= kRoomy * static_cast<double>(memory.capacity.n);
    if (!roomy) out.tight = true;
    return roomy || !roomy_;
  }

  void keep(const Waiting& w, const Refined& r) {
    const Candidate& c = all_[w.at];
    Outcome& outcome = outcomes_[c.family];
    if (r.tight && roomy_) tight_.insert(w.at);
    switch (r.state) {
      case Refined::State::refused:
        if (outcome.refusal.empty()) outcome.refusal = r.refusal;
        return;
      case Refined::State::waits:
        if (r.next.saver != w.saver && w.level != Level::peak) mark_too_big(w, r.tight);
        waiting_.insert(r.next);
        return;
      case Refined::State::too_big: {
        mark_too_big(w, r.tight);
        if (r.tight) return;
        if (outcome.needs.n == 0 || (r.needs.n > 0 && r.needs < outcome.needs)) outcome.needs = r.needs;
        if (r.capacity.n > 0) outcome.capacity = r.capacity;
        if (r.host.needed.n > 0 && (outcome.host.needed.n == 0 || r.host.needed < outcome.host.needed))
          outcome.host = r.host;
        return;
      }
      case Refined::State::found:
        break;
    }
    ++simulated_;
    outcome.rate = std::max(outcome.rate, r.rate);
    const Way way{c, savers(c)[w.saver], r.rate, last_};
    const auto [at, fresh] = best_.emplace(c.shape(), way);
    // Among equals the first candidate wins, in whatever order they were judged.
    if (!fresh && (r.rate > at->second.rate || (r.rate == at->second.rate && w.at < places_[c.shape()])))
      at->second = way;
    else if (!fresh)
      return;
    places_[c.shape()] = w.at;
  }

  void mark_too_big(const Waiting& w, bool tight) {
    bounds_.mark_too_big(misfit(w), {all_[w.at].batch, all_[w.at].replicas, tight});
  }

  Ways finish() {
    Ways out;
    out.count = static_cast<int64_t>(all_.size());
    out.simulated = simulated_;
    out.complete = complete_ && !search_.stopped();
    if (best_.empty()) refuse();
    for (const auto& [shape, way] : best_) out.ranked.push_back(way);
    std::sort(out.ranked.begin(), out.ranked.end(), [&](const Way& a, const Way& b) {
      return std::tuple(a.tight, -a.rate, places_.at(a.candidate.shape())) <
             std::tuple(b.tight, -b.rate, places_.at(b.candidate.shape()));
    });
    if (out.ranked.size() > search_.top) out.ranked.resize(search_.top);
    std::map<std::size_t, double> left;
    for (const Waiting& w : waiting_) left[all_[w.at].family] = std::max(left[all_[w.at].family], w.bound);
    for (std::size_t f = 0; f < space_.schemes.size(); ++f) {
      Outcome o = outcomes_[f];
      o.scheme = space_.schemes[f];
      if (o.rate == 0) o.at_most = left[f];
      out.outcomes.push_back(std::move(o));
    }
    return out;
  }

  [[noreturn]] void refuse() const;

  const Question& q_;
  const Space& space_;
  const Search& search_;
  WayBounds& bounds_;
  const std::shared_ptr<sim::PricedCollectives> priced_ = std::make_shared<sim::PricedCollectives>(q_.system);
  std::vector<Candidate> all_;
  std::set<Waiting> waiting_;
  std::map<std::string, Way> best_;            ///< by shape
  std::map<std::string, std::size_t> places_;  ///< of these in all_
  std::set<std::size_t> tight_;                ///< candidates that would fit if they need not be roomy
  std::map<std::size_t, Outcome> outcomes_;    ///< by family
  int64_t simulated_ = 0, extra_ = kExtra;
  bool offload_ = false, complete_ = true;
  bool last_ = false;  ///< what left too little room is taken
  bool roomy_ = true;  ///< what leaves too little room is not
};

void WaySearch::refuse() const {
  if (search_.stopped()) throw InputError("interrupted before a way was found");
  if (all_.empty())
    throw InputError(fmt::format("no way to train {} with {} in a step on at most {} device{}",
                                 space_.graph->name(), samples_words(space_.samples), space_.devices,
                                 space_.devices == 1 ? "" : "s"));
  std::string why;
  Bytes needs, capacity;
  HostMemory host;
  for (const auto& [family, o] : outcomes_) {
    if (o.host.needed.n > 0 && (host.needed.n == 0 || o.host.needed < host.needed)) host = o.host;
    if (o.needs.n > 0 && (needs.n == 0 || o.needs < needs)) needs = o.needs, capacity = o.capacity;
    if (why.empty()) why = o.refusal;
  }
  if (needs.n == 0)
    throw InputError(fmt::format("none of {} ways to train {} with {} in a step is possible{}{}", all_.size(),
                                 space_.graph->name(), samples_words(space_.samples), why.empty() ? "" : ": ",
                                 why));
  const std::string offloaded =
      host.needed.n == 0
          ? ""
          : fmt::format(", but then {} of the host's {}", to_text(host.needed), to_text(host.capacity));
  throw InputError(fmt::format(
      "none of {} ways to train {} on at most {} device{} fits: the one that needs least takes {} of {} a "
      "device{}; more devices, a smaller --global-batch or a smaller optimiser may help",
      all_.size(), space_.graph->name(), space_.devices, space_.devices == 1 ? "" : "s", to_text(needs),
      to_text(capacity), offloaded));
}

}  // namespace

std::string samples_words(int64_t count) { return fmt::format("{} sample{}", count, count == 1 ? "" : "s"); }

Ways find_ways(const Question& question, const Space& space, const Search& search, WayBounds& bounds) {
  for (const Precision precision : space.precisions)
    sim::check_precision(precision, space.system->device(space.system->accelerator(0)), question.profile);
  return WaySearch(question, space, search, bounds).run();
}

}  // namespace tandem::answers
