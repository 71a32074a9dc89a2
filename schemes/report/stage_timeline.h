// SPDX-License-Identifier: Apache-2.0
#pragma once
// The timeline of a model split over a grid: one entry for each pass over a part of the model, for both
// engines.
#include <string>
#include <vector>

#include "schemes/program/program.h"
#include "schemes/report/report.h"

namespace tandem::schemes {

/// [op] of a working role: the pass it belongs to, such as "forward of micro-batch 3" (counted from 0; with
/// the part of the model where a device holds several), or "updates"; empty for ops that stand alone. Sums
/// inside shared layers belong to the pass that they are in. O(ops).
std::vector<std::string> passes_of(const Program& program, const Role& role);

/// Whether a timeline of this program shows passes rather than ops: several roles divide the model, or an
/// iteration has several micro-batches.
bool shows_passes(const Program& program);

/// Entries of `spans`, which are a few instances' and iterations'. What the ops of one pass do on one lane is
/// one entry, from the first one's start to the last one's end; updates that wait in between are several. At
/// most about `most` entries: of all stages, with fewer iterations, instances and lanes as needed; with too
/// many stages, of every second, fourth ...
std::vector<TimelineEntry> stage_timeline(const Program& program, const std::vector<Span>& spans,
                                          std::size_t most);

}  // namespace tandem::schemes
