// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of parameters in the format that the device multiplies: which ones a worker keeps, and where.
// Internal to exec.
//
// A copy is valid whenever the parameter may be read: every op that writes parameters also refreshes their
// copies before it ends, on its own lane (an update in the same call). Whoever waits for the parameter
// therefore has the copy, and nothing is decided while ops run.
#include <cstdint>
#include <map>
#include <vector>

#include "exec/comm/store.h"
#include "exec/layout/stages.h"
#include "exec/request/execution.h"

namespace tandem::exec {

/// Of one device. Made once, then only read: any thread may ask.
///
/// Parameters that are held whole only temporarily (exec/layout/gather_buffers.h) have none: they are brought
/// in again for each pass. In 1 byte, where the scale depends on the number of updates, only parameters that
/// exactly one update per step writes have one.
class Copies {
 public:
  Copies() = default;
  Copies(const Execution& execution, const Program& program, const Stages& stages, uint32_t device);

  /// In the order of the device's memory for parameters, which `first` indexes.
  const std::vector<CopyPiece>& pieces() const { return pieces_; }
  const std::vector<CopiedMatrix>& matrices() const { return matrices_; }
  bool empty() const { return pieces_.empty() && matrices_.empty(); }
  /// Words of 4 bytes: of the copies, then of pieces(), then of matrices().
  int64_t words() const { return words_; }
  int64_t piece_words() const { return static_cast<int64_t>(pieces_.size() * sizeof(CopyPiece)) / 4; }
  int64_t matrix_words() const { return static_cast<int64_t>(matrices_.size() * sizeof(CopiedMatrix)) / 4; }
  int64_t all_words() const { return words_ + piece_words() + matrix_words(); }
  /// The copy of the parameter that begins there in the flat vector; null: none. O(log parameters).
  const CopyPiece* piece(int64_t first) const;
  const CopiedMatrix* matrix(int64_t first) const;
  /// The entries of the lists for a part of the flat vector: indices into them.
  struct Part {
    int64_t piece = 0, pieces = 0, matrix = 0, matrices = 0;
  };
  Part in(const Slice& part) const;

 private:
  int64_t words_ = 0;
  std::vector<CopyPiece> pieces_;
  std::vector<CopiedMatrix> matrices_;
  std::map<int64_t, std::size_t> piece_at_, matrix_at_;  ///< by the parameter's start in the flat vector
};

}  // namespace tandem::exec
