// SPDX-License-Identifier: Apache-2.0
// Prints predicted and measured times of collectives, for calibration/fit/fit_collectives.py and for reading.
//   dump_collectives <file.csv> ...
// Output: the rows of the tables (see collective_data.h) with the prediction in microseconds, the algorithm
// and the protocol.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "calibration/validate/collective_data.h"

int main(int argc, char** argv) {
  try {
    for (int a = 1; a < argc; ++a) {
      auto rows = tandem::calibration::read_collectives(argv[a]);
      const std::string folder = std::filesystem::path(argv[a]).parent_path().string();
      tandem::calibration::predict_collectives(rows, folder.empty() ? "." : folder);
      for (const auto& r : rows) {
        fmt::print("{},{:.6g},{},{}\n", r.line, r.predicted * 1e6, r.algorithm, r.protocol);
      }
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}
