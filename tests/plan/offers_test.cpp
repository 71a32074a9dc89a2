// SPDX-License-Identifier: Apache-2.0
// Offers as they ship, as a user writes them, and what runs cost under them.
#include "plan/offers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::tests {
namespace {

using namespace plan;
using testing::HasSubstr;

const Date kToday{2026, 11, 29};

Json offers_of(const std::string& entry) {
  return Json::parse("{\"offers\": {\"mine\": " + entry + "}}", "offers.json");
}

Offer one(const std::string& entry) { return offers_from_json(offers_of(entry), kToday).at(0); }

/// An offer of a node with other fields in place of `price`.
std::string entry_of(const std::string& fields) {
  return R"({"seller": "me", "system": "dgx-h100", "date": "2026-03", "source": "a quote", )" + fields + "}";
}

std::string error_of(const std::string& entry) {
  try {
    one(entry);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Offers, ShippedOnesAreReadAndSourced) {
  const auto offers = load_offers({}, kToday);
  EXPECT_GT(offers.size(), 100u);
  for (const Offer& offer : offers) {
    EXPECT_GT(offer.source.size(), 10u) << offer.name;
    EXPECT_GT(offer.usd, 0) << offer.name;
    EXPECT_NE(offer.system.empty(), offer.device.empty()) << offer.name;
    EXPECT_TRUE(allows(offer, 1, 1)) << offer.name;
  }
}

TEST(Offers, AreFoundForASystem) {
  const auto all = load_offers({}, kToday);
  for (const char* system :
       {"dgx-h100", "hgx-h200", "dgx-a100", "dgx-b200", "p5.48xlarge", "h100-pcie-8x", "5090-2x",
        "4090-pcie-8x", "l40s-pcie-8x", "3090-pcie", "azure-nc-h100-v5", "dgx1-v100"})
    EXPECT_FALSE(offers_for(System::load(system), all).empty()) << system;
  for (const Offer& offer : offers_for(System::load("p5.48xlarge"), all)) EXPECT_EQ(offer.seller, "AWS");
  for (const Offer& offer : offers_for(System::load("5090-2x"), all)) EXPECT_EQ(offer.device, "rtx-5090");
  EXPECT_TRUE(offers_for(System::load("zenith"), all).empty());
}

TEST(Offers, OfTheUserReplaceShippedOnes) {
  const std::string folder = testing::TempDir();
  const std::string file = folder + "/mine.json";
  base::write_file(file,
                   R"({"offers": {"aws-p5": {"seller": "AWS", "system": "p5.48xlarge", "kind": "reserved",
    "per_hour": 40, "committed_months": 12, "date": "2026-11-01", "source": "our contract"}}})");
  const auto shipped = load_offers({}, kToday), all = load_offers({file}, kToday);
  EXPECT_EQ(all.size(), shipped.size());
  const auto mine = std::find_if(all.begin(), all.end(), [](const Offer& o) { return o.name == "aws-p5"; });
  ASSERT_NE(mine, all.end());
  EXPECT_EQ(mine->usd, 40);
  EXPECT_EQ(mine->kind, OfferKind::reserved);
  EXPECT_NEAR(mine->committed_hours, 8766, 1);
}

TEST(Offers, MayBeOfTheUsersOwnSystem) {
  const std::string folder = testing::TempDir();
  base::write_file(folder + "/box.json", R"({"name": "my-box"})");
  const auto product = [&](const std::string& system) {
    const std::string text =
        R"({"offers": {"x": {"seller": "me", "kind": "buy", "capital": 9000, "date": "2026",
      "source": "a bill", "system": ")" +
        system + "\"}}}";
    return offers_from_json(Json::parse(text, folder + "/mine.json"), kToday).at(0).system;
  };
  EXPECT_EQ(product("./box.json"), "my-box");
  EXPECT_EQ(product("DGX-H100"), "dgx-h100");
  EXPECT_THROW(product("./none.json"), InputError);
}

TEST(Offers, OtherCurrenciesNeedARate) {
  const Json document = Json::parse(
      R"({"exchange": {"EUR": {"usd": 1.25, "date": "2026-11-01", "source": "a bank"}}, "offers": {"x": {
      "seller": "me", "system": "dgx-h100", "kind": "on-demand", "per_hour": 20, "currency": "EUR",
      "date": "2026-11", "source": "a quote"}}})",
      "offers.json");
  const Offer offer = offers_from_json(document, kToday).at(0);
  EXPECT_DOUBLE_EQ(offer.usd, 25);
  EXPECT_EQ(offer.as_given, "20 EUR");
  EXPECT_EQ(describe(offer, kToday),
            "me, dgx-h100 on-demand: 20 EUR/h for a node; price of 2026-11, 28 days old");
}

