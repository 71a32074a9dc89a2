// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small inputs that the tests of schemes share.
#include <string>

#include "models/import/hf/config.h"
#include "schemes/program/builder.h"
#include "schemes/setup/scheme.h"

namespace tandem::tests {

/// Two linear layers: 1024 x 2048 and 2048 x 10, with bias.
inline const Graph& small_mlp() {
  static const Graph graph = Graph::from_json(Json::parse(R"({
    "name": "small-mlp", "summary": "two linear layers", "source": "test",
    "sample": {"unit": "images", "stored": "2KiB", "decoded": "4KiB", "decode": "20us"},
    "inputs": {"features": [1024]},
    "layers": [
      {"name": "fc1", "type": "linear", "features": 2048},
      {"name": "relu", "type": "relu"},
      {"name": "fc2", "type": "linear", "features": 10},
      {"name": "loss", "type": "cross-entropy"}
    ]})",
                                                          "small-mlp.json"));
  return graph;
}

/// Four decoder blocks of width 64 with 8 heads, for 32 tokens of a vocabulary of 256.
inline const Graph& small_gpt() {
  static const Graph graph = Graph::load("gpt2:layers=4,hidden=64,heads=8,sequence=32,vocabulary=256");
  return graph;
}

/// Two decoder blocks of width 64 with 8 heads, 4 of keys and values, and 8 experts of width 32, two of which
/// take each of 32 tokens; a vocabulary of 256.
inline const Graph& small_moe() {
  static const Graph graph = Graph::from_json(models::model_of_hf_config(Json::parse(
      R"({"model_type": "mixtral", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 32,
          "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 256,
          "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32})",
      "small-moe.json")));
  return graph;
}

inline Workload workload(const Graph& graph, int64_t batch = 32) {
  return make_workload(graph, batch, Precision::fp32, optimizer("momentum"), true);
}

inline Program compile(std::string_view text, const Graph& graph, const Cluster& cluster) {
  const ResolvedScheme s = resolve_scheme(text, {});
  return s.scheme->compile(workload(graph), cluster, s.options);
}

/// Ops of a kind in one role.
inline int64_t count(const Program& p, OpKind kind, std::size_t role = 0) {
  int64_t n = 0;
  for (const Op& op : p.roles[role].ops) n += op.kind == kind ? 1 : 0;
  return n;
}

/// Index of the op with this label in role 0; fails the program when there is none.
inline uint32_t find(const Program& p, std::string_view label) {
  for (uint32_t i = 0; i < p.roles[0].ops.size(); ++i) {
    if (p.labels[p.roles[0].ops[i].label] == label) return i;
  }
  throw std::runtime_error("no op \"" + std::string(label) + "\" in\n" + print(p));
}

inline bool depends(const Program& p, uint32_t op, uint32_t on, uint16_t lag) {
  for (const Dep& d : p.roles[0].ops[op].deps) {
    if (d.op == on && d.lag == lag) return true;
  }
  return false;
}

}  // namespace tandem::tests
