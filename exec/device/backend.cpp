// SPDX-License-Identifier: Apache-2.0
#include "exec/device/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tandem::exec {

namespace {

const std::vector<std::string> kNames = {"auto", "peer", "staged"};  // in the order of PeerRoute

}  // namespace

std::string_view name(PeerRoute route) { return kNames.at(static_cast<std::size_t>(route)); }

PeerRoute parse_peer_route(std::string_view text, const Place& place) {
  const auto at = std::find(kNames.begin(), kNames.end(), text);
  if (at != kNames.end()) return static_cast<PeerRoute>(at - kNames.begin());
  throw InputError(place, fmt::format("no route \"{}\": auto, peer or staged.{}", printable(text),
                                      did_you_mean(text, kNames)));
}

}  // namespace tandem::exec
