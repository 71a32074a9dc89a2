// SPDX-License-Identifier: Apache-2.0
// Plans: every machine is asked the same work, ranked by what was asked, with probabilities that follow from
// the bounds.
#include "plan/planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/plan_rank.h"
#include "plan/power.h"

namespace tandem::tests {
namespace {

using namespace plan;
using testing::ElementsAre;
using testing::HasSubstr;

PlanQuestion question(std::vector<std::string> systems, std::vector<int64_t> nodes = {1}) {
  PlanQuestion q;
  q.training = {{"model", "resnet50"}, {"epochs", "90"}, {"epoch-samples", "1281167"}};
  q.systems = std::move(systems);
  q.nodes = std::move(nodes);
  q.samples = 256;
  q.market.today = {2026, 11, 29};
  q.market.offers = load_offers({}, q.market.today);
  q.market.ownership = Ownership::load();
  return q;
}

TEST(Plan, EveryMachineIsAskedTheSameWork) {
  const Plan plan = make_plan(question({"dgx1-v100", "dgx-a100"}, {1, 2}));
  ASSERT_GE(plan.ranked.size(), 3u);
  for (const PlanCandidate& c : plan.ranked) {
    EXPECT_EQ(c.report.setup.samples_per_iteration, 256);
    EXPECT_EQ(*c.report.progress->samples, 90 * 1281167.0);
    EXPECT_TRUE(c.report.fits);
    EXPECT_EQ(c.devices, 8 * c.nodes);
    EXPECT_LT(c.finish.low, c.finish.value);
    EXPECT_LT(c.finish.value, c.finish.high);
  }
}

TEST(Plan, IsRankedByItsAim) {
  for (const Aim aim : {Aim::soonest, Aim::cheapest, Aim::least_energy}) {
    PlanQuestion q = question({"dgx1-v100", "dgx-a100", "dgx-h100"}, {1, 2});
    q.aim = aim;
    const Plan plan = make_plan(q);
    for (std::size_t i = 1; i < plan.ranked.size(); ++i)
      EXPECT_LE(plan.ranked[i - 1].value(aim), plan.ranked[i].value(aim)) << to_text(aim);
    if (plan.first_beats_second) EXPECT_GE(*plan.first_beats_second, 0.5);
  }
}

TEST(Plan, WhatDecidesCountsByTheSideThatChangesTheOrder) {
  PlanQuestion q = question({"dgx1-v100", "dgx-a100", "dgx-h100"}, {1, 2});
  q.aim = Aim::cheapest;
  const Plan plan = make_plan(q);
  ASSERT_TRUE(plan.first_beats_second);
  const double ratio = plan.ranked[1].value(q.aim) / plan.ranked[0].value(q.aim);
  double variance = 0, widest = 0;
  for (const plan::Influence& i : plan.influences) {
    variance += std::pow(std::log(ratio / i.low), 2);
    widest = std::max(widest, std::abs(std::log(i.low * i.high / ratio / ratio)));
  }
  EXPECT_GT(widest, 0.01) << "one side is wider";
  EXPECT_NEAR(*plan.first_beats_second, 0.5 * std::erfc(-1.645 * std::log(ratio) / std::sqrt(2 * variance)),
              1e-9);
}

TEST(Plan, DoesNotDependOnThreads) {
  PlanQuestion one = question({"dgx1-v100", "dgx-a100"}, {1, 2, 4}), three = one;
  three.threads = 3;
  const Plan a = make_plan(one), b = make_plan(three);
  ASSERT_EQ(a.ranked.size(), b.ranked.size());
  for (std::size_t i = 0; i < a.ranked.size(); ++i) {
    EXPECT_EQ(a.ranked[i].system, b.ranked[i].system);
    EXPECT_EQ(a.ranked[i].way.candidate.scheme, b.ranked[i].way.candidate.scheme);
    EXPECT_EQ(a.ranked[i].finish, b.ranked[i].finish);
  }
}

TEST(Plan, AnswersArePredictsOwn) {
  const Plan plan = make_plan(question({"dgx-a100"}));
  const PlanCandidate& c = plan.ranked.at(0);
  const Question again = Question::from_json(Json::parse(c.question->to_json().dump(), "question"));
  const schemes::Report report = answers::predict(again, c.devices, answers::Depth::report);
  EXPECT_EQ(report.rate.samples_per_second, c.report.rate.samples_per_second);
  EXPECT_NEAR(*report.progress->seconds, c.finish.value, 1e-4 * c.finish.value);
}

TEST(Plan, TheSmallestThatMeetsTheDeadlineIsFound) {
  PlanQuestion q = question({"dgx-a100"}, {1, 2, 4, 8});
  q.samples = 2048;
  q.aim = Aim::cheapest;
  const Plan whole = make_plan(q);
  double alone = 0;
  for (const PlanCandidate& c : whole.ranked) {
    if (c.nodes == 1) alone = c.finish.value;
  }
  ASSERT_GT(alone, 0);
  q.limits.deadline = 0.7 * alone;  // more than one node, and two are faster than that
  const Plan plan = make_plan(q);
  ASSERT_TRUE(plan.smallest);
  EXPECT_EQ(plan.ranked[*plan.smallest].nodes, 2);
  EXPECT_TRUE(plan.ranked[0].meets());
  for (const PlanCandidate& c : plan.ranked) {
    if (c.nodes == 1) EXPECT_LT(c.in_time, 0.5);
  }
}

TEST(Plan, ADeadlineOutOfReachIsRefusedWithTheNodesThatItNeeds) {
  PlanQuestion q = question({"dgx-a100"}, {1, 2});
  const double soonest = make_plan(q).ranked.at(0).finish.value;
  q.limits.deadline = soonest / 1000;
  try {
    make_plan(q);
    FAIL() << "no node can do this";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::ContainsRegex("at least [0-9]+ nodes of dgx-a100 are needed"));
  }
}

TEST(Plan, NoneOfTheFrontIsBeatenInBoth) {
  const Plan plan = make_plan(question({"dgx1-v100", "dgx-a100", "dgx-h100"}, {1, 2}));
  ASSERT_FALSE(plan.pareto.empty());
  for (const std::size_t i : plan.pareto) {
    for (const PlanCandidate& other : plan.ranked) {
      const PlanCandidate& c = plan.ranked[i];
      EXPECT_FALSE(other.value(Aim::soonest) < c.value(Aim::soonest) &&
                   other.value(Aim::cheapest) < c.value(Aim::cheapest));
    }
  }
}

/// At the break-even price of either of the first two both cost the same, with what depends on the price.
void expect_equal_at_break_even(const PlanQuestion& q) {
  const Plan plan = make_plan(q);
  ASSERT_GE(plan.ranked.size(), 2u);
  for (const auto& [c, other] :
       {std::pair{&plan.ranked[0], &plan.ranked[1]}, {&plan.ranked[1], &plan.ranked[0]}}) {
    const std::string what =
        fmt::format("price of {} x {} ({})", c->nodes, c->system, to_text(c->offer->kind));
    const auto price = std::find_if(plan.break_even.begin(), plan.break_even.end(),
                                    [&](const BreakEven& e) { return e.what == what; });
    ASSERT_NE(price, plan.break_even.end()) << what;
    PlanCandidate changed = *c;
    changed.offer->usd *= price->factor;
    EXPECT_NEAR(cost_of(q.market.ownership, changed, c->finish, c->joules).total().value,
                other->cost->total().value, 1e-6 * other->cost->total().value)
        << what;
  }
}

TEST(Plan, BreakEvenPricesMakeTheTwoAsCheap) {
  PlanQuestion rent = question({"dgx-h100", "dgx-a100"}, {2});
  rent.aim = Aim::cheapest;
  PlanQuestion buy = rent, cards = question({"5090-2x:1", "4090-pcie-8x:2"});
  rent.market.buy = false;
  buy.market.rent = false;
  cards.aim = Aim::cheapest;
  cards.market.rent = false;
  for (const PlanQuestion& q : {rent, buy, cards}) expect_equal_at_break_even(q);
}

/// What keeps to the limits comes first at any price.
TEST(Plan, NothingBreaksEvenWhereLimitsDecide) {
  PlanQuestion q = question({"dgx-h100", "dgx1-v100"});
  std::erase_if(q.market.offers, [](const Offer& o) { return o.kind != OfferKind::on_demand; });
  q.limits.deadline = 1.3 * make_plan(q).ranked.at(0).finish.high;
  const Plan plan = make_plan(q);
  ASSERT_TRUE(plan.ranked.at(0).meets() && !plan.ranked.at(1).meets());
  EXPECT_TRUE(plan.break_even.empty());
}

TEST(Plan, TwoOffersForOneMachineDoNotDifferInSpeed) {
  {
    PlanQuestion rent = question({"dgx-h100"});
    rent.market.buy = false;  // on demand and reserved
    EXPECT_EQ(make_plan(rent).first_beats_second, 0.5);
  }
  PlanQuestion q = question({"dgx-h100"});
  q.aim = Aim::cheapest;
  const Plan plan = make_plan(q);
  ASSERT_GE(plan.ranked.size(), 2u);
  for (const plan::Influence& i : plan.influences) EXPECT_EQ(i.what.find("speed"), std::string::npos);
  for (const BreakEven& b : plan.break_even) EXPECT_TRUE(b.what.starts_with("price of")) << b.what;
}

/// Whatever was offered without spot machines is offered with them.
TEST(Plan, SpotMachinesDisplaceNoOthers) {
  PlanQuestion q = question({"dgx-h100", "dgx-a100"}, {1, 2});
  const Plan before = make_plan(q);
  q.market.spot = true;
  const Plan after = make_plan(q);
  EXPECT_GT(after.ranked.size(), before.ranked.size());
  for (const PlanCandidate& c : before.ranked) {
    EXPECT_TRUE(std::any_of(after.ranked.begin(), after.ranked.end(),
                            [&](const PlanCandidate& o) {
                              return o.system == c.system && o.nodes == c.nodes &&
                                     o.offer->name == c.offer->name && o.finish == c.finish;
                            }))
        << c.nodes << " x " << c.system << " " << c.offer->name;
  }
}

/// A cheap one that is always taken away costs more than its price.
TEST(Plan, OfSpotOffersThatWhichCostsLeastInTheEndIsTaken) {
  PlanQuestion q = question({"dgx-a100"});
  q.aim = Aim::cheapest;
  q.market.spot = true;
  const auto taken = [&](const std::string& interruptions) {
    q.market.offers = offers_from_json(Json::parse(fmt::format(R"({{"offers": {{
          "steady": {{"seller": "me", "system": "dgx-a100", "kind": "spot", "per_hour": 10, "interruptions_per_hour": 0,
                      "date": "2026-11", "source": "a quote"}},
          "taken": {{"seller": "me", "system": "dgx-a100", "kind": "spot", "per_hour": 9,
                     "interruptions_per_hour": {}, "date": "2026-11", "source": "a quote"}}}}}})",
                                                               interruptions),
                                                   "offers.json"),
                                       q.market.today);
    return make_plan(q).ranked.at(0).offer->name;
  };
  EXPECT_EQ(taken("0.001"), "taken");
  EXPECT_EQ(taken("3"), "steady");
}

