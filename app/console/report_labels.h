// SPDX-License-Identifier: Apache-2.0
#pragma once
// How reports are named in headings and legends: by what was asked, as one would type it.
#include <string>
#include <vector>

#include "schemes/report.h"

namespace tandem::app {

/// The value of one of Report::inputs, "" when absent.
std::string report_input(const Report& report, std::string_view key);

/// "64 samples per device", of split models "... per micro-batch".
std::string report_batch(const Report& report);

/// "5090-2x with device=rtx-pro-6000 and place=0,1": the system and what was changed of it. How many nodes it
/// has is not said, since the number of devices is.
std::string system_label(const Report& report);

/// "parameter-server:mode=ssp,slack=2": the scheme and those of its options that are not the default.
std::string scheme_label(const Report& report);

/// "vgg16 on v100-pcie-8x, pytorch-ddp, fp32, 64 samples per device": who a report is about.
std::string report_title(const Report& report);

/// Is it the same question but for the number of devices?
bool same_but_devices(const Report& a, const Report& b);

/// [report]: what tells it from all others of the list that have the same model, system, scheme, precision,
/// input and batch: "sgd", "recompute=blocks", several of them joined by ", "; "" where nothing has to.
std::vector<std::string> further_labels(const std::vector<const Report*>& reports);

}  // namespace tandem::app
