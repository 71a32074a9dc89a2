// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways to train a model on a machine with a given number of samples in each step: what `tandem advise`
// chooses among.
#include <cstdint>
#include <string>
#include <vector>

#include "models/graph.h"
#include "schemes/setup/scheme.h"
#include "topologies/system.h"

namespace tandem::answers {

/// Schemes that learn what one worker learns with the whole batch: every gradient of a step is summed before
/// any parameter changes.
const std::vector<std::string>& exact_schemes();
/// Whether `scheme` (NAME[:key=value,...] or a preset) is one of them. Throws InputError.
bool learns_as_one(const ResolvedScheme& scheme);

/// One candidate. All process the same number of samples per step: batch x micro_batches x replicas.
struct Candidate {
  std::string scheme;      ///< as --scheme takes it
  std::size_t family = 0;  ///< index into Space::schemes
  int64_t devices = 1;
  int64_t batch = 1;  ///< samples of a device in one pass, as --batch takes it
  int64_t micro_batches = 1, replicas = 1;
  int64_t tensor = 1, pipeline = 1, expert = 1, context = 1, chunks = 1;
  int64_t sharding = 0;  ///< over the replicas: optimiser's state (1), gradients (2), parameters (3)
  bool zero_bubble = false;
  Precision precision = Precision::fp32;
  /// One pipeline stage of it, on `tensor` x `expert` x `context` devices, with one micro-batch per step.
  std::string stage_scheme;
  /// Equal for candidates that differ only in micro-batches, their size and the number of replicas.
  std::string split() const;
  /// Equal for candidates that divide the model and the samples over the same devices.
  std::string shape() const;
};

/// The set to choose from.
struct Space {
  const Graph* graph = nullptr;
  const System* system = nullptr;
  /// As --scheme takes them. Axes, stages, micro-batches, accumulation and schedules left at their defaults
  /// are varied.
  std::vector<std::string> schemes;
  int64_t devices = 1;   ///< the most to use
  int64_t samples = 32;  ///< in a step of all devices
  std::vector<Precision> precisions = {Precision::fp32};
  bool all = false;  ///< no fewer devices than that
};

/// fp32, and formats that the device multiplies at least a fifth faster: tf32, and bf16 or without it fp16.
std::vector<Precision> usual_precisions(const System& system);

/// Every candidate of the space, in a deterministic order. Device counts are all and fewer devices of one
/// node, then whole nodes; at most 64 for parameter servers and masters. Tensor, expert and context
/// parallelism stay within a node. The number of replicas divides the samples evenly. Splits that the model
/// does not support are left out; what else a scheme refuses appears when it is compiled. Throws InputError
/// for unknown schemes.
std::vector<Candidate> candidates(const Space& space);

}  // namespace tandem::answers
