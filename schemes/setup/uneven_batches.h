// SPDX-License-Identifier: Apache-2.0
#pragma once
// Batches of uneven size: what each device trains on where some are faster than others.
#include <cstdint>
#include <string>
#include <vector>

#include "schemes/program/program.h"
#include "schemes/setup/job.h"

namespace tandem::schemes {

/// `total` in whole parts in proportion to `speeds` > 0, at least 1 each: the largest remainders get what
/// whole parts leave (Hamilton's method), of equal ones the first. Requires total >= number of speeds.
std::vector<int64_t> in_proportion(const std::vector<double>& speeds, int64_t total);

/// Throws InputError where Job::batches are not one of at least 1 sample for each of `devices`, Job::batch in
/// the mean. None are good for any number of devices.
void check_batches(const Job& job, int64_t devices);

/// Throws InputError where the workers of `program` need equal batches: they divide the model, or do not wait
/// for each other.
void check_takes_uneven(const Program& program, const std::string& scheme);

/// Do workers average models that each has trained by itself, instead of summing gradients?
bool averages_models(const Program& program);

/// What a report is to say: how samples are divided, how gradients are summed, and whose samples batch
/// normalisation sees.
std::vector<std::string> uneven_notes(const Job& job, const std::string& divided);

/// "48,16".
std::string batches_text(const std::vector<int64_t>& batches);

}  // namespace tandem::schemes
