// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between the stages of a split model. Internal to exec.
#include <vector>

#include "exec/workers/handler.h"

namespace tandem::exec {

/// Its ops run on the threads of the lanes of sends and receives.
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

  float* tied_ = nullptr;  ///< receives gradients of a weight that another stage has a copy of
};

}  // namespace tandem::exec
