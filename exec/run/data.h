// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training data held in memory.
#include <cstdint>
#include <string>
#include <vector>

#include "exec/run/dataset.h"

namespace tandem::exec {

/// "teacher:key=value,..." (generated_data.h), a name in exec/data ("digits") or a CSV file: a sample a line,
/// its class last, lines with # skipped. Values are divided by the largest. `test` gives the held-out part
/// (every fifth sample). Throws InputError with the line: not a finite number, another number of columns, a
/// class that is no whole number from 0 on, fewer than five samples.
Dataset load_dataset(const std::string& name_or_file, bool test);

/// Indices of the samples of one worker's batch: each epoch a permutation drawn from (seed, epoch), dealt out
/// to the workers in turn.
std::vector<int64_t> batch_samples(const Dataset& data, uint64_t seed, int64_t workers, int64_t worker,
                                   int64_t batch, int64_t iteration);

}  // namespace tandem::exec
