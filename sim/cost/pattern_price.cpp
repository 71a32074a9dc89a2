// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/pattern_price.h"

#include <algorithm>

#include "sim/cost/nccl_tuning.h"
#include "sim/cost/tuner.h"

namespace tandem::sim {

PatternPrice price(const Pattern& p, const std::map<uint32_t, double>& threads, const Protocol& protocol,
                   const Library& library, const Overheads& overheads, const std::vector<double>& capacity) {
  PatternPrice out;
  out.latency = protocol.base + (p.peers - 1) * library.exchange_peer;
  double caps = 0, fabric = 0, least = 1;
  std::map<uint32_t, double>& uses = out.uses;
  for (std::size_t c = 0; c < kHopClasses; ++c) {
    out.steps += p.steps[c] * protocol.step[c] + p.wire[c] * library.wire[c];
    if (p.load[c].empty()) continue;
    const bool network = c == static_cast<std::size_t>(HopClass::network);
    const bool on_fabric = c == static_cast<std::size_t>(HopClass::fabric);
    const double efficiency = protocol.efficiency[c] * p.efficiency * (on_fabric ? p.fabric_efficiency : 1) *
                              (network ? 1 : overheads.link_efficiency);
    if (efficiency <= 0) return out;
    least = std::min(least, efficiency);
    for (const auto& [link, weight] : p.load[c]) uses[link] += weight / efficiency;
    if (p.cap[c] > 0) caps = std::max(caps, 1 / (p.cap[c] * efficiency));
    if (on_fabric) {
      for (const auto& [link, weight] : p.load[c])
        fabric = std::max(fabric, weight / efficiency / capacity[link]);
    }
  }
  out.latency += out.steps;
  for (const auto& [thread, weight] : threads) uses[thread] += weight;
  double busiest = caps;
  for (const auto& [link, weight] : uses) busiest = std::max(busiest, weight / capacity[link]);
  // Between fast links the cores that send also put down what comes last, alternately with sending: words as
  // fast as they send them.
  const bool copies = fabric > 0 && library.own_rate > 0 && p.ring_hop > 0;
  const double copy =
      !copies ? 0 : p.own_copy * (protocol.sends_words() ? fabric / p.ring_hop : 1 / library.own_rate);
  out.seconds_per_byte = std::max(busiest, fabric + copy) + p.extra_time / least;
  out.possible = true;
  return out;
}

void add_slices(PatternPrice& p, double size, const Pattern& pattern, const Protocol& protocol) {
  if (pattern.ring_hop <= 0 || pattern.one_way || protocol.name != "simple") return;
  if (worst_hop(pattern) != static_cast<std::size_t>(HopClass::fabric)) return;
  p.latency -= std::min(p.steps, size * p.seconds_per_byte) / 2;
}

void add_rounds(PatternPrice& p, double size, const Pattern& pattern, const Library& library) {
  constexpr double fill = 2;
  const double step = static_cast<double>(pattern.heads) * library.switch_step;
  const double round = switch_round(size, pattern.heads, library.switch_channels);
  double exchanged = 0;
  for (const auto& [head, ends] : pattern.ends) exchanged = std::max(exchanged, ends.sent + ends.received);
  // The cores of its channels copy every byte in and out, and what a head exchanges with other nodes besides.
  if (library.switch_channel_rate > 0)
    p.seconds_per_byte = std::max(
        p.seconds_per_byte, (1 + exchanged / 2) / (library.switch_channels * library.switch_channel_rate));
  p.latency += fill * (step + round * p.seconds_per_byte);
  p.latency += size / round * step;
}

void add_tree_correction(PatternPrice& p, double size) {
  const double efficiency = nccl_tuning().tree.efficiency(size);
  p.seconds_per_byte /= efficiency;
  for (auto& [link, weight] : p.uses) weight /= efficiency;
}

void add_copies(PatternPrice& p, double size, const Pattern& pattern, const Protocol& protocol,
                const Library& library) {
  if (pattern.copied <= 0 || library.channel_rate <= 0) return;
  const double rate = library.channel_rate * protocol.copy;
  const double message = size * pattern.message;
  const bool bulk = protocol.most <= 0;
  const double least = std::min(message, bulk ? pattern.part : pattern.part_ll);
  p.seconds_per_byte = std::max(p.seconds_per_byte, pattern.copied / (pattern.channels * rate));
  p.latency += std::max(0.0, least / rate - size * p.seconds_per_byte);
  if (bulk) p.latency += std::min(pattern.chunk, std::max(least, message / pattern.channels)) / rate;
}

double overlap_of_calls(const Pattern& p, const Protocol& protocol, const Library& library) {
  double steps = 0, seconds = 0;
  for (std::size_t c = 0; c < kHopClasses; ++c) {
    steps += p.steps[c];
    seconds += p.steps[c] * protocol.step[c] + p.wire[c] * library.wire[c];
  }
  return p.one_way && steps > 1 ? seconds * (steps - 1) / steps : 0;
}

void add_chunks(PatternPrice& p, double size, const Pattern& pattern, const Protocol& protocol,
                const Library& library) {
  constexpr auto network = static_cast<std::size_t>(HopClass::network);
  if (pattern.steps[network] <= 0 || (pattern.heads == 0 && pattern.tree_depth <= 0)) return;
  const double round = pattern.heads > 0 ? switch_round(size, pattern.heads, library.switch_channels)
                                         : tree_round(size, pattern.tree_depth, pattern.tree_channels);
  const double moved = round * p.seconds_per_byte;
  if (pattern.heads == 0 && protocol.name != "ll") p.latency += (pattern.steps[network] - 1) * moved;
  if (library.window == 0) return;
  const double wait =
      protocol.step[network] + pattern.wire[network] / pattern.steps[network] * library.wire[network];
  const double longer =
      pattern.heads > 0 ? wait / (2 * library.window) : std::max(0.0, wait / library.window - moved);
  p.latency += std::max(0.0, size / round - 1) * longer;
}

std::size_t worst_hop(const Pattern& p) {
  std::size_t worst = 0;
  for (std::size_t c = 0; c < kHopClasses; ++c) {
    if (p.steps[c] > 0) worst = c;
  }
  return worst;
}

std::vector<Use> uses_of(const std::map<uint32_t, double>& weights) {
  std::vector<Use> out;
  out.reserve(weights.size());
  for (const auto& [link, weight] : weights) out.push_back({link, static_cast<float>(weight)});
  return out;
}

Transfer transfer_of(const PatternPrice& p, double bytes) {
  Transfer t;
  t.latency = Time::from_seconds(p.latency);
  t.bytes = bytes;
  t.cap = p.seconds_per_byte > 0 ? 1 / p.seconds_per_byte : 0;
  t.uses = uses_of(p.uses);
  return t;
}

}  // namespace tandem::sim
