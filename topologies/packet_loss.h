// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a port of the network does with packets that its buffer has no room for.
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/units.h"

namespace tandem::topologies {

struct PacketLoss {
  enum class Kind : uint8_t {
    none,   ///< nothing is lost, and nothing waits but for its share of the links
    pause,  ///< nothing is lost: a full port pauses the ports that feed it (IEEE 802.1Qbb, PFC)
    tcp,    ///< what finds the buffer full is dropped, and TCP sends it again
  };
  Kind kind = Kind::none;
  // Of `tcp`.
  Bytes buffer{};               ///< of one port
  Time min_rto{};               ///< least retransmission timeout
  Bytes segment{};              ///< payload of a packet
  int64_t initial_window = 10;  ///< segments that a sender puts on the wire before the first is acknowledged
  /// The port marks packets while its queue is longer than this, and senders slow down by the share of marked
  /// ones (DCTCP); 0: it marks none.
  Bytes mark{};
};

/// "loss", "buffer", "min_rto", "segment", "initial_window" and "ecn" of a network's transport, the last five
/// for `tcp` alone. Defaults: 200 ms, TCP_RTO_MIN of Linux (include/net/tcp.h, HZ/5), where RFC 6298, 2.4,
/// has 1 s; 1,460 bytes, what Ethernet's 1,500 leave of TCP and IPv4; 10 segments (RFC 6928). Throws
/// InputError.
PacketLoss read_packet_loss(const Json& transport);
/// "lossless", "pfc", "tcp".
std::string_view name(PacketLoss::Kind kind);

}  // namespace tandem::topologies