/// Two cards that are bought draw what two draw and fail as two do, whatever the slots of the machine.
TEST(Plan, APartOfAMachineHasNoMoreDevices) {
  PlanQuestion q = question({"4090-pcie-8x:2"});
  q.market.rent = false;
  const PlanCandidate c = make_plan(q).ranked.at(0);
  const System system = System::load("4090-pcie-8x");
  EXPECT_EQ(c.devices, 2);
  EXPECT_EQ(c.watts, power_of(c.report, system, 2).wall());
  EXPECT_EQ(c.faults->node_mtbf, fault_rates(system, 2).node_mtbf);
  q.market.offers.clear();
  EXPECT_EQ(make_plan(q).ranked.at(0).watts, c.watts);
  q.market.offers = offers_from_json(
      Json::parse(R"({"offers": {"whole": {"seller": "me", "system": "4090-pcie-8x", "kind": "buy",
                    "capital": 30000, "date": "2026-01", "source": "a quote"}}})",
                  "offers.json"),
      q.market.today);
  EXPECT_EQ(make_plan(q).ranked.at(0).watts, power_of(c.report, system).wall());
}

/// However few are asked for, a slower machine is not named where a faster one keeps to the limits.
TEST(Plan, TheFirstIsTheBestThatKeepsToTheLimits) {
  for (const bool buy : {false, true}) {
    PlanQuestion q = question({"dgx-h100", "dgx-a100", "dgx1-v100", "rtx-5090-1x"});
    q.market.rent = !buy, q.market.buy = buy;
    if (buy)
      q.limits.budget = 180'000;
    else
      q.limits.power = 3500;
    q.top = 1;
    const PlanCandidate few = make_plan(q).ranked.at(0);
    EXPECT_TRUE(few.meets());
    EXPECT_EQ(few.system, "dgx1-v100");
  }
}

