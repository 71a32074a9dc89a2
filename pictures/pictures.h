// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is drawn of reports. Reads nothing but Reports.
#include <string>
#include <vector>

#include "pictures/gnuplot.h"
#include "schemes/report/report.h"

namespace tandem::pictures {

/// Reports that differ only in the number of devices make one line; `title` tells it from the others, by
/// whatever was asked differently. What does not fit is left out.
struct Series {
  std::string title;
  std::vector<Report> reports;  ///< by increasing device count
};
std::vector<Series> series_of(const std::vector<Report>& reports);

// One picture each, called `base`; none when the reports hold no such data.
/// Throughput over devices with ideal lines and, of at most two series, 90 % bands; needs two device counts.
Pictures draw_scaling(const std::vector<Series>& series, const std::string& base);
/// What an iteration's time goes to, one bar per report, those of a series side by side.
Pictures draw_breakdown(const std::vector<Series>& series, const std::string& base);
/// Distribution of staleness on the most devices of every series that has any.
Pictures draw_staleness(const std::vector<Series>& series, const std::string& base);
/// Two iterations of the first instances on the most devices of the first series, saying which they are; ops
/// too thin to be told apart are merged with what they touch. Of a model in stages the first device of each
/// stage, and of many stages only what they compute. When a later series comes from the other
/// engine, of both, one under the other on one time axis.
Pictures draw_timeline(const std::vector<Series>& series, const std::string& base);

/// The four by name, for --kind.
struct PictureKind {
  std::string_view name;
  Pictures (*draw)(const std::vector<Series>&, const std::string&);
};
const std::vector<PictureKind>& picture_kinds();

}  // namespace tandem::pictures
