// SPDX-License-Identifier: Apache-2.0
#pragma once
// Offloading: copies between a worker's device and its host, and the work of the host's processors. Internal
// to exec.
#include "exec/workers/handler.h"

namespace tandem::exec {

/// Its ops run on the threads of the lanes offload, reload and host.
class Offload : public UpdateHandler {
 public:
  static Needs needs(const Asked& asked);
  explicit Offload(const Workplace& place);
  Act bind(uint32_t index) override;

 private:
  Act offload(uint32_t index);
  Act reload(uint32_t index);
  Act add_on_host(const Op& op);
  Act update_on_host(const Op& op, const Slice& part);

  float* reloaded_ = nullptr;  ///< on the device, in 2 bytes
  /// On the host: gradients, the sums of micro-batches, and parameters to be copied up in 2 bytes.
  float *host_gradients_ = nullptr, *host_sums_ = nullptr, *host_narrowed_ = nullptr;
};

}  // namespace tandem::exec
