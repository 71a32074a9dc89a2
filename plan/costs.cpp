// SPDX-License-Identifier: Apache-2.0
// What a run costs under an offer.
#include <fmt/format.h>

#include "base/data.h"
#include "base/units.h"
#include "plan/offers.h"

namespace tandem::plan {

namespace {

/// How many times the price is paid.
double units_paid(const Offer& offer, int64_t nodes, int64_t devices) {
  return static_cast<double>(offer.devices == 0 ? nodes : devices_paid(offer, devices) / offer.devices);
}

void add_rent(const Offer& offer, double price, const Estimate& hours, Cost& out) {
  out.rent = hours * price;
  if (offer.committed_hours > hours.value) {
    out.commitment = price * offer.committed_hours;
    out.notes.push_back(fmt::format("the offer of {} must be paid for its whole term: {} USD", offer.seller,
                                    grouped(out.commitment->value)));
  }
  if (offer.kind == OfferKind::spot && !offer.interruptions)
    out.notes.push_back(fmt::format("no source says how often {} takes spot machines away", offer.seller));
}

/// `price`: of all that is bought.
void add_ownership(const Offer& offer, double price, int64_t nodes, const Estimate& hours,
                   const Estimate& joules, const Ownership& o, Cost& out) {
  Estimate machines = price;
  if (!offer.device.empty()) machines += o.host * static_cast<double>(nodes);
  if (nodes > 1) machines = machines * (Estimate{1} + o.network);
  machines = machines * (Estimate{1} + o.spares);
  out.outlay = machines;
  const Estimate years = hours / (o.busy * kHoursOfYear);
  out.capital =
      machines * rest_of(offer.residual.value_or(o.residual)) * years / offer.years.value_or(o.years);
  out.maintenance = machines * o.maintenance * years;
  const Estimate kwh = joules * (1 / 3.6e6);
  out.power = kwh * o.pue * o.power_price;
  out.hosting = kwh * (1 / kHoursOfMonth) * o.hosting / o.busy;
  if (!offer.device.empty())
    out.notes.push_back(o.host.value == 0 ? "the price is of cards alone: hosts are not in it"
                                          : "the price is of cards: that of their hosts is a rough figure");
  if (nodes > 1 && o.network.value == 0)
    out.notes.push_back("switches and cables between nodes are not in the price");
  if (!o.unsourced.empty()) out.notes.push_back(o.unsourced);
  if (o.hosting.value == 0) out.notes.push_back("space, cooling plant and staff are not in the price");
}

/// Returns whether the field is given with its source and date, or not at all.
bool replace_field(const Json& document, std::string_view key, double least, double most, Estimate& field) {
  const Json* given = document.find(key);
  if (given == nullptr) return true;
  if (!given->is_object()) {
    field = read_estimate(*given, least, most);
    return false;
  }
  given->only({"value", "date", "source", "note"});
  field = read_estimate(given->at("value"), least, most);
  if (const Json* date = given->find("date")) Date::parse(date->as_text(), date->place());
  return given->find("date") != nullptr && !given->text("source", "").empty();
}

}  // namespace

Ownership Ownership::from_json(const Json& document, const Ownership& base) {
  document.only({"summary", "years", "residual", "busy", "power_price", "pue", "hosting", "network",
                 "maintenance", "spares", "host"});
  Ownership out = base;
  struct Field {
    const char* key;
    double least, most;
    Estimate& value;
  };
  std::string unsourced;
  for (const Field& f : {Field{"years", 0.1, 100, out.years},
                         {"residual", 0, 1, out.residual},
                         {"busy", 0.001, 1, out.busy},
                         {"power_price", 0, 100, out.power_price},
                         {"pue", 1, 10, out.pue},
                         {"hosting", 0, 1e6, out.hosting},
                         {"network", 0, 100, out.network},
                         {"maintenance", 0, 10, out.maintenance},
                         {"spares", 0, 10, out.spares},
                         {"host", 0, 1e9, out.host}}) {
    if (!replace_field(document, f.key, f.least, f.most, f.value))
      unsourced += (unsourced.empty() ? "" : ", ") + std::string(f.key);
  }
  if (!unsourced.empty()) out.unsourced = "what owning costs has no source and date for its " + unsourced;
  return out;
}

Ownership Ownership::load() { return from_json(Json::load(data_root() + "/plan/ownership.json"), {}); }

int64_t devices_paid(const Offer& offer, int64_t devices) {
  TANDEM_CHECK(offer.devices > 0);
  const int64_t together = std::max(offer.devices, offer.multiple);  // one divides the other
  return (devices + together - 1) / together * together;
}

bool allows(const Offer& offer, int64_t nodes, int64_t devices) {
  if (offer.most_nodes > 0 && nodes > offer.most_nodes) return false;
  return offer.most_devices == 0 || devices <= nodes * offer.most_devices;
}

Cost cost_of(const Offer& offer, int64_t nodes, int64_t devices, const Estimate& seconds,
             const Estimate& joules, const Ownership& ownership) {
  TANDEM_CHECK(nodes >= 1 && devices >= nodes);
  Cost out;
  const Estimate hours = seconds * (1.0 / 3600);
  const double units = units_paid(offer, nodes, devices), price = offer.usd * units;
  const int64_t paid = offer.devices == 0 ? 0 : devices_paid(offer, devices);
  if (paid > devices)
    out.notes.push_back(
        fmt::format("{} devices are paid for, as {} sells them, and {} used", paid, offer.seller, devices));
  if (offer.kind == OfferKind::buy)
    add_ownership(offer, price, nodes, hours, joules, ownership, out);
  else
    add_rent(offer, price, hours, out);
  if (!offer.note.empty()) out.notes.push_back(offer.note);
  return out;
}

}  // namespace tandem::plan
