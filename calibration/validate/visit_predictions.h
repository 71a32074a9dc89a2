// SPDX-License-Identifier: Apache-2.0
#pragma once
// What calibration/gpu_visit_predict.py wrote before a visit, next to what the visit then measured.
#include <map>
#include <string>

#include "base/json.h"

namespace tandem::calibration {

/// The schema of such a file, which lies among the visits.
inline constexpr const char* kVisitPredictions = "tandem-visit-predictions-1";

/// A table for each machine that was predicted: samples per second (with the 90 % interval), watts and
/// GiB, predicted and measured. `visits`: by the machine's name. Rows that a visit measured before the
/// prediction's date do not count. Throws InputError where a document is malformed.
std::string visit_predictions_markdown(const Json& predicted, const std::map<std::string, Json>& visits);

/// "gpt2, adapter lora:rank=16": the model and, of what else was asked, "options".
std::string trained_name(const Json& row);

}  // namespace tandem::calibration
