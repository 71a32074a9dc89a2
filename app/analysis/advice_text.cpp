// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/advice_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "answers/shell_line.h"
#include "app/console/goodput_text.h"
#include "app/console/progress_text.h"
#include "app/console/report_text.h"
#include "base/text.h"
#include "plan/plan_words.h"

namespace tandem::app {

namespace {

std::string of_step(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.01 ? 1 : 0); }

std::string memory_cell(const MemoryUse& m) {
  const auto gib = [](Bytes b) { return static_cast<double>(b.n) / (1 << 30); };
  return fmt::format("{:.1f} of {:.3g} GiB", gib(m.needed()), gib(m.capacity));
}

/// "4 x 16": samples per pass, and passes per step.
std::string batch_cell(const Candidate& c) {
  return c.micro_batches == 1 ? std::to_string(c.batch) : fmt::format("{} x {}", c.batch, c.micro_batches);
}

/// "compute 71 %, bubble 12 %, communication 9 %": everything that takes at least 1 % of a step.
std::string time_cell(const TimeShare& t) {
  std::vector<std::pair<double, const char*>> shares = {
      {t.compute, "compute"}, {t.launch, "launch"}, {t.exposed_communication, "communication"},
      {t.waiting, "waiting"}, {t.bubble, "bubble"}, {t.input, "input"},
      {t.server, "server"},   {t.idle, "idle"}};
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> words;
  for (const auto& [share, word] : shares) {
    if (share >= 0.01) words.push_back(fmt::format("{} {}", word, of_step(share)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

Table choices_table(const Advice& advice) {
  const auto any = [&](auto test) { return std::any_of(advice.ranked.begin(), advice.ranked.end(), test); };
  const bool again = any([](const Choice& c) { return !(c.recompute == Recompute{}); });
  const bool offloads = any([](const Choice& c) { return c.offload.any(); });
  const bool tokens = any([](const Choice& c) { return c.report.rate.tokens_per_second > 0; });
  std::vector<Column> columns = {{"", true}, {"scheme"}, {"devices", true}, {"batch", true}, {"precision"}};
  if (again) columns.push_back({"recompute"});
  if (offloads) columns.push_back({"offload"});
  columns.insert(columns.end(), {{"memory/device", true, 3}, {"samples/s", true}});
  if (tokens) columns.push_back({"tokens/s", true});
  columns.insert(columns.end(), {{"90 % interval", true, 6}, {"of the first", true, 7}, {"of a step"}});
  Table table(columns);
  for (const Choice& c : advice.ranked) {
    const Report& r = c.report;
    std::vector<std::string> row = {std::to_string(&c - advice.ranked.data() + 1), c.candidate.scheme,
                                    std::to_string(c.candidate.devices), batch_cell(c.candidate),
                                    std::string(name(c.candidate.precision))};
    if (again) row.push_back(c.recompute.text());
    if (offloads) row.push_back(c.offload.text());
    row.insert(row.end(), {memory_cell(r.memory), grouped(r.rate.samples_per_second)});
    if (tokens) row.push_back(grouped(r.rate.tokens_per_second));
    row.insert(
        row.end(),
        {fmt::format("{} .. {}", grouped(r.rate.interval.low), grouped(r.rate.interval.high)),
         &c == &advice.ranked.front() ? "–"
                                      : fmt::format("{:.2f} .. {:.2f}", c.to_first.low, c.to_first.high),
         time_cell(r.time.share)});
    table.add(std::move(row));
  }
  return table;
}

/// What became of a scheme without a choice in the table; "" for one with a choice.
std::string outcome_text(const Outcome& o, std::size_t family, const Advice& advice) {
  for (const Choice& c : advice.ranked) {
    if (c.candidate.family == family) return "";
  }
  if (o.rate > 0) return fmt::format("{}: at best {} samples/s", o.scheme, grouped(o.rate));
  if (o.at_most > 0) return fmt::format("{}: not above {} samples/s", o.scheme, grouped(o.at_most));
  if (o.needs.n > 0)
    return fmt::format("{}: does not fit, needs at least {} of {} a device{}", o.scheme, to_text(o.needs),
                       to_text(o.capacity),
                       o.host.needed.n == 0 ? ""
                                            : fmt::format(", but then {} of the host's {}",
                                                          to_text(o.host.needed), to_text(o.host.capacity)));
  return fmt::format("{}: {}", o.scheme,
                     o.refusal.empty() ? "no candidate with that many samples in a step" : o.refusal);
}

std::string inexact_text(const Space& space) {
  std::vector<std::string> names;
  for (const std::string& text : space.schemes) {
    if (!learns_as_one(resolve_scheme(text, Place{}))) names.push_back(text);
  }
  if (names.empty()) return "";
  return fmt::format(
      "{} {} not equivalent to one worker with the whole batch: stale or averaged updates may need more "
      "samples to the same loss, so samples/s alone do not tell which is better.\n",
      fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
}

/// Goodput and time to a target of the first choice, and the time of the others.
std::string aims_lines(const Advice& advice) {
  std::string out = goodput_lines(advice.ranked[0].report);
  for (std::size_t i = 0; i < advice.ranked.size(); ++i) {
    const std::string lines = progress_lines({advice.ranked[i].report});
    if (!lines.empty())
      out += fmt::format("{}: {}", i + 1, i == 0 ? lines : lines.substr(0, lines.find('\n') + 1));
  }
  return out;
}

/// How near the others are, and which are last for their memory.
std::string others_text(const Advice& advice) {
  if (!advice.first_beats_second) return "";
  std::string out = fmt::format(
      "The first is faster than the second with probability {}. \"Of the first\" is a rate over the first's, "
      "between its 90 % bounds; errors that both have cancel. Ways that may be as fast are worth a few "
      "measured steps each: on published grids the best of five came nearer to the best than the first alone "
      "(docs/validation/regret.md).\n",
      chance_text(*advice.first_beats_second));
  std::vector<std::size_t> tight;
  for (std::size_t i = 0; i < advice.ranked.size(); ++i) {
    if (advice.ranked[i].tight) tight.push_back(i + 1);
  }
  if (!tight.empty() && tight.size() < advice.ranked.size())
    out += fmt::format(
        "Last for leaving less than a tenth of the memory free, whatever the rate: {} (--full-memory ranks "
        "by rate alone).\n",
        fmt::join(tight, ", "));
  return out;
}

/// The effect of more samples per step.
std::string larger_text(const Advice& advice, const Space& space) {
  if (!advice.larger) return "";
  const Advice::Larger& l = *advice.larger;
  const double now = advice.ranked[0].report.rate.samples_per_second;
  return fmt::format(
      "A larger batch is worth more: {} samples in a step instead of {} would give {} samples/s ({:+.0f} %) "
      "with "
      "{} and {} on {}; the learning rate belongs to the batch.\n",
      whole(l.samples), whole(space.samples), grouped(l.rate), 100 * (l.rate / now - 1), l.scheme, l.batch,
      l.devices == 1 ? "one device" : fmt::format("each of {} devices", l.devices));
}

/// Schemes that were not asked for and are far slower are not mentioned.
bool worth_a_line(const Outcome& o, const Advice& advice, const Space& space) {
  if (space.schemes != exact_schemes()) return true;
  return std::max(o.rate, o.at_most) >= 0.5 * advice.ranked[0].report.rate.samples_per_second;
}

std::string heading(const AskedAdvice& asked) {
  const Question& q = *asked.question;
  const Space& space = *asked.space;
  return fmt::format("{} on {}, at most {} device{} · {} in a step · {}", q.graph.name(), q.system_label(),
                     space.devices, space.devices == 1 ? "" : "s", samples_words(space.samples),
                     q.optimizer->name);
}

}  // namespace

std::string advice_text(const AskedAdvice& asked, int columns) {
  const Advice& advice = asked.advice;
  const AdviceContext& context = asked.context;
  std::string prose =
      "\nWhy the first: " + fmt::format("{}", fmt::join(reasons(advice.ranked[0], context), "; ")) + ".\n";
  prose += others_text(advice);
  if (const MemoryUse& memory = advice.ranked[0].report.memory; memory.barely_fits())
    prose += fmt::format("The first takes {} of {} on a device. {}\n", to_text(memory.needed()),
                         to_text(memory.capacity), barely_fits_text());
  prose += larger_text(advice, *context.space) + aims_lines(advice) + inexact_text(*context.space);
  for (std::size_t f = 0; f < advice.outcomes.size(); ++f) {
    if (!worth_a_line(advice.outcomes[f], advice, *context.space)) continue;
    const std::string text = outcome_text(advice.outcomes[f], f, advice);
    if (!text.empty()) prose += "Not chosen, " + text + ".\n";
  }
  prose +=
      fmt::format("Of {} ways {} were simulated; {}.\n", whole(advice.ways), advice.simulated,
                  advice.complete      ? "the others do not fit or cannot be faster than the second"
                  : advice.interrupted ? "the search was interrupted there, and others may be faster"
                                       : "the search ended there, and others may be faster than the second");
  std::string out = wrapped(heading(asked), columns) + "\n\n" + choices_table(advice).text(true, columns) +
                    wrapped(prose, columns) + "\nPredict it:\n  " + shell_line(context.predict) + "\n";
  if (!context.run.words.empty()) {
    out += "Run it:\n  " + shell_line(context.run.words) + "\n";
    for (const std::string& note : context.run.notes) out += wrapped("  (" + note + ")\n", columns);
  }
  return out;
}

namespace {

using NamedCells = std::vector<std::pair<const char*, std::string>>;

NamedCells csv_row(const Choice& choice, std::size_t rank) {
  const Candidate& c = choice.candidate;
  const Report& r = choice.report;
  const auto real = [](double v) { return fmt::format("{:.9g}", v); };
  return {{"rank", std::to_string(rank)},
          {"scheme", c.scheme},
          {"devices", std::to_string(c.devices)},
          {"batch_per_device", std::to_string(c.batch)},
          {"micro_batches", std::to_string(c.micro_batches)},
          {"replicas", std::to_string(c.replicas)},
          {"tensor", std::to_string(c.tensor)},
          {"pipeline", std::to_string(c.pipeline)},
          {"expert", std::to_string(c.expert)},
          {"context", std::to_string(c.context)},
          {"precision", std::string(name(c.precision))},
          {"recompute", choice.recompute.text()},
          {"offload", choice.offload.text()},
          {"memory_bytes", std::to_string(r.memory.needed().n)},
          {"samples_per_second", real(r.rate.samples_per_second)},
          {"samples_per_second_low", real(r.rate.interval.low)},
          {"samples_per_second_high", real(r.rate.interval.high)},
          {"to_first_low", real(choice.to_first.low)},
          {"to_first_high", real(choice.to_first.high)},
          {"tight", choice.tight ? "yes" : "no"},
          {"tokens_per_second", r.rate.tokens_per_second > 0 ? real(r.rate.tokens_per_second) : ""},
          {"bottleneck", r.bottleneck.resource},
          {"goodput_share", r.goodput ? real(r.goodput->share) : ""},
          {"seconds_to_target", r.progress && r.progress->seconds ? real(*r.progress->seconds) : ""}};
}

}  // namespace

std::string advice_csv(const Advice& advice) {
  std::vector<Column> columns;
  for (const auto& [head, cell] : csv_row(advice.ranked[0], 1)) columns.push_back({head});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < advice.ranked.size(); ++i) {
    std::vector<std::string> cells;
    for (auto& [head, cell] : csv_row(advice.ranked[i], i + 1)) cells.push_back(std::move(cell));
    table.add(std::move(cells));
  }
  return table.csv();
}

}  // namespace tandem::app
