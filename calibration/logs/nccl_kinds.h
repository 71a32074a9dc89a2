// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which collective a table of nccl-tests measured, by the columns of its rows.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rooms.h"

namespace tandem::calibration {

/// What the columns of a table say besides sizes and times. Rows of one run agree.
struct NcclColumns {
  bool headed = false;       ///< the line of column names was seen
  bool redop_named = false;  ///< and names redop
  bool operation = false;    ///< rows name an operation other than "none"
  bool root_column = false;  ///< rows have a root, -1 where the collective has none
  bool rooted = false;       ///< a root of 0 or more
  int64_t parts = 0;         ///< bytes over count and size of an element: 1, or the ranks; 0: neither
  bool checked = false;      ///< out-of-place results were verified
  bool in_place = false;     ///< there are in-place columns
  bool in_place_checked = false;
  bool operator==(const NcclColumns&) const = default;
};

/// The kinds that print such columns, as NcclLog::kind; empty where none does. `ranks` 0: not known; `ratio`:
/// bus bandwidth over algorithm bandwidth of a large row, 0 where not known. The rules are those of
/// nccl-tests, src/*.cu (what GetCollByteCount and GetBw of each program do, and where it sets reportErrors).
std::vector<std::string_view> kinds_by_columns(const NcclColumns& columns, int64_t ranks, double ratio);

/// By the name of a program ("all_reduce_perf"), which stands in command lines and in newer titles, or of an
/// operation ("all_reduce", "alltoall"); empty where there is none.
std::string kind_by_program(std::string_view text);
std::string kind_by_operation(std::string_view name);

}  // namespace tandem::calibration
