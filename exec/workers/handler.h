// SPDX-License-Identifier: Apache-2.0
#pragma once
// Base of the handlers, each for one kind of op of a worker. Internal to exec.
#include <functional>
#include <vector>

#include "exec/workers/bench.h"
#include "exec/workers/model_memory.h"
#include "exec/workers/parameter_copies.h"

namespace tandem::exec {

/// What all handlers of a worker use; must outlive them.
struct Workplace {
  Bench& bench;
  ModelMemory& memory;
  const ParameterCopies& copies;
};

/// Binds the ops of its kind. Handlers allocate when the worker's first thread makes them; that thread then
/// binds their ops, which run on their lanes. A handler states in a static `needs(Asked)` what it will
/// allocate (exec/workers/memory.cpp lists them all).
class OpHandler {
 public:
  using Act = std::function<int64_t(int32_t iteration)>;  ///< LaneOp::act
  virtual ~OpHandler() = default;
  OpHandler(const OpHandler&) = delete;
  OpHandler& operator=(const OpHandler&) = delete;
  /// The action of an op of its kind. Throws InputError if it cannot be executed.
  virtual Act bind(uint32_t op) = 0;
  static Act nothing() {
    return [](int32_t) { return int64_t{0}; };
  }

 protected:
  explicit OpHandler(const Workplace& place);
  const Role& role() const { return plan_.role(instance_); }
  const ExecutionGraph& graph() const { return plan_.stages().lowered(instance_); }
  float* tensor(TensorId t, int64_t variant = 0) const { return memory_.tensor(t, variant); }
  int64_t slot(const Op& op) const { return plan_.stages().slots(instance_).of_micro[op.micro]; }
  // Declared in ModelMemory and ParameterCopies, where they are described.
  float* parameters_at(int64_t first) const { return memory_.parameters_at(first); }
  float* gradients_at(int64_t first) const { return memory_.gradients_at(first); }
  float* own_parameters(int64_t first) const { return memory_.own_parameters(first); }
  float* own_gradients(int64_t first) const { return memory_.own_gradients(first); }
  CopiedRange copied(const Slice& part) const { return copies_.copied(part); }
  void renew(const CopiedRange& range, Lane lane) const { copies_.renew(range, lane); }
  bool in_gather_buffer(uint32_t key) const {
    return plan_.stages().gather_buffers(instance_).parameters.at[key] >= 0;
  }
  bool gradients_in_gather_buffer(uint32_t key) const {
    return plan_.stages().gather_buffers(instance_).gradients.at[key] >= 0;
  }
  /// A call with its operands, ready to be launched.
  Launch launch_of(const Call& call, std::vector<float*> operands) const;
  Bench& bench_;
  Run& run_;
  const RunPlan& plan_;
  const uint32_t instance_;
  DeviceSession* const device_;
  LaneDriver* const driver_;
  ModelMemory& memory_;
  const ParameterCopies& copies_;
};

/// A call that updates parameters.
class UpdateHandler : public OpHandler {
 protected:
  using OpHandler::OpHandler;
  /// The part of the flat vector that an update covers.
  Slice updated(uint32_t index) const;
  /// One step of the optimiser on a part of the parameters.
  Call update_call(const Op& op, const Slice& part) const;
};

}  // namespace tandem::exec
