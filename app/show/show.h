// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pages of `tandem show`, one function per kind of component.
#include <string>

#include "app/console/cli.h"
#include "schemes/schedules/pipeline_schedule.h"

namespace tandem::app {

struct ShowRequest {
  const Arguments& arguments;
  std::string name;    ///< of the component, or a file
  std::string format;  ///< "text", "json" or "dot"
  int columns = 0;     ///< that a line of text may have; 0: no limit
};

/// Each returns the page, or "" when it drew a picture to --out instead. Throws InputError for an unknown
/// name or a format that the kind does not have.
std::string show_model(const ShowRequest& request);
std::string show_system(const ShowRequest& request);
std::string show_scheme(const ShowRequest& request);
std::string show_device(const ShowRequest& request);
std::string show_layer(const ShowRequest& request);
std::string show_collective(const ShowRequest& request);
std::string show_schedule(const ShowRequest& request);
std::string show_profile(const ShowRequest& request);
/// The pages of a schedule in use: text, JSON or, if --out names a picture, that picture, returning "".
std::string show_pipeline(const ShowRequest& request, const PipelineSchedule& schedule,
                          const PipelineShape& shape);

}  // namespace tandem::app
