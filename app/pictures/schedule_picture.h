// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pipeline schedule as a Gantt chart: stages down, time across, what is left white idles.
#include <string>

#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::app {

/// Draws `run` of the schedule to a .png or .svg file. Throws InputError as Gnuplot::draw_file().
void draw_schedule(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineRun& run,
                   const std::string& path);

/// "4 stages of 2 chunks, 8 micro-batches".
std::string shape_text(const PipelineShape& shape);

}  // namespace tandem::app
