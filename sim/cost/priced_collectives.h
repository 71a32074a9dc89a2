// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives that have been priced, for predictions that ask for the same ones again.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schemes/program/program.h"
#include "schemes/setup/scheme.h"
#include "sim/bound/bound_program.h"
#include "sim/bound/speeds.h"
#include "topologies/system.h"

namespace tandem::sim {

/// What LinkCost::collective() told for one system. Any thread may call. It keeps a reference to the system.
class PricedCollectives {
 public:
  using Key = std::tuple<int64_t, CollKind, std::string, std::vector<VertexId>>;  ///< bytes first

  explicit PricedCollectives(const System& system) : system_(system) {}
  bool of(const System& system) const { return &system_ == &system; }

  /// Those priced with equal overheads and speeds.
  class Shelf {
   public:
    std::optional<Transfer> find(const Key& key) const;
    void keep(Key key, const Transfer& transfer);

   private:
    mutable std::mutex lock_;
    std::map<Key, Transfer> known_;
  };
  std::shared_ptr<Shelf> shelf(const Overheads& overheads, const Speeds& speeds);

 private:
  const System& system_;
  std::mutex lock_;
  std::vector<std::tuple<Overheads, Speeds, std::shared_ptr<Shelf>>> shelves_;
};

}  // namespace tandem::sim
