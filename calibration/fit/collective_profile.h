// SPDX-License-Identifier: Apache-2.0
#pragma once
// A machine's own measured collectives, and what they change about predictions of other sizes.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "calibration/logs/nccl_tests.h"
#include "sim/cost/measured_collectives.h"

namespace tandem::calibration {

/// Measured sizes of one question. {"schema": "tandem-collective-profile-1", "source", "kind", "devices",
/// "library", "harness": {"threads", "gpus_per_thread", "iterations"}, "points": [{"bytes", "seconds"}]};
/// several are {"schema": "tandem-collective-profiles-1", "profiles": [...]}.
struct CollectiveProfile {
  std::string source, library;
  MeasuredCollective measured;  ///< points by size
};

/// Of one run; throws InputError where its kind is unknown and `kind` names none.
CollectiveProfile profile_of(const NcclLog& log, const std::string& source, const std::string& kind);
/// Of a log's runs: those of `kind`, or where it is empty all whose kind the log tells; the rest is named in
/// `notes`. Throws InputError where none is left.
std::vector<CollectiveProfile> profiles_of(const NcclRuns& log, const std::string& source,
                                           const std::string& kind, std::vector<std::string>& notes);
/// Adds a profile: to that of the same question (kind, devices, benchmark), where there is one; of sizes that
/// both hold the geometric mean stands.
void add(std::vector<CollectiveProfile>& profiles, CollectiveProfile more);
std::string profiles_json(const std::vector<CollectiveProfile>& profiles);
/// At least one. Throws InputError.
std::vector<CollectiveProfile> read_collective_profiles(const Json& document);
/// Those of a file, as a question takes them (answers::Hooks::read_collectives). Throws InputError.
std::shared_ptr<const MeasuredCollectives> measured_collectives(const std::string& file);

/// Plain interpolation of points (at least one), by logarithms of size and time; the first time holds below,
/// the last bandwidth above.
double interpolated(const std::vector<CollectivePoint>& points, int64_t bytes);

/// By size.
std::vector<CollectivePoint> points_of(const std::vector<NcclRow>& rows);
/// Every second power of two among the sizes, from the first on: what a calibration takes, the rest judges
/// it.
std::vector<CollectivePoint> every_second_size(const std::vector<CollectivePoint>& rows);

}  // namespace tandem::calibration
