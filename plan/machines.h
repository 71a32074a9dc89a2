// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machines that a plan chooses among: each system with each number of nodes, and the best way to train on
// it.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "answers/way_bounds.h"
#include "answers/way_search.h"
#include "plan/faults.h"
#include "plan/plan.h"
#include "schemes/report/report.h"

namespace tandem::plan {

/// A system with a number of nodes.
struct Machine {
  std::string system;
  int64_t nodes = 1;
  std::shared_ptr<Question> question;  ///< of `way` once that is refined
  Way way;                             ///< its rate is an upper bound
  bool refined = false;                ///< `way` fits; before that it may not, and others may be faster
  int64_t ways = 0;
  std::string why_not;  ///< "": it is a candidate
  std::optional<schemes::Report> report = {};
  std::string without_failures = {};      ///< why they are left out
  std::optional<FaultRates> faults = {};  ///< published ones that count
  double idle_watts = 0;                  ///< at least

  bool possible() const { return why_not.empty(); }
  double rate_at_most() const { return report ? report->rate.samples_per_second : way.rate; }
};

/// "5090-2x:1": a system, and how many of its devices; 0: all. Throws InputError.
std::pair<std::string, int64_t> devices_of(const std::string& system);

/// Bounds machines, first cheaply, then, of those that matter, as well as a search can (Until::undisturbed):
/// that takes a hundred times longer. Results depend on `threads` in nothing. `question` must outlive it.
class MachineSearch {
 public:
  explicit MachineSearch(const PlanQuestion& question);
  ~MachineSearch();
  MachineSearch(const MachineSearch&) = delete;
  MachineSearch& operator=(const MachineSearch&) = delete;

  /// All machines, in the order asked, bounded by Until::stage; stopped early, fewer. Throws InputError for
  /// what is wrong with every number of nodes; else Machine::why_not says it.
  std::vector<Machine> find();
  /// Refines those of `which` that are not. Machine::why_not says of one that nothing fits it.
  void refine(std::vector<Machine>& all, const std::vector<std::size_t>& which);

 private:
  struct OfSystem;  ///< what machines of one system share

  Question question(const std::string& asked, int64_t nodes) const;
  void find(OfSystem& of, std::size_t all);
  void refine(Machine& m, OfSystem& of) const;
  answers::Ways ways(const Machine& m, OfSystem& of, answers::Until until) const;
  void tell(std::size_t all);
  bool stopped() const { return q_.stop != nullptr && *q_.stop; }

  const PlanQuestion& q_;
  std::vector<std::unique_ptr<OfSystem>> systems_;
  std::mutex telling_;  ///< guards bounded_ and progress
  std::size_t bounded_ = 0;
};

}  // namespace tandem::plan
