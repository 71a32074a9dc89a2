// SPDX-License-Identifier: Apache-2.0
#include "plan/ask_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/text.h"
#include "plan/offers.h"

namespace tandem::plan {

namespace {

/// Options of predict that are searched here, or that do not apply to a plan.
const std::set<std::string_view>& not_of_plan() {
  static const std::set<std::string_view> names = {"system",    "devices",   "scheme",     "batch",
                                                   "precision", "recompute", "offload",    "anchor",
                                                   "with",      "then",      "batch-split"};
  return names;
}

/// "tokens=1e12": as the option of that name.
void read_target(const Values& values, std::vector<std::pair<std::string, std::string>>& out) {
  if (!values.has("target")) return;
  const std::string text = values.text("target", "");
  const auto is = text.find('=');
  const std::string key = text.substr(0, is);
  static const std::vector<std::string> keys = {"tokens", "samples", "epochs", "target-loss"};
  if (is == std::string::npos || std::find(keys.begin(), keys.end(), key) == keys.end())
    throw UsageError(fmt::format(
        "--target: \"{}\" is none of tokens=N, samples=N, epochs=N, target-loss=LOSS", printable(text)));
  out.emplace_back(key, text.substr(is + 1));
}

Date clock_date() {
  const std::chrono::year_month_day day{
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())};
  return {static_cast<int>(day.year()), static_cast<int>(static_cast<unsigned>(day.month())),
          static_cast<int>(static_cast<unsigned>(day.day()))};
}

/// "30d" as 720 hours, in seconds.
double read_deadline(const std::string& text, const Place& place) {
  const bool days = !text.empty() && text.back() == 'd';
  const double seconds =
      days ? 86400 * parse_real(std::string_view(text).substr(0, text.size() - 1), -1e9, 1e9, place)
           : parse_seconds(text, place);
  if (!(seconds >= 1 && seconds <= 1000 * 365.25 * 86400))
    throw InputError(
        place, fmt::format("\"{}\" is no time from 1 s to 1000 years, such as 30d or 12h", printable(text)));
  return seconds;
}

std::vector<std::pair<std::string, std::string>> training(const Values& values) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Option& option : question_options()) {
    if (not_of_plan().count(option.name) != 0) continue;
    for (const std::string& value : values.all(option.name)) {
      if (option.name == "set" && value.rfind("nodes=", 0) == 0)
        throw UsageError("--set nodes=N: a plan has --nodes for that");
      out.emplace_back(option.name, option.value.empty() ? "true" : value);
    }
  }
  read_target(values, out);
  const bool target = std::any_of(out.begin(), out.end(), [](const auto& option) {
    return option.first == "tokens" || option.first == "samples" || option.first == "epochs" ||
           option.first == "target-loss";
  });
  if (!target) throw UsageError("a plan needs a target: --tokens 1e12, --samples, --epochs or --target-loss");
  return out;
}

Limits read_limits(const Values& values) {
  Limits out;
  if (values.has("deadline")) out.deadline = values.value("deadline", "", read_deadline);
  if (values.has("budget")) out.budget = values.value("budget", "", parse_dollars);
  if (values.has("power")) out.power = values.value("power", "", parse_draw);
  if (values.has("racks")) out.racks = values.value("racks", "", parse_racks);
  if (values.has("rack-units")) {
    if (!out.racks)
      throw UsageError("--rack-units says how tall nodes are, and nothing asks: give --racks, too");
    out.racks->units = values.value("rack-units", "", parse_rack_units);
  }
  return out;
}

