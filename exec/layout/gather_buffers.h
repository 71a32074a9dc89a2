// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of buckets that a worker holds whole only temporarily: parameters gathered for the passes, and
// gradients until they are scattered. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/lower/execution_graph.h"
#include "schemes/program/program.h"

namespace tandem::exec {

/// The lifetime of a bucket: from the first of these ops, in the order of the role's list, to the last.
struct Life {
  uint32_t key = 0;
  std::vector<uint32_t> ops;
  bool ends = true;  ///< false: it is needed in the next iteration, too
};

/// Of parameters: from the op that brings them (a gather, or the copy from the host if `offloaded`) to the
/// last pass that reads them before they are brought again. None if devices hold all parameters.
std::vector<Life> parameter_lives(const Program& program, uint32_t role, const ExecutionGraph& lowered,
                                  bool offloaded);
/// Of gradients: from the first pass that writes them to their reduce-scatter. None if devices hold whole
/// gradients, or for buckets whose micro-batches are summed before.
std::vector<Life> gradient_lives(const Program& program, uint32_t role, const ExecutionGraph& lowered);

/// Memory that buckets share over time.
struct GatherBuffers {
  static constexpr int64_t kNone = -1, kOwn = -2;
  /// [bucket]: its offset. kNone: it has no buffer; kOwn: nor does it need one, since it would share memory
  /// with no other: the worker's share stays inside the whole bucket.
  std::vector<int64_t> at;
  int64_t elements = 0;
};

/// Two buckets share memory if each lifetime of one has ended before a lifetime of the other begins
/// (exec/layout/happens_before.h). Buckets are aligned to 64-byte lines as in the flat vector, so that
/// alignment-dependent code computes the same. O(lives^2). `stays`: a worker keeps a share between lifetimes,
/// possibly in the bucket's own buffer.
GatherBuffers gather_buffers_for(const Program& program, uint32_t role, const std::vector<Life>& lives,
                                 bool stays);

/// Of a role, made once and then only read.
struct SharedGatherBuffers {
  GatherBuffers parameters, gradients;
};
SharedGatherBuffers shared_gather_buffers(const Program& program, uint32_t role,
                                          const ExecutionGraph& lowered, bool parameters_offloaded);

}  // namespace tandem::exec
