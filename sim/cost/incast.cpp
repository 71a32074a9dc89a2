// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/incast.h"

#include <algorithm>
#include <cmath>

namespace tandem::sim {

namespace {

constexpr double kFastRetransmit = 3;  // segments that must arrive after a lost one
constexpr double kMarkedWindow = 2;
constexpr double kEnoughPlaces = 8;
constexpr int kMostAttempts = 10'000;

/// That of `window` segments, each of which arrives with probability `s`, some are lost and at most two
/// arrive.
double waits(double window, double s) {
  if (s >= 1) return 0;
  if (window < kFastRetransmit) return 1 - std::pow(s, window);
  const double lost = 1 - s;
  const double none = std::pow(lost, window), one = window * s * std::pow(lost, window - 1),
               two = window * (window - 1) / 2 * s * s * std::pow(lost, window - 2);
  return std::min(1.0, none + one + two);
}

/// Of a sender that finds `share` places, in slow start from `first` segments on.
double waits_in_slow_start(double share, double first, double each) {
  const double window = std::max({first, 2 * share, kFastRetransmit});
  return waits(std::min(each, window), share / std::min(each, window));
}

/// That any of `senders` waits.
double any(double senders, double q) { return q >= 1 ? 1 : -std::expm1(senders * std::log1p(-q)); }

/// Share of the link that `senders` long flows use under marks above `k` packets.
double used(double senders, double k, double in_flight) {
  const double swing = std::sqrt(2 * senders * (in_flight + k)) / 2, least = k + senders - swing;
  if (least >= 0) return 1;
  const double deficit = std::min(-least, in_flight);
  return 1 - deficit * deficit / (2 * swing * in_flight);
}

}  // namespace

Incast incast(const IncastPort& port, double senders, double bytes) {
  const PacketLoss& loss = port.loss;
  const auto segment = static_cast<double>(loss.segment.n);
  const double in_flight = port.rate * port.rtt / segment;
  const double places = static_cast<double>(loss.buffer.n) / segment + in_flight, each = bytes / segment;
  Incast out;
  out.ideal = senders * bytes / port.rate;
  double left = senders;
  const double most = senders * each / places;
  for (int attempt = 0; attempt < kMostAttempts && left * each > places && out.timeouts < most; ++attempt) {
    const double share = places / left;
    const double first = attempt == 0 ? static_cast<double>(loss.initial_window) : 1;
    const double marked = std::min(each, kMarkedWindow);
    double q = loss.mark.n > 0 ? waits(marked, share / marked) : waits_in_slow_start(share, first, each);
    if (share < kEnoughPlaces)
      q = std::min(q, 1 - share / kEnoughPlaces * (1 - waits_in_slow_start(kEnoughPlaces, first, each)));
    const double round = any(left, q);
    if (attempt == 0) out.suffering = round;
    out.timeouts += round;
    if (round < 1e-12) break;
    left *= q;
  }
  out.timeouts = std::min(out.timeouts, most);
  if (loss.mark.n > 0 && in_flight > 0)
    out.utilisation = used(senders, static_cast<double>(loss.mark.n) / segment, in_flight);
  out.seconds = out.ideal / out.utilisation + out.timeouts * loss.min_rto.seconds();
  return out;
}

}  // namespace tandem::sim
