// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/gradient_flow.h"

#include "base/units.h"

namespace tandem::exec {

namespace {

/// The same count as Graph::lower makes, whose sum kernels are set aside.
void count_gradients(GradientFlow& flow, uint32_t layer) {
  OutputFlow& output = flow.outputs[layer];
  if (!output.learns) return;
  bool parts = false;
  for (const uint32_t reader : output.readers) {
    if (flow.takes_part(reader, layer))
      parts = true;
    else
      ++output.gradients;
  }
  output.gradients += parts ? 1 : 0;
  if (output.gradients < 2) return;
  Lowered& l = flow.lowered[layer];
  auto& list = l.backward_data.empty() ? l.backward_weights : l.backward_data;
  TANDEM_CHECK(!list.empty() && list.front().repeat == output.gradients - 1);
  Kernel one = list.front();
  one.repeat = 1;
  output.sums.assign(static_cast<std::size_t>(output.gradients - 1), one);
  list.erase(list.begin());
}

}  // namespace

GradientFlow gradient_flow(const Graph& graph, int64_t batch, Precision precision, const SliceUse& use) {
  const auto& layers = graph.layers();
  GradientFlow flow{graph.lower(batch, precision), std::vector<OutputFlow>(layers.size()),
                    std::vector<Restores>(layers.size())};
  for (uint32_t i = 0; i < layers.size(); ++i) {
    OutputFlow& output = flow.outputs[i];
    output.learns = graph.trained(i);
    output.elements = checked_mul(batch, elements(layers[i].output), "a tensor");
    for (const uint32_t from : layers[i].inputs) flow.outputs[from].readers.push_back(i);
  }
  for (uint32_t i = 0; i < layers.size(); ++i) count_gradients(flow, i);
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (layers[i].frozen_bits == 0) continue;
    Lowered& l = flow.lowered[i];
    for (auto [kernels, restores] : {std::pair{&l.forward, &flow.restores[i].forward},
                                     std::pair{&l.backward_data, &flow.restores[i].backward}}) {
      if (kernels->empty()) continue;
      restores->push_back(kernels->front());
      kernels->erase(kernels->begin());
    }
  }
  for (const uint32_t i : use.sent) {
    flow.outputs[i].sent = true;
    flow.outputs[i].gradients += flow.outputs[i].learns ? 1 : 0;
  }
  return flow;
}

}  // namespace tandem::exec
