// SPDX-License-Identifier: Apache-2.0
#pragma once
// Training data held in memory.
#include <cstdint>
#include <string>
#include <vector>

#include "exec/data/dataset.h"

namespace tandem::exec {

/// "teacher:key=value,..." (generated_data.h), a name in exec/data ("digits") or CSV files, joined by commas:
/// a sample a line, its class last, lines with # skipped. Values are divided by the largest. `test` gives the
/// held-out part (every fifth sample). Throws InputError with the line: not a finite number, another number
/// of columns, a class that is no whole number from 0 on, fewer than five samples.
Dataset load_dataset(const std::string& name_or_file, bool test);

/// Which of a step's samples a worker has: those of all, the first of its own, and how many.
struct SampleShare {
  int64_t step = 1, first = 0, samples = 1;
};
/// Of workers that have as many each.
inline SampleShare even_share(int64_t workers, int64_t worker, int64_t batch) {
  return {workers * batch, worker * batch, batch};
}

/// In which order samples are trained on: each epoch a permutation drawn from (seed, epoch), dealt out to the
/// workers in turn. Keeps the epoch asked for last; for one thread at a time.
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

/// The same; each thread keeps its last order.
std::vector<int64_t> batch_samples(int64_t samples, uint64_t seed, const SampleShare& share,
                                   int64_t iteration);

}  // namespace tandem::exec
