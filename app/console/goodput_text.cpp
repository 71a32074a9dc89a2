// SPDX-License-Identifier: Apache-2.0
#include "app/console/goodput_text.h"

#include <fmt/format.h>

#include "app/console/table.h"

namespace tandem::app {

namespace {

std::string percent(double share) {
  return fmt::format("{:.{}f} %", 100 * share,
                     (share > 0 && share < 0.0995) || (share > 0.995 && share < 1) ? 2 : 1);
}

std::string plural(int64_t n, std::string_view word) {
  return fmt::format("{} {}{}", whole(n), word, n == 1 ? "" : "s");
}

std::string checkpoints_text(const Goodput& g) {
  const bool optimal =
      g.interval_steps > 1 && g.interval < 1.1 * g.optimal_interval && g.interval > g.optimal_interval / 1.1;
  return fmt::format("A checkpoint of {} costs {}, every {} ({}; {}).", to_text(g.checkpoint_bytes),
                     seconds_text(g.checkpoint), seconds_text(g.interval), plural(g.interval_steps, "step"),
                     optimal ? std::string("the optimum of Young and Daly")
                             : "the optimum of Young and Daly is " + seconds_text(g.optimal_interval));
}

std::string times_text(const Goodput& g) {
  std::string out =
      fmt::format("checkpoints {}, work done twice {}, restarts of {} each {}", percent(g.times.checkpoints),
                  percent(g.times.repeated), seconds_text(g.restart), percent(g.times.restarts));
  if (g.times.waiting > 0) out += ", waiting for nodes " + percent(g.times.waiting);
  if (g.times.fewer_nodes > 0) out += ", fewer nodes " + percent(g.times.fewer_nodes);
  return out;
}

std::string away_text(const Report& r, const Goodput& g) {
  if (!(g.repair > 0)) return "";
  std::string out = fmt::format("A failed node is down for {} on average", seconds_text(g.repair));
  if (g.fewer_devices > 0)
    out += fmt::format("; one node fewer would give {} samples/s ({} devices, {:+.1f} %)",
                       grouped(g.fewer_samples_per_second), g.fewer_devices,
                       100 * (g.fewer_samples_per_second / r.rate.samples_per_second - 1));
  out += fmt::format(". Goodput {} is {}", way_about_failures(g.spares, g.elastic), percent(g.share));
  for (const Goodput::Alternative& a : g.alternatives)
    out += fmt::format(", {} {}", way_about_failures(a.spares, a.elastic), percent(a.share));
  return out + ".\n";
}

}  // namespace

std::string way_about_failures(int64_t spares, bool elastic) {
  if (spares == 0) return elastic ? "continuing with fewer nodes" : "waiting for it";
  return fmt::format("with {}{}", plural(spares, "spare"), elastic ? ", then fewer nodes" : "");
}

std::string goodput_cell(const Report& r) {
  return r.goodput ? fmt::format("{} ({})", grouped(r.goodput->samples_per_second), percent(r.goodput->share))
                   : "-";
}

std::string goodput_lines(const Report& r) {
  if (!r.goodput) return "";
  const Goodput& g = *r.goodput;
  return fmt::format(
      "With {} a failure occurs every {} on average. {}\nGoodput {}: of the time {} are lost to {}. "
      "Simulated failures give {}.\n{}",
      plural(r.setup.devices, "device"), seconds_text(g.mtbf), checkpoints_text(g), percent(g.share),
      percent(1 - g.share), times_text(g), percent(g.share_by_events), away_text(r, g));
}

}  // namespace tandem::app
