// SPDX-License-Identifier: Apache-2.0
#pragma once
// A machine's own measured collectives, and what they change about predictions of other sizes.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "calibration/logs/nccl_tests.h"

namespace tandem::calibration {

/// {"schema": "tandem-collective-profile-1", "source", "kind", "devices", "library", "harness": {"threads",
/// "gpus_per_thread", "iterations"}, "points": [{"bytes", "seconds"}]}.
struct CollectiveProfile {
  std::string source, kind, library;  ///< kind as NcclLog::kind
  int64_t devices = 0;                ///< 0: not known
  Harness harness;
  std::vector<NcclRow> points;  ///< by size
};

/// Of a log; throws InputError where its kind is unknown and `kind` names none.
CollectiveProfile profile_of(const NcclLog& log, const std::string& source, const std::string& kind);
/// Several logs of one question: of sizes that both hold the geometric mean stands. Throws InputError when
/// kind, devices or benchmark differ.
void join(CollectiveProfile& profile, const CollectiveProfile& more);
std::string profile_json(const CollectiveProfile& profile);
/// Throws InputError.
CollectiveProfile read_collective_profile(const Json& document);

/// Corrects predictions by measured points: between two of them the measured time grows as the predicted one
/// does, in proportion, so that it changes protocols where the prediction does and never leaves what was
/// measured around it; beyond the outermost ones measured over predicted is held. A point more than twice off
/// both its neighbours, to the same side, is a stall of the machine and left out.
class CollectiveCorrection {
 public:
  /// `predict`: seconds for a size, as the benchmark of the points would report them; called again by
  /// factor().
  CollectiveCorrection(const std::vector<NcclRow>& points, std::function<double(int64_t)> predict);
  /// Corrected over predicted.
  double factor(int64_t bytes) const;

 private:
  struct Point {
    int64_t bytes;
    double measured, predicted;  ///< seconds
    double ratio() const { return measured / predicted; }
  };
  std::vector<Point> points_;  ///< by size
  std::function<double(int64_t)> predict_;
};

/// Every second power of two among the sizes, from the first on: what a calibration takes, the rest judges
/// it.
std::vector<NcclRow> every_second_size(const std::vector<NcclRow>& rows);

}  // namespace tandem::calibration