TEST(Offers, ContradictionsAreRefused) {
  EXPECT_EQ(error_of(entry_of(R"("kind": "spot", "per_hour": 20)")), "");  // cost_of() remarks on it
  EXPECT_THAT(error_of(entry_of(R"("kind": "on-demand", "per_hour": -1)")), HasSubstr("offers.json:1:"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "on-demand", "per_hour": 0)")), HasSubstr("above 0"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "buy", "per_hour": 1, "capital": 5)")), HasSubstr("either"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "buy", "per_hour": 1)")), HasSubstr("give \"capital\""));
  EXPECT_THAT(error_of(entry_of(R"("kind": "spot", "capital": 1)")), HasSubstr("give \"per_hour\""));
  EXPECT_THAT(error_of(entry_of(R"("kind": "buy")")), HasSubstr("capital"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "on demand", "per_hour": 1)")), HasSubstr("mean on-demand"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "spot", "per_hour": 1, "currency": "USE")")),
              HasSubstr("mean USD"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "spot", "per_hour": 1, "years": 3)")), HasSubstr("\"buy\" alone"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "buy", "capital": 1, "interruptions_per_hour": 3)")),
              HasSubstr("\"spot\" alone"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "spot", "per_hour": 1, "device": "l40s")")),
              HasSubstr("\"system\" or"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "spot", "per_huor": 1)")), HasSubstr("per_hour"));
  const std::string amounts = R"("kind": "on-demand", "per_hour": 1, "devices": )";
  EXPECT_THAT(error_of(entry_of(amounts + R"(3, "multiple": 2)")), HasSubstr("one must divide the other"));
  EXPECT_THAT(error_of(entry_of(amounts + R"(2, "multiple": 4, "most_devices": 2)")),
              HasSubstr("a node has 2 at most, but 4 are sold together"));
  EXPECT_EQ(error_of(entry_of(amounts + R"(2, "multiple": 4, "most_devices": 8)")), "");
  EXPECT_THAT(error_of(entry_of(R"("kind": "spot", "per_hour": 1, "multiple": 2)")),
              HasSubstr("a whole node"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "on-demand", "per_hour": 1e-308)")), HasSubstr("offers.json:1:"));
  EXPECT_THAT(error_of(entry_of(R"("kind": "spot", "per_hour": 1, "note": "a\u001b[31m")")),
              HasSubstr("control characters"));
  EXPECT_THAT(error_of(R"({"seller": " ", "system": "dgx-h100", "kind": "spot", "per_hour": 1, "date": "2026",
                          "source": "a quote"})"),
              HasSubstr("must not be empty"));
  const std::string other = R"({"seller": "me", "kind": "spot", "per_hour": 1, "source": "a quote", )";
  EXPECT_THAT(error_of(other + R"("system": "dgx-h1000", "date": "2026"})"), HasSubstr("dgx-h100"));
  EXPECT_THAT(error_of(other + R"("system": "dgx-h100", "date": "2027-01"})"), HasSubstr("after today"));
  EXPECT_THAT(error_of(other + R"("system": "dgx-h100", "date": "March"})"), HasSubstr("no date"));
  EXPECT_THAT(error_of(other + R"("system": "dgx-h100"})"), HasSubstr("date"));
}

TEST(Dates, AreReadAndCompared) {
  EXPECT_EQ(Date::parse("2024-02-29"), (Date{2024, 2, 29}));
  EXPECT_EQ(Date::parse("2026"), (Date{2026, 0, 0}));
  for (const char* wrong : {"2023-02-29", "2023-13", "23-1-1", "2023-1-1", "", "2023-", "1969",
                            "2023-01-01-01", "2023-01-00", "-023-01"})
    EXPECT_THROW(Date::parse(wrong), InputError) << wrong;
  EXPECT_EQ(age_text(Date::parse("2025-03-01"), kToday), "20 months old");
  EXPECT_EQ(age_text(Date::parse("2026-11-28"), kToday), "1 day old");
  EXPECT_EQ(age_text(kToday, kToday), "today");
  EXPECT_EQ(age_text(Date::parse("2017-07-01"), kToday), "9 years old");
}

TEST(Costs, OfRentAreUnitsTimesHours) {
  const Offer node = one(entry_of(R"("kind": "on-demand", "per_hour": 30)"));
  const Estimate day{20 * 3600, 24 * 3600, 30 * 3600};
  EXPECT_DOUBLE_EQ(cost_of(node, 4, 32, day, 1e9, {}).total().value, 30 * 4 * 24);
  EXPECT_DOUBLE_EQ(cost_of(node, 4, 32, day, 1e9, {}).total().low, 30 * 4 * 20);
  const Offer device = one(entry_of(R"("kind": "on-demand", "per_hour": 3, "devices": 1, "multiple": 8)"));
  EXPECT_DOUBLE_EQ(cost_of(device, 1, 4, day, 1e9, {}).total().value, 3 * 8 * 24);
  EXPECT_DOUBLE_EQ(cost_of(device, 2, 16, day, 1e9, {}).total().value, 3 * 16 * 24);
  const Offer four = one(entry_of(R"("kind": "on-demand", "per_hour": 3, "devices": 4)"));
  EXPECT_DOUBLE_EQ(cost_of(four, 1, 5, day, 1e9, {}).total().value, 3 * 2 * 24);
}

