// SPDX-License-Identifier: Apache-2.0
// What cuDNN's heuristics would take for every convolution and attention of models, on chips that are not
// here, as docs/gpu.md has it: cudnn_engines [MODEL[=BATCH]...], all of the zoo without. A row a chip and
// precision with the graphs that differ, those without an engine that is deterministic and rounds no more
// than the precision says, the engines taken (cuDNN's numbers, most frequent first) and the largest
// workspace. `--graphs` lists each.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/data.h"
#include "exec/device/cuda/fused_attention.h"
#include "exec/device/cuda/mirror.h"
#include "exec/device/cuda/shared_keys.h"
#include "exec/lower/execution_graph.h"
#include "tests/exec/cudnn_devices.h"

namespace tandem::tests {
namespace {

using exec::cuda::Descriptor;

struct Choice {
  int64_t engine = -1, workspace = 0;
};

/// The first admissible proposal that can be asked for its workspace.
std::optional<Choice> choice(const Descriptor& graph, Precision precision, cudnnBackendDescriptor_t chip) {
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<Descriptor> list;
    try {
      list = exec::cuda::proposals(graph, mode, chip);
    } catch (const exec::cuda::Refused&) {
    }
    for (const Descriptor& configuration : list) {
      try {
        const Descriptor engine = exec::cuda::engine_of(configuration);
        if (!exec::cuda::admissible(engine, precision)) continue;
        Choice out;
        int64_t count = 0;
        exec::cuda::require(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                     CUDNN_TYPE_INT64, 1, &count, &out.engine));
        exec::cuda::require(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                                     CUDNN_TYPE_INT64, 1, &count, &out.workspace));
        return out;
      } catch (const exec::cuda::Refused&) {
      }
    }
  }
  return std::nullopt;
}

/// As library_conv() and library_attention() ask, without a handle.
std::optional<Choice> choice(const Call& call, Precision precision, cudnnBackendDescriptor_t chip) {
  const bool half = exec::cuda::is_half(precision);
  const cudnnDataType_t in = half ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  try {
    if (call.function == Function::attention || call.function == Function::attention_backward)
      return choice(exec::cuda::attention_graph(call, in, nullptr), precision, chip);
    const exec::ConvShape s = exec::ConvShape::unpack({call.shape.begin(), call.shape.end() - 1});
    auto made = choice(exec::cuda::convolution_graph(call, s, {in, in}, nullptr), precision, chip);
    if (!made && half && !call.half(0))
      made = choice(exec::cuda::convolution_graph(call, s, {in, CUDNN_DATA_FLOAT}, nullptr), precision, chip);
    return made;
  } catch (const exec::cuda::Refused&) {
    return std::nullopt;
  }
}

/// Calls that cuDNN is asked for, each shape once.
struct Questions {
  std::map<std::string, Call> calls;

  void add(const Graph& graph, int64_t batch, Precision precision) {
    const ExecutionGraph n(graph, batch, true, precision);
    for (uint32_t layer = 0; layer < graph.layers().size(); ++layer) {
      for (const auto* pass : {&n.forward(layer), &n.backward(layer)}) {
        for (const Call& c : *pass) add(c, precision);
      }
    }
  }
  void add(const Call& c, Precision precision) {
    const bool attention = exec::cuda::fuses(c, precision);
    const bool conv = c.function == Function::conv || c.function == Function::conv_backward_data ||
                      c.function == Function::conv_backward_weights;
    if (!attention && !conv) return;
    if (conv && exec::ConvShape::unpack({c.shape.begin(), c.shape.end() - 1}).transposed)
      return add(exec::cuda::mirrored(c), precision);
    if (c.function == Function::attention_backward && exec::cuda::shares_keys(c))
      return add(exec::cuda::with_own_keys(c), precision);
    std::string key = fmt::format("{} {}", name(c.function), c.half(0) ? "half" : "float");
    for (const int64_t n : c.shape) key += fmt::format(" {}", n);
    calls.emplace(key, c);
  }
};

void row(const Questions& questions, const Chip& chip, Precision precision, bool graphs) {
  const cudnnBackendDescriptor_t device_of = device(chip);
  if (device_of == nullptr) return fmt::print("this cuDNN is not told of devices in this way\n");
  std::map<int64_t, int64_t> engines;
  int64_t none = 0, most = 0, large = 0;
  for (const auto& [key, call] : questions.calls) {
    const auto made = choice(call, precision, device_of);
    if (graphs)
      fmt::print("{}.{} {} {}: {}\n", chip.compute / 10, chip.compute % 10, name(precision), key,
                 made ? fmt::format("engine {}, {} bytes", made->engine, made->workspace) : "none");
    none += made ? 0 : 1;
    if (!made) continue;
    ++engines[made->engine];
    most = std::max(most, made->workspace);
    large += made->workspace > int64_t{256} << 20 ? 1 : 0;
  }
  cudnnBackendDestroyDescriptor(device_of);
  std::vector<std::pair<int64_t, int64_t>> order;
  for (const auto& [engine, count] : engines) order.emplace_back(-count, engine);
  std::sort(order.begin(), order.end());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 4); ++i)
    text += fmt::format("{}{} x{}", i > 0 ? ", " : "", order[i].second, -order[i].first);
  fmt::print("| {}.{} ({}) | {} | {} | {} | {} | {:.0f} MiB | {} |\n", chip.compute / 10, chip.compute % 10,
             chip.name, name(precision), questions.calls.size(), none, text,
             static_cast<double>(most) / (1 << 20), large);
}

int run(int argc, char** argv) {
  if (!has_driver()) fmt::print(stderr, "neither a driver nor the toolkit's library to link with\n");
  std::vector<std::string> models;
  bool graphs = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--graphs") == 0)
      graphs = true;
    else
      models.emplace_back(argv[i]);
  }
  if (models.empty()) models = list_data("models/zoo");
  fmt::print(
      "| chip | precision | graphs | without engine | engines, most frequent first | largest workspace | "
      "above "
      "256 MiB |\n| --- | --- | ---: | ---: | --- | ---: | ---: |\n");
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    Questions questions;
    for (const std::string& text : models) {
      const auto equals = text.rfind('=');
      const std::string model = text.substr(0, equals);
      try {
        const Graph graph = Graph::load(model);
        const int64_t batch = equals == std::string::npos ? (graph.tokens_per_sample() > 0 ? 4 : 32)
                                                          : std::stoll(text.substr(equals + 1));
        questions.add(graph, batch, precision);
      } catch (const InputError& error) {  // layers that are only simulated
        fmt::print(stderr, "{}: {}\n", model, error.what());
      }
    }
    for (const Chip& chip : kChips) row(questions, chip, precision, graphs);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::tests

int main(int argc, char** argv) { return tandem::tests::run(argc, argv); }
