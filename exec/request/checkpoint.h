// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state of training between two runs, as a file.
#include <cstdint>
#include <string>
#include <vector>

#include "models/graph.h"
#include "models/optimizer.h"

namespace tandem::exec {

struct Checkpoint {
  int64_t iteration = 0;  ///< completed so far
  /// As in ExecutionResult.
  std::vector<float> parameters, state, buffers;
  /// ExecutionResult::averaging; may be empty, even if the scheme that resumes keeps such vectors
  std::vector<float> averaging = {};
};

/// A line of JSON that describes the rest, then the floats in this machine's byte order. Written to a
/// temporary name, then renamed. Throws InputError if it cannot be written.
void save_checkpoint(const std::string& path, const Graph& graph, const Optimizer& optimizer,
                     const Checkpoint& checkpoint);
/// Throws InputError naming the file if it is no checkpoint, is truncated, or belongs to another model or
/// optimiser.
Checkpoint load_checkpoint(const std::string& path, const Graph& graph, const Optimizer& optimizer);

}  // namespace tandem::exec
