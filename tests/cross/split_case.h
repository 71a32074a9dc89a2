// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small models that are split over workers, and how they are executed.
#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "exec/execute.h"
#include "models/adapter.h"
#include "tests/cross/settings.h"

namespace tandem::tests {

/// What is divided: a transformer over images, a language model whose output layer is tied to the embedding,
/// a mixture of experts over images, adapters beside the weights of the first, which stay, also in 4 bits, or
/// a language model with rotary positions, grouped queries and an output layer of its own, with experts or
/// without, convolutions before linear layers, experts of text with biases, or attention with learned scores.
enum class Of : uint8_t {
  images,
  text,
  experts,
  adapters,
  stored,
  rotary,
  mixture,
  normed,
  convolutions,
  biased,
  scored
};

struct SplitCase {
  std::string scheme;
  int64_t devices = 1, replicas = 1;
  Of of = Of::images;
  int64_t nodes = 1;
  std::string_view offload = "off";
  std::string_view recompute = "off";
  int64_t apart = 1;  ///< groups of devices that train apart and average
  int32_t late = 0;   ///< iterations at the end of a run whose gradients are not applied any more
};

inline bool of_text(const SplitCase& s) {
  return s.of == Of::text || s.of == Of::rotary || s.of == Of::mixture || s.of == Of::normed ||
         s.of == Of::scored || s.of == Of::biased;
}

inline std::ostream& operator<<(std::ostream& out, const SplitCase& s) {
  constexpr const char* kNames[] = {"",
                                    " of text",
                                    " of experts",
                                    " of adapters",
                                    " of adapters to 4 bits",
                                    " of rotary text",
                                    " of text with experts",
                                    " of rotary text with norms of heads",
                                    " of convolutions",
                                    " of text with biased experts",
                                    " of text with learned scores"};
  out << s.scheme << " on " << s.devices;
  if (s.nodes > 1) out << " of " << s.nodes << " nodes";
  out << kNames[static_cast<int>(s.of)];
  if (s.recompute != "off") out << ", " << s.recompute << " made again";
  return out << (s.offload == "off" ? "" : ", its optimizer on the host");
}

/// Loaded once each, by one thread. "text" has a vocabulary that does not divide: two and four parts end in
/// padding.
inline const Graph& model_of(Of of) {
  struct Source {
    const char* file;
    const char* adapter = nullptr;
  };
  static const std::map<Of, Source> sources = {
      {Of::images, {"split.json"}},
      {Of::text, {"text.json"}},
      {Of::experts, {"experts.json"}},
      {Of::adapters, {"split.json", "lora:rank=3,on=attention+mlp"}},
      {Of::stored, {"split.json", "qlora:rank=3,on=attention+mlp"}},
      {Of::rotary, {"rotary.json"}},
      {Of::mixture, {"mixture.json"}},
      {Of::normed, {"rotary.json:qk_norm=1"}},
      {Of::convolutions, {"weird.json"}},
      {Of::biased, {"mixture.json:bias=1"}},
      {Of::scored, {"scored.json"}},
  };
  static std::map<Of, Graph> loaded;
  if (const auto known = loaded.find(of); known != loaded.end()) return known->second;
  const Source& source = sources.at(of);
  Graph graph = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/" + source.file);
  if (source.adapter != nullptr) graph = with_adapter(graph, parse_adapter(source.adapter, Place{}), Place{});
  return loaded.emplace(of, std::move(graph)).first->second;
}

inline const Dataset& digits() {
  static const Dataset data = load_dataset("digits", false);
  return data;
}

inline Execution split_execution(const SplitCase& s, const ResolvedScheme& scheme) {
  Execution e;
  e.job.graph = &model_of(s.of);
  e.job.scheme = &scheme;
  e.backend = &backends_registry().at("cpu");
  e.cluster = {s.devices, s.nodes, s.devices / s.nodes};
  e.job.batch = 2;
  e.job.optimizer = &optimizer("momentum");
  e.job.offload = parse_offload(s.offload, {});
  e.job.recompute = parse_recompute(s.recompute, {});
  e.iterations = 10;
  e.warmup = 1;
  e.data = of_text(s) ? nullptr : &digits();
  e.rate.base = s.of == Of::text ? 0.005 : s.of == Of::mixture || s.of == Of::biased ? 0.0002 : 0.001;
  e.poison = true;  // whoever reads parameters that were not gathered ends with no number
  return e;
}

}  // namespace tandem::tests
