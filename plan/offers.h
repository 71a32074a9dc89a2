// SPDX-License-Identifier: Apache-2.0
#pragma once
// What machines cost: offers of sellers as data (plan/offers/*.json and files of the user), and what a run on
// one of them costs. Knows no model and predicts nothing.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "plan/date.h"
#include "plan/estimate.h"
#include "topologies/system.h"

namespace tandem::plan {

enum class OfferKind : uint8_t { on_demand, reserved, spot, buy };
/// "on-demand", "reserved", "spot", "buy".
std::string_view to_text(OfferKind kind);

/// A price with its date and source. Of a system of Tandem, or of a device alone (a card): then host, network
/// and the work of joining them are not in it.
struct Offer {
  std::string name, seller;
  std::string system, device;  ///< names in topologies/systems or topologies/devices: one of them is empty
  OfferKind kind = OfferKind::on_demand;
  double usd = 0;        ///< an hour, or once where kind is buy; in US dollars, without tax
  std::string as_given;  ///< the price as its source says it: "3.2 EUR"
  int64_t devices = 0;   ///< that the price is of; 0: of a node of the system with all it has
  int64_t multiple = 1;  ///< devices are sold in multiples of this
  /// That can be had, and devices in one node; 0: the source names no limit.
  int64_t most_nodes = 0, most_devices = 0;
  std::optional<double> interruptions = {};  ///< of a spot offer: an hour and node
  double committed_hours = 0;                ///< of a reservation: the least that is paid for
  /// Of a purchase, where they differ from Ownership's.
  std::optional<Estimate> years = {}, residual = {};
  Date date;
  std::string source, note;
  Place place;  ///< of its entry
};

inline constexpr double kHoursOfYear = 365.25 * 24, kHoursOfMonth = kHoursOfYear / 12;

/// What owning a machine costs besides its price. Defaults and their sources are in plan/ownership.json; what
/// nobody publishes is 0 there and named by Cost::notes.
struct Ownership {
  Estimate years = 4;        ///< of use, after which `residual` is left
  Estimate residual = 0;     ///< share of the price
  Estimate busy = 1;         ///< share of these years in which somebody trains
  Estimate power_price;      ///< USD/kWh
  Estimate pue = 1;          ///< energy of the whole building over that of its machines
  Estimate hosting = 0;      ///< USD for a kW of machines and a month: space, cooling, staff
  Estimate network = 0;      ///< switches and cables of several nodes, as a share of their price
  Estimate maintenance = 0;  ///< a year, as a share of the machines' price
  Estimate spares = 0;       ///< machines kept for failures, as a share of those that train
  Estimate host = 0;         ///< USD for a node that takes bought cards
  std::string unsourced;     ///< remark on fields that were given without source and date; "" if none
  /// Of plan/ownership.json.
  static Ownership load();
  /// Of a document like that: its fields replace those of `base`. Throws InputError.
  static Ownership from_json(const Json& document, const Ownership& base);
};

/// Of one run.
struct Cost {
  Money rent, capital, power, hosting, maintenance;
  /// What a purchase costs when it is made: machines with their hosts, network and spares. `capital` counts
  /// the run's share of it. 0 where nothing is bought.
  Money outlay;
  /// Of a reservation that is longer than the run: what all of it costs. `rent` counts the run alone.
  std::optional<Money> commitment;
  std::vector<std::string> notes;  ///< what is not in the price, one sentence each
  Money total() const { return rent + capital + power + hosting + maintenance; }
  /// What must be at hand for the run: the outlay in place of its share, and all of a commitment.
  Money needed() const { return commitment.value_or(rent) + outlay + power + hosting + maintenance; }
};

/// What `nodes` nodes with `devices` devices in all cost for `seconds`, in which they draw `joules` at the
/// wall (without PUE). Whole nodes are paid where the offer is of nodes. Rent includes power. A purchase pays
/// its share of the years that the machine is used, power at the meter, hosting and maintenance; interest and
/// tax are left out. Requires nodes >= 1 and devices >= nodes.
Cost cost_of(const Offer& offer, int64_t nodes, int64_t devices, const Estimate& seconds,
             const Estimate& joules, const Ownership& ownership);

/// Devices that are paid for where `devices` are used. Requires a price of devices.
int64_t devices_paid(const Offer& offer, int64_t devices);

/// Whether that many can be had, as far as the offer says.
bool allows(const Offer& offer, int64_t nodes, int64_t devices);

/// The shipped offers, then those of `files` in order: a later one replaces an earlier one of the same name.
/// Shipped prices after `today` are left out. Sorted by name. Throws InputError with file:line:column:
/// unknown keys, kinds, systems, devices and currencies with the nearest name; prices that are not above 0; a
/// price for rent and one to buy, or neither; fields that do not belong to the kind; dates that are none, or
/// after `today`.
std::vector<Offer> load_offers(const std::vector<std::string>& files, const Date& today);
/// Of one document of offers, in its order.
std::vector<Offer> offers_from_json(const Json& document, const Date& today);

/// Those that sell this system: by its name, or its devices (accelerators) by theirs. What was set in the
/// system (--set) makes no difference.
std::vector<Offer> offers_for(const System& system, const std::vector<Offer>& offers);

/// "AWS, p5.48xlarge on-demand: 55.04 USD/h for a node; price of 2025-03-01, 20 months old".
std::string describe(const Offer& offer, const Date& today);

}  // namespace tandem::plan
