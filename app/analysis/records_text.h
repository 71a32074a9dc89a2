// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recorded training steps next to their predictions: `tandem validate --add`.
#include <string>
#include <vector>

#include "calibration/validate/validate_records.h"

namespace tandem::app {

/// Tables of rates, of rates with an anchor and of memory, each with its mean and worst error; of a single
/// record also where its time goes.
std::string records_markdown(const std::vector<calibration::RecordRow>& rows);
/// Every record, all columns, one header line (RFC 4180).
std::string records_csv(const std::vector<calibration::RecordRow>& rows);

}  // namespace tandem::app
