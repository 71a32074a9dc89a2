// SPDX-License-Identifier: Apache-2.0
#include "topologies/packet_loss.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace tandem::topologies {

namespace {

constexpr Time kLinuxMinRto{200'000'000'000};  // picoseconds
constexpr Bytes kEthernetSegment{1460};

PacketLoss::Kind loss_kind(const Json& value) {
  using Kind = PacketLoss::Kind;
  std::vector<std::string> valid;
  for (const Kind kind : {Kind::none, Kind::pause, Kind::tcp}) {
    if (value.as_text() == name(kind)) return kind;
    valid.emplace_back(name(kind));
  }
  value.fail(fmt::format("\"{}\" is no way to lose packets.{} Valid: lossless, pfc, tcp",
                         printable(value.as_text()), did_you_mean(value.as_text(), valid)));
}

/// In [low, high].
Bytes bytes_within(const Json& value, Bytes low, Bytes high) {
  const Bytes bytes = value.as_bytes();
  if (bytes.n < low.n || bytes.n > high.n)
    value.fail(fmt::format("{} to {} are possible here", to_text(low), to_text(high)));
  return bytes;
}

}  // namespace

std::string_view name(PacketLoss::Kind kind) {
  switch (kind) {
    case PacketLoss::Kind::none:
      return "lossless";
    case PacketLoss::Kind::pause:
      return "pfc";
    case PacketLoss::Kind::tcp:
      return "tcp";
  }
  return "";
}

PacketLoss read_packet_loss(const Json& transport) {
  PacketLoss out;
  if (const Json* kind = transport.find("loss")) out.kind = loss_kind(*kind);
  if (out.kind != PacketLoss::Kind::tcp) {
    for (const char* key : {"buffer", "min_rto", "segment", "initial_window", "ecn"}) {
      const Json* value = transport.find(key);
      if (value != nullptr)
        value->fail(fmt::format("\"{}\" is of a network that loses packets: \"loss\": \"tcp\"", key));
    }
    return out;
  }
  constexpr Bytes kLeastSegment{64}, kMostSegment{65'536}, kMostBuffer{1'000'000'000'000};
  out.segment = kEthernetSegment;
  if (const Json* segment = transport.find("segment"))
    out.segment = bytes_within(*segment, kLeastSegment, kMostSegment);
  const Json* buffer = transport.find("buffer");
  if (buffer == nullptr)
    transport.fail("\"loss\": \"tcp\" needs \"buffer\", what a port of the switch holds: \"512KB\"");
  out.buffer = bytes_within(*buffer, out.segment, kMostBuffer);
  out.min_rto = kLinuxMinRto;
  if (const Json* rto = transport.find("min_rto")) {
    constexpr Time kLeast{1'000'000}, kMost{60'000'000'000'000};
    out.min_rto = rto->as_time();
    if (out.min_rto < kLeast || kMost < out.min_rto) rto->fail("1us to 60s are possible here");
  }
  out.initial_window = transport.integer("initial_window", out.initial_window, 1, 1000);
  if (const Json* mark = transport.find("ecn")) out.mark = bytes_within(*mark, out.segment, out.buffer);
  return out;
}

}  // namespace tandem::topologies
