// SPDX-License-Identifier: Apache-2.0
#pragma once
// A machine's profile as values, and as the document "tandem-profile-1" that MachineProfile
// (sim/cost/machine.h) reads.
#include <array>
#include <string>
#include <vector>

#include "calibration/fit/estimates.h"

namespace tandem::calibration {

/// What depends on the precision that kernels were measured in (estimates.h says how each is found).
struct KernelEstimates {
  Precision precision = Precision::fp32;
  std::vector<KernelCurve> curves;  ///< [kind x passes + pass]
  std::vector<KernelSample> samples;
  LeaveOneOut errors;
  double error_of_several = 0, error_of_overhead = 0, op_overhead = 0, kernel_overhead = 0, wake = 0,
         step_sigma = 0;
  std::vector<std::vector<double>> slowdowns;  ///< [active - 1][kind]
};

struct ProfileEstimates {
  std::string machine, date, versions;
  int64_t cores = 1;
  std::string busy;   ///< what other programs took meanwhile; "": nothing to speak of
  uint64_t data = 0;  ///< hash of the measurements' document
  double interrupted = 1, lock_step = 1;
  std::vector<StepNoise> noise;
  std::vector<double> turns;                                 ///< Measurements::turns
  std::vector<std::vector<TransferPoint>> all_reduce;        ///< [ranks - 2]
  std::array<std::vector<TransferPoint>, kCopyWays> copies;  ///< [way]; empty: not measured
  MeasuredLaunch launch;
  InputRates input;
  std::vector<TcpSteps> tcp;
  std::vector<TransferPoint> tcp_cpu;
  std::vector<MeasuredGraph> metered;    ///< graphs whose power was read
  std::vector<KernelEstimates> kernels;  ///< at least one; the document's own first
};

/// The one place that writes a profile. Pure; any thread may call it. Equal values give equal bytes.
std::string profile_json(const ProfileEstimates& profile);

}  // namespace tandem::calibration
