// SPDX-License-Identifier: Apache-2.0
#include "plan/offers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/data.h"

namespace tandem::plan {

namespace {

constexpr std::string_view kOffers = "plan/offers";

/// What a document says for all its offers.
struct Common {
  const Json& document;
  const Date& today;
  std::map<std::string, double> in_usd = {{"USD", 1}};  ///< by currency
};

/// The entry's own value, else that of the document.
const Json& own_or_common(const Json& entry, const Common& common, std::string_view key) {
  if (const Json* own = entry.find(key)) return *own;
  if (const Json* shared = common.document.find(key)) return *shared;
  return entry.at(key);
}

/// A text that is printed: without what controls a terminal.
std::string read_words(const Json& json) {
  const std::string& text = json.as_text();
  if (std::any_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
    json.fail(fmt::format("\"{}\" has control characters: write one line of plain text", printable(text)));
  if (text.find_first_not_of(' ') == std::string::npos) json.fail("must not be empty");
  return text;
}

Date read_date(const Json& json, const Date& today) {
  const Date date = Date::parse(json.as_text(), json.place());
  if (days_between(date, today) < 0)
    json.fail(fmt::format("{} is after today ({})", date.text(), today.text()));
  return date;
}

void read_exchange(const Json& json, Common& common) {
  if (const Json* usd = json.find("USD")) usd->fail("prices are kept in USD: it has no rate of exchange");
  for (const auto& [currency, rate] : json.members()) {
    rate.only({"usd", "date", "source"});
    read_date(rate.at("date"), common.today);
    rate.at("source").as_text();
    common.in_usd[currency] = rate.at("usd").as_real(1e-9, 1e6);
  }
}

OfferKind read_kind(const Json& json) {
  const std::vector<std::string> kinds = {"on-demand", "reserved", "spot", "buy"};
  const auto found = std::find(kinds.begin(), kinds.end(), json.as_text());
  if (found == kinds.end())
    json.fail(fmt::format("\"{}\" is no kind of offer.{} Valid: {}", printable(json.as_text()),
                          did_you_mean(json.as_text(), kinds), "on-demand, reserved, spot, buy"));
  return static_cast<OfferKind>(found - kinds.begin());
}

/// The name of a shipped system or device, or that inside a file whose path counts from the offers' file.
std::string read_product(const Json& json, std::string_view folder, std::string_view what) {
  const std::string& given = json.as_text();
  std::string file = find_data(folder, what, given, json.place());
  if (file != given) return std::filesystem::path(file).stem().string();
  const std::filesystem::path path(given);
  if (path.is_relative() && json.place().file)
    file = (std::filesystem::path(*json.place().file).parent_path() / path).string();
  std::error_code none;
  if (!std::filesystem::exists(file, none))
    json.fail(fmt::format("there is no file \"{}\" of a {}; a path counts from the offers' file",
                          printable(given), what));
  return Json::load(file).at("name").as_text();
}

void read_price(const Json& entry, const Common& common, Offer& out) {
  const Json *rent = entry.find("per_hour"), *capital = entry.find("capital");
  if (rent != nullptr && capital != nullptr)
    capital->fail("an offer has either \"per_hour\" (rent) or \"capital\" (to buy)");
  const bool buy = out.kind == OfferKind::buy;
  if (const Json* other = buy ? rent : capital)
    other->fail(fmt::format("does not belong to an offer of kind \"{}\": give \"{}\"", to_text(out.kind),
                            buy ? "capital" : "per_hour"));
  const Json& price = entry.at(buy ? "capital" : "per_hour");
  if (!(price.as_real() > 0)) price.fail("a price must be above 0");
  const double amount = price.as_real(1e-6, 1e10);
  std::string currency = "USD";
  Place place = price.place();
  if (const Json* given = entry.find("currency")) currency = given->as_text(), place = given->place();
  const auto rate = common.in_usd.find(currency);
  if (rate == common.in_usd.end()) {
    std::vector<std::string> known;
    for (const auto& [name, usd] : common.in_usd) known.push_back(name);
    throw InputError(
        place, fmt::format("no rate of exchange for \"{}\".{} Known here: {}; others need an entry in "
                           "\"exchange\", such as \"EUR\": {{\"usd\": 1.1, \"date\": ..., \"source\": ...}}",
                           printable(currency), did_you_mean(currency, known), fmt::join(known, ", ")));
  }
  out.usd = amount * rate->second;
  out.as_given = fmt::format("{} {}", amount, currency);
}

/// Refuses a field that only offers of another kind have.
void only_of(const Json& entry, bool has, std::string_view key, std::string_view kind) {
  const Json* field = entry.find(key);
  if (field != nullptr && !has) field->fail(fmt::format("belongs to offers of kind \"{}\" alone", kind));
}

/// How many devices are sold together and stand in a node.
void read_amounts(const Json& entry, Offer& out) {
  out.devices = entry.integer("devices", out.device.empty() ? 0 : 1, 1, 1'000'000);
  out.multiple = entry.integer("multiple", 1, 1, 1'000'000);
  out.most_nodes = entry.integer("most_nodes", 0, 1, 10'000'000);
  out.most_devices = entry.integer("most_devices", 0, 1, 1'000'000);
  if (out.devices == 0 && out.multiple > 1)
    entry.at("multiple").fail("the price is of a whole node: say of how many devices with \"devices\"");
  if (out.multiple > 1 && out.multiple % out.devices != 0 && out.devices % out.multiple != 0)
    entry.at("multiple")
        .fail(fmt::format("a price of {} devices is not one of multiples of {}: one must divide the other",
                          out.devices, out.multiple));
  if (const int64_t least = std::max(out.devices, out.multiple);
      out.most_devices > 0 && out.most_devices < least)
    entry.at("most_devices")
        .fail(fmt::format("a node has {} at most, but {} are sold together", out.most_devices, least));
}

Offer read_offer(const std::string& name, const Json& entry, const Common& common) {
  entry.only({"seller", "system", "device", "kind", "currency", "per_hour", "capital", "devices", "multiple",
              "most_nodes", "most_devices", "interruptions_per_hour", "committed_months", "years", "residual",
              "date", "source", "note"});
  Offer out;
  out.name = name;
  out.place = entry.place();
  out.seller = read_words(own_or_common(entry, common, "seller"));
  out.kind = read_kind(entry.at("kind"));
  const Json *system = entry.find("system"), *device = entry.find("device");
  if ((system == nullptr) == (device == nullptr))
    (device != nullptr ? *device : entry).fail("an offer is of a \"system\" or of a \"device\"");
  if (system != nullptr) out.system = read_product(*system, "topologies/systems", "system");
  if (device != nullptr) out.device = read_product(*device, "topologies/devices", "device");
  read_price(entry, common, out);
  read_amounts(entry, out);
  only_of(entry, out.kind == OfferKind::spot, "interruptions_per_hour", "spot");
  only_of(entry, out.kind == OfferKind::reserved, "committed_months", "reserved");
  only_of(entry, out.kind == OfferKind::buy, "years", "buy");
  only_of(entry, out.kind == OfferKind::buy, "residual", "buy");
  if (const Json* rate = entry.find("interruptions_per_hour")) out.interruptions = rate->as_real(0, 1000);
  out.committed_hours = kHoursOfMonth * entry.real("committed_months", 0, 0, 1200);
  if (const Json* years = entry.find("years")) out.years = read_estimate(*years, 0.1, 100);
  if (const Json* residual = entry.find("residual")) out.residual = read_estimate(*residual, 0, 1);
  out.date = read_date(own_or_common(entry, common, "date"), common.today);
  out.source = read_words(own_or_common(entry, common, "source"));
  if (const Json* note = entry.find("note")) out.note = read_words(*note);
  return out;
}

}  // namespace

std::string_view to_text(OfferKind kind) {
  switch (kind) {
    case OfferKind::on_demand:
      return "on-demand";
    case OfferKind::reserved:
      return "reserved";
    case OfferKind::spot:
      return "spot";
    case OfferKind::buy:
      return "buy";
  }
  return "";
}

std::vector<Offer> offers_from_json(const Json& document, const Date& today) {
  document.only({"summary", "seller", "date", "source", "exchange", "offers"});
  Common common{document, today};
  if (const Json* exchange = document.find("exchange")) read_exchange(*exchange, common);
  std::vector<Offer> out;
  for (const auto& [name, entry] : document.at("offers").members())
    out.push_back(read_offer(printable(name), entry, common));
  return out;
}

std::vector<Offer> load_offers(const std::vector<std::string>& files, const Date& today) {
  std::map<std::string, Offer> by_name;
  const auto add = [&](const std::string& file) {
    for (Offer& offer : offers_from_json(Json::load(file), today)) by_name[offer.name] = std::move(offer);
  };
  const Date end{9999};
  for (const std::string& name : list_data(kOffers)) {
    for (Offer& offer : offers_from_json(Json::load(find_data(kOffers, "offer", name)), end))
      if (days_between(offer.date, today) >= 0) by_name[offer.name] = std::move(offer);
  }
  for (const std::string& file : files) add(file);
  std::vector<Offer> out;
  for (auto& [name, offer] : by_name) out.push_back(std::move(offer));
  return out;
}

std::vector<Offer> offers_for(const System& system, const std::vector<Offer>& offers) {
  std::vector<Offer> out;
  std::copy_if(offers.begin(), offers.end(), std::back_inserter(out), [&](const Offer& offer) {
    if (!offer.system.empty()) return offer.system == system.name();
    for (std::size_t kind = 0; kind < system.kinds().size(); ++kind) {
      for (const uint32_t local : system.accelerators(kind)) {
        const int32_t device = system.vertices(kind)[local].device;
        if (system.devices()[static_cast<std::size_t>(device)].name != offer.device) return false;
      }
    }
    return true;
  });
  return out;
}

std::string describe(const Offer& offer, const Date& today) {
  const bool buy = offer.kind == OfferKind::buy;
  std::string of = offer.devices == 0 ? "a node" : "a device";
  if (offer.devices > 1) of = fmt::format("{} devices", offer.devices);
  return fmt::format("{}, {} {}: {}{} for {}; price of {}, {}", offer.seller,
                     offer.system.empty() ? offer.device : offer.system, buy ? "to buy" : to_text(offer.kind),
                     offer.as_given, buy ? "" : "/h", of, offer.date.text(), age_text(offer.date, today));
}

}  // namespace tandem::plan
