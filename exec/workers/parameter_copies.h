// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of parameters that products read: made when training begins, and refreshed by every op that writes
// parameters (exec/layout/copies.h). Internal to exec.
#include <vector>

#include "exec/layout/copies.h"
#include "exec/workers/model_memory.h"

namespace tandem::exec {

/// Made by the worker's first thread, which binds ops; renew() is called by any lane's thread after its op
/// has written.
class ParameterCopies {
 public:
  static Needs needs(const Asked& asked);
  ParameterCopies(Bench& bench, const ModelMemory& memory);

  /// For a part of the flat vector.
  CopiedRange copied(const Slice& part) const;
  /// For all that the worker holds permanently.
  CopiedRange all() const;
  /// For what a collective writes.
  CopiedRange written_by(const Op& op) const;
  /// After an op that has written the part's parameters.
  void renew(const CopiedRange& range, Lane lane) const;
  /// Appends the copies of the call's parameters to its operands; returns the call that finds them there.
  Call with_copies(const Call& lowered, std::vector<float*>& behind) const;
  /// The update refreshes the part's copies itself.
  void renew_by(Call& update, std::vector<float*>& operands, const Slice& part) const;

 private:
  Bench& bench_;
  const ModelMemory& memory_;
  Copies copies_of_;
  float* copies_ = nullptr;
};

}  // namespace tandem::exec
