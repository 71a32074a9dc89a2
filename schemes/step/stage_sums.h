// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums of a stage's gradients under its last backward passes: compressed, and in a given order.
#include <vector>

#include "schemes/step/bucket_sum.h"
#include "schemes/step/stage.h"

namespace tandem::schemes {

/// Right after the latest op of a backward pass: compresses the gradients that it has completed, and begins
/// their sums, which `reduced` [bucket] gets.
void sum_reached(RoleBuilder& role, const std::vector<StageBucket>& buckets,
                 const std::vector<BucketSum>& sums, const Emission& pass, std::vector<OpId>& reduced);
/// Before the updates: ends all sums and makes gradients of them; `reduced` becomes what these are there
/// with.
void finish_sums(RoleBuilder& role, const std::vector<BucketSum>& sums, std::vector<OpId>& reduced);

/// Of the program's buckets in `order` those of the stage, as indices into `buckets`; empty: as that is.
std::vector<uint32_t> order_on(const std::vector<StageBucket>& buckets, const std::vector<uint32_t>& order);

}  // namespace tandem::schemes
