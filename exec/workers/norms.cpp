// SPDX-License-Identifier: Apache-2.0
// Squared lengths of gradients, for the noise scale.
#include "exec/workers/worker.h"

namespace tandem::exec {

namespace {

double squared(const float* at, int64_t n) {
  double out = 0;
  for (int64_t i = 0; i < n; ++i) out += static_cast<double>(at[i]) * static_cast<double>(at[i]);
  return out;
}

}  // namespace

/// The squared length of this worker's gradients before they are summed, and of the sum behind it, as means
/// over their samples.
Worker::Act Worker::with_norms(uint32_t index, Act act) {
  const Op& op = role().ops[index];
  if (!run_.keep().norms || !run_.sums_gradients(op)) return act;
  const Bucket& bucket = run_.program().buckets[op.key];
  return [this, act, range = Slice{bucket.first, bucket.elements}](int32_t iteration) {
    return noting_norms(range, iteration, [&] { return act(iteration); });
  };
}

int64_t Worker::noting_norms(Slice range, int32_t iteration, const std::function<int64_t()>& sum) {
  const int32_t micro = run_.micro_batches();
  const double workers = run_.workers();
  const float* const at = gradients_at(range.first);
  const auto step = static_cast<std::size_t>(iteration / micro);
  if (norms_.size() <= step) norms_.resize(step + 1);
  norms_[step].small += squared(at, range.elements) / (double{1} * micro * micro);
  const int64_t began = sum();
  norms_[step].big += squared(at, range.elements) / (workers * workers * micro * micro);
  return began;
}

std::vector<GradientNorms> mean_norms(const std::vector<std::unique_ptr<Worker>>& workers,
                                      std::size_t first) {
  std::vector<GradientNorms> out;
  for (std::size_t step = first; step < workers[0]->norms().size(); ++step) {
    GradientNorms mean;
    for (const auto& w : workers) {
      mean.small += w->norms()[step].small / static_cast<double>(workers.size());
      mean.big += w->norms()[step].big / static_cast<double>(workers.size());
    }
    out.push_back(mean);
  }
  return out;
}

}  // namespace tandem::exec
