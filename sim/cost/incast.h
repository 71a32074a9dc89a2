// SPDX-License-Identifier: Apache-2.0
#pragma once
// Incast: senders that all send to one port at once, and a receiver that waits for the last of them.
//
// A round takes T = L / u + R * RTO (Chen, Griffith, Liu, Katz, Joseph: Understanding TCP Incast Throughput
// Collapse in Datacenter Networks, WREN 2009: goodput = D / (L + R r)), L = N b / C being what the link needs
// for N senders of b bytes. While a sender waits for its timer, nobody else has anything left to send.
//
// Their R is fitted to one testbed. This R, the expected timeouts that a round waits for, is our own, from
// these principles and no fitted figure:
// - Buffer and wire hold P = (buffer + C * RTT) / segment packets. If N b fits, nothing is lost: R = 0.
// - Senders double their windows until packets are lost (slow start), from the initial window on. In that
//   round trip each sends W = max(initial window, 2 w) segments, w = P / N being its share of the places, or
//   all of b if that is less; each finds a place with probability s = w / W.
// - A lost segment is sent again at once only if three that follow it arrive (RFC 5681, 3.2). A sender of
//   whose segments some are lost and at most two arrive waits for its timer: q = P(Binomial(W, s) <= 2), and
//   below three segments q = 1 - s^W.
// - Of very many senders those that wait make room for others: P / 8 of them, which have eight places each,
//   get through, so that q <= 1 - w / 8.
// - The round waits if any does, 1 - (1 - q)^N. Those N q begin again, from one segment on (RFC 5681, 3.1),
// at
//   the same time, and so on, until what they have left fits. R is the sum, at most N b / P: between two
//   timeouts at least what fits gets through.
// - With marks (DCTCP) windows stop growing near two segments before anything is lost, so that W = 2
//   (Alizadeh et al.: Data Center TCP, SIGCOMM 2010, 4.2.1).
// Left out: losses later in long messages, of which fast retransmission takes care while w >= 4; tails, which
// Linux probes since 3.10 (RFC 8985); longer waits after several timeouts of one sender (RFC 6298, 5.5); and
// that timers drift apart. R never grows with the buffer, and never shrinks with the number of senders.
//
// u, the share of the link that long flows use, is 1 without marks. With a threshold of K packets the queue
// of N flows swings between K + N and K + N - A, A = sqrt(2 N (C RTT + K)) / 2 (the same, eq. 8 to 12), which
// stays above zero for every N where K > C RTT / 7 (eq. 13). Below zero the link idles: ours is the mean of
// the missing part of C RTT over the saw-tooth.
#include "topologies/packet_loss.h"

namespace tandem::sim {

/// A port towards a receiver.
struct IncastPort {
  double rate = 0;  ///< bytes/s
  double rtt = 0;   ///< seconds, with empty queues
  PacketLoss loss;  ///< of kind `tcp`
};

struct Incast {
  double timeouts = 0;     ///< R
  double suffering = 0;    ///< probability that a round waits for any
  double utilisation = 1;  ///< u
  double ideal = 0;        ///< seconds: L
  double seconds = 0;      ///< T
  double delay() const { return seconds - ideal; }
  double goodput() const { return seconds > 0 ? ideal / seconds : 1; }  ///< share of the link
};

/// A round of `senders` > 0 (not always whole, as a mean) with `bytes` each. Cost: one term for each attempt,
/// at most 10,000.
Incast incast(const IncastPort& port, double senders, double bytes);

}  // namespace tandem::sim
