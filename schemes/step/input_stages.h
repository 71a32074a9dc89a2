// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ops that bring a batch to a device: read, decode, copy. Shared by all schemes.
#include <vector>

#include "schemes/program/builder.h"
#include "schemes/setup/scheme.h"

namespace tandem::schemes {

/// Those of one batch. Without storage `read` is invalid, and `copy` is the only one.
struct InputOps {
  OpId read;   ///< the first, which takes a place on the host
  OpId copy;   ///< at its end the place on the host is free, and one on the device is taken
  OpId ready;  ///< the last, which the first layers wait for
};

/// Bytes of a sample as it is stored.
double stored_bytes(const Workload& work);
/// Is there anything to decode? Samples of tokens are stored as they are used.
bool is_encoded(const Workload& work);

/// Appends them for micro-batch `micro`, of which the device has one of `parts` parts. What they wait for
/// at the same time is to be said: room on the host (keep_prefetch) and on the device. Throws InputError for
/// sizes that overflow.
InputOps add_input(RoleBuilder& role, const Workload& work, int64_t parts = 1, int32_t micro = 0);

/// `batches`: the ops of all batches of an iteration, in order. A read waits for the copy of the batch so
/// many before it, of this iteration or an earlier one. With `prefetch` 0 the first batch waits for the end
/// of the iteration before, and each other for the copy of the one before it.
void keep_prefetch(RoleBuilder& role, const std::vector<InputOps>& batches, int64_t prefetch);

}  // namespace tandem::schemes
