// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums of the gradients of a weight of which several stages have a copy.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "schemes/program/builder.h"
#include "schemes/step/model_cuts.h"

namespace tandem::schemes {

/// For one thread at a time.
class StageCopies {
 public:
  explicit StageCopies(WeightCopies copies = {}) : copies_(std::move(copies)) {}
  /// Layers of a stage that hold such a weight.
  std::vector<uint32_t> on(int32_t stage) const;
  /// A channel between any two stages with copies of one weight. `roles`: [stage]; `bytes`: of the gradients
  /// that a holder sends.
  void connect(Builder& builder, const std::vector<RoleBuilder>& roles,
               const std::function<Bytes(const WeightHolder&)>& bytes);
  /// Gradients are summed over the stages that have the weight: after `made` the holder sends its own to the
  /// others, and adds theirs. Returns the op with which the sum is there.
  OpId sum(RoleBuilder& role, const WeightHolder& own, const std::string& bucket, OpId made) const;

 private:
  struct Way {
    WeightHolder from, to;
    uint32_t channel = 0;
  };
  WeightCopies copies_;
  std::vector<Way> ways_;
};

}  // namespace tandem::schemes
