// SPDX-License-Identifier: Apache-2.0
#include "app/console/progress_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/console/goodput_text.h"
#include "app/console/table.h"

namespace tandem::app {

namespace {

/// "64", "1,348", "0.5": of samples and steps.
std::string amount(double n) { return n < 1000 ? fmt::format("{:.3g}", n) : grouped(n); }

std::string aimed_text(const TrainingProgress& p) {
  switch (p.target) {
    case TrainingProgress::Target::loss:
      return fmt::format("To loss {:g}", p.value);
    case TrainingProgress::Target::epochs:
      return fmt::format("For {:g} epoch{}", p.value, p.value == 1 ? "" : "s");
    case TrainingProgress::Target::tokens:
      return fmt::format("For {} tokens", grouped(p.value));
    case TrainingProgress::Target::samples:
      return fmt::format("For {} samples", grouped(p.value));
  }
  return "";
}

/// "3.2 h"; any length up to the longest time that options accept.
std::string duration_text(double seconds) {
  constexpr double kHour = 3600, kDay = 24 * kHour;
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 2 * kDay) return fmt::format("{:.3g} h", seconds / kHour);
  return seconds < 30'000 * 365.25 * kDay ? grouped(seconds / kDay) + " days" : "more than 30,000 years";
}

std::string needed_text(const TrainingProgress& p) {
  if (!p.samples) return "unknown";
  std::string out = amount(*p.samples) + " samples";
  if (p.steps) out += fmt::format(" in {} steps", amount(*p.steps));
  if (p.seconds) out += ", " + duration_text(*p.seconds);
  if (p.seconds_low && p.seconds_high && !p.measured)
    out += fmt::format(" ({} .. {} by the rate's interval)", duration_text(*p.seconds_low),
                       duration_text(*p.seconds_high));
  if (p.seconds && p.goodput)
    out += fmt::format(" with failures, {} without", duration_text(*p.seconds * *p.goodput));
  return out + (p.measured ? ", measured" : "");
}

std::string way_text(const TrainingProgress& p) {
  std::string out = fmt::format("{} samples a step", amount(p.step_samples));
  if (p.delay > 0) out += fmt::format(", {:.3g} steps late", p.delay);
  if (p.models > 1)
    out += fmt::format(", {:g} models that average every {}", p.models,
                       p.period > 1 ? fmt::format("{:g} steps", p.period) : std::string("step"));
  return out;
}

/// The time with each alternative for failed nodes.
std::string otherwise_line(const Report& r) {
  if (!r.goodput || !r.progress->seconds || !r.progress->goodput) return "";
  std::vector<std::string> ways;
  for (const Goodput::Alternative& a : r.goodput->alternatives) {
    if (!(a.share > 0)) continue;
    ways.push_back(fmt::format("{} {}", way_about_failures(a.spares, a.elastic),
                               duration_text(*r.progress->seconds * *r.progress->goodput / a.share)));
  }
  return ways.empty() ? "" : fmt::format("  {}\n", fmt::join(ways, ", "));
}

std::string target_line(const TrainingProgress& p) {
  return fmt::format("{}: {}; {}.\n", aimed_text(p), needed_text(p), way_text(p));
}

/// The part that all device counts share, and what a sample is worth on one of them.
std::string worth_lines(const TrainingProgress& p) {
  std::string out;
  if (p.efficiency)
    out += fmt::format(
        "A sample is worth {:.0f} % of one in the smallest steps: noise scale {} samples ({}); best learning "
        "rate {:.2g} of the largest useful one.\n",
        100 * *p.efficiency, amount(p.noise_scale.value_or(0)), p.noise_source,
        p.learning_rate_share.value_or(0));
  if (p.seconds_as_far)
    out += fmt::format("It gets as far as the smallest steps do with that many samples in {}.\n",
                       duration_text(*p.seconds_as_far));
  if (!p.sources.empty()) out += fmt::format("By {}.\n", fmt::join(p.sources, "; "));
  for (const std::string& what : p.unknown) out += fmt::format("Unknown: {}.\n", what);
  return out;
}

}  // namespace

std::string progress_lines(const std::vector<Report>& reports) {
  std::string out;
  const TrainingProgress* last = nullptr;
  for (const Report& r : reports) {
    if (!r.progress) continue;
    last = &*r.progress;
    if (reports.size() > 1)
      out += fmt::format("{} device{}: ", r.setup.devices, r.setup.devices == 1 ? "" : "s");
    out += target_line(*last) + otherwise_line(r);
    if (reports.size() > 1 && last->efficiency)
      out += fmt::format("  worth {:.0f} % a sample{}\n", 100 * *last->efficiency,
                         last->seconds_as_far
                             ? ", as far as the smallest steps in " + duration_text(*last->seconds_as_far)
                             : "");
  }
  return last == nullptr ? out : out + worth_lines(*last);
}

}  // namespace tandem::app
