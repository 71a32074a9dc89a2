// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of reports: a changed machine by its changes, and each of several reports by what distinguishes it.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemes/report/report.h"

namespace tandem::answers {

using Changes = std::vector<std::pair<std::string, std::string>>;  ///< System::Sets

/// A change of a system in words: "without nvlink", "with rtx-4090", "on devices 2,3", "with nodes=4"; and
/// the system without that change: "with its nvlink", "without nodes=4".
std::string change_words(const std::string& name, const std::string& value);
std::string lack_words(const std::string& name, const std::string& value);

/// "5090-2x with rtx-pro-6000, on devices 0,1"; the name if nothing changed.
std::string changed_system(const std::string& name, const Changes& changes);

/// The value of one of Report::Setup::inputs, "" when absent.
std::string report_input(const Report& report, std::string_view key);

/// The system with its changes: of a report whose inputs have no "system_label", its name.
std::string report_system(const Report& report);

/// "64 samples per device", of split models "... per micro-batch".
std::string report_batch(const Report& report);

/// "vgg16 on v100-pcie-8x, pytorch-ddp, fp32, 64 samples per device": what a report is about.
std::string report_title(const Report& report);

/// The engine that produced it.
std::string engine_word(const Report& report);

/// What was asked, as (input, words): ("scheme.mode", "mode=async"); without the number of devices and
/// changes of the system, which are part of the system's name.
std::vector<std::pair<std::string, std::string>> label_parts(const Report& report);

/// What distinguishes each report from the others: "parameter-server, mode=async", "executed". Inputs that
/// only one of two engines knows do not count. "" if nothing does.
std::vector<std::string> distinguishing_labels(const std::vector<Report>& reports);

/// report_title() plus what distinguishes the report: "... (mode=async)".
std::string title_beside(const Report& report, const Report& other);

/// The bottleneck as people call it: "pcie bandwidth" for "links.pcie.bandwidth".
std::string resource_words(const Report& report);

/// "needs 133 of 80 GiB".
std::string needs_text(const Report& report);

}  // namespace tandem::answers