TEST(Plan, PowerIsKeptWithNinetyPercent) {
  PlanQuestion q = question({"dgx-a100"});
  q.market.buy = false;
  const Estimate watts = make_plan(q).ranked.at(0).watts;
  q.limits.power = watts.value;
  EXPECT_NEAR(make_plan(q).ranked.at(0).in_power, 0.5, 1e-9);
  EXPECT_FALSE(make_plan(q).smallest);
  q.limits.power = watts.high;
  EXPECT_TRUE(make_plan(q).ranked.at(0).meets());
}

/// 42 units hold five DGX H100 of 8; the fullest rack decides what all may draw.
TEST(Plan, RacksHoldSoManyNodes) {
  PlanQuestion q = question({"dgx-h100"});
  q.nodes = {4, 6};
  q.limits.racks = parse_racks("1", {});
  const Plan one = make_plan(q);
  ASSERT_EQ(one.left_out.size(), 1U);
  EXPECT_EQ(one.left_out[0].why, "6 nodes of 8 rack units do not fit in 1 rack of 42: at most 5");
  for (const PlanCandidate& c : one.ranked) EXPECT_EQ(c.nodes, 4);

  q.nodes = {4};
  q.limits.racks = parse_racks("3", {});
  const Estimate watts = make_plan(q).ranked.at(0).watts;  // two of the four nodes stand in one rack
  q.limits.racks->watts = watts.value / 2;
  EXPECT_NEAR(make_plan(q).ranked.at(0).in_power, 0.5, 1e-9);
  q.limits.racks->watts = watts.high / 2;
  EXPECT_TRUE(make_plan(q).ranked.at(0).meets());
}

