// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a library lays collectives on the links: its layouts, by name. A new one is one file in
// sim/cost/layouts and one word in sim/CMakeLists.txt.
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"
#include "schemes/program/program.h"
#include "sim/cost/link_pattern.h"
#include "sim/cost/link_profile.h"
#include "topologies/system.h"

namespace tandem::sim {

class Tuner;

/// One kind of collective, over one group, by one library. Keeps references. Not thread safe.
class LayoutInput {
 public:
  LayoutInput(const System& s, const Library& l, const Group& g, CollKind k)
      : system(s), library(l), group(g), kind(k) {}
  /// search_rings() of the group, searched for once.
  const std::vector<Ring>& rings() const;
  /// The library lists `algorithm` among its own.
  bool offers(std::string_view algorithm) const;

  const System& system;
  const Library& library;
  const Group& group;
  const CollKind kind;
  /// What stands after the layout's name and a slash, for those that need more than the group.
  std::string_view parameters;

 private:
  mutable std::vector<Ring> rings_;
};

/// An algorithm as libraries have it built in: over packed rings, whole nodes or switches, where a schedule
/// (schemes/collectives/collectives.h) moves blocks between single ranks.
struct Layout {
  std::string_view name, summary;
  bool (*can)(const LayoutInput&);
  Pattern (*lay)(const LayoutInput&);  ///< requires can(); leaves the pattern's name to lay_out()
  /// Every library has it for the kinds that it can do, listed or not.
  bool last_resort = false;
  /// A library of which this holds never runs the schedule of the same name by itself. Null: none is such.
  bool (*replaces_schedule)(const Library&) = nullptr;
  /// The protocols that it runs under. Null: all of the library.
  std::vector<Protocol> (*protocols)(const Library&) = nullptr;
  /// Seconds that NCCL expects of it when it chooses; infinite for what it would not take. Null: it never
  /// does.
  double (*expected)(const Tuner&, CollKind, std::string_view protocol, double bytes) = nullptr;
};

/// Generated from the list in sim/CMakeLists.txt.
const Registry<Layout>& layouts_registry();

/// A pattern, the layout that made it (null: a schedule or grouped sends) and the protocols that it runs
/// under.
struct Laid {
  const Layout* layout = nullptr;
  Pattern pattern;
  std::vector<Protocol> protocols;
};

/// `algorithm` as the layout of that name, or where it cannot, as the schedule. "auto": all that the library
/// would choose from, at least one. A name may go on after a slash (LayoutInput::parameters). Throws
/// InputError when a named algorithm is unknown or cannot serve the kind and group.
std::vector<Laid> lay_out(LayoutInput input, const std::string& text);

/// Throws InputError with the nearest names when `algorithm` names neither a layout nor a schedule.
void check_algorithm(const std::string& algorithm, const Place& place = {});

}  // namespace tandem::sim
