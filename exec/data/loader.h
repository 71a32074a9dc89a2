// SPDX-License-Identifier: Apache-2.0
#pragma once
// A worker's batches of stored pictures on their way through host memory. Internal to exec.
#include <cstdint>
#include <functional>
#include <vector>

#include "exec/data/data.h"
#include "exec/data/image.h"
#include "exec/data/stored_images.h"
#include "exec/lower/execution_graph.h"

namespace tandem::exec {

/// Of the model's only input. Throws InputError where that takes no picture: one or three channels, then
/// height and width, no tokens.
ImageShape image_shape(const ExecutionGraph& lowered);

/// Calls `work(i, thread)` for i in 0 .. count - 1, by the calling thread and `threads` - 1 others, whichever
/// is free; they live as long as the call. The first failure is thrown when all have ended.
void share_out(int64_t count, int64_t threads, const std::function<void(int64_t i, int64_t thread)>& work);

/// Places for as many batches as Loading::prefetch says. A batch's read, decode and use follow each other,
/// and a place's next batch is read when it was used: the Program's dependencies see to that. One thread
/// reads, one decodes and one uses, each with helpers of its own.
class Loader {
 public:
  struct Setup {
    const StoredImages* images = nullptr;  ///< outlives the loader
    ImageShape shape;
    SampleShare share;
    int64_t places = 1, threads = 1;
    uint64_t seed = 1;
  };
  explicit Loader(const Setup& setup);
  /// Throw InputError with the data set and the sample of what is wrong.
  void read(int64_t batch);
  void decode(int64_t batch);
  /// Channels last, one sample behind the other.
  const std::vector<float>& values(int64_t batch) const { return at(batch).values; }
  const std::vector<int32_t>& labels(int64_t batch) const { return at(batch).labels; }

 private:
  struct Batch {
    std::vector<int64_t> samples;
    std::vector<std::vector<uint8_t>> encoded;  ///< [sample]
    std::vector<int32_t> labels;
    std::vector<float> values;
  };
  Batch& at(int64_t batch) { return places_[static_cast<std::size_t>(batch % setup_.places)]; }
  const Batch& at(int64_t batch) const { return places_[static_cast<std::size_t>(batch % setup_.places)]; }

  Setup setup_;
  SampleOrder order_;
  std::vector<Batch> places_;
  std::vector<std::vector<uint8_t>> scratch_;  ///< [thread]
};

}  // namespace tandem::exec