/// Spare nodes stand in them too.
TEST(Plan, RacksHoldSparesToo) {
  PlanQuestion q = question({"dgx-h100"}, {32});
  q.samples = 4096;
  q.market.rent = false;
  q.limits.racks = parse_racks("100", {});
  const int64_t spares = make_plan(q).ranked.at(0).spares;
  ASSERT_GT(spares, 0);
  q.limits.racks->count = 7;  // 35 nodes
  EXPECT_EQ(make_plan(q).ranked.at(0).spares, std::min<int64_t>(spares, 3));
  q.nodes = {35};
  q.samples = 35 * 8 * 16;
  EXPECT_EQ(make_plan(q).ranked.at(0).spares, 0);
}

TEST(Plan, RacksNeedTheHeightOfNodes) {
  PlanQuestion q = question({"hgx-h200"});
  q.limits.racks = parse_racks("2:40kW", {});
  EXPECT_EQ(*q.limits.racks->watts, 40'000);
  EXPECT_THROW(make_plan(q), InputError);
  q.limits.racks->units = parse_rack_units("hgx-h200=8,other=4", {});
  EXPECT_FALSE(make_plan(q).ranked.empty());
  for (const char* bad : {"", "0", "2:", "2:0W", "2:40", "x", "-1"})
    EXPECT_THROW(parse_racks(bad, answers::option_place("racks")), std::exception);
  for (const char* bad : {"", "dgx-h100", "=8", "dgx-h100=0", "dgx-h100=8,"})
    EXPECT_THROW(parse_rack_units(bad, answers::option_place("rack-units")), std::exception);
}

TEST(Plan, WithoutAPriceTimeAndEnergyRank) {
  PlanQuestion q = question({"dgx1-v100"});
  q.market.offers.clear();
  const Plan plan = make_plan(q);
  ASSERT_EQ(plan.ranked.size(), 1u);
  EXPECT_FALSE(plan.ranked[0].cost);
  EXPECT_THAT(plan.missing, ElementsAre("price of dgx1-v100"));
}

TEST(Plan, WhatCannotTrainIsLeftOutWithAReason) {
  PlanQuestion q = question({"dgx-b200", "2080ti-pcie-8x"});  // not even a host's memory holds it
  q.training = {{"model", "llama3-70b"}, {"tokens", "1e9"}, {"optimizer", "adam"}};
  q.samples = 64;
  const Plan plan = make_plan(q);
  ASSERT_EQ(plan.left_out.size(), 1u);
  EXPECT_EQ(plan.left_out[0].system, "2080ti-pcie-8x");
  EXPECT_FALSE(plan.left_out[0].why.empty());
}

TEST(Plan, OffloadsWhereNothingFitsOtherwise) {
  PlanQuestion q = question({"5090-2x:1", "dgx-h100"});
  q.training = {{"model", "llama3-8b"}, {"tokens", "1e8"}, {"optimizer", "adamw"}};
  q.samples = 16;
  q.precision = Precision::bf16;
  const Plan plan = make_plan(q);
  std::set<std::string> offloading;
  for (const PlanCandidate& c : plan.ranked) {
    EXPECT_TRUE(c.report.fits) << c.system;
    EXPECT_EQ(c.question->offload, c.way.saver.offload) << c.system;
    if (c.way.saver.offload.any()) offloading.insert(c.system);
  }
  EXPECT_THAT(offloading, ElementsAre("5090-2x:1"));
}

TEST(Plan, OwnFailuresReplaceThePublishedOnes) {
  PlanQuestion q = question({"dgx-a100"}, {2});
  q.market.buy = false;
  q.training.insert(q.training.end(), {{"node-mtbf", "1h"}, {"restart-time", "10min"}});
  const Plan plan = make_plan(q);
  const PlanCandidate& c = plan.ranked.at(0);
  EXPECT_FALSE(c.faults);
  EXPECT_LT(c.useful, 0.9);
  EXPECT_EQ(c.useful, c.report.goodput->share);
  EXPECT_EQ(c.finish.value, *c.report.progress->seconds);
  q.training.back().second = "1h";
  q.training[q.training.size() - 2].second = "1s";
  EXPECT_THROW(make_plan(q), InputError);
}

TEST(Plan, SpotMachinesThatAreNeverTakenAwaySaySo) {
  PlanQuestion q = question({"dgx-a100"});
  q.market.offers = offers_from_json(
      Json::parse(R"({"offers": {"mine": {"seller": "me", "system": "dgx-a100", "kind": "spot", "per_hour": 1,
                    "interruptions_per_hour": 1, "date": "2026-01", "source": "a quote"}}})",
                  "offers.json"),
      q.market.today);
  q.market.spot = true;
  const auto says = [](const PlanQuestion& asked, const char* why) {
    const std::vector<std::string> notes = make_plan(asked).ranked.at(0).notes;
    return std::any_of(notes.begin(), notes.end(),
                       [&](const std::string& note) { return note.find(why) != std::string::npos; });
  };
  EXPECT_FALSE(says(q, "is not counted"));
  q.failures = false;
  EXPECT_TRUE(says(q, "is not counted: failures are left out"));
  q.failures = true;
  q.training.insert(q.training.end(), {{"node-mtbf", "1000h"}, {"restart-time", "10min"}});
  EXPECT_TRUE(says(q, "is not counted: failures are those given"));
}

