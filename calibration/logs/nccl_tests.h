// SPDX-License-Identifier: Apache-2.0
#pragma once
// Logs of nccl-tests (text of all generations, JSON of -J) and of rccl-tests, and tables nccl_perf.csv of
// aiconfigurator.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/link_profile.h"

namespace tandem::calibration {

/// One size, out of place.
struct NcclRow {
  int64_t bytes = 0;
  double seconds = 0;
  double busbw = 0;     ///< bytes/s
  int line = 0;         ///< of the text; 0 in JSON
  double estimate = 0;  ///< seconds that the library itself expected (tandem measure); 0: not known
  int runs = 1;         ///< of how many the geometric mean stands here
};

/// One run of one program: one kind on one number of ranks.
struct NcclLog {
  std::string kind;       ///< "all-reduce", ..., "sendrecv"; empty where the log does not tell
  std::string undecided;  ///< why it does not: "all-gather and all-to-all print the same columns"
  int64_t devices = 0;    ///< ranks; 0 where the log does not list them
  int64_t nodes = 0;      ///< hosts; 0 likewise
  std::string device;     ///< model as the driver calls it; empty likewise
  std::string version;    ///< of the library, "2.20.5"; empty likewise
  Harness harness;        ///< of the header; the programs' defaults without one
  std::vector<NcclRow> rows;
};

struct NcclRuns {
  std::vector<NcclLog> runs;  ///< in the order of the text; at least one, each with a row
  int damaged = 0;            ///< lines that look like a row but contradict themselves or are cut short
};

/// Reads a log. Known: rows with and without redop and root, one or two groups of time, algbw, busbw, errors;
/// prefixes of mpirun (--tag-output) and srun (--label); indents; Markdown; no-break spaces; CRLF; comment
/// marks that were lost; debug lines between rows; one header per size; several runs in one text. A run
/// begins with the header of its program or where another program is named; the name decides its kind, or
/// without one the columns. Rows of no bytes are left out, of rows of one size in a run the first counts;
/// runs of one question are one, with the geometric mean of equal sizes. Throws InputError when no row is
/// found or all are of a single rank. O(size of the text).
NcclRuns read_nccl_tests(std::string_view text, const std::string& file);
/// Whether a text looks like such a log; reads a prefix only.
bool looks_like_nccl_tests(std::string_view text);

}  // namespace tandem::calibration
