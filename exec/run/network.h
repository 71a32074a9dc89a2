// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the nodes of a run reach each other. Internal to exec.
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/comm/collective.h"
#include "exec/comm/transport.h"
#include "exec/run/run_plan.h"

namespace tandem::exec {

/// Made by one thread, which deals out its channels before there are workers and may stop() it when their
/// threads have ended. In between any thread may call the const functions.
class Network {
 public:
  /// TCP between nodes emulated on this machine, or MPI between processes, each a node. Throws InputError:
  /// other numbers of processes than nodes; and DeviceError.
  Network(const RunPlan& plan, Abort& abort);

  /// Null: one node.
  Transport* transport() const { return transport_.get(); }
  /// The first of `count` channels of the transport that nobody else uses.
  uint32_t take_channels(std::size_t count);
  uint32_t node_of(uint32_t worker) const { return worker / per_node_; }
  /// Takes a channel for a group of these workers. None without a transport.
  GroupNodes nodes_of(const std::vector<uint32_t>& workers);
  /// Transport::sent_bytes(); 0 without one.
  int64_t sent_bytes() const { return transport_ ? transport_->sent_bytes() : 0; }
  /// After a failed run: nothing writes to the workers' buffers any more.
  void stop() {
    if (transport_) transport_->stop();
  }

 private:
  const uint32_t per_node_;
  std::unique_ptr<Transport> transport_;
  uint32_t channels_ = 0;  ///< in use
};

}  // namespace tandem::exec