TEST(Plan, SpotMachinesAreTakenAwayAsOftenAsTheirOfferSays) {
  const auto finish = [](const std::string& interruptions) {
    PlanQuestion q = question({"dgx-a100"}, {16});
    q.market.buy = false;
    q.market.spot = true;
    q.market.offers = offers_from_json(
        Json::parse(R"({"offers": {"mine": {"seller": "me", "system": "dgx-a100", "kind": "spot",
                      "per_hour": 1, "interruptions_per_hour": )" +
                        interruptions + R"(, "date": "2026-01", "source": "a quote"}}})",
                    "offers.json"),
        q.market.today);
    return make_plan(q).ranked.at(0).finish;
  };
  EXPECT_GT(finish("0.1").value, 1.05 * finish("0.001").value);
  EXPECT_TRUE(std::isfinite(finish("1000").high)) << "it never gets done";
}

/// What failures, interruptions and spares mean is in the question, whatever the offer.
TEST(Plan, PredictGivesTheFinishOfEveryOffer) {
  PlanQuestion q = question({"dgx-a100"}, {16});
  q.market.spot = true;
  const std::string rest = R"("seller": "me", "system": "dgx-a100", "date": "2026-01", "source": "a quote")";
  for (const std::string& entry :
       {R"("kind": "spot", "per_hour": 1, "interruptions_per_hour": 0.05, )" + rest,
        R"("kind": "on-demand", "per_hour": 1, )" + rest, R"("kind": "buy", "capital": 200000, )" + rest}) {
    q.market.offers = offers_from_json(
        Json::parse("{\"offers\": {\"mine\": {" + entry + "}}}", "offers.json"), q.market.today);
    const PlanCandidate c = make_plan(q).ranked.at(0);
    const schemes::Report report = answers::predict(*c.question, c.devices, answers::Depth::report);
    EXPECT_NEAR(*report.progress->seconds, c.finish.value, 1e-4 * c.finish.value) << entry;
    EXPECT_NEAR(report.goodput->share, c.useful, 1e-4) << entry;
    EXPECT_EQ(report.goodput->spares, c.spares);
  }
}

