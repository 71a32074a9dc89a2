// SPDX-License-Identifier: Apache-2.0
#pragma once
// A worker's messages to and from a parameter server, and to other workers' models there. Internal to exec.
#include <vector>

#include "exec/workers/averages.h"
#include "exec/workers/compression.h"

namespace tandem::exec {

/// Its ops run on the threads of the lanes of sends and receives, which synchronise by counters.
class StoreMessages : public OpHandler {
 public:
  StoreMessages(const Workplace& place, const Averages& averages, const GradientCompression& compression);
  Act bind(uint32_t index) override;

 private:
  void meet_store(const Averages& averages);
  Act send(uint32_t index);
  bool asks(const Op& op) const;
  bool acknowledges(const Op& op) const;
  Act ask(uint32_t index);
  Act receive(const Op& op);
  Act receive_answers(const Op& op);
  Act send_model(uint32_t index);
  Act receive_model(uint32_t index);

  const GradientCompression& compression_;
  /// Host memory that a store accesses instead of gradients and parameters (LaneDriver::host_memory).
  float *sent_ = nullptr, *replies_ = nullptr;
  float *outgoing_ = nullptr, *incoming_ = nullptr;  ///< what these are copies of, on the device
  float* sent_messages_ = nullptr;                   ///< of compressed gradients, likewise
  std::vector<float> models_;     ///< for StoreShards::hold_models: the one sent and the mean that came back
  std::vector<Counter> pushed_;   ///< [key]: iterations
  std::vector<Counter> replied_;  ///< [key]: slices, of shards without links
};

}  // namespace tandem::exec
