// SPDX-License-Identifier: Apache-2.0
#pragma once
// Options of schemes that divide a model over a grid of devices; GridSplit is what they come to.
#include <vector>

#include "base/options.h"

namespace tandem::schemes {

inline constexpr OptionSpec kSequenceOption{"sequence", OptionSpec::Type::flag, "off",
                                            "devices that share layers divide the sequence between them"};
OptionSpec micro_batches_option();
/// schedule, microbatches, chunks, overlap-p2p.
std::vector<OptionSpec> pipeline_options();
/// All of "hybrid".
std::vector<OptionSpec> grid_options();

}  // namespace tandem::schemes
