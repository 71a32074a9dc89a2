// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ways to train a model on a machine with a given number of samples in each step: what `tandem advise`
// chooses among.
#include <cstdint>
#include <string>
#include <vector>

#include "models/graph.h"
#include "schemes/scheme.h"
#include "topologies/system.h"

namespace tandem::answers {

/// Schemes that learn what one worker learns with the whole batch: every gradient of a step is summed before
/// any parameter changes.
const std::vector<std::string>& exact_schemes();
/// Whether `scheme` (NAME[:key=value,...], or a preset) is one of them. Throws InputError.
bool learns_as_one(const ResolvedScheme& scheme);

/// One way. All of them work on the same samples in a step: batch x micro_batches x replicas.
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
  /// Of one stage of its pipeline, on `tensor` x `expert` x `context` devices, one micro-batch a step.
  std::string stage_scheme;
  /// Equal for candidates that differ in micro-batches and memory alone.
  std::string split() const;
  /// Equal for candidates that divide the model and the samples over the same devices.
  std::string shape() const;
};

/// What is chosen from.
struct Space {
  const Graph* graph = nullptr;
  const System* system = nullptr;
  /// As --scheme takes them. Axes, stages, micro-batches, accumulation and schedules that these leave at
  /// their defaults are tried out.
  std::vector<std::string> schemes;
  int64_t devices = 1;   ///< at most so many are used
  int64_t samples = 32;  ///< in a step of all devices
  std::vector<Precision> precisions = {Precision::fp32};
};

/// Every candidate of the space, in an order that depends on nothing else. Numbers of devices are all of a
/// node and fewer, then whole nodes, and all; of servers and masters at most 64. Devices share layers within
/// a node. A number of replicas divides the samples evenly. What a model cannot be divided into is left out;
/// what a scheme refuses else is found by whoever compiles it. Throws InputError for schemes that nobody
/// knows.
std::vector<Candidate> candidates(const Space& space);

}  // namespace tandem::answers
