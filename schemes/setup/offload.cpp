// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/offload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.h"

namespace tandem::schemes {

namespace {

constexpr std::array<std::pair<std::string_view, bool Offload::*>, 4> kOffloads{
    {{"optimizer", &Offload::optimizer},
     {"gradients", &Offload::gradients},
     {"parameters", &Offload::parameters},
     {"activations", &Offload::activations}}};

}  // namespace

bool Offload::within(const Offload& other) const {
  return std::all_of(kOffloads.begin(), kOffloads.end(),
                     [&](const auto& p) { return !(this->*p.second) || other.*p.second; });
}

std::string Offload::text() const {
  std::vector<std::string_view> parts;
  for (const auto& [word, part] : kOffloads) {
    if (this->*part) parts.push_back(word);
  }
  return parts.empty() ? "off" : fmt::format("{}", fmt::join(parts, "+"));
}

Offload parse_offload(std::string_view text, const Place& place) {
  Offload out;
  if (text == "off") return out;
  for (const std::string& word : split(text, '+')) {
    const auto at =
        std::find_if(kOffloads.begin(), kOffloads.end(), [&](const auto& p) { return p.first == word; });
    if (at == kOffloads.end())
      throw InputError(
          place,
          fmt::format("nothing named \"{}\" is offloaded.{} Valid: off, or some of optimizer, gradients, "
                      "parameters and activations, joined by +",
                      printable(word),
                      did_you_mean(word, {"off", "optimizer", "gradients", "parameters", "activations"})));
    out.*at->second = true;
  }
  if ((out.gradients || out.parameters) && !out.optimizer)
    throw InputError(place, fmt::format("{} alone are not offloaded: the update is made where they are. Say "
                                        "optimizer+{}",
                                        out.parameters ? "parameters" : "gradients", out.text()));
  return out;
}

}  // namespace tandem::schemes