TEST(Plan, SaysThatItWasStopped) {
  const std::atomic<bool> stop = true;
  PlanQuestion q = question({"dgx-a100"});
  q.stop = &stop;
  try {
    make_plan(q);
    FAIL() << "a plan of nothing";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("interrupted before"));
  }
}

TEST(Plan, ASystemAskedTwiceIsOneMachine) {
  EXPECT_EQ(make_plan(question({"dgx-a100", "dgx-a100"})).priced, 1);
  EXPECT_THROW(make_plan(question({"dgx-a100", "nosuch"})), InputError);
}

/// Written off over fewer years it costs a run more, but less must be at hand.
TEST(Plan, AmongOffersOfAKindThatWithinTheBudgetIsTaken) {
  PlanQuestion q = question({"dgx-a100"});
  const std::string rest =
      R"("seller": "me", "system": "dgx-a100", "kind": "buy", "date": "2026-01", "source": "a quote")";
  q.market.offers =
      offers_from_json(Json::parse(R"({"offers": {"long": {"capital": 100000, "years": 8, )" + rest +
                                       R"(}, "short": {"capital": 90000, "years": 2, )" + rest + "}}}",
                                   "offers.json"),
                       q.market.today);
  EXPECT_EQ(make_plan(q).ranked.at(0).offer->name, "long");
  q.limits.budget = 95'000;
  const PlanCandidate c = make_plan(q).ranked.at(0);
  EXPECT_EQ(c.offer->name, "short");
  EXPECT_TRUE(c.meets());
}

TEST(Plan, ACommitmentIsPaidWhole) {
  PlanQuestion q = question({"dgx-a100"});
  q.market.offers = offers_from_json(
      Json::parse(R"({"offers": {"mine": {"seller": "me", "system": "dgx-a100", "kind": "reserved",
                    "per_hour": 10, "committed_months": 12, "date": "2026-01", "source": "a quote"}}})",
                  "offers.json"),
      q.market.today);
  q.limits.budget = 1000;
  const PlanCandidate c = make_plan(q).ranked.at(0);
  EXPECT_LT(c.cost->total().value, 1000);
  EXPECT_NEAR(c.cost->needed().value, 10 * kHoursOfYear, 1);
  EXPECT_LT(c.in_budget, 0.1);
}

TEST(Plan, ProbabilitiesFollowFromTheBounds) {
  const Estimate x{80, 100, 125};
  EXPECT_NEAR(probability_within(x, 125), 0.95, 1e-3);
  EXPECT_NEAR(probability_within(x, 100), 0.5, 1e-9);
  EXPECT_NEAR(probability_within(x, 80), 0.05, 1e-3);
  EXPECT_EQ(probability_within(100, 101), 1);
  EXPECT_EQ(probability_within(100, 99), 0);
}

TEST(Plan, NumbersOfNodes) {
  EXPECT_THAT(parse_nodes("4"), ElementsAre(4));
  EXPECT_THAT(parse_nodes("1..16"), ElementsAre(1, 2, 3, 4, 6, 8, 12, 16));
  EXPECT_THAT(parse_nodes("5..7,2"), ElementsAre(2, 5, 6, 7));
  for (const char* wrong : {"", "0", "8..4", "1..", "x", "-1", "1..2..3", "..4"})
    EXPECT_ANY_THROW(parse_nodes(wrong)) << wrong;
}

TEST(Plan, SumsOfMoney) {
  EXPECT_EQ(parse_dollars("8000USD"), 8000);
  EXPECT_EQ(parse_dollars("8,000 USD"), 8000);
  EXPECT_EQ(parse_dollars("2MUSD"), 2e6);
  EXPECT_EQ(parse_dollars("1.5kUSD"), 1500);
  EXPECT_EQ(parse_dollars("1.125MUSD"), 1.125e6);
  EXPECT_EQ(parse_dollars("1,234,567.50 USD"), 1234567.5);
  EXPECT_EQ(parse_dollars("8 000USD"), 8000);
  for (const char* wrong : {"", "8000", "-5USD", "0USD", "8000EUR", "USD", "2mUSD", "1e3xUSD", "8.000USD",
                            "8,5kUSD", "8,0,0USD", "1.2.3USD", ".USD"})
    EXPECT_ANY_THROW(parse_dollars(wrong)) << wrong;
}

}  // namespace
}  // namespace tandem::tests
