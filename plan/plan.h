// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plan: what to buy or rent for a training, how to train on it, when it is done and what it costs.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answers/answer.h"
#include "answers/way_search.h"
#include "plan/date.h"
#include "plan/estimate.h"
#include "plan/faults.h"
#include "plan/grid.h"
#include "plan/offers.h"
#include "plan/racks.h"

namespace tandem::plan {

using answers::Question;
using answers::Way;

/// What candidates are ranked by.
enum class Aim : uint8_t { soonest, cheapest, least_energy };
/// "soonest", "cheapest", "least-energy".
std::string_view to_text(Aim aim);

/// What a candidate must keep to; unset: anything goes.
struct Limits {
  std::optional<double> deadline;  ///< seconds from the start
  std::optional<double> budget;    ///< USD that must be at hand: Cost::needed()
  std::optional<double> power;     ///< watts at the wall of the machines
  std::optional<Racks> racks;      ///< that they must stand in
  bool any() const { return deadline || budget || power || racks; }
};

/// What machines cost.
struct Market {
  std::vector<Offer> offers;     ///< load_offers()
  bool rent = true, buy = true;  ///< which of them count
  bool spot = false;             ///< of rented ones, those that may be taken away, too
  Ownership ownership;
  Date today;
  std::optional<Grid> grid;  ///< for carbon
};

/// What is asked.
struct PlanQuestion {
  /// Options of the training by name, as Question::of() takes them: the model, a target (tokens, samples,
  /// epochs or target-loss), the optimiser and what else holds for every candidate. None of system, set of
  /// nodes, devices, scheme, batch, precision, recompute and offload.
  std::vector<std::pair<std::string, std::string>> training;
  answers::Hooks hooks = {};
  std::vector<std::string> systems;    ///< names or files; \"5090-2x:1\": of one node one device
  std::vector<int64_t> nodes = {1};    ///< of each system; more than one needs a network between nodes
  int64_t samples = 1024;              ///< in a step of all devices
  std::optional<Precision> precision;  ///< unset: the fastest of each machine that trains this model
  std::vector<std::string> schemes;    ///< empty: those that learn as one worker does
  Aim aim = Aim::soonest;
  Limits limits;
  Market market;
  bool failures = true;  ///< false: nothing fails
  std::size_t top = 5;   ///< candidates that are predicted and ranked, at least
  int threads = 1;       ///< do not change the result
  /// Called by one thread at a time. `share`: of the work that the text names, what is done.
  std::function<void(std::string_view text, std::optional<double> share)> progress = {};
  const std::atomic<bool>* stop = nullptr;
};

/// One machine with an offer for it, or without a price.
struct PlanCandidate {
  std::string system;
  int64_t nodes = 1, devices = 1;
  Way way;
  std::shared_ptr<const Question> question;  ///< predict() of it gives the rate of `report` and the finish
  /// answers::Depth::fit. Its goodput is that of a rented node on demand.
  schemes::Report report;
  std::optional<Offer> offer;
  int64_t spares = 0;  ///< nodes of a purchase that wait for another to fail
  Estimate finish;     ///< seconds, with what failures cost
  std::optional<Cost> cost;
  Estimate watts, joules;            ///< at the wall of the machines
  std::optional<Estimate> carbon;    ///< kg of CO2 equivalent
  std::optional<FaultRates> faults;  ///< published ones that count; unset: the training's own, or none
  std::optional<answers::Failures> failures;  ///< what these mean under the offer, as `question` has them
  double useful = 1;                          ///< share of the time that failures leave
  /// Probabilities of keeping to a limit; 1 where none is set.
  double in_time = 1, in_budget = 1, in_power = 1;
  std::vector<std::string> notes;
  bool bought() const { return offer && offer->kind == OfferKind::buy; }
  /// In the unit of the aim: seconds, USD or joules.
  double value(Aim aim) const;
  /// It keeps to all limits with 90 % probability.
  bool meets() const { return in_limits() >= 0.9; }
  double in_limits() const { return std::min({in_time, in_budget, in_power}); }
};

/// A machine that is no candidate.
struct LeftOut {
  std::string system;
  int64_t nodes = 1;
  std::string why;
};

/// What would make the second candidate the first, one thing changed at a time.
struct BreakEven {
  std::string what;   ///< "price of 1 x dgx-h100 (buy)"
  double factor = 1;  ///< it must be this many times what it is
};

/// An input, and how much the ratio of the second's value to the first's moves within its bounds.
struct Influence {
  std::string what;
  double low = 1, high = 1;  ///< the ratio; above 1 the first is better
};

struct Plan {
  /// Those that meet the limits first, each part ranked by the aim; no two with the same system, nodes and
  /// offer.
  std::vector<PlanCandidate> ranked;
  std::optional<std::size_t> smallest;    ///< of `ranked`: fewest devices that meets the limits
  std::vector<std::size_t> pareto;        ///< of `ranked`: none is both sooner and cheaper
  std::vector<std::size_t> pareto_watts;  ///< none is both sooner and draws less
  std::optional<double> first_beats_second;
  std::vector<Influence> influences;  ///< on the first two, largest first
  std::vector<BreakEven> break_even;
  std::vector<LeftOut> left_out;
  int64_t priced = 0;  ///< machines and numbers of nodes
  int64_t ways = 0;    ///< to train on them
  int64_t predicted = 0;
  std::vector<std::string> missing;  ///< "price of h100-superpod"
  bool interrupted = false;
};

/// "1,2,4", "1..512" (powers of two, and half-way between them three quarters of the next; the end itself),
/// or both mixed. Increasing, none twice. Throws InputError.
std::vector<int64_t> parse_nodes(std::string_view text, const Place& place = {});

/// "100k", "2MUSD", "8,000 USD": US dollars above 0. Throws InputError: another currency, which is not
/// converted, with what is known of it.
double parse_dollars(std::string_view text, const Place& place = {});

}  // namespace tandem::plan
