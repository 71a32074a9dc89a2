// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_writer.h"

#include "app/console/output.h"
#include "app/console/table.h"
#include "app/show/show.h"
#include "models/dot.h"
#include "models/graph.h"
#include "models/optimizer.h"
#include "pictures/draw.h"
#include "sim/memory/memory.h"

namespace tandem::app {

namespace {

Flops forward_flops(const Lowered& layer) {
  Flops sum;
  for (const Kernel& k : layer.forward) sum += k.flops * k.repeat;
  return sum;
}

std::vector<std::string> input_names(const Graph& graph, const Layer& layer) {
  std::vector<std::string> out;
  for (const uint32_t i : layer.inputs) out.push_back(graph.layers()[i].name);
  return out;
}

std::string_view type_name(const Layer& layer) { return layer.type == nullptr ? "input" : layer.type->name; }

std::string page(const Graph& graph, const std::vector<Lowered>& lowered, int columns) {
  Table table({{"layer"}, {"type"}, {"from"}, {"output"}, {"parameters", true}, {"forward", true}});
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    const Layer& layer = graph.layers()[i];
    const int64_t parameters = layer.parameter_elements();
    const Flops flops = forward_flops(lowered[i]);
    table.add({layer.name, std::string(type_name(layer)),
               fmt::format("{}", fmt::join(input_names(graph, layer), ", ")), to_text(layer.output),
               parameters == 0 ? "" : grouped(static_cast<double>(parameters)),
               flops.n == 0 ? "" : to_text(flops)});
  }
  std::string out = fmt::format("{}: {}\n\n{}\n{} layers · {} parameters · {}MAC forward per sample\n",
                                graph.name(), graph.summary(), table.text(true, columns), lowered.size(),
                                grouped(static_cast<double>(graph.parameter_elements())),
                                count_text(static_cast<double>(graph.forward_flops().n) / 2));
  if (const auto& published = graph.published()) {
    out += fmt::format("Published: {} parameters, {} forward ({})\n",
                       grouped(static_cast<double>(published->parameters)), to_text(published->forward),
                       published->source);
  }
  return out;
}

/// Bytes that a sample's forward pass leaves for its backward pass, by PyTorch's operators as they are. Of
/// many samples: the allocator's rounding is of each tensor.
int64_t kept_per_sample(const Graph& graph, Precision precision) {
  constexpr int64_t kSamples = 64;
  const auto of = [&](int64_t batch) {
    const Workload work = make_workload(graph, batch, precision, optimizer("none"), false);
    const ResolvedScheme scheme = resolve_scheme("allreduce", {});
    const Program program = scheme.scheme->compile(work, {1, 1, 1}, scheme.options);
    return sim::kept_by_forward(work, program, memory_habits(scheme.memory, "memory", {})).n;
  };
  return (of(2 * kSamples) - of(kSamples)) / kSamples;
}

std::string document(const Graph& graph, const std::vector<Lowered>& lowered, Precision precision) {
  JsonWriter out = {{"name", graph.name()},
                    {"summary", graph.summary()},
                    {"parameters", graph.parameter_elements()},
                    {"forward_flops_per_sample", graph.forward_flops().n},
                    {"kept_bytes_per_sample", kept_per_sample(graph, precision)},
                    {"layers", JsonWriter::array()}};
  if (const auto& published = graph.published()) {
    out["published"] = {{"parameters", published->parameters},
                        {"forward_flops_per_sample", published->forward.n},
                        {"source", published->source}};
  }
  for (std::size_t i = 0; i < lowered.size(); ++i) {
    const Layer& layer = graph.layers()[i];
    out["layers"].push_back({{"name", layer.name},
                             {"type", type_name(layer)},
                             {"from", input_names(graph, layer)},
                             {"output", layer.output},
                             {"parameters", layer.parameter_elements()},
                             {"forward_flops", forward_flops(lowered[i]).n}});
  }
  return out.dump(2);
}

}  // namespace

std::string show_model(const ShowRequest& request) {
  const Graph graph = Graph::load(request.name);
  const std::string out = request.arguments.text("out", "");
  if (request.format == "dot") return model_dot(graph);
  if (!picture_kind(out).empty()) {
    draw_dot(model_dot(graph), out);
    return "";
  }
  const Precision precision = request.arguments.value("precision", "fp32", parse_precision);
  const auto lowered = graph.lower(request.arguments.integer("batch", 1, 1, 1 << 24), precision);
  return request.format == "json" ? document(graph, lowered, precision)
                                  : page(graph, lowered, request.columns);
}

}  // namespace tandem::app
