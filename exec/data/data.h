// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training data held in memory.
#include <cstdint>
#include <string>
#include <vector>

#include "exec/data/dataset.h"

namespace tandem::exec {

/// "teacher:key=value,..." (generated_data.h), a name in exec/data ("digits") or CSV files joined by commas:
/// one sample per line, its class last, lines with # skipped. Values are divided by the largest. `test`
/// returns the held-out part (every fifth sample). Throws InputError with the line: not a finite number, a
/// different number of columns, a class that is not a whole number from 0 on, fewer than five samples.
Dataset load_dataset(const std::string& name_or_file, bool test);

/// The samples of a step that one worker has: those of all workers, its first, and how many.
struct SampleShare {
  int64_t step = 1, first = 0, samples = 1;
};
/// For workers with equal batches.
inline SampleShare even_share(int64_t workers, int64_t worker, int64_t batch) {
  return {workers * batch, worker * batch, batch};
}

/// The order in which samples are trained on: each epoch a permutation drawn from (seed, epoch), dealt to the
/// workers round robin. Caches the last epoch asked for; for one thread at a time.
class SampleOrder {
 public:
  SampleOrder(int64_t samples, uint64_t seed) : samples_(samples), seed_(seed) {}
  bool is_of(int64_t samples, uint64_t seed) const { return samples == samples_ && seed == seed_; }
  /// Indices of the samples of one worker's batch. O(batch), in a new epoch O(samples).
  std::vector<int64_t> batch(const SampleShare& share, int64_t iteration);

 private:
  void shuffle(int64_t epoch);
  int64_t samples_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

/// The same; each thread caches its last order.
std::vector<int64_t> batch_samples(int64_t samples, uint64_t seed, const SampleShare& share,
                                   int64_t iteration);

}  // namespace tandem::exec
