// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/incast_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tandem::sim {

namespace {

/// The last link of the network on a way between two nodes, and the time there and back.
struct Port {
  LinkId link = 0;
  double rtt = 0;
};

Port port_of(const System& system, VertexId from, VertexId to) {
  const Route route = system.route(from, to);
  const auto at = std::find_if(route.links.rbegin(), route.links.rend(),
                               [&](LinkId id) { return system.link_kind(id) == "network"; });
  TANDEM_CHECK(at != route.links.rend());
  return {*at, 2 * route.latency.seconds()};
}

/// Receivers below one port, and the flows into it from all senders.
struct Ending {
  Port port;
  double receivers = 0, flows = 0;
};

}  // namespace

std::vector<Time> IncastRounds::delays(const ManyToMany& round) {
  std::vector<Time> out(round.receivers.size());
  if (none() || system_.nodes() < 2 || !(round.bytes > 0)) return out;
  std::map<int64_t, int64_t> senders;  // of each node
  for (const VertexId v : round.senders) ++senders[system_.node_of(v)];
  std::map<LinkId, Ending> endings;
  constexpr LinkId kNone = UINT32_MAX;
  std::vector<LinkId> port(round.receivers.size(), kNone);
  for (std::size_t i = 0; i < round.receivers.size(); ++i) {
    const VertexId to = round.receivers[i];
    const int64_t node = system_.node_of(to);
    const auto from = std::find_if(round.senders.begin(), round.senders.end(),
                                   [&](VertexId v) { return system_.node_of(v) != node; });
    if (from == round.senders.end()) continue;
    const Port at = port_of(system_, *from, to);
    const auto own = senders.find(node);
    const int64_t others =
        static_cast<int64_t>(round.senders.size()) - (own == senders.end() ? 0 : own->second);
    Ending& ending = endings[at.link];
    ending.port = at;
    ending.receivers += 1;
    ending.flows += static_cast<double>(others) * round.at_once;
    port[i] = at.link;
  }
  std::map<LinkId, Time> delay;
  const PacketLoss& loss = system_.packet_loss();
  for (const auto& [link, ending] : endings) {
    const double flows = (round.alone ? ending.flows / ending.receivers : ending.flows) / round.as_one;
    const double bytes = round.bytes * round.as_one;
    if (!(flows > 1)) continue;
    IncastRound seen{round.what, flows, Bytes{std::llround(bytes)}, static_cast<int64_t>(endings.size())};
    if (loss.kind == PacketLoss::Kind::tcp) {
      const Incast one = incast({system_.usable(link), ending.port.rtt, loss}, flows, bytes);
      seen.buffer = loss.buffer;
      seen.timeouts = one.timeouts;
      seen.goodput = one.goodput();
      seen.delay_seconds = one.delay() / timers_;
      delay[link] = Time::from_seconds(seen.delay_seconds);
    }
    record(seen);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = delay.find(port[i]);
    if (at != delay.end()) out[i] = at->second;
  }
  return out;
}

Time IncastRounds::group(const std::string& what, std::span<const VertexId> members, double bytes,
                         bool gather) {
  if (none() || members.size() < 2) return {};
  const auto each = delays({.what = what,
                            .senders = members,
                            .receivers = members.first(gather ? 1 : members.size()),
                            .bytes = bytes});
  return *std::max_element(each.begin(), each.end());
}

void IncastRounds::record(const IncastRound& round) {
  const auto at = std::find_if(worst_.begin(), worst_.end(),
                               [&](const IncastRound& known) { return known.what == round.what; });
  if (at == worst_.end()) {
    worst_.push_back(round);
  } else if (round.delay_seconds > at->delay_seconds) {
    *at = round;
  }
}

std::string incast_text(const IncastRound& r) {
  if (r.buffer.n == 0)
    return fmt::format(
        "PFC ({}): {:.3g} senders into one port, nothing is lost; where pauses also hold back what these "
        "send to the other {} ports, it takes up to {} times as long as the links alone",
        r.what, r.senders, r.ports - 1, r.ports);
  return fmt::format(
      "incast ({}): {:.3g} senders of {} each into one port of {} buffer: {:.2g} timeouts a round, goodput "
      "{:.0f} % of the link",
      r.what, r.senders, to_text(r.bytes), to_text(r.buffer), r.timeouts, 100 * r.goodput);
}

}  // namespace tandem::sim
