// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of parameters in the format that the device multiplies: which ones a worker keeps, and where.
// Internal to exec.
//
// A copy is right whenever the parameter may be read: every op that writes parameters renews the copies of
// what it wrote before it ends, on its own lane, the update in its own kernel. So whatever waits for the
// parameter has the copy, too, whoever wrote it, and nothing is decided while ops run.
#include <cstdint>
#include <vector>

#include "exec/comm/store.h"
#include "exec/run/execution.h"
#include "exec/run/stages.h"

namespace tandem::exec {

/// Of one device. Buckets that it holds whole for a while only (exec/run/rooms.h) have none: they are brought
/// anew for each pass.
class Copies {
 public:
  Copies() = default;
  Copies(const Execution& execution, const Program& program, const Stages& stages, uint32_t device);

  /// In the order of the memory that the device holds parameters in, of which `first` counts elements.
  const std::vector<CopyPiece>& pieces() const { return pieces_; }
  /// Words of 4 bytes: of the copies, and of `pieces` behind them.
  int64_t words() const { return words_; }
  int64_t all_words() const;
  /// The piece of the parameter that begins there in the flat vector; null: it has none. O(log parameters).
  const CopyPiece* of(int64_t first) const;
  /// Where in pieces() those begin that have part in this part of the flat vector, and how many they are.
  Slice in(const Slice& part) const;

 private:
  std::vector<int64_t> flat_;  ///< [piece]: where its parameter begins in the flat vector
  std::vector<CopyPiece> pieces_;
  int64_t words_ = 0;
};

}  // namespace tandem::exec
