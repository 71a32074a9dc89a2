// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a stage of one worker meets the same stage of others that train apart.
#include <vector>

#include "schemes/step/grid_split.h"
#include "schemes/step/stage.h"

namespace tandem::schemes {

/// Behind `updated` [bucket] devices of different workers average what each holds of the buckets, over
/// `axes`, and where there is an outer optimiser it makes its step; `updated` becomes what that ends with.
/// `tensors`: that many of each parameter. What is compressed is how far parameters are from the anchor.
void average_stage(RoleBuilder& role, const std::vector<StageBucket>& buckets, const OuterStep& outer,
                   uint32_t axes, int64_t tensors, std::vector<OpId>& updated);

}  // namespace tandem::schemes
