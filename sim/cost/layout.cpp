// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schemes/collectives/collectives.h"

namespace tandem::sim {
namespace {

GroupShape shape_of(const Group& group) {
  const std::size_t local = group.uniform ? group.by_node.front().size() : 1;
  return {static_cast<uint32_t>(group.ranks()), static_cast<uint32_t>(local)};
}

bool allows(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// `chosen`: by the library itself rather than by name.
std::optional<Laid> laid(const LayoutInput& input, const std::string& name, bool chosen) {
  std::optional<Laid> out;
  const Layout* layout = layouts_registry().find(name);
  if (layout != nullptr && layout->can(input)) {
    out = Laid{layout, layout->lay(input),
               layout->protocols != nullptr ? layout->protocols(input.library) : input.library.protocols};
  } else {
    const bool replaced =
        layout != nullptr && layout->replaces_schedule != nullptr && layout->replaces_schedule(input.library);
    if (chosen && replaced) return out;
    const CollectiveAlgorithm* schedule = collectives_registry().find(name);
    if (schedule == nullptr || !schedule->supports(input.kind, shape_of(input.group))) return out;
    out = Laid{nullptr, schedule_pattern(input.system, input.group, input.kind, *schedule),
               input.library.protocols};
  }
  out->pattern.algorithm = name;
  return out;
}

}  // namespace

const std::vector<Ring>& LayoutInput::rings() const {
  if (rings_.empty()) rings_ = search_rings(system, group, library.packs_rings);
  return rings_;
}

bool LayoutInput::offers(std::string_view algorithm) const {
  return std::find(library.algorithms.begin(), library.algorithms.end(), algorithm) !=
         library.algorithms.end();
}

std::vector<Laid> lay_out(LayoutInput input, const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::string algorithm = text.substr(0, slash);
  if (slash != std::string::npos) input.parameters = std::string_view(text).substr(slash + 1);
  std::vector<Laid> out;
  if (algorithm == "auto") {
    for (const std::string& name : input.library.algorithms) {
      if (input.group.nodes() > 1 && !allows(input.library.across_nodes, name)) continue;
      if (auto one = laid(input, name, true)) out.push_back(std::move(*one));
    }
    for (const Layout& layout : layouts_registry().all()) {
      if (out.empty() && layout.last_resort && layout.can(input))
        out.push_back(*laid(input, std::string(layout.name), true));
    }
    TANDEM_CHECK(!out.empty());
    return out;
  }
  check_algorithm(algorithm);
  auto one = laid(input, algorithm, false);
  if (!one) {
    throw InputError(fmt::format("the algorithm \"{}\" cannot do {} over {} devices on {} nodes of {}",
                                 algorithm, name(input.kind), input.group.ranks(), input.group.nodes(),
                                 input.system.name()));
  }
  out.push_back(std::move(*one));
  return out;
}

void check_algorithm(const std::string& algorithm, const Place& place) {
  std::vector<std::string> names = collectives_registry().names();
  for (const std::string& name : layouts_registry().names()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (std::find(names.begin(), names.end(), algorithm) != names.end()) return;
  throw InputError(place, fmt::format("no algorithm \"{}\".{} Known: {}", printable(algorithm),
                                      did_you_mean(algorithm, names), fmt::join(names, ", ")));
}

}  // namespace tandem::sim
