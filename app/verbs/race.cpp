// SPDX-License-Identifier: Apache-2.0
// Schemes race to the same loss: predicted and executed order by time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "answers/question.h"
#include "app/console/cli.h"
#include "app/console/interrupt.h"
#include "app/console/output.h"
#include "app/console/table.h"
#include "app/measure/race.h"
#include "base/host_load.h"
#include "base/json_writer.h"

namespace tandem::app {

namespace {

constexpr const char* kSchemes =
    "allreduce,allreduce:accumulate=8,parameter-server:mode=async,overlap=off,local-sgd:every=8,"
    "delayed-allreduce:delay=4,delayed-allreduce:delay=16,diloco:every=16,elastic-averaging,gossip";

struct Race {
  RaceTask task;
  RaceReference small, large;
  RaceModel model;
  int64_t rate_runs = 0;
  std::vector<int64_t> workers;
  std::vector<RaceEntry> entries;
  std::vector<RaceOrder> orders;  ///< [of workers]
};

RaceTask read_task(const Arguments& a) {
  RaceTask t;
  t.model = a.text("model", "digits-mlp:hidden=256");
  t.data = a.text("data", "teacher");
  t.samples = load_dataset(t.data, false);
  t.batch = a.integer("batch", 8, 1, 1 << 20);
  t.loss = a.real("target-loss", 1.5, 1e-9, 1e9);
  t.window = a.integer("loss-window", 2048, 1, 1 << 30);
  t.most_samples = a.integer("most-samples", 200'000, 1, int64_t{1} << 40);
  t.seeds = a.integer("seeds", 20, 1, 10'000);
  t.throttle = a.real("throttle", 1, 1, 1000);
  t.rate_limit = a.text("rate-limit", "");
  if (a.has("rate-limit")) a.value("rate-limit", "", parse_bandwidth);
  if (t.throttle > 1 && !t.rate_limit.empty())
    throw UsageError("--throttle and --rate-limit cannot be combined");
  return t;
}

/// --profile, or one measured now.
std::string profile_of(const Arguments& a, Progress& progress) {
  if (a.has("profile")) {
    if (a.text("profile", "") != "stock") MachineProfile::find(a.text("profile", ""), Precision::fp32);
    return a.text("profile", "");
  }
  const Tell tell = [&](const std::string& what, double share) { progress.show(what, share); };
  const Measurements m =
      measure_repeatedly(backends_registry().at("cpu"), {.repetitions = a.integer("repetitions", 2, 1, 1000)},
                         tell, &interrupted);
  std::string file = (std::filesystem::temp_directory_path() / "tandem-race-profile.json").string();
  if (!interrupted) write_file(file, fit_machine(m).profile);
  return file;
}

/// Round by round, so that the machine's drift affects all schemes equally: one seed of each and, until there
/// are enough, a run for its rate.
/// there are enough a run for its rate.
void run_all(Race& race, RaceResults& results, Progress& progress) {
  const int64_t rounds = std::max(race.task.seeds, race.rate_runs);
  int64_t made = 0;  // rounds that were missing
  for (int64_t round = 1; round <= rounds && !interrupted; ++round) {
    const int64_t known = results.size();
    for (RaceEntry& e : race.entries) {
      const auto part =
          static_cast<double>(&e - race.entries.data()) / static_cast<double>(race.entries.size());
      const double done = static_cast<double>(made) + part,
                   all = static_cast<double>(made + rounds - round + 1);
      progress.show(fmt::format("round {} of {}: {} with {} workers", round, rounds, e.scheme, e.workers),
                    done / all);
      if (round <= race.task.seeds) race_run(race.task, round, &interrupted, results, e);
      if (round <= race.rate_runs && !interrupted) race_rate(race.task, round, &interrupted, results, e);
    }
    if (results.size() != known) ++made;
  }
}

Race hold_race(const Arguments& a) {
  Race race;
  race.task = read_task(a);
  race.rate_runs = a.integer("rate-runs", 5, 1, 10'000);
  race.workers = a.integers("devices", {2, 4}, 2, 64);
  std::vector<std::string> schemes = a.all("schemes");
  schemes = split_names(schemes.empty() ? std::vector<std::string>{kSchemes} : schemes);
  for (const std::string& s : schemes) resolve_scheme(s, option_place("schemes"));
  const int64_t large = a.integer("large-batch", 16 * race.task.batch, race.task.batch + 1, 1 << 24);
  RaceResults results(a.text("results", ""), race_header(race.task));
  Progress progress(a);
  progress.show("one worker, in small and in large steps");
  race.small = race_reference(race.task, race.task.batch, &interrupted, results);
  race.large = race_reference(race.task, large, &interrupted, results);
  if (interrupted) return race;
  race.model = race_model(race.small, race.large);
  std::string file;
  const auto profile = [&] {
    if (file.empty()) file = profile_of(a, progress);
    return file;
  };
  for (const int64_t workers : race.workers) {
    for (const std::string& s : schemes) {
      if (!interrupted)
        race.entries.push_back(race_entry(race.task, race.model, s, workers, profile, results));
    }
  }
  if (interrupted) return race;
  note(a, fmt::format(
              "{} seeds of {} schemes, and {} runs each for their rates{}", race.task.seeds,
              race.entries.size(), race.rate_runs,
              results.size() > static_cast<int64_t>(race.entries.size()) + 2 ? "; less what is known" : ""));
  run_all(race, results, progress);
  for (const int64_t workers : race.workers) race.orders.push_back(race_order(race.entries, workers));
  return race;
}

std::string tau_text(const RaceTau& t) {
  return fmt::format("{:.2f} (90 %: {:.2f} .. {:.2f})", t.tau, t.low, t.high);
}

std::string order_text(int64_t workers, const RaceOrder& o) {
  return fmt::format(
      "{} workers: order by time, predicted against executed: Kendall's tau {}\n"
      "  {} of {} pairs differ by more than the runs scatter: tau {}\n"
      "  by samples alone {}; by time at the predicted rates {}\n",
      workers, tau_text(o.seconds), o.apart, o.pairs, tau_text(o.seconds_apart), tau_text(o.samples),
      tau_text(o.at_predicted_rates));
}

std::string text(const Race& race, const std::string& format, int columns) {
  Table table({{"workers", true},
               {"scheme"},
               {"rate", true},
               {"predicted samples", true},
               {"executed", true},
               {"predicted samples/s", true},
               {"executed", true},
               {"predicted s", true},
               {"executed s", true},
               {"90 %", true}});
  for (const RaceEntry& e : race.entries) {
    if (e.samples.empty() || e.rates.empty()) continue;
    const auto [low, high] = seconds_interval(e);
    table.add({std::to_string(e.workers), e.scheme, fmt::format("{:.3g}", e.learning_rate),
               grouped(e.predicted_samples), grouped(e.executed_samples()) + (e.missed > 0 ? "+" : ""),
               grouped(e.predicted_rate), grouped(e.executed_rate()),
               fmt::format("{:.3g}", e.predicted_seconds()), fmt::format("{:.3g}", e.executed_seconds()),
               fmt::format("{:.3g} .. {:.3g}", low, high)});
  }
  std::string out = table.as(format, columns);
  if (format == "csv") return out;
  out = fmt::format(
            "{} on {} to loss {:g}, {} samples a worker and step, plain SGD, {} seeds{}\nOne worker: {} "
            "samples in "
            "steps of {} (rate {:.3g}), {} in steps of {} (rate {:.3g}); so at least {} steps, and a "
            "critical batch "
            "of {} samples\n\n",
            race.task.model, race.task.data, race.task.loss, race.task.batch, race.task.seeds,
            race.task.rate_limit.empty() ? "" : ", a node each with links of " + race.task.rate_limit,
            grouped(race.small.samples), race.small.batch, race.small.learning_rate,
            grouped(race.large.samples), race.large.batch, race.large.learning_rate,
            grouped(race.model.fewest_steps), grouped(race.model.noise)) +
        out + "\n";
  for (std::size_t i = 0; i < race.orders.size(); ++i) out += order_text(race.workers[i], race.orders[i]);
  return out;
}

JsonWriter json(const Race& race) {
  JsonWriter out = {{"schema", "tandem-race-1"},
                    {"model", race.task.model},
                    {"data", race.task.data},
                    {"target_loss", race.task.loss},
                    {"batch", race.task.batch},
                    {"seeds", race.task.seeds},
                    {"throttle", race.task.throttle},
                    {"rate_limit", race.task.rate_limit},
                    {"fewest_steps", race.model.fewest_steps},
                    {"critical_batch_samples", race.model.noise}};
  for (const RaceReference* r : {&race.small, &race.large})
    out["references"].push_back(
        {{"batch", r->batch}, {"learning_rate", r->learning_rate}, {"samples", r->samples}});
  out["entries"] = JsonWriter::array();
  for (const RaceEntry& e : race.entries) {
    if (e.samples.empty() || e.rates.empty()) continue;
    const auto [low, high] = seconds_interval(e);
    out["entries"].push_back({{"workers", e.workers},
                              {"scheme", e.scheme},
                              {"learning_rate", e.learning_rate},
                              {"predicted_samples", e.predicted_samples},
                              {"predicted_samples_per_second", e.predicted_rate},
                              {"predicted_seconds", e.predicted_seconds()},
                              {"executed_samples", e.samples},
                              {"executed_samples_per_second", e.executed_rate()},
                              {"executed_rates", e.rates},
                              {"executed_seconds", e.executed_seconds()},
                              {"executed_seconds_low", low},
                              {"executed_seconds_high", high},
                              {"seeds_missed", e.missed}});
  }
  out["orders"] = JsonWriter::array();
  for (std::size_t i = 0; i < race.orders.size(); ++i) {
    const RaceOrder& o = race.orders[i];
    JsonWriter order = {{"workers", race.workers[i]}, {"pairs", o.pairs}, {"pairs_apart", o.apart}};
    const auto add = [&order](const std::string& key, const RaceTau& t) {
      order[key + "kendall_tau"] = t.tau;
      order[key + "low"] = t.low;
      order[key + "high"] = t.high;
    };
    add("", o.seconds);
    add("apart_", o.seconds_apart);
    add("samples_", o.samples);
    add("at_predicted_rates_", o.at_predicted_rates);
    out["orders"].push_back(order);
  }
  return out;
}

int race(const Arguments& a) {
  const std::string format = format_of(a);
  check_out(a);
  const double least = a.real("least-tau", -1, -1, 1);
  catch_interrupts();
  const HostUsage before = host_usage();
  const Race race = hold_race(a);
  if (const std::string busy = busy_while(load_between(before, host_usage())); !busy.empty()) note(a, busy);
  if (race.orders.empty()) return interrupt_code();
  put_page(a, format == "json" ? json(race).dump_wrapped() : text(race, format, result_columns(a)));
  if (interrupted) return interrupt_code();
  const bool failed = std::any_of(race.orders.begin(), race.orders.end(),
                                  [&](const RaceOrder& o) { return o.seconds.tau < least; });
  if (failed) note(a, fmt::format("exit 1: an order agrees less than --least-tau {:g}", least));
  return failed ? 1 : 0;
}

}  // namespace

void register_race(Registry<Verb>& registry) {
  registry.add(
      {.name = "race",
       .summary = "race schemes to the same loss on this machine: predicted against executed order by time",
       .usage = "[options]",
       .flags = {{"schemes", "NAME[:key=value,...],...", "the schemes; default nine of all families", true},
                 {"devices", "N[,N...]", "worker counts; default 2,4"},
                 {"model", "NAME|FILE", "what to train; default digits-mlp:hidden=256"},
                 {"data", "NAME|FILE", "on what; default teacher (docs/progress.md)"},
                 {"target-loss", "LOSS", "where a run ends; default 1.5"},
                 {"loss-window", "SAMPLES", "the loss is the mean of this many last samples; default 2048"},
                 {"batch", "N", "samples per worker and iteration; default 8"},
                 {"large-batch", "N", "steps of one worker's second reference; default 16 times --batch"},
                 {"most-samples", "N",
                  "a run that has not reached the loss by then counts as that late; default 200000"},
                 {"seeds", "N", "runs of each; default 20"},
                 {"throttle", "FACTOR", "the last worker's calls take this many times as long; default 1"},
                 {"rate-limit", "BANDWIDTH",
                  "each worker is a node with links of this bandwidth, e.g. 10Mbit/s"},
                 {"profile", "FILE|stock", "of this machine, from tandem fit; default: measured now"},
                 {"repetitions", "N", "of measuring; default 2"},
                 {"rate-runs", "N", "runs of each for its rate; default 5"},
                 {"results", "FILE",
                  "record of all runs; given again, an interrupted race continues, with more seeds if asked"},
                 {"least-tau", "TAU", "exit with 1 if an order agrees less"},
                 format_flag(),
                 out_flag(),
                 wide_flag(),
                 quiet_flag()},
       .run = race,
       .details =
           "One worker is run in small and in large steps, each at the best of several learning rates. From "
           "that, samples to the target and learning rates of all schemes follow by published formulas, and "
           "from the profile their rates. Then all are executed with that many seeds, and separately for "
           "their rates: time is the seeds' median of samples over the upper quartile of rates.\n\n"
           "Example\n  tandem race --devices 2 --seeds 20 --least-tau 0.8"});
}

}  // namespace tandem::app
