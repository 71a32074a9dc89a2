// SPDX-License-Identifier: Apache-2.0
#include "answers/fitting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "base/precision.h"
#include "sim/capacity.h"

namespace tandem::answers {

namespace {

/// The changes to try; bits are in the order in which people try them.
enum Try : uint32_t { kHalf = 1, kStored = 2, kAgain = 4, kLoss = 8 };
constexpr int64_t kShortest = 128;

/// The model's name with another sequence length.
std::string with_sequence(const std::string& model, int64_t tokens) {
  const std::string key = "sequence=";
  const auto at = model.find(key);
  if (at == std::string::npos || (model[at - 1] != ':' && model[at - 1] != ','))
    return fmt::format("{}{}{}{}", model, model.find(':') == std::string::npos ? ":" : ",", key, tokens);
  const auto end = model.find(',', at);
  return fmt::format("{}{}{}{}", model.substr(0, at), key, tokens,
                     end == std::string::npos ? "" : model.substr(end));
}

class Fitting {
 public:
  Fitting(const Question& question, int64_t devices)
      : q_(question), model_(question.given.text("model", "")), devices_(devices) {
    adapts_ = q_.graph.frozen_elements() > 0 && element_bytes(q_.precision) < 4;
    if (question.given.has("memory"))
      given_ = parse_selection("memory:" + question.given.text("memory", ""), {}).settings;
  }

  std::vector<Remedy> all() const {
    std::vector<uint32_t> fitting;
    std::vector<uint32_t> sets;
    for (uint32_t set = 1; set < 16; ++set) sets.push_back(set);
    std::stable_sort(sets.begin(), sets.end(),
                     [](uint32_t a, uint32_t b) { return std::popcount(a) < std::popcount(b); });
    std::vector<Remedy> out;
    for (const uint32_t set : sets) {
      const bool more =
          std::any_of(fitting.begin(), fitting.end(), [&](uint32_t f) { return (f & set) == f; });
      if (more || !sensible(set)) continue;
      auto remedy = tried(set, model_);
      if (!remedy) continue;
      fitting.push_back(set);
      out.push_back(*std::move(remedy));
    }
    if (auto remedy = shorter()) out.insert(out.begin() + (out.empty() ? 0 : 1), *std::move(remedy));
    if (out.size() > 4) out.resize(4);
    return out;
  }

 private:
  bool told(const std::string& key, const std::string& value) const {
    return std::find(q_.memory.begin(), q_.memory.end(), std::pair(key, value)) != q_.memory.end();
  }

  bool sensible(uint32_t set) const {
    const bool stores = q_.adapter && q_.adapter->store.empty();
    if ((set & kHalf) && (!adapts_ || (set & kStored) || told("weights", "half"))) return false;
    if ((set & kStored) && (!adapts_ || !stores)) return false;
    if ((set & kAgain) && q_.recompute.blocks) return false;
    return !((set & kLoss) && (q_.graph.tokens_per_sample() == 0 || told("loss", "fused")));
  }

  /// Halved until it fits, and what else has to change.
  std::optional<Remedy> shorter() const {
    const int64_t now = q_.graph.tokens_per_sample();
    for (const uint32_t set : {0U, uint32_t{kHalf}, uint32_t{kAgain}, uint32_t{kHalf | kAgain}}) {
      if (set != 0 && !sensible(set)) continue;
      for (int64_t tokens = now / 2; tokens >= std::max(kShortest, now / 16); tokens /= 2) {
        if (auto remedy = tried(set, with_sequence(model_, tokens))) return remedy;
      }
    }
    return std::nullopt;
  }

  Graph graph_of(const std::string& model, bool stored) const {
    Graph graph = read_model({}, model);
    if (q_.adapter) {
      const Adapter adapter = stored ? parse_adapter(stored_text(), {}) : *q_.adapter;
      graph = with_adapter(graph, adapter, {});
    }
    return q_.frozen.empty() ? std::move(graph) : with_frozen(graph, q_.frozen, {});
  }

  std::string stored_text() const { return "q" + to_text(*q_.adapter); }

  /// Nothing where it does not fit.
  std::optional<Remedy> tried(uint32_t set, const std::string& model) const {
    try {
      Request p = q_.request(devices_);
      const bool stored = (set & kStored) != 0;
      if (stored) p.memory = given_;
      std::optional<Graph> graph;
      if (stored || model != model_) graph = graph_of(model, stored);
      if (graph) p.job.graph = &*graph;
      if (set & kAgain) p.job.recompute = {.blocks = true};
      if (set & kHalf) p.memory.emplace_back("weights", "half");
      if (set & kLoss) p.memory.emplace_back("loss", "fused");
      const MemoryUse m = memory_on(p, devices_);
      if (!m.fits()) return std::nullopt;
      return Remedy{changes(set, model), devices_, m.needed(), m.capacity};
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  std::vector<Remedy::Change> changes(uint32_t set, const std::string& model) const {
    std::vector<Remedy::Change> out;
    if (model != model_) out.push_back({"model", model});
    if (set & kStored) out.push_back({"adapter", stored_text()});
    std::vector<std::string> memory;
    for (const auto& [key, value] : given_) {
      const bool again = (key == "weights" && (set & kHalf)) || (key == "loss" && (set & kLoss));
      if (!again) memory.push_back(fmt::format("{}={}", key, value));
    }
    if (set & kHalf) memory.push_back("weights=half");
    if (set & kLoss) memory.push_back("loss=fused");
    if (set & (kHalf | kLoss)) out.push_back({"memory", fmt::format("{}", fmt::join(memory, ","))});
    if (set & kAgain) out.push_back({"recompute", "blocks"});
    return out;
  }

  const Question& q_;
  const std::string model_;
  const int64_t devices_;
  std::vector<std::pair<std::string, std::string>> given_;  ///< --memory, without what the adapter implies
  bool adapts_ = false;
};

}  // namespace

std::string add_remedies(const Question& question, std::vector<Report>& reports) {
  if (std::any_of(reports.begin(), reports.end(), [](const Report& r) { return r.fits; })) return "";
  const auto most = std::max_element(reports.begin(), reports.end(), [](const Report& a, const Report& b) {
    return a.setup.devices < b.setup.devices;
  });
  if (most == reports.end()) return "";
  const Request p = question.request(most->setup.devices);
  const ResolvedScheme sharded = resolve_scheme("zero:stage=3", Place{});
  most->remedies = remedies(p, most->memory, sharded, Fitting(question, p.devices).all());
  return fit_text(p, most->memory, most->remedies);
}

}  // namespace tandem::answers
