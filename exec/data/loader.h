// SPDX-License-Identifier: Apache-2.0
#pragma once
// A worker's batches of stored images on their way through host memory. Internal to exec.
#include <cstdint>
#include <functional>
#include <vector>

#include "exec/data/data.h"
#include "exec/data/image.h"
#include "exec/data/stored_images.h"
#include "exec/lower/execution_graph.h"

namespace tandem::exec {

/// The shape of the model's only input. Throws InputError if that does not take images: one or three
/// channels, then height and width, no tokens.
ImageShape image_shape(const ExecutionGraph& lowered);

/// Calls `work(i, thread)` for i in 0 .. count - 1, on the calling thread and `threads` - 1 others, whichever
/// is free; they live as long as the call. Throws the first failure when all have ended.
void share_out(int64_t count, int64_t threads, const std::function<void(int64_t i, int64_t thread)>& work);

/// Slots for Loading::prefetch batches. A batch is read, decoded and used in this order, and a slot is read
/// again only after its use: the Program's dependencies ensure that. One thread reads, one decodes and one
/// uses, each with its own helpers.
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
  /// Throw InputError naming the data set and the bad sample.
  void read(int64_t batch);
  void decode(int64_t batch);
  /// Channels last, one sample after another.
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
