// SPDX-License-Identifier: Apache-2.0
#pragma once
// Predicted collectives over sizes, next to measured ones and corrected by them.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "answers/values.h"
#include "sim/cost/link_cost.h"
#include "sim/cost/link_profile.h"

namespace tandem::calibration {

struct CollectiveLine {
  int64_t bytes = 0;
  double seconds = 0, algbw = 0, busbw = 0;  ///< bytes/s
  double low = 0, high = 0;                  ///< seconds, 90 % interval; 0 if the library has none
  double best = 0;                           ///< seconds that the links allow; 0 if no bound is known
  LinkCost::Choice choice;
  std::string trunk;        ///< the limiting link, if several nodes share it: "leaf0>spine1-0"
  double trunk_busy = 0;    ///< share of the time that it is busy
  int64_t trunk_nodes = 0;  ///< that share it
  double measured = 0;      ///< seconds; 0 = none
  double plain = 0;         ///< seconds by interpolation of the calibrating sizes only; 0 = none
  double estimate = 0;      ///< seconds that the library itself expected; 0 = none
  bool calibrates = false;  ///< the measured figure went into the correction
};

struct CollectiveRun {
  std::string system, kind, library, source;
  int64_t devices = 0;
  double bus_factor = 1;  ///< bus bandwidth over algorithm bandwidth
  Harness harness;
  std::string calibrated_by;  ///< empty: stock figures alone
  std::vector<CollectiveLine> lines;
};

/// Options of `tandem collective`, without those of how it is shown.
std::vector<Option> collective_options();

/// One for each run that is asked about, in order. `note` is told what is left out or taken from the
/// measurements; it may be empty. Throws InputError and UsageError.
std::vector<CollectiveRun> predict_collectives(const Values& values,
                                               const std::function<void(std::string_view)>& note);

/// {"schema": "tandem-collective-1", ...}; of several runs {"schema": "tandem-collectives-1", "runs": [...]}.
std::string collective_json(const std::vector<CollectiveRun>& runs);

}  // namespace tandem::calibration
