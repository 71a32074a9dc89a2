#pragma once
// What one device must hold. Floor 3.
#include "schemes/report.h"
#include "schemes/scheme.h"
#include "topologies/device.h"

namespace tandem {

/// Parameters, gradients and optimiser state in fp32 (plus a 2-byte copy of the parameters under mixed
/// precision); activations = every tensor that some layer keeps for backward, each counted once;
/// workspace = the widest pair of gradients alive in backward plus what the driver and its libraries take;
/// buffers = running statistics, two input batches and communication buckets.
/// What the program spreads counts by its share. `program`: of the devices together, so that its buckets are
/// known: the largest is copied into, and where parameters are spread two are gathered at once.
MemoryUse device_memory(const Workload& work, const Device& device, const Program& program);

}  // namespace tandem
