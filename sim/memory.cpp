#include "sim/memory.h"

#include <algorithm>

namespace tandem {

namespace {

/// Context, cuDNN and cuBLAS handles on a GPU: 0.3 to 0.6 GiB are commonly seen after start-up.
constexpr Bytes kContext{400LL << 20};

/// Bytes of every tensor kept from forward to backward, each output at most once.
Bytes kept_activations(const Workload& work) {
  const auto& layers = work.graph->layers();
  std::vector<bool> kept(layers.size(), false);
  // The layer whose memory a layer's output really is (in-place layers share their input's).
  std::vector<uint32_t> owner(layers.size());
  Bytes extra;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    const Lowered& l = work.layers[i];
    owner[i] = l.in_place && !layers[i].inputs.empty() ? owner[layers[i].inputs[0]] : i;
    if (l.keeps_input) {
      for (const uint32_t in : layers[i].inputs) kept[owner[in]] = true;
    }
    if (l.keeps_output) kept[owner[i]] = true;
    extra += Bytes{l.kept_extra} * work.batch;
  }
  const int64_t size = element_bytes(work.precision);
  Bytes total = extra * size;
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (kept[i] && layers[i].type != nullptr) {
      total += Bytes{elements(layers[i].output)} * work.batch * size;
    }
  }
  return total;
}

}  // namespace

MemoryUse device_memory(const Workload& work, const Device& device, Bytes comm_buffers) {
  MemoryUse m;
  const bool mixed = element_bytes(work.precision) == 2;
  const int64_t parameters = work.graph->parameter_elements();
  m.parameters = Bytes{parameters} * (mixed ? 6 : 4);
  m.gradients = Bytes{parameters} * 4;
  m.optimizer = Bytes{parameters} * (4 * work.optimizer->state);
  m.activations = kept_activations(work);
  const auto& layers = work.graph->layers();
  int64_t statistics = 0, widest = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    statistics += work.layers[i].buffers;
    int64_t alive = elements(layers[i].output);
    for (const uint32_t in : layers[i].inputs) alive += elements(layers[in].output);
    widest = std::max(widest, alive);
  }
  m.workspace = Bytes{widest} * work.batch * element_bytes(work.precision);
  if (device.kind == Device::Kind::gpu) m.workspace += kContext;
  m.buffers = Bytes{statistics} * 4 + work.graph->sample().decoded * work.batch * 2 + comm_buffers;
  m.capacity = device.memory;
  return m;
}

}  // namespace tandem
