// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gradients that travel in another form (semantics.md 2.8). Internal to exec.
#include <utility>

#include "exec/workers/handler.h"
#include "exec/workers/pass_plan.h"
#include "schemes/compression.h"

namespace tandem::exec {

/// What it binds runs on the thread of the op's lane, compute or comm.
class GradientCompression : public OpHandler {
 public:
  static Needs needs(const Asked& asked);
  GradientCompression(const Workplace& place, const PassPlan& plan);
  Act bind(uint32_t index) override;
  /// What a collective gathers, or one of the sums, which lie one behind the other.
  std::pair<float*, int64_t> words_of(uint32_t index) const;
  /// Of all buckets, as they travel: where they begin, and how many words.
  float* messages() const { return messages_; }
  int64_t words() const;
  /// Words of the bucket's that go to one server.
  int64_t pushed(uint32_t key) const;
  /// Where the bucket's buffer begins, from the first.
  int64_t messages_before(uint32_t key) const;

 private:
  void start();
  CompressedBucket compressed(uint32_t key) const;
  int64_t message_words(uint32_t key) const;
  float* messages(uint32_t key) const { return messages_ + messages_before(key); }
  Act compress_pushes(const Op& op);

  const PassPlan& plan_;
  float *messages_ = nullptr, *left_out_ = nullptr;  ///< what travels, and feedback
};

}  // namespace tandem::exec
