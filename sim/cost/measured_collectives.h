// SPDX-License-Identifier: Apache-2.0
#pragma once
// A machine's own measured collectives, and what they change about predictions of other sizes and operations.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schemes/program/program.h"
#include "sim/cost/link_profile.h"

namespace tandem::sim {

struct CollectivePoint {
  int64_t bytes = 0;
  double seconds = 0;
};

/// Sizes of one operation on one number of devices.
struct MeasuredCollective {
  std::string kind;     ///< "all-reduce", ..., "sendrecv"
  int64_t devices = 0;  ///< 0: not known
  Harness harness;
  std::vector<CollectivePoint> points;  ///< by size
};

/// "all-reduce": as measurements call it.
std::string measured_name(CollKind kind);

/// How far a measurement of one operation says something of another.
enum class Bearing : uint8_t {
  none,
  sibling,  ///< all-reduce, all-gather and reduce-scatter: the same steps over the same rings
  own,
};
Bearing bearing(std::string_view measured, std::string_view asked);

/// Nine of ten are within this factor, less 1, of a prediction that was corrected so, between the measured
/// sizes. Set on all tables of calibration/data/collectives: each log's sizes that every_second_size() leaves
/// out (own), and sizes of one operation corrected by another of the same machine and ranks (sibling).
double spread(Bearing bearing, int64_t bytes);

/// Corrects predictions by measured points: between two of them the measured time grows as the predicted one
/// does, in proportion, so that it changes protocols where the prediction does and never leaves what was
/// measured around it; beyond the outermost ones measured over predicted is held. A point more than twice off
/// both its neighbours, to the same side, is a stall of the machine and left out. One thread at a time, as
/// far as `predict` needs it.
class CollectiveCorrection {
 public:
  /// `predict`: seconds for a size, as the benchmark of the points would report them; called again by
  /// factor().
  CollectiveCorrection(const std::vector<CollectivePoint>& points, std::function<double(int64_t)> predict);
  /// Corrected over predicted; 1 without points.
  double factor(int64_t bytes) const;
  /// Whether a size lies between the outermost points.
  bool spans(int64_t bytes) const;

 private:
  struct Point {
    int64_t bytes;
    double measured, predicted;  ///< seconds
    double ratio() const { return measured / predicted; }
  };
  std::vector<Point> points_;  ///< by size
  std::function<double(int64_t)> predict_;
};

/// What was measured on a machine.
struct MeasuredCollectives {
  std::string source;
  std::vector<MeasuredCollective> all;
  /// What bears most on an operation among that many devices; null where nothing does. Other numbers of
  /// devices say nothing: on published tables stock figures are nearer than figures carried over from another
  /// number.
  const MeasuredCollective* find(std::string_view kind, int64_t devices) const;
};

}  // namespace tandem::sim
