// Developer tool: what models lower to, for calibration/fit_stock.py. Reads lines "model batch precision"
// and writes one JSON line each: [[kind, pass, shape, flops, bytes, repeat], ...], or a text with the error.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "models/graph.h"
#include "models/optimizer.h"

using namespace tandem;

namespace {

using nlohmann::json;

void append(json& out, const std::vector<Kernel>& kernels) {
  for (const Kernel& k : kernels) {
    out.push_back({name(k.kind), name(k.pass), k.shape, k.flops.n, k.read.n + k.written.n, k.repeat});
  }
}

/// Every kernel of one training step with momentum; the input's gradient is made only where a layer
/// before it has parameters.
json step(const std::string& model, int64_t batch, Precision precision) {
  const Graph graph = Graph::load(model);
  const std::vector<Lowered> lowered = graph.lower(batch, precision);
  json out = json::array();
  std::vector<bool> learns(lowered.size());
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    const Layer& layer = graph.layers()[i];
    bool before = false;
    for (const uint32_t from : layer.inputs) before = before || learns[from];
    learns[i] = before || !layer.parameters.empty();
    append(out, lowered[i].forward);
    if (before) append(out, lowered[i].backward_data);
    append(out, lowered[i].backward_weights);
  }
  append(out, {update_kernel(optimizer("momentum"), graph.parameter_elements())});
  return out;
}

}  // namespace

int main() {
  std::string model, precision;
  int64_t batch = 0;
  while (std::cin >> model >> batch >> precision) {
    try {
      std::cout << step(model, batch, parse_precision(precision)).dump() << '\n';
    } catch (const InputError& e) {
      std::cout << json(fmt::format("{} {} {}: {}", model, batch, precision, e.what())).dump() << '\n';
    }
  }
}
