// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pipeline schedule as a Gantt chart: stages down, time across, what is left white idles.
#include <string>

#include "pictures/gnuplot.h"
#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::pictures {

/// The picture of `run` of the schedule.
Gnuplot draw_schedule(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineRun& run);

/// "4 stages of 2 chunks, 8 micro-batches".
std::string shape_text(const PipelineShape& shape);

}  // namespace tandem::pictures