TEST(Costs, OfAReservationSayWhatAllOfItCosts) {
  const Offer offer = one(entry_of(R"("kind": "reserved", "per_hour": 10, "committed_months": 12)"));
  const Cost cost = cost_of(offer, 1, 8, 3600, 0, {});
  EXPECT_DOUBLE_EQ(cost.total().value, 10);
  ASSERT_TRUE(cost.commitment);
  EXPECT_NEAR(cost.commitment->value, 87660, 1);
}

TEST(Costs, OfAPurchaseAreItsShareOfYears) {
  const Offer offer = one(entry_of(R"("kind": "buy", "capital": 87660, "years": 1)"));
  Ownership o;
  o.power_price = 0.1;
  o.pue = 1.5;
  const Cost cost = cost_of(offer, 1, 8, 3600, 3.6e7, o);  // an hour at 10 kW
  EXPECT_NEAR(cost.capital.value, 10, 1e-9);
  EXPECT_NEAR(cost.power.value, 1.5, 1e-9);
  EXPECT_EQ(cost.rent.value, 0);
  Ownership half = o;
  half.residual = 0.5, half.busy = 0.5;
  EXPECT_NEAR(cost_of(offer, 1, 8, 3600, 3.6e7, half).capital.value, 10, 1e-9);
  EXPECT_THAT(cost_of(offer, 2, 16, 3600, 3.6e7, o).notes, testing::Contains(HasSubstr("switches")));
  Ownership with_network = o;
  with_network.network = 0.1;
  EXPECT_NEAR(cost_of(offer, 1, 8, 3600, 3.6e7, with_network).capital.value, 10, 1e-9);
  EXPECT_NEAR(cost_of(offer, 2, 16, 3600, 3.6e7, with_network).capital.value, 22, 1e-9);
}

TEST(Costs, OfAnOwnedH100ServerAreBelowItsRent) {
  const auto all = load_offers({}, kToday);
  const Ownership ownership = Ownership::load();
  const auto per_hour = [&](const std::string& name) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Offer& o) { return o.name == name; });
    return cost_of(*found, 1, 8, 3600, 7000.0 * 3600, ownership).total();
  };
  const Money own = per_hour("hgx-h100-box"), rent = per_hour("coreweave-h100");
  EXPECT_GT(own.value, 5);
  EXPECT_LT(own.value, rent.value);
  EXPECT_LT(own.low, own.value);
}

TEST(Costs, NameWhatIsMissing) {
  const Offer spot = one(entry_of(R"("kind": "spot", "per_hour": 10)"));
  EXPECT_THAT(cost_of(spot, 1, 8, 3600, 0, {}).notes,
              testing::ElementsAre(HasSubstr("takes spot machines away")));
  const Offer told = one(entry_of(R"("kind": "spot", "per_hour": 10, "interruptions_per_hour": 0.1)"));
  EXPECT_TRUE(cost_of(told, 1, 8, 3600, 0, {}).notes.empty());
}

TEST(Ownerships, OfTheUserReplaceFields) {
  const Ownership base = Ownership::load();
  const Json document = Json::parse(R"({"years": 4, "pue": [1.1, 1.2, 1.3]})", "own.json");
  const Ownership mine = Ownership::from_json(document, base);
  EXPECT_EQ(mine.years, Estimate(4));
  EXPECT_EQ(mine.pue, Estimate(1.1, 1.2, 1.3));
  EXPECT_EQ(mine.maintenance, base.maintenance);
  EXPECT_EQ(base.unsourced, "");
  EXPECT_EQ(mine.unsourced, "what owning costs has no source and date for its years, pue");
  const Json sourced =
      Json::parse(R"({"years": {"value": 4, "date": "2026-01", "source": "our books"}})", "own.json");
  EXPECT_EQ(Ownership::from_json(sourced, base).unsourced, "");
  for (const char* wrong : {R"({"pue": 0.9})", R"({"pue": {"value": 1.2, "date": "May", "source": "x"}})",
                            R"({"years": 0})", R"({"yaers": 3})", R"({"pue": [1.3, 1.2, 1.1]})"})
    EXPECT_THROW(Ownership::from_json(Json::parse(wrong, "own.json"), base), InputError) << wrong;
}

}  // namespace
}  // namespace tandem::tests
