#pragma once
// A machine's own measured collectives, and what they change about predictions of other sizes. Floor 4.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "calibration/nccl_tests.h"

namespace tandem {

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

/// Corrects predictions by measured points: measured over predicted is interpolated over the logarithm of the
/// size, and held beyond the outermost points. A point more than twice off both its neighbours, to the same
/// side, is a stall of the machine and left out.
class CollectiveCorrection {
 public:
  /// `predict`: seconds for a size, as the benchmark of the points would report them.
  CollectiveCorrection(const std::vector<NcclRow>& points, const std::function<double(int64_t)>& predict);
  double factor(int64_t bytes) const;

 private:
  struct Point {
    double log_bytes, log_ratio;
  };
  std::vector<Point> points_;
};

/// Every second power of two among the sizes, from the first on: what a calibration takes, the rest judges
/// it.
std::vector<NcclRow> every_second_size(const std::vector<NcclRow>& rows);

}  // namespace tandem
