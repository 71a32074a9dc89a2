// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which kinds of training published rates speak of. A kind that fewer than two sources have is predicted less
// surely: calibration/profiles/met.json, written by `tandem validate --kinds json`.
#include <string>
#include <string_view>
#include <vector>

#include "base/precision.h"
#include "models/graph.h"
#include "sim/bound/placement.h"
#include "sim/request.h"

namespace tandem::sim {

/// Standard error of the logarithm of a rate of such a kind, besides what its parts have. Of the rows in
/// calibration/data/published whose kind no other source has, errors are 0.55 to 0.59 (root mean squares)
/// where their parts give 0.16 to 0.38 (`tandem validate --kinds md`).
inline constexpr double kUnmet = 0.5;

/// "transformer", "recurrent", "cnn" or "other", by its layers.
std::string family_of(const models::Graph& graph);
/// "half" (fp16, bf16), "single" (fp32, tf32) or the format's own name.
std::string_view width_of(Precision precision);

/// What the rate of `p` on such devices is the first of, in words ("transformers in fp8 on cdna3"): a family
/// of models in a width on an architecture, or a recipe in a width. Empty where two sources have both, for
/// models that several devices hold between them, and where the profile is of a machine. Any thread.
std::vector<std::string> unmet_kinds(const Request& p, const std::vector<DeviceSort>& sorts);

}  // namespace tandem::sim
