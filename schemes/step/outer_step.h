// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers of several devices, which divide a model between them as "hybrid" does, train apart and come
// together now and then: what schemes of averaging have in common.
#include <vector>

#include "schemes/setup/scheme.h"
#include "schemes/step/grid_split.h"

namespace tandem::schemes {

/// The scheme's own options, and those that say what a worker is.
std::vector<OptionSpec> with_workers(std::vector<OptionSpec> own);
/// Groups of devices that train apart. Throws InputError where the devices do not make equal ones.
int64_t workers_of(const Options& options, const Cluster& cluster);
/// Do the options say that a worker is more than a device with one micro-batch?
bool several_devices(const Options& options, const Cluster& cluster);
/// The program of such workers. Throws InputError where the devices do not make them.
Program outer_program(const Workload& work, const Cluster& cluster, const Options& options,
                      const OuterStep& outer);
/// Of one worker, for Scheme::pipeline.
PipelineUse pipeline_of_worker(const Options& options, int64_t devices);

}  // namespace tandem::schemes
