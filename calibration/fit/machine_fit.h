// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what `tandem measure` saw on one machine to the profile that predictions use.
#include <string>
#include <vector>

#include "calibration/fit/measurements.h"

namespace tandem::calibration {

struct MachineFit {
  std::string profile;               ///< JSON "tandem-profile-1" (profile_json.h)
  double kernel_error = 0;           ///< LeaveOneOut::kernels and ...
  double graph_error = 0;            ///< ... ::graphs (estimates.h), of the precision measured first
  std::vector<std::string> remarks;  ///< which estimates rest on little, or on a busy machine
};

/// Every estimate of estimates.h, written as a profile. Each precision by itself: the one measured first is
/// the document's own, the others are its "more_precisions". Equal measurements give equal bytes. Pure; any
/// thread may call it. Throws InputError when there is nothing to fit.
MachineFit fit_machine(const Measurements& measurements);

}  // namespace tandem::calibration
