#include "sim/memory.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace tandem {

namespace {

/// Context, cuDNN and cuBLAS handles on a GPU: 0.3 to 0.6 GiB are commonly seen after start-up.
constexpr Bytes kContext{400LL << 20};

/// Bytes of every tensor kept from forward to backward, each output at most once. With recomputation those
/// inside a block are there for one block at a time; what a block reads from elsewhere is always kept.
Bytes kept_activations(const Workload& work) {
  const auto& layers = work.graph->layers();
  std::vector<bool> kept(layers.size(), false), always(layers.size(), false);
  // The layer whose memory a layer's output really is (in-place layers share their input's).
  std::vector<uint32_t> owner(layers.size());
  const auto block = [&](uint32_t i) { return work.recompute ? block_of(layers[i]) : std::string_view{}; };
  for (uint32_t i = 0; i < layers.size(); ++i) {
    const Lowered& l = work.layers[i];
    owner[i] = l.in_place && !layers[i].inputs.empty() ? owner[layers[i].inputs[0]] : i;
    for (const uint32_t in : layers[i].inputs) {
      const uint32_t x = owner[in];
      const bool enters = block(i) != block(x);
      kept[x] = kept[x] || l.keeps_input || (enters && !block(i).empty());
      always[x] = always[x] || enters;
    }
    if (l.keeps_output) kept[owner[i]] = true;
  }
  const int64_t size = element_bytes(work.precision);
  Bytes total;
  std::map<std::string_view, Bytes> inside;
  const auto add = [&](uint32_t i, Bytes bytes, bool stays) {
    (stays || block(i).empty() ? total : inside[block(i)]) += bytes;
  };
  for (uint32_t i = 0; i < layers.size(); ++i) {
    add(i, Bytes{work.layers[i].kept_extra} * work.batch * size, false);
    if (kept[i] && layers[i].type != nullptr)
      add(i, Bytes{elements(layers[i].output)} * work.batch * size, always[i]);
  }
  Bytes most;
  for (const auto& [name, bytes] : inside) most = std::max(most, bytes);
  return total + most;
}

Bytes comm_buffers(const Program& program) {
  int64_t gathered = 0, most = 0;
  for (const Op& op : program.roles[0].ops) {
    if (op.kind != OpKind::collective && op.kind != OpKind::send) continue;
    const bool gathers = program.spread.parameters > 1 && op.payload == Payload::parameters;
    (gathers ? gathered : most) = std::max(gathers ? gathered : most, op.bytes.n);
  }
  return Bytes{most} + Bytes{gathered} * 2;
}

/// The largest share of `bytes` when so many hold one.
Bytes share(Bytes bytes, int64_t holders) { return {(bytes.n + holders - 1) / holders}; }

}  // namespace

MemoryUse device_memory(const Workload& work, const Device& device, const Program& program) {
  MemoryUse m;
  const bool mixed = element_bytes(work.precision) == 2;
  const int64_t parameters = work.graph->parameter_elements();
  const Spread& spread = program.spread;
  m.parameters = share(Bytes{parameters} * (mixed ? 2 : 4), spread.parameters);
  if (mixed) m.parameters += share(Bytes{parameters} * 4, spread.state);
  m.gradients = share(Bytes{parameters} * 4, spread.gradients);
  m.optimizer = share(Bytes{parameters} * (4 * work.optimizer->state), spread.state);
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
  m.buffers = Bytes{statistics} * 4 + work.graph->sample().decoded * work.batch * 2 + comm_buffers(program);
  m.capacity = device.memory;
  return m;
}

}  // namespace tandem
