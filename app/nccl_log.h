#pragma once
// Logs of nccl-tests. Floor 5.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// One row, out of place.
struct NcclRow {
  int64_t bytes = 0;
  double seconds = 0;
  double busbw = 0;  ///< bytes/s
};

/// Every data row of a log, in order. All versions end a row with two groups of time, algbw, busbw, errors
/// (out of place, in place), which is what is read. Throws InputError when there is no such row.
std::vector<NcclRow> read_nccl_log(std::string_view text, const std::string& file);

}  // namespace tandem
