// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the gradients of one bucket become their sum over devices, whoever fills the bucket: as they are, cast
// to two bytes on the way, or compressed (schemes/step/compression.h).
#include <optional>
#include <string>

#include "schemes/program/builder.h"
#include "schemes/step/buckets.h"
#include "schemes/step/compression.h"

namespace tandem::schemes {

struct SumRule {
  Compression compression = {};
  bool casts = false;              ///< fp32 gradients travel as fp16
  std::string algorithm = "auto";  ///< of the collectives
  uint32_t axes = 0;               ///< of the role's mesh, over which gradients are summed
  int64_t members = 1;             ///< along these
  Lane lane = Lane::comm;
  int64_t every = 1;  ///< iterations
  int32_t micro = 0;  ///< of the step's micro-batches
  bool compresses() const { return compression.kind != Compression::Kind::none; }
};

/// Appends ops to a role, in the order in which the functions are called: pack(), begin(), and after all
/// buckets' finish() and unpack(). For one thread at a time. Cost: O(layers of the graph) where factors are
/// made.
class BucketSum {
 public:
  /// `graph`: what the role's devices hold.
  BucketSum(const SumRule& rule, const Graph& graph, const Builder& builder, SummedBucket bucket);
  /// Makes what travels of the gradients that are there with `gradient`; returns that itself where they stay
  /// as they are.
  OpId pack(RoleBuilder& role, OpId gradient) const;
  /// The sum; of PowerSGD that of the left factors.
  OpId begin(RoleBuilder& role, OpId packed) const;
  /// PowerSGD's last sum; for all others returns `sum`.
  OpId finish(RoleBuilder& role, OpId sum) const;
  /// Makes gradients of what came, and returns that op; `sum` where they came as they are.
  OpId unpack(RoleBuilder& role, OpId sum) const;

 private:
  OpId work(RoleBuilder& role, Pass pass, std::vector<Kernel> kernels, const char* what, Payload payload,
            OpId after) const;
  OpId collective(RoleBuilder& role, CollKind kind, Bytes bytes, const char* what, OpId after) const;
  Kernel cast(Pass pass, bool shrink) const;

  SumRule rule_;
  SummedBucket bucket_;
  std::optional<CompressedBucket> form_;  ///< where it is compressed
};

}  // namespace tandem::schemes
