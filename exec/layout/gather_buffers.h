// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where buckets lie that a worker holds whole for a while only: parameters that are gathered for the passes,
// and gradients until they are scattered. Internal to exec.
#include <cstdint>
#include <vector>

#include "exec/lower/execution_graph.h"
#include "schemes/program.h"

namespace tandem::exec {

/// A bucket is there from the first of these ops, in the order of the role's list, to the last.
struct Life {
  uint32_t key = 0;
  std::vector<uint32_t> ops;
  bool ends = true;  ///< false: it is needed in the next iteration, too
};

/// Of parameters: from what brings them (a gather, and where they are `offloaded` their way up) to the last
/// pass that reads them before they are brought again. None where devices hold all parameters.
std::vector<Life> parameter_lives(const Program& program, uint32_t role, const ExecutionGraph& lowered,
                                  bool offloaded);
/// Of gradients: from the first pass that writes them to their reduce-scatter. None where devices hold whole
/// gradients. Buckets whose micro-batches are summed before that are in none.
std::vector<Life> gradient_lives(const Program& program, uint32_t role, const ExecutionGraph& lowered);

/// Memory that buckets take turns in.
struct GatherBuffers {
  static constexpr int64_t kNone = -1, kOwn = -2;
  /// [bucket]: where it begins. kNone: it has no room; kOwn: nor does it need one, since it would share
  /// memory with no other: the worker's share stays within its whole.
  std::vector<int64_t> at;
  int64_t elements = 0;
};

/// Two buckets share memory where each life of one has ended when a life of the other begins
/// (exec/layout/happens_before.h). Buckets lie in lines of 64 bytes as they do in the flat vector, so that
/// what looks at alignment computes the same. O(lives^2). `stays`: a worker keeps a share between lives,
/// which may do so in a place of the bucket's own.
GatherBuffers gather_buffers_for(const Program& program, uint32_t role, const std::vector<Life>& lives,
                                 bool stays);

/// Of a role, made once and then only read.
struct SharedGatherBuffers {
  GatherBuffers parameters, gradients;
};
SharedGatherBuffers shared_gather_buffers(const Program& program, uint32_t role,
                                          const ExecutionGraph& lowered, bool parameters_offloaded);

}  // namespace tandem::exec
