// SPDX-License-Identifier: Apache-2.0
#pragma once
// A worker's batches: samples of a data set, or numbers drawn by counter. Internal to exec.
#include <memory>

#include "exec/data/loader.h"
#include "exec/workers/handler.h"

namespace tandem::exec {

/// What it binds runs on the threads of the lanes read, decode and copy; load() also on the compute lane's of
/// a stage that copies nothing.
class Input : public OpHandler {
 public:
  /// Of the host's memory: what Loader holds.
  static Needs needs(const Asked& asked);
  explicit Input(const Workplace& place);
  Act bind(uint32_t index) override;
  /// Does an op bring the stage its samples?
  bool copies() const;
  void load(int64_t batch, std::size_t variant, int32_t iteration, Lane lane);

 private:
  void make_loader();
  void start();
  void fill_batch(int64_t batch, float* host) const;
  void fill_samples(const Dataset& data, int64_t batch, uint32_t replica, bool labels, float* to) const;
  void fill_stored(int64_t batch, uint32_t replica, bool labels, float* to) const;
  void fill_tokens(int64_t batch, uint32_t replica, bool labels, int64_t count, float* to) const;
  void draw_samples(int64_t batch, uint32_t replica, const Tensor& x, TensorId same, int64_t count,
                    float* to) const;

  std::unique_ptr<Loader> loader_;  ///< of stored pictures; null where none are loaded
};

}  // namespace tandem::exec
