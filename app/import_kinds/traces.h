// SPDX-License-Identifier: Apache-2.0
#pragma once
// Traces of one training, a file a rank -> where the time of a step goes.
#include <string>
#include <vector>

#include "app/import_kind.h"
#include "calibration/traces/kineto.h"

namespace tandem::app {

using TraceReader = calibration::Trace(const calibration::ByteSource& source, const std::string& file);

/// ImportKind::run of a kind of traces. Throws as `read` does, and InputError for ranks of two trainings.
int import_traces(const Arguments& arguments, const std::vector<ImportFile>& files, TraceReader* read);
/// ImportKind::flags of such a kind.
std::vector<Option> trace_flags();

}  // namespace tandem::app
