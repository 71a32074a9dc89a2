// SPDX-License-Identifier: Apache-2.0
#include "exec/workers/input.h"

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "exec/layout/memory.h"

namespace tandem::exec {

Needs Input::needs(const Asked& a) {
  return {
      std::vector<Need::Part>{{loaded_bytes(a.execution, a.program, a.stages, a.worker), &MemoryUse::host}}};
}

Input::Input(const Workplace& place) : OpHandler(place) {
  make_loader();
  start();
}

void Input::make_loader() {
  const Execution& e = run_.execution();
  if (e.stored == nullptr || !has_stage(run_.program(), role(), CopyKind::read)) return;
  loader_ = std::make_unique<Loader>(Loader::Setup{
      e.stored, image_shape(graph()), run_.stages().share(run_.stages().place(instance_).replica),
      std::max<int64_t>(1, e.job.loading.prefetch), std::max<int64_t>(1, e.job.loading.workers), e.seed});
}

bool Input::copies() const { return has_stage(run_.program(), role(), CopyKind::input); }

OpHandler::Act Input::bind(uint32_t index) {
  const Op& op = role().ops[index];
  const CopyKind stage = run_.program().copies[op.what].kind;
  const auto number = [this, micro = int32_t{op.micro}](int32_t iteration) {
    return (run_.first_iteration() + iteration) * run_.stages().micros() + micro;
  };
  if (stage == CopyKind::read || stage == CopyKind::decode) {
    const bool reads = stage == CopyKind::read;
    return [this, number, reads](int32_t iteration) {
      reads ? loader_->read(number(iteration)) : loader_->decode(number(iteration));
      return int64_t{0};
    };
  }
  const bool split = run_.stages().split();
  driver_->reserve_staging(LaneDriver::Staging::input, graph().input_elements());
  return [this, split, number, at = slot(op), lane = op.lane](int32_t iteration) {
    load(number(iteration), static_cast<std::size_t>(split ? at : iteration % kInputBatches), iteration,
         lane);
    return int64_t{0};
  };
}

/// The first batches; where nothing is loaded the only ones.
void Input::start() {
  const int64_t elements = graph().input_elements();
  std::vector<float> batch(static_cast<std::size_t>(elements));
  for (int64_t v = 0; v < memory_.variants(); ++v) {
    fill_batch(run_.stages().split() ? 0 : v, batch.data());
    device_->upload(memory_.inputs(v), batch.data(), elements);
  }
}

void Input::load(int64_t batch, std::size_t variant, int32_t iteration, Lane lane) {
  const int64_t n = graph().input_elements();
  float* to = memory_.inputs(static_cast<int64_t>(variant));
  float* host = driver_->staging(LaneDriver::Staging::input, iteration, to);
  fill_batch(batch, host);
  driver_->to_device(to, host, n, lane);
  if (run_.stages().split()) device_->synchronize(lane);  // the next micro-batch is written there
}

/// Batch number `batch` of this worker: samples of the data set, or numbers drawn by counter. Labels are
/// those of all partners, one behind the other, where these judge the samples of all.
void Input::fill_batch(int64_t batch, float* inputs) const {
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
        if (run_.execution().stored != nullptr)
          fill_stored(batch, replica, list == &n.labels(), to);
        else if (run_.execution().tokens != nullptr)
          fill_tokens(batch, replica, list == &n.labels(), one, to);
        else if (data != nullptr)
          fill_samples(*data, batch, replica, list == &n.labels(), to);
        else
          draw_samples(batch, replica, x, *same, one, to);
      }
    }
  }
}

/// What the loader has for this worker; labels of other replicas, and of a stage that loads no pictures, are
/// known without reading.
void Input::fill_stored(int64_t batch, uint32_t replica, bool labels, float* to) const {
  const StoredImages& stored = *run_.execution().stored;
  if (!labels) {
    const std::vector<float>& values = loader_->values(batch);
    std::copy(values.begin(), values.end(), to);
    return;
  }
  if (loader_ && replica == run_.stages().place(instance_).replica) {
    const std::vector<int32_t>& known = loader_->labels(batch);
    std::copy(known.begin(), known.end(), reinterpret_cast<int32_t*>(to));
    return;
  }
  const auto samples =
      batch_samples(stored.samples(), run_.execution().seed, run_.stages().share(replica), batch);
  for (std::size_t i = 0; i < samples.size(); ++i)
    reinterpret_cast<int32_t*>(to)[i] = stored.label(samples[i]);
}

void Input::fill_samples(const Dataset& data, int64_t batch, uint32_t replica, bool labels, float* to) const {
  const auto samples =
      batch_samples(data.samples(), run_.execution().seed, run_.stages().share(replica), batch);
  const int64_t size = elements(data.shape);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (labels)
      reinterpret_cast<int32_t*>(to)[i] = data.labels[static_cast<std::size_t>(samples[i])];
    else
      std::copy_n(data.values.data() + samples[i] * size, size, to + static_cast<int64_t>(i) * size);
  }
}

/// `count` tokens, or of each position the next one.
void Input::fill_tokens(int64_t batch, uint32_t replica, bool labels, int64_t count, float* to) const {
  const TokenFiles& tokens = *run_.execution().tokens;
  const SampleShare share = run_.stages().share(replica);
  const uint32_t context = run_.stages().place(instance_).context, contexts = run_.stages().contexts();
  const int64_t own = count / share.samples;
  auto* id = reinterpret_cast<int32_t*>(to);
  for (int64_t i = 0; i < share.samples; ++i) {
    const int64_t place = batch * share.step + share.first + i;
    const TokenFiles::Window window = tokens.window(tokens.drawn(place, run_.execution().seed));
    for (int64_t t = 0; t < own; ++t)
      *id++ = window.at(position_in_sequence(t, own, context, contexts) + (labels ? 1 : 0));
  }
}

/// `count` numbers of an input or label, `same` in the whole model.
void Input::draw_samples(int64_t batch, uint32_t replica, const Tensor& x, TensorId same, int64_t count,
                         float* to) const {
  const ExecutionGraph &n = graph(), &whole = run_.execution_graph();
  const uint32_t context = run_.stages().place(instance_).context, contexts = run_.stages().contexts();
  const int64_t range = whole.values(same);
  const int64_t own = count / n.batch(), all = whole.tensors()[same].elements / whole.batch();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i / own * all + position_in_sequence(i % own, own, context, contexts);
    const uint64_t bits = draw_bits(run_.execution().seed ^ 0xda7aULL, replica, static_cast<uint64_t>(batch),
                                    same, static_cast<uint64_t>(at));
    to[i] = x.integer ? std::bit_cast<float>(static_cast<int32_t>(bits % static_cast<uint64_t>(range)))
                      : static_cast<float>(2 * to_unit(bits) - 1);
  }
}

}  // namespace tandem::exec
