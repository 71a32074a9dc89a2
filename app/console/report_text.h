// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reports as text: the table of predict, the same as csv, and the two sides of compare.
#include <string>
#include <vector>

#include "answers/labels.h"
#include "answers/pair.h"
#include "app/console/table.h"
#include "models/graph.h"
#include "schemes/report/report.h"

namespace tandem::app {

/// "9.8 of 16 GiB", in MiB below one GiB.
std::string memory_text(const MemoryUse& memory);

/// Where the rest of a step goes if it is compute-bound but computes for less than nine tenths of it; else
/// "".
std::string rest_of_step(const Report& report);

/// What the memory column is made of, for one report; empty if an executor measured it.
std::string memory_line(const Report& report);

/// What the devices of one report draw; empty where that is not known.
std::string power_line(const Report& report);

/// What a meter said of an execution's devices, without an end of line: "GPUs drew 612 W each (582 .. 640)";
/// "" where none did.
std::string drawn_line(const Report& report);

/// The remark on a report whose memory.barely_fits(), and on one within_error().
std::string barely_fits_text();
std::string within_error_text();

/// The rates of the jobs that share the machine, and what each has alone; "" without others.
std::string side_by_side_line(const Report& report);

/// The columns of `predict`: staleness only if a gradient was stale, memory as "9.8 of 16 GiB", tokens and
/// the global batch only if samples are sequences of tokens. If the model does not fit, a row says what it
/// needs.
Table report_table(const std::vector<Report>& reports);

/// The device count that speed-up and efficiency are relative to, if one device does not hold the model; else
/// "".
std::string base_text(const std::vector<Report>& reports);

/// Why the last of the reports (one per device count) scales better than linearly: its update is divided. ""
/// if it does not, or the reports do not tell.
std::string beyond_perfect_text(const std::vector<Report>& reports);

/// "4 sequences of 1,024 tokens per device", or with a split model's micro-batches "... per micro-batch, 8
/// micro-batches a step".
std::string batch_text(const Graph& graph, int64_t batch, int64_t micro_batches = 0);

/// One row per report with plain numbers under names that carry their unit, for spreadsheets.
std::string report_csv(const std::vector<Report>& reports);

/// One row per pair; names the model only if there are several.
Table compare_table(const std::vector<ReportPair>& pairs);

/// What limits the step, in a few words with shares, or that the model does not fit.
std::string bound_by(const Report& report);

}  // namespace tandem::app
