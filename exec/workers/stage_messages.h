// SPDX-License-Identifier: Apache-2.0
#pragma once
// What stages of a split model send each other. Internal to exec.
#include <vector>

#include "exec/workers/handler.h"

namespace tandem::exec {

/// What it binds runs on the threads of the lanes of sends and receives.
class StageMessages : public OpHandler {
 public:
  static Needs needs(const Asked& asked);
  explicit StageMessages(const Workplace& place);
  Act bind(uint32_t index) override;

 private:
  std::vector<MessagePart> message(const Op& op, bool arrives) const;
  Slice tied_share(const Op& op) const;
  std::vector<MessagePart> tied_message(const Op& op, bool arrives) const;
  Act send(uint32_t index);
  Act receive(uint32_t index);

  float* tied_ = nullptr;  ///< where gradients arrive of a weight of which another stage has a copy
};

}  // namespace tandem::exec
