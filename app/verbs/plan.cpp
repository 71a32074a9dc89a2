// SPDX-License-Identifier: Apache-2.0
#include "plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "app/analysis/asking.h"
#include "app/analysis/plan_text.h"
#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/pictures/draw.h"
#include "app/pictures/plan_picture.h"
#include "base/text.h"

namespace tandem::app {

namespace {

using plan::PlanQuestion;

/// Options of predict that are searched here, or that do not apply to a plan.
const std::set<std::string_view>& not_of_plan() {
  static const std::set<std::string_view> names = {"system",    "devices",   "scheme",     "batch",
                                                   "precision", "recompute", "offload",    "anchor",
                                                   "with",      "then",      "batch-split"};
  return names;
}

/// "tokens=1e12": as the option of that name.
void read_target(const Arguments& arguments, std::vector<std::pair<std::string, std::string>>& out) {
  if (!arguments.has("target")) return;
  const std::string text = arguments.text("target", "");
  const auto is = text.find('=');
  const std::string key = text.substr(0, is);
  static const std::vector<std::string> keys = {"tokens", "samples", "epochs", "target-loss"};
  if (is == std::string::npos || std::find(keys.begin(), keys.end(), key) == keys.end())
    throw UsageError(fmt::format(
        "--target: \"{}\" is none of tokens=N, samples=N, epochs=N, target-loss=LOSS", printable(text)));
  out.emplace_back(key, text.substr(is + 1));
}

plan::Date clock_date() {
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

std::vector<std::pair<std::string, std::string>> training(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Option& option : question_options()) {
    if (not_of_plan().count(option.name) != 0) continue;
    for (const std::string& value : arguments.all(option.name)) {
      if (option.name == "set" && value.rfind("nodes=", 0) == 0)
        throw UsageError("--set nodes=N: a plan has --nodes for that");
      out.emplace_back(option.name, option.value.empty() ? "true" : value);
    }
  }
  read_target(arguments, out);
  const bool target = std::any_of(out.begin(), out.end(), [](const auto& option) {
    return option.first == "tokens" || option.first == "samples" || option.first == "epochs" ||
           option.first == "target-loss";
  });
  if (!target) throw UsageError("a plan needs a target: --tokens 1e12, --samples, --epochs or --target-loss");
  return out;
}

plan::Limits read_limits(const Arguments& arguments) {
  plan::Limits out;
  if (arguments.has("deadline")) out.deadline = arguments.value("deadline", "", read_deadline);
  if (arguments.has("budget")) out.budget = arguments.value("budget", "", plan::parse_dollars);
  if (arguments.has("power")) out.power = arguments.value("power", "", plan::parse_draw);
  if (arguments.has("racks")) out.racks = arguments.value("racks", "", plan::parse_racks);
  if (arguments.has("rack-units")) {
    if (!out.racks)
      throw UsageError("--rack-units says how tall nodes are, and nothing asks: give --racks, too");
    out.racks->units = arguments.value("rack-units", "", plan::parse_rack_units);
  }
  return out;
}

PlanQuestion read_plan(const Arguments& arguments) {
  PlanQuestion q;
  arguments.required("model", "llama3-8b");
  q.training = training(arguments);
  q.hooks = hooks(arguments);
  q.systems = split_names({arguments.required("systems", "dgx-h100,dgx-a100")});
  q.nodes = arguments.value("nodes", "1", plan::parse_nodes);
  q.samples = arguments.integer("global-batch", 1024, 1, int64_t{1} << 40);
  if (arguments.has("precision")) q.precision = arguments.value("precision", "", parse_precision);
  if (arguments.has("schemes")) q.schemes = split_names({arguments.text("schemes", "")});
  for (const std::string& scheme : q.schemes) resolve_scheme(scheme, option_place("schemes"));
  const std::string aim = arguments.choice("rank",
                                           arguments.has("budget")     ? "soonest"
                                           : arguments.has("deadline") ? "cheapest"
                                                                       : "soonest",
                                           {"soonest", "cheapest", "least-energy"});
  q.aim = aim == "soonest"    ? plan::Aim::soonest
          : aim == "cheapest" ? plan::Aim::cheapest
                              : plan::Aim::least_energy;
  q.limits = read_limits(arguments);
  q.market.today = arguments.has("today")
                       ? plan::Date::parse(arguments.text("today", ""), option_place("today"))
                       : clock_date();
  q.market.offers = plan::load_offers(arguments.all("offers"), q.market.today);
  q.market.rent = !arguments.has("buy") || arguments.has("rent");
  q.market.buy = !arguments.has("rent") || arguments.has("buy");
  q.market.spot = arguments.has("spot");
  q.market.ownership = plan::Ownership::load();
  if (arguments.has("ownership"))
    q.market.ownership =
        plan::Ownership::from_json(Json::load(arguments.text("ownership", "")), q.market.ownership);
  if (arguments.has("grid"))
    q.market.grid = plan::find_grid(arguments.text("grid", ""), option_place("grid"));
  q.failures = !arguments.has("no-failures");
  for (const char* own : {"mtbf", "node-mtbf"}) {
    if (!q.failures && arguments.has(own))
      throw UsageError(fmt::format("--no-failures and --{} contradict each other: use one of them", own));
  }
  q.top = static_cast<std::size_t>(arguments.integer("top", 5, 1, 1000));
  q.threads = static_cast<int>(
      arguments.integer("threads", std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 64), 1, 1024));
  q.stop = &interrupted;
  return q;
}

std::vector<Option> plan_flags();

/// Of the question in a file, what every machine is asked; --nodes replaces its number of nodes.
Arguments asked_to_plan(const Arguments& given) {
  FileRules rules;
  rules.adapt = [](Values& file) {
    std::vector<std::string> sets = file.all("set");
    std::erase_if(sets, [](const std::string& set) { return set.starts_with("nodes="); });
    file.set("set", sets);
  };
  return with_question(given, plan_flags(), rules);
}

void put_plan(const Arguments& arguments) {
  const std::string format = arguments.choice("format", "text", {"text", "json", "csv"});
  check_out(arguments);
  PlanQuestion q = read_plan(arguments);
  const std::string pictures = arguments.has("plot") ? picture_base(arguments.text("plot", ""), "plan") : "";
  plan::Plan answer;
  {
    Progress progress(arguments);
    q.progress = [&](std::string_view text, std::optional<double> share) { progress.show(text, share); };
    answer = plan::make_plan(q);
  }
  if (format == "json") {
    put_result(arguments, plan_json(q, answer));
  } else if (format == "csv") {
    put_result(arguments, plan_table(q, answer, true).csv());
  } else {
    put_result(arguments, plan_text(q, answer, result_columns(arguments)));
  }
  if (!pictures.empty()) {
    for (const std::string& file : draw_plan(Json::parse(plan_json(q, answer), "the plan"), pictures))
      note(arguments, file);
  }
}

int run_plan(const Arguments& given) {
  const Arguments arguments = asked_to_plan(given);
  catch_interrupts();
  try {
    put_plan(arguments);
  } catch (const InputError& error) {
    if (!interrupted) throw;
    fmt::print(stderr, "tandem: {}\n", error.what());
  }
  return interrupt_code();
}

std::vector<Option> plan_flags() {
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
       {"threads", "N", "default: one per processor; the result does not depend on it"},
       {"format", "text|json|csv", "default text"},
       {"plot", "BASE", "also draw time against money and power, and what decides: BASE-cost.png, .svg ..."},
       out_flag(),
       wide_flag(),
       quiet_flag()});
  return flags;
}

}  // namespace

void register_plan(Registry<Verb>& registry) {
  registry.add(
      {.name = "plan",
       .summary =
           "what to buy or rent for a training, how to train on it, when it is done, what it costs and draws",
       .usage = "--model NAME --tokens N --systems NAME,... [options]",
       .flags = plan_flags(),
       .run = run_plan,
       .details =
           "Every machine is asked the same training: the model, the target, the samples in a step and the "
           "optimiser are held; the way to train (scheme, split, micro-batch, recomputation, precision) is "
           "the "
           "fastest that fits it. Prices have sellers, dates and sources; failures are those published of "
           "machines of the kind.\n\nExamples\n"
           "  tandem plan --model llama3-8b --tokens 1e12 --systems dgx-h100,dgx-a100 --nodes 1..64 "
           "--deadline 60d\n"
           "  tandem plan --model gpt2 --tokens 1e10 --systems 5090-2x,3090-pcie --budget 8000USD --buy\n"
           "  tandem plan --model resnet50 --epochs 90 --systems dgx1-v100,v100-pcie-8x --rank cheapest"});
}

}  // namespace tandem::app
