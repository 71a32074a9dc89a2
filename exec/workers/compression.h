// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compressed gradients (semantics.md 2.8). Internal to exec.
#include <utility>

#include "exec/workers/handler.h"
#include "exec/workers/pass_plan.h"
#include "schemes/step/compression.h"

namespace tandem::exec {

/// Its ops run on the thread of the op's lane, compute or comm.
class GradientCompression : public OpHandler {
 public:
  static Needs needs(const Asked& asked);
  GradientCompression(const Workplace& place, const PassPlan& plan);
  Act bind(uint32_t index) override;
  /// The buffer of a collective's gather, or of one of its sums; these are stored one after another.
  std::pair<float*, int64_t> words_of(uint32_t index) const;
  /// Compressed messages of all buckets: offset and words.
  float* messages() const { return messages_; }
  int64_t words() const;
  /// Words of the bucket that go to one server.
  int64_t pushed(uint32_t key) const;
  /// Offset of the bucket's buffer.
  int64_t messages_before(uint32_t key) const;

 private:
  void start();
  CompressedBucket compressed(uint32_t key) const;
  int64_t rank(uint32_t key) const;
  int64_t message_words(uint32_t key) const;
  float* messages(uint32_t key) const { return messages_ + messages_before(key); }
  Act compress_pushes(const Op& op);

  const PassPlan& pass_plan_;
  float *messages_ = nullptr, *left_out_ = nullptr;  ///< messages, and error feedback
};

}  // namespace tandem::exec
