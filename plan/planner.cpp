// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "answers/failures.h"
#include "answers/goodput.h"
#include "base/in_parallel.h"
#include "plan/faults.h"
#include "plan/machines.h"
#include "plan/plan_rank.h"
#include "plan/power.h"

namespace tandem::plan {

namespace {

using answers::Depth;
using answers::Failures;

constexpr int64_t kMostSpares = 16;
constexpr double kNever = 1e-6;   // a useful share of the time below which a training never gets done
constexpr std::size_t kWave = 4;  // machines that are predicted at once, on however many threads

/// An offer for a machine, with the best that it could do.
struct Entry {
  std::size_t machine = 0;
  std::optional<Offer> offer;
  double value = 0;  ///< for each sample, by the aim, at least
};

class Planner {
 public:
  explicit Planner(const PlanQuestion& question) : q_(question), search_(question) {}

  Plan run() {
    machines_ = search_.find();
    plan_.priced = static_cast<int64_t>(machines_.size());
    for (const Machine& m : machines_) plan_.ways += m.ways;
    enter();
    predict_first();
    return finish();
  }

 private:
  /// All machines, each with the cheapest offer of each kind, in the order of the best that they can do.
  /// Those that are predicted stay as they are.
  void enter() {
    std::erase_if(entries_, [&](const Entry& e) { return !machines_[e.machine].report; });
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      if (machines_[i].possible() && !machines_[i].report) enter(i);
    }
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.value, a.machine) < std::pair(b.value, b.machine);
    });
    if (entries_.empty()) refuse();
  }

  /// With the cheapest offer of each kind, if it can be of those within the budget. A kind never displaces
  /// another: spot machines are taken away, and a reservation must be paid for its whole term.
  void enter(std::size_t i) {
    const Machine& m = machines_[i];
    std::map<OfferKind, Entry> best;
    for (const Offer& offer : offers_for(m.question->system, q_.market.offers)) {
      if (!(offer.kind == OfferKind::buy ? q_.market.buy : q_.market.rent)) continue;
      if (!allows(offer, m.nodes, m.way.candidate.devices)) continue;
      if (offer.kind == OfferKind::spot && !q_.market.spot) continue;
      const Entry entry{i, offer, at_least(m, &offer, Aim::cheapest)};
      const auto [at, fresh] = best.emplace(offer.kind, entry);
      const auto key = [&](const Entry& e) { return std::pair(!may_meet(e), e.value); };
      if (!fresh && key(entry) < key(at->second)) at->second = entry;
    }
    if (best.empty()) entries_.push_back({i, {}, at_least(m, nullptr, q_.aim)});
    for (auto& [kind, entry] : best) {
      entry.value = at_least(m, &*entry.offer, q_.aim);
      entries_.push_back(std::move(entry));
    }
  }

  /// Refines those of `which` that are not, which gives their entries other places. Whether there were any.
  template <typename Machines>
  bool refine(const Machines& which) {
    std::vector<std::size_t> open;
    std::copy_if(which.begin(), which.end(), std::back_inserter(open),
                 [&](std::size_t i) { return machines_[i].possible() && !machines_[i].refined; });
    if (open.empty()) return false;
    search_.refine(machines_, open);
    refined_ += open.size();
    say(fmt::format("found the best ways for {} of at most {} machines ...", refined_, machines_.size()),
        refined_, machines_.size());
    if (!stopped()) enter();
    return !stopped();
  }

  /// Seconds, USD or joules of a sample, at least; without a price infinite.
  double at_least(const Machine& m, const Offer* offer, Aim aim) const {
    const double seconds = 1 / m.rate_at_most();
    if (aim == Aim::soonest) return seconds;
    const double joules = m.idle_watts * seconds;
    if (aim == Aim::least_energy) return joules;
    if (offer == nullptr) return INFINITY;
    return cost_of(*offer, m.nodes, m.way.candidate.devices, seconds, joules, q_.market.ownership)
        .total()
        .low;
  }

  /// The machines that by their bounds none beats in time and money.
  std::set<std::size_t> front() const {
    std::set<std::size_t> out;
    std::vector<Entry> by_time = entries_;
    std::stable_sort(by_time.begin(), by_time.end(), [&](const Entry& a, const Entry& b) {
      return machines_[a.machine].rate_at_most() > machines_[b.machine].rate_at_most();
    });
    double least = INFINITY;
    for (const Entry& e : by_time) {
      const double cost = at_least(machines_[e.machine], e.offer ? &*e.offer : nullptr, Aim::cheapest);
      if (cost < least) out.insert(e.machine);
      least = std::min(least, cost);
    }
    return out;
  }

  /// Goes on until `top` are predicted and no other can be among them, nor be the best that keeps to the
  /// limits. The front() is predicted first.
  void predict_first() {
    std::set<std::size_t> wanted = front();
    while (refine(wanted)) wanted = front();
    for (std::vector<std::size_t> wave = next(wanted); !wave.empty() && !stopped(); wave = next(wanted)) {
      if (refine(wave)) continue;
      if (stopped()) break;
      base::in_parallel(wave.size(), q_.threads, [&](std::size_t i) { predict(machines_[wave[i]]); });
      predicted_ += static_cast<int64_t>(wave.size());
      say(fmt::format("predicted {} of at most {} machines ...", predicted_, machines_.size()),
          static_cast<std::size_t>(predicted_), machines_.size());
    }
    predict_smallest();
  }

  /// Those to predict next.
  std::vector<std::size_t> next(const std::set<std::size_t>& wanted) const {
    std::vector<std::size_t> wave;
    for (const std::size_t m : wanted) {
      if (!machines_[m].report && machines_[m].possible() && wave.size() < kWave) wave.push_back(m);
    }
    const double best = best_that_meets(), worst = worst_of_top();
    const bool few = known() < q_.top;
    for (std::size_t i = 0; wave.empty() && i < entries_.size(); ++i) {
      const Entry& e = entries_[i];
      const bool of_top = few || e.value < worst;
      if (!of_top && !(e.value < best)) break;
      if (!machines_[e.machine].report && (of_top || may_meet(e))) wave.push_back(e.machine);
    }
    return wave;
  }

  /// With limits: the fewest devices that may keep to them, until one does.
  void predict_smallest() {
    if (!limited()) return;
    std::vector<std::size_t> by_size(machines_.size());
    for (std::size_t i = 0; i < by_size.size(); ++i) by_size[i] = i;
    const auto devices = [&](std::size_t i) { return machines_[i].way.candidate.devices; };
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](std::size_t a, std::size_t b) { return devices(a) < devices(b); });
    for (const std::size_t i : by_size) {
      const auto may = [&] {
        return std::any_of(entries_.begin(), entries_.end(),
                           [&](const Entry& e) { return e.machine == i && may_meet(e); });
      };
      if (!machines_[i].report && may()) {
        refine(std::vector{i});
        if (stopped()) return;
        if (may()) predict(machines_[i]), ++predicted_;
      }
      if (!machines_[i].report) continue;
      for (const Entry& e : entries_) {
        if (e.machine == i && candidate(e).meets()) return;
      }
    }
  }

  bool limited() const { return q_.limits.any(); }

  /// Seconds that it takes at least; 0 before a machine was predicted. All need as many samples, since their
  /// steps are equally large.
  double seconds_at_least(const Machine& m) const {
    for (const Machine& other : machines_) {
      if (other.report && other.report->progress && other.report->progress->samples)
        return *other.report->progress->samples / m.rate_at_most();
    }
    return 0;
  }

  /// Whether it could keep to the limits.
  bool may_meet(const Entry& e) const {
    const Machine& m = machines_[e.machine];
    const double seconds = seconds_at_least(m);
    if (q_.limits.deadline && seconds > *q_.limits.deadline) return false;
    if (m.idle_watts > watts_within(q_.limits, m.nodes)) return false;
    if (!q_.limits.budget) return true;
    if (!e.offer) return false;
    return cost_of(*e.offer, m.nodes, m.way.candidate.devices, seconds, m.idle_watts * seconds,
                   q_.market.ownership)
               .needed()
               .value <= *q_.limits.budget;
  }

  /// With limits: the least value for each sample of those predicted that keep to them; infinite if none
  /// does. Without: 0, nothing is sought.
  double best_that_meets() const {
    if (!limited()) return 0;
    double out = INFINITY;
    for (const Entry& e : entries_) {
      const Machine& m = machines_[e.machine];
      if (m.report && candidate(e).meets())
        out = std::min(out, at_least(m, e.offer ? &*e.offer : nullptr, q_.aim));
    }
    return out;
  }

  std::size_t known() const {
    return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
      return machines_[e.machine].report.has_value();
    }));
  }

  /// The value for each sample of the last among the best `top` that have been predicted.
  double worst_of_top() const {
    std::vector<double> values;
    for (const Entry& e : entries_) {
      const Machine& m = machines_[e.machine];
      if (m.report) values.push_back(at_least(m, e.offer ? &*e.offer : nullptr, q_.aim));
    }
    std::sort(values.begin(), values.end());
    return values.size() < q_.top ? INFINITY : values[q_.top - 1];
  }

  void predict(Machine& m) const {
    const int64_t devices = m.way.candidate.devices;
    if (q_.failures && !m.question->failures) {
      try {
        const double read = answers::checkpoint_seconds(*m.question, devices);
        const FaultRates rates =
            fault_rates(m.question->system, static_cast<double>(devices) / static_cast<double>(m.nodes));
        const Failures f = failures(rates, Luck::expected, 0, read, true);
        *m.question = m.question->with({{"node-mtbf", hours(f.node_mtbf)},
                                        {"restart-time", fmt::format("{:.4g}s", f.restart.value_or(read))}},
                                       q_.hooks);
        m.faults = rates;
        m.question->timeline = false;
      } catch (const InputError& e) {
        m.without_failures = fmt::format("failures are left out: {}", e.what());
      }
    }
    m.report = answers::predict(*m.question, devices, Depth::fit);
    m.question->programs = std::make_shared<schemes::Programs>();
  }

  /// With the entry's offer; or of spot ones, which are taken away more and less often, with that which turns
  /// out best.
  PlanCandidate candidate(const Entry& e) const {
    const Machine& m = machines_[e.machine];
    PlanCandidate best = candidate(m, e.offer);
    if (!e.offer || e.offer->kind != OfferKind::spot) return best;
    for (const Offer& other : offers_for(m.question->system, q_.market.offers)) {
      if (other.kind != OfferKind::spot || other.name == e.offer->name) continue;
      if (!allows(other, m.nodes, m.way.candidate.devices)) continue;
      PlanCandidate c = candidate(m, other);
      if (std::pair(!c.meets(), c.value(q_.aim)) < std::pair(!best.meets(), best.value(q_.aim)))
        best = std::move(c);
    }
    return best;
  }

  PlanCandidate candidate(const Machine& m, const std::optional<Offer>& offer) const {
    PlanCandidate c;
    c.system = m.system;
    c.nodes = m.nodes;
    c.devices = m.way.candidate.devices;
    c.way = m.way;
    c.question = m.question;
    c.report = *m.report;
    c.way.rate = c.report.rate.samples_per_second;
    c.offer = offer;
    if (!m.without_failures.empty()) c.notes.push_back(m.without_failures);
    const auto& sets = m.question->sets;
    if (c.offer &&
        std::any_of(sets.begin(), sets.end(), [](const auto& set) { return set.first != "nodes"; }))
      c.notes.push_back("the price is of the machine as it is sold, without the changes that were set");
    const auto held = static_cast<int64_t>(m.question->system.accelerators().size()) * m.nodes;
    if (c.offer && c.offer->devices == 0 && (c.devices < held || m.question->given.has("place")))
      c.notes.push_back(fmt::format("whole nodes are paid for, and {} of their devices used", c.devices));
    if (!answers::learns_as_one(m.question->scheme))
      c.notes.push_back(fmt::format("{} makes stale or averaged updates: the same samples may train less",
                                    c.way.candidate.scheme));
    if (c.offer && c.offer->kind == OfferKind::spot && !m.faults)
      c.notes.push_back(fmt::format("that {} takes spot machines away is not counted: failures are {}",
                                    c.offer->seller, m.question->failures ? "those given" : "left out"));
    set_finish(m, c);
    if (c.failures) c.question = asked(c);
    if (q_.market.grid) c.carbon = carbon(*q_.market.grid, c.joules, q_.market.ownership.pue);
    if (c.cost) c.notes.insert(c.notes.end(), c.cost->notes.begin(), c.cost->notes.end());
    judge(q_.limits, c);
    return c;
  }

  /// The finish with its cost. Failures at their worst and best widen its bounds, as interruptions of spot
  /// machines do. Of a purchase with as many spare nodes as make it cheapest.
  void set_finish(const Machine& m, PlanCandidate& c) const {
    const schemes::TrainingProgress& p = *c.report.progress;
    if (!p.seconds && c.report.goodput && c.report.goodput->share < kNever)
      throw InputError(
          fmt::format("with these failures {} never gets done: a failure comes before a checkpoint "
                      "is written",
                      c.system));
    // What a sample is worth is said first, and only a loss needs it.
    if (!p.seconds)
      throw InputError(
          "the time to the target is unknown: " +
          (p.target == schemes::TrainingProgress::Target::loss ? p.unknown.at(0) : p.unknown.back()));
    const Estimate useful{p.seconds_low.value_or(*p.seconds), *p.seconds,
                          p.seconds_high.value_or(*p.seconds)};
    c.watts = power_of(c.report, m.question->system, installed(m, c)).wall();
    c.faults = m.faults;
    if (c.report.goodput) {
      c.useful = c.report.goodput->share;
      c.spares = c.report.goodput->spares;
    }
    int64_t most = c.bought() && c.faults ? kMostSpares : 0;
    if (q_.limits.racks)
      most = std::min(most, most_nodes(*q_.limits.racks, m.question->system.name()) - c.nodes);
    for (int64_t spares = 0; spares <= most; ++spares) {
      PlanCandidate with = c;
      with.finish = useful;
      if (c.faults) {
        with.spares = spares;
        delay(with);
      }
      price(with);
      if (spares > 0 && !(with.value(Aim::cheapest) < c.value(Aim::cheapest))) break;
      c = std::move(with);
    }
  }

  /// Devices in the machine, used or not: those that are paid for, and without a price those that were asked.
  static std::optional<int64_t> installed(const Machine& m, const PlanCandidate& c) {
    if (c.offer && c.offer->devices > 0) return devices_paid(*c.offer, c.devices);
    const int64_t asked = devices_of(m.system).second;
    return c.offer || asked == 0 ? std::nullopt : std::optional(asked);
  }

  /// Adds what failures cost to the finish, with checkpoints as often as loses least, and says them in the
  /// question.
  void delay(PlanCandidate& c) const {
    const FaultRates& rates = *c.faults;
    schemes::Goodput g = *c.report.goodput;
    const double before = g.share, read = std::max(0.0, g.restart - rates.restart.value);
    std::optional<SpotRates> spot;
    if (c.offer && c.offer->kind == OfferKind::spot) {
      spot = spot_rates();
      if (c.offer->interruptions) spot->interruptions = *c.offer->interruptions;
    }
    const auto of = [&](Luck luck) {
      Failures f = spot ? failures(rates, luck, *spot, read) : failures(rates, luck, 0, read, !c.bought());
      f.spares = c.spares;
      return f;
    };
    const Failures expected = of(Luck::expected);
    const double step =
        static_cast<double>(c.report.setup.samples_per_iteration) / c.report.rate.samples_per_second;
    const double mtbf = expected.node_mtbf / static_cast<double>(c.nodes);
    g.interval = step * std::max(1.0, std::round(answers::optimal_interval(g.checkpoint, mtbf) / step));
    const auto share = [&](Luck luck) { return std::max(kNever, useful_share(g, c.nodes, of(luck))); };
    const Estimate useful{share(Luck::worst), share(Luck::expected), share(Luck::best)};
    c.useful = useful.value;
    c.finish = c.finish * before / useful;
    c.failures = expected;
  }

  static std::string hours(double seconds) { return fmt::format("{:.6g}h", seconds / 3600); }

  /// The candidate's question with the failures that count for its offer.
  std::shared_ptr<const Question> asked(const PlanCandidate& c) const {
    const Failures& f = *c.failures;
    return std::make_shared<const Question>(
        c.question->with({{"node-mtbf", hours(f.node_mtbf)},
                          {"repair-time", f.repair > 0 ? hours(f.repair) : ""},
                          {"spares", f.spares > 0 ? std::to_string(f.spares) : ""}},
                         q_.hooks));
  }

  void price(PlanCandidate& c) const {
    c.joules = c.watts * c.finish;
    if (c.offer) c.cost = cost_of(q_.market.ownership, c, c.finish, c.joules);
  }

  /// Throws InputError if by their bounds all machines miss the deadline.
  void check_deadline() {
    if (!q_.limits.deadline || stopped()) return;
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < machines_.size(); ++i) {
      if (!machines_[i].possible()) continue;
      if (seconds_at_least(machines_[i]) <= *q_.limits.deadline) return;
      all.push_back(i);
    }
    refine(all);  // so that what is told is near the truth
    if (stopped()) return;
    const Machine* fastest = nullptr;
    double nodes = INFINITY;  // as if more of them lost nothing
    std::string of;
    for (const Machine& m : machines_) {
      if (!m.possible()) continue;
      const double needed =
          std::ceil(static_cast<double>(m.nodes) * seconds_at_least(m) / *q_.limits.deadline);
      if (needed < nodes) nodes = needed, of = m.system;
      if (fastest == nullptr || m.rate_at_most() > fastest->rate_at_most()) fastest = &m;
    }
    throw InputError(
        fmt::format("no machine asked about can keep to the deadline: at best {} of {} would do it in {}; at "
                    "least {} of {} are needed",
                    nodes_words(static_cast<double>(fastest->nodes)), fastest->system,
                    base::seconds_text(seconds_at_least(*fastest)), nodes_words(nodes), of));
  }
  static std::string nodes_words(double count) {
    return fmt::format("{:.{}g} node{}", count, count < 1e6 ? 6 : 3, count == 1 ? "" : "s");
  }

  Plan finish() {
    plan_.predicted = predicted_;
    plan_.interrupted = stopped();
    check_deadline();
    for (const Entry& e : entries_) {
      if (machines_[e.machine].report) plan_.ranked.push_back(candidate(e));
    }
    if (plan_.ranked.empty()) refuse();
    list_the_rest();
    rank(q_, plan_);
    return std::move(plan_);
  }

  /// What is left out, and of what no price is known.
  void list_the_rest() {
    for (const Machine& m : machines_) {
      if (!m.possible()) plan_.left_out.push_back({m.system, m.nodes, m.why_not});
    }
    std::set<std::size_t> unpriced;
    for (const Entry& e : entries_) {
      if (!e.offer) unpriced.insert(e.machine);
    }
    for (const std::size_t m : unpriced) {
      const std::string missing = fmt::format("price of {}", machines_[m].system);
      if (plan_.missing.empty() || plan_.missing.back() != missing) plan_.missing.push_back(missing);
    }
  }

  [[noreturn]] void refuse() const {
    if (stopped()) throw InputError("interrupted before a machine was predicted");
    std::string why;
    for (const Machine& m : machines_) {
      if (!m.possible())
        why = fmt::format("{}; for example {}, {} node{}: {}", "no machine asked about can train this",
                          m.system, m.nodes, m.nodes == 1 ? "" : "s", m.why_not);
    }
    throw InputError(why.empty() ? "no machine was asked about" : why);
  }

  bool stopped() const { return q_.stop != nullptr && *q_.stop; }
  void say(std::string_view text, std::size_t done, std::size_t all) const {
    if (q_.progress)
      q_.progress(text, static_cast<double>(done) / static_cast<double>(std::max<std::size_t>(all, 1)));
  }

  const PlanQuestion& q_;
  MachineSearch search_;
  Plan plan_;
  std::vector<Machine> machines_;
  std::vector<Entry> entries_;
  int64_t predicted_ = 0;
  std::size_t refined_ = 0;
};

}  // namespace

Plan make_plan(const PlanQuestion& question) { return Planner(question).run(); }

}  // namespace tandem::plan
