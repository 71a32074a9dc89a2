// SPDX-License-Identifier: Apache-2.0
#pragma once
// What reports are called: a changed machine by its changes, and of several reports each by what tells it
// from the others.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemes/report.h"

namespace tandem::answers {

using Changes = std::vector<std::pair<std::string, std::string>>;  ///< System::Sets

/// "without nvlink", "with rtx-4090", "on devices 2,3", "with nodes=4": a change of a system in words, and
/// what a system lacks without it: "with its nvlink", "without nodes=4".
std::string change_words(const std::string& name, const std::string& value);
std::string lack_words(const std::string& name, const std::string& value);

/// "5090-2x with rtx-pro-6000, on devices 0,1"; without changes the name.
std::string changed_system(const std::string& name, const Changes& changes);

/// The value of one of Report::inputs, "" when absent.
std::string report_input(const Report& report, std::string_view key);

/// The system with its changes: of a report whose inputs have no "system_label", its name.
std::string report_system(const Report& report);

/// "64 samples per device", of split models "... per micro-batch".
std::string report_batch(const Report& report);

/// "vgg16 on v100-pcie-8x, pytorch-ddp, fp32, 64 samples per device": who a report is about.
std::string report_title(const Report& report);

/// Who predicted or executed it.
std::string engine_word(const Report& report);

/// What was asked, as (input, words): ("scheme.mode", "mode=async"); neither the number of devices nor what
/// changed a system, which is part of its name.
std::vector<std::pair<std::string, std::string>> label_parts(const Report& report);

/// Of each report what tells it from the others: "parameter-server, mode=async", "executed". Of reports from
/// both engines, an input that only one of these knows tells nothing apart. "" where nothing does.
std::vector<std::string> distinguishing_labels(const std::vector<Report>& reports);

/// report_title() with what else tells the report from another: "... (mode=async)".
std::string title_beside(const Report& report, const Report& other);

/// The bottleneck as people call it: "pcie bandwidth" for "links.pcie.bandwidth".
std::string resource_words(const Report& report);

}  // namespace tandem::answers
