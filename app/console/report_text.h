// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reports as people read them: the table of predict, the csv of the same, two sides of compare.
#include <string>
#include <vector>

#include "answers/labels.h"
#include "answers/pair.h"
#include "app/console/table.h"
#include "models/graph.h"
#include "schemes/report.h"

namespace tandem::app {

/// "9.8 of 16 GiB", in MiB below one GiB.
std::string memory_text(const MemoryUse& memory);

/// Where the rest of a step goes that is bound by compute and computes for less than nine tenths of it; else
/// "".
std::string rest_of_step(const Report& report);

/// What the memory column counts and what it is made of, for one report; empty where an executor measured it.
std::string memory_line(const Report& report);

/// What to say of a report whose memory.barely_fits(), and of one within_error().
std::string barely_fits_text();
std::string within_error_text();

/// The rates of the jobs that share the machine, beside what each has alone; "" without others.
std::string side_by_side_line(const Report& report);

/// The columns of `predict`: staleness only when some gradient was stale, memory as "9.8 of 16 GiB", tokens
/// and the batch of all devices together only where samples are sequences of tokens. Where the model does not
/// fit, a row says what it needs.
Table report_table(const std::vector<Report>& reports);

/// Of how many devices speed-up and efficiency count where one does not hold the model; "" where it does.
std::string base_text(const std::vector<Report>& reports);

/// Why the last of the reports, as one device count each, scales better than perfectly: its update is
/// divided. "" where it does not, or the reports do not tell.
std::string beyond_perfect_text(const std::vector<Report>& reports);

/// "4 sequences of 1,024 tokens per device", or with a split model's micro-batches "... per micro-batch, 8
/// micro-batches a step".
std::string batch_text(const Graph& graph, int64_t batch, int64_t micro_batches = 0);

/// "needs 133 of 80 GiB".
std::string needs_text(const Report& report);

/// One row per report with plain numbers under names that carry their unit, for spreadsheets.
std::string report_csv(const std::vector<Report>& reports);

/// One row per pair; the model only where several are compared.
Table compare_table(const std::vector<ReportPair>& pairs);

/// What the step waits for, in a few words with shares, or that the model does not fit.
std::string bound_by(const Report& report);

}  // namespace tandem::app