PlanQuestion read_plan(const Values& values, const Hooks& hooks) {
  PlanQuestion q;
  values.required("model", "llama3-8b");
  q.training = training(values);
  q.hooks = hooks;
  q.systems = split_names({values.required("systems", "dgx-h100,dgx-a100")});
  q.nodes = values.value("nodes", "1", parse_nodes);
  q.samples = values.integer("global-batch", 1024, 1, int64_t{1} << 40);
  if (values.has("precision")) q.precision = values.value("precision", "", parse_precision);
  if (values.has("schemes")) q.schemes = split_names({values.text("schemes", "")});
  for (const std::string& scheme : q.schemes) resolve_scheme(scheme, option_place("schemes"));
  const std::string aim = values.choice("rank",
                                        values.has("budget")     ? "soonest"
                                        : values.has("deadline") ? "cheapest"
                                                                 : "soonest",
                                        {"soonest", "cheapest", "least-energy"});
  q.aim = aim == "soonest" ? Aim::soonest : aim == "cheapest" ? Aim::cheapest : Aim::least_energy;
  q.limits = read_limits(values);
  q.market.today =
      values.has("today") ? Date::parse(values.text("today", ""), option_place("today")) : clock_date();
  q.market.offers = load_offers(values.all("offers"), q.market.today);
  q.market.rent = !values.has("buy") || values.has("rent");
  q.market.buy = !values.has("rent") || values.has("buy");
  q.market.spot = values.has("spot");
  q.market.ownership = Ownership::load();
  if (values.has("ownership"))
    q.market.ownership = Ownership::from_json(Json::load(values.text("ownership", "")), q.market.ownership);
  if (values.has("grid")) q.market.grid = find_grid(values.text("grid", ""), option_place("grid"));
  q.failures = !values.has("no-failures");
  for (const char* own : {"mtbf", "node-mtbf"}) {
    if (!q.failures && values.has(own))
      throw UsageError(fmt::format("--no-failures and --{} contradict each other: use one of them", own));
  }
  q.top = static_cast<std::size_t>(values.integer("top", 5, 1, 1000));
  q.threads = static_cast<int>(
      values.integer("threads", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  return q;
}

/// Of the question in a file, what every machine is asked; --nodes replaces its number of nodes.
Values asked_to_plan(const Values& given, const Hooks& hooks) {
  FileRules rules;
  rules.adapt = [](Values& file) {
    std::vector<std::string> sets = file.all("set");
    std::erase_if(sets, [](const std::string& set) { return set.starts_with("nodes="); });
    file.set("set", sets);
  };
  return with_question(given, plan_options(), hooks.note, rules);
}

}  // namespace

PlanQuestion read_plan_question(const Values& given, const Hooks& hooks) {
  return read_plan(asked_to_plan(given, hooks), hooks);
}

std::vector<Option> plan_options() {
  std::vector<Option> flags;
  for (const Option& flag : question_options()) {
    if (not_of_plan().count(flag.name) == 0) flags.push_back(flag);
  }
  flags.insert(
      flags.end(),
      {question_flag(),
       {"systems", "NAME[,NAME...]",
        "machines to choose among: names or files; 5090-2x:1 is one of its devices"},
       {"nodes", "N[,N...]|N..M", "of each; a range tries powers of two and what is half-way; default 1"},
       {"global-batch", "N", "samples in a step of all devices together, the same for all; default 1024"},
       {"target", "KEY=VALUE", "instead of --tokens, --samples, --epochs, --target-loss: tokens=1e12"},
       {"deadline", "TIME", "when it must be done: 30d, 12h"},
       {"budget", "USD", "what it may cost: 8000USD, 50kUSD, 2MUSD"},
       {"power", "WATTS", "what the machines may draw at the wall: 1440W, 1MW"},
       {"racks", "N[:WATTS]",
        "racks of 42 units that the machines must stand in, and what one may draw: 4:40kW"},
       {"rack-units", "NAME=UNITS[,...]",
        "how tall a node of a machine is, where plan/racks.json does not say it"},
       {"rank", "soonest|cheapest|least-energy", "default cheapest with a deadline, else soonest"},
       {"rent", "", "offers to rent alone"},
       {"buy", "", "offers to buy alone"},
       {"spot", "", "offers that may be taken away, too"},
       {"offers", "FILE", "more offers, or others of the same names (docs/formats/offers.md)", true},
       {"ownership", "FILE",
        "years, residual value, power price, PUE, hosting, network, spares of what is bought"},
       {"grid", "COUNTRY", "whose power it draws, for carbon"},
       {"no-failures", "", "leave out failures of machines"},
       {"today", "DATE", "on which prices are looked at; default the clock's"},
       {"schemes", "NAME[:key=value,...][,...]", "to choose among; default: those equivalent to one worker"},
       {"precision", "fp32|tf32|fp16|bf16|fp8", "of all; default the fastest of each machine"},
       {"top", "N", "machines to rank, at least; default 5"},
       {"threads", "N", "default: one per processor; the result does not depend on it"}});
  return flags;
}

}  // namespace tandem::plan
