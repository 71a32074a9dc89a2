// SPDX-License-Identifier: Apache-2.0
// A worker's batches: samples of a data set, or numbers drawn by counter.
#include <algorithm>
#include <bit>

#include "base/random.h"
#include "exec/run/worker.h"

namespace tandem::exec {

Worker::Act Worker::input(const Op& op) {
  const bool split = run_.stages().split();
  return [this, split, at = slot(op), micro = int32_t{op.micro}, lane = op.lane](int32_t iteration) {
    const int64_t batch = (run_.first_iteration() + iteration) * run_.stages().micros() + micro;
    load_batch(batch, static_cast<std::size_t>(split ? at : iteration % kInputBatches), iteration, lane);
    return int64_t{0};
  };
}

void Worker::load_batch(int64_t batch, std::size_t variant, int32_t iteration, Lane lane) {
  const int64_t n = graph().input_elements();
  float* to = inputs_ + static_cast<int64_t>(variant) * n;
  float* host = driver_->staging(LaneDriver::Staging::input, iteration, to, n);
  fill_batch(batch, host);
  driver_->to_device(to, host, n, lane);
  if (run_.stages().split()) device_->synchronize(lane);  // the next micro-batch is written there
}

/// Batch number `batch` of this worker: samples of the data set, or numbers drawn by counter. Labels are
/// those of all partners, one behind the other, where these judge the samples of all.
void Worker::fill_batch(int64_t batch, float* inputs) const {
  const ExecutionGraph &n = graph(), &whole = run_.execution_graph();
  const GridPlace& place = run_.stages().place(instance_);
  const Dataset* data = run_.execution().data;
  for (const auto* list : {&n.inputs(), &n.labels()}) {
    const auto& all = list == &n.inputs() ? whole.inputs() : whole.labels();
    for (const TensorId t : *list) {
      const Tensor& x = n.tensors()[t];
      const auto same = std::find_if(all.begin(), all.end(),
                                     [&](TensorId w) { return whole.tensors()[w].layer == x.layer; });
      const int64_t one = run_.stages().own_samples() ? whole.tensors()[*same].elements : x.elements;
      for (int64_t part = 0; part * one < x.elements; ++part) {
        const bool several = x.elements > one;
        const uint32_t replica = several ? static_cast<uint32_t>(part) : place.replica;
        float* to = inputs + x.offset + part * one;
        if (data != nullptr)
          fill_samples(*data, batch, replica, list == &n.labels(), to);
        else
          draw_samples(batch, replica, x, *same, one, to);
      }
    }
  }
}

void Worker::fill_samples(const Dataset& data, int64_t batch, uint32_t replica, bool labels,
                          float* to) const {
  const auto samples =
      batch_samples(data, run_.execution().seed, run_.stages().replicas(), replica, graph().batch(), batch);
  const int64_t size = elements(data.shape);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (labels)
      reinterpret_cast<int32_t*>(to)[i] = data.labels[static_cast<std::size_t>(samples[i])];
    else
      std::copy_n(data.values.data() + samples[i] * size, size, to + static_cast<int64_t>(i) * size);
  }
}

/// `count` numbers of an input or label, `same` in the whole model.
void Worker::draw_samples(int64_t batch, uint32_t replica, const Tensor& x, TensorId same, int64_t count,
                          float* to) const {
  const ExecutionGraph &n = graph(), &whole = run_.execution_graph();
  const uint32_t context = run_.stages().place(instance_).context, contexts = run_.stages().contexts();
  const int64_t range = whole.values(same);
  const int64_t own = count / n.batch(), all = whole.tensors()[same].elements / n.batch();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i / own * all + position_in_sequence(i % own, own, context, contexts);
    const uint64_t bits = draw_bits(run_.execution().seed ^ 0xda7aULL, replica, static_cast<uint64_t>(batch),
                                    same, static_cast<uint64_t>(at));
    to[i] = x.integer ? std::bit_cast<float>(static_cast<int32_t>(bits % static_cast<uint64_t>(range)))
                      : static_cast<float>(2 * to_unit(bits) - 1);
  }
}

}  // namespace tandem::exec
