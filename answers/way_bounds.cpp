// SPDX-License-Identifier: Apache-2.0
#include "answers/way_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/blocks.h"
#include "sim/capacity.h"
#include "sim/habits.h"
#include "sim/simulate.h"

namespace tandem::answers {

namespace {

/// Stages may be unequal, so a bound that assumes equal ones needs a margin; else times do that are extended
/// in a straight line.
constexpr double kSlack = 0.97, kEqual = 0.99;
/// What is outside of blocks may take more time for its arithmetic than these.
constexpr double kLight = 0.95;
/// Of what is outside of blocks the output layer and the loss take at least as much.
constexpr double kOutput = 0.9;
/// A model of more layers takes far longer than a host needs to be ahead of its device.
constexpr std::size_t kManyLayers = 400;
/// An allocator rounds.
constexpr double kRounding = 0.97;
/// Blocks of the two models from which that of a model with more follows: what a block adds is the same for
/// each.
constexpr int64_t kFewBlocks = 2, kMoreBlocks = 4;

/// Multiplications and additions of a layer's passes: Winograd's convolutions do 2.25 times fewer
/// (sim/cost/kernel_cost.h).
double arithmetic(const Lowered& layer) {
  constexpr double kWinograd = 2.25;
  double flops = 0;
  for (const auto* kernels : {&layer.forward, &layer.backward_data, &layer.backward_weights}) {
    for (const Kernel& k : *kernels) {
      const bool product = k.kind == KernelKind::gemm || k.kind == KernelKind::attention;
      if (!product && k.kind != KernelKind::conv) continue;
      flops += static_cast<double>(k.flops.n * k.repeat) / (product ? 1 : kWinograd);
    }
  }
  return flops;
}

double arithmetic(const Graph& graph, Precision precision) {
  double flops = 0;
  for (const Lowered& layer : graph.lower(1, precision)) flops += arithmetic(layer);
  return flops;
}

/// Whether devices hold other shares of the parameters than the candidate says.
bool holds_otherwise(const Candidate& c) {
  if (c.scheme.find("sharding-group=node") != std::string::npos) return true;
  return c.scheme.find("one-weird-trick") == 0;  // it divides some layers
}

}  // namespace

WayBounds::WayBounds(const Question& question, std::optional<Recipe> recipe)
    : q_(question),
      recipe_(std::move(recipe)),
      parameters_(static_cast<double>(q_.graph.parameter_elements())),
      dealt_(static_cast<double>(q_.graph.dealt_elements())) {
  const std::vector<Layer>& layers = q_.graph.layers();
  const std::vector<Lowered> lowered = q_.graph.lower(1, q_.precision);
  std::map<std::string_view, std::pair<double, int64_t>> blocks;  // arithmetic, parameters
  double all = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto& [flops, parameters] = blocks[block_of(layers[i])];
    flops += arithmetic(lowered[i]);
    for (const Parameter& parameter : layers[i].parameters) parameters += parameter.elements;
    all += arithmetic(lowered[i]);
  }
  blocks.erase("");
  const bool equal = std::all_of(blocks.begin(), blocks.end(),
                                 [&](const auto& block) { return block.second == blocks.begin()->second; });
  if (equal && blocks.size() > 1 && all > 0) {
    blocks_ = static_cast<int64_t>(blocks.size());
    in_blocks_ = static_cast<double>(blocks_) * blocks.begin()->second.first / all;
  }
  if (repeated_ = equal_blocks(q_.graph); repeated_ > kMoreBlocks)
    shorter_ = {with_blocks(q_.graph, kFewBlocks), with_blocks(q_.graph, kMoreBlocks)};
  for (int p = 0; p < kPrecisions; ++p) {
    const auto precision = static_cast<Precision>(p);
    const double of_all = shorter_.empty() ? arithmetic(q_.graph, precision)
                                           : of_all_blocks(arithmetic(shorter_[0], precision),
                                                           arithmetic(shorter_[1], precision));
    double fastest = 0;
    for (std::size_t i = 0; i < q_.system.accelerators().size(); ++i) {
      const Device& device = q_.system.device(q_.system.accelerator(static_cast<int64_t>(i)));
      fastest = std::max(fastest, device.product_peak(precision).flops_per_second);
    }
    peak_[precision] = of_all > 0 ? fastest / of_all : INFINITY;
  }
}

ResolvedScheme WayBounds::resolved(const std::string& scheme) const {
  ResolvedScheme out = resolve_scheme(scheme, Place{});
  if (recipe_) out.recipe = *recipe_;
  return out;
}

double WayBounds::peak_rate(const Candidate& c) const {
  return static_cast<double>(c.devices) * peak_.at(c.precision);
}

template <typename Value, typename Find>
Value WayBounds::known(std::map<Key, Value>& of, const Key& key, Find find) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = of.find(key);
    if (at != of.end()) return at->second;
  }
  const Value found = find();
  const std::lock_guard lock(mutex_);
  return of[key] = found;
}

double WayBounds::stage_rate(const Candidate& c, const Recompute& recompute) {
  const Key key{c.stage_scheme, c.batch, static_cast<int>(c.precision), recompute.text()};
  const StageTime once = known(times_, key, [&] { return find_time(c, recompute); });
  const auto stages = static_cast<double>(c.pipeline), chunks = static_cast<double>(c.chunks);
  const auto micro = static_cast<double>(c.micro_batches);
  const double fill = c.zero_bubble ? (stages - 1) / 4 : (stages - 1) / chunks;
  double step = std::max(once.step * micro, once.device * (micro + fill)) / stages;
  if (const double longest = longest_stage(c, once); longest > 0) {
    const double begins = c.chunks > 1 ? longest : c.zero_bubble ? once.device / 4 : once.device;
    step = std::max(step, (micro - 1) * longest + begins);
  }
  const bool equal = c.chunks == 1 && (c.pipeline == 1 || blocks_ % c.pipeline == 0);
  return static_cast<double>(c.batch * c.micro_batches * c.replicas) / ((equal ? kEqual : kSlack) * step);
}

/// Seconds of a micro-batch on the device that has most to do: that with the most blocks, or the last one,
/// which has the output layer besides as many as the others (schemes/step/model_cuts.h). 0: unknown.
double WayBounds::longest_stage(const Candidate& c, const StageTime& once) const {
  if (c.pipeline == 1 || blocks_ < c.pipeline) return 0;
  const auto blocks = static_cast<double>(blocks_);
  double out = 0;
  if (c.chunks == 1) {
    const int64_t most = (blocks_ + c.pipeline - 1) / c.pipeline;
    out = kLight * once.device * in_blocks_ * static_cast<double>(most) / blocks;
  }
  if (once.block > 0 && blocks_ % (c.pipeline * c.chunks) == 0) {
    const double outside = std::max(0.0, once.device - blocks * once.block);
    out = std::max(out, blocks / static_cast<double>(c.pipeline) * once.block + kOutput * outside);
  }
  return out;
}

/// Of the whole model, where it is so much of the shorter ones.
double WayBounds::of_all_blocks(double few, double more) const {
  return few + (more - few) / (kMoreBlocks - kFewBlocks) * static_cast<double>(repeated_ - kFewBlocks);
}

Request WayBounds::stage(const Graph& graph, const Candidate& c, int64_t batch, const Recompute& recompute,
                         const ResolvedScheme& scheme) const {
  Request p = q_.request(c.tensor * c.expert * c.context);
  p.job.graph = &graph;
  p.job.scheme = &scheme;
  p.job.batch = batch;
  p.job.precision = c.precision;
  p.job.recompute = recompute;
  p.job.offload = {};
  p.job.optimizer = &optimizer("none");
  p.job.input = false;
  p.timeline = false;
  p.priced = priced_;
  return p;
}

std::string WayBounds::micro_batch_option(const Candidate& c) const {
  const auto& options = resolved(c.scheme).scheme->options;
  for (const char* name : {"microbatches", "accumulate"}) {
    if (std::any_of(options.begin(), options.end(), [&](const OptionSpec& o) { return o.name == name; }))
      return name;
  }
  return "";
}

std::optional<WayBounds::Shorter> WayBounds::shorter(const Candidate& c) {
  if (repeated_ == 0 || repeated_ != blocks_) return std::nullopt;
  const int64_t parts = c.pipeline * c.chunks, each = (kMoreBlocks + parts - 1) / parts;
  const int64_t few = each * parts + repeated_ % parts, more = few + each * parts;
  if (3 * (few + more) > 2 * repeated_) return std::nullopt;
  const auto with = [&](int64_t count) {
    const std::lock_guard lock(mutex_);
    auto& known = with_blocks_[count];
    if (!known) known = std::make_shared<const Graph>(with_blocks(q_.graph, count));
    return known;
  };
  return Shorter{with(few), with(more),
                 static_cast<double>(repeated_ - more) / static_cast<double>(more - few)};
}

/// Infinite if the stage is impossible.
WayBounds::StageTime WayBounds::find_time(const Candidate& c, const Recompute& recompute) const {
  try {
    const StageTime one = step(c, recompute, c.stage_scheme, 1);
    const std::string more = micro_batch_option(c);
    const bool starts_at_once = q_.graph.layers().size() > kManyLayers;
    if ((starts_at_once && c.expert * c.context == 1) || more.empty()) return one;
    // Without what replicas do once a step, and until a host is ahead of its device.
    const StageTime two = step(c, recompute, with_settings(c.stage_scheme, more + "=2"), 2);
    // Replicas that share the sums of gradients add less to them than one does.
    return {std::clamp(two.step - one.step, 0.0, one.step),
            std::clamp(two.device - one.device, 0.0, one.device),
            std::clamp(two.block - one.block, 0.0, one.block)};
  } catch (const InputError&) {
    return {INFINITY, INFINITY, 0};
  }
}

WayBounds::StageTime WayBounds::step(const Candidate& c, const Recompute& recompute, const std::string& text,
                                     int64_t micro) const {
  const ResolvedScheme scheme = resolved(text);
  const auto of = [&](const Graph& graph) -> StageTime {
    const Undisturbed found = sim::undisturbed(stage(graph, c, c.batch, recompute, scheme));
    const double seconds = static_cast<double>(c.batch * micro * c.expert) / found.rate;
    return {seconds, seconds * (1 - found.launch), 0};
  };
  if (shorter_.empty()) return of(q_.graph);
  const StageTime few = of(shorter_[0]), more = of(shorter_[1]);
  const double block = (more.device - few.device) / (kMoreBlocks - kFewBlocks);
  return {of_all_blocks(few.step, more.step), of_all_blocks(few.device, more.device),
          blocks_ == repeated_ ? block : 0};
}

/// What does not grow with the batch is none of it.
WayBounds::Kept WayBounds::find_kept(const Candidate& c, const Recompute& recompute) const {
  try {
    const ResolvedScheme scheme = resolved(c.stage_scheme);
    const bool wide = habits_of(stage(q_.graph, c, 1, recompute, scheme)).fp32_sums;
    const auto of = [&](const Graph& graph) {
      const auto with = [&](int64_t batch) {
        return static_cast<double>(kept_by_forward(stage(graph, c, batch, recompute, scheme)).n);
      };
      return std::max(0.0, with(2) - with(1));
    };
    if (shorter_.empty()) return {of(q_.graph), 0, wide};
    const double few = of(shorter_[0]), more = of(shorter_[1]);
    return {of_all_blocks(few, more), blocks_ == repeated_ ? (more - few) / (kMoreBlocks - kFewBlocks) : 0,
            wide};
  } catch (const InputError&) {
    return {};
  }
}

/// Of the parameters.
double WayBounds::own_elements(const Candidate& c) const {
  const auto parts = static_cast<double>(c.tensor * c.pipeline);
  return (parameters_ - dealt_) / parts + dealt_ / (parts * static_cast<double>(c.expert));
}

double WayBounds::state_bytes(const Candidate& c, const Offload& offload) const {
  if (holds_otherwise(c)) return 0;
  const Optimizer& optimizer = *q_.optimizer;
  const auto holders = static_cast<double>(c.replicas * c.context);
  constexpr int64_t kMany = 1 << 20;
  const double state = optimizer.factored || optimizer.paged
                           ? 0
                           : static_cast<double>(optimizer.device_state(kMany, 0, 1, true)) / kMany;
  const double weights =
      offload.parameters ? 0 : element_bytes(c.precision) / (c.sharding >= 3 ? holders : 1);
  return own_elements(c) * (weights + (offload.optimizer ? 0 : state / (c.sharding >= 1 ? holders : 1)));
}

/// Of gradients, which stay while there are micro-batches to come.
double WayBounds::sums_bytes(const Candidate& c, const Offload& offload, const Kept& kept) const {
  if (c.micro_batches == 1 || c.sharding > 1 || offload.gradients || holds_otherwise(c)) return 0;
  return own_elements(c) * (kept.wide_sums ? 4 : element_bytes(c.precision));
}

/// How many blocks times micro-batches a stage holds at once at least, if blocks are cut by number
/// (schemes/step/model_cuts.h): the first of p stages has all p under way, the second one fewer.
double WayBounds::held_blocks(const Candidate& c) const {
  const int64_t p = c.pipeline, parts = p * c.chunks;
  if (blocks_ < parts) return 0;
  const int64_t all = std::min(c.micro_batches, p), fewer = std::min(c.micro_batches, p - 1);
  int64_t out = blocks_ / p * all;
  // Narayanan et al. 2021, section 2.2: more forward passes before the first backward pass
  if (c.chunks > 1) {
    out = blocks_ / parts * std::min(c.micro_batches * c.chunks, parts + p - 1);
    return static_cast<double>(out);
  }
  if (p < 3) return static_cast<double>(out);
  if ((blocks_ + 1) % p == 0) out = std::max(out, (blocks_ + 1) / p * all);
  if (blocks_ % p != 0 && (blocks_ + 2) % p == 0) out = std::max(out, (blocks_ + 2) / p * fewer);
  return static_cast<double>(out);
}

const WayBounds::TooBig* WayBounds::too_big(const Misfit& misfit) const {
  const auto at = too_big_.find(misfit);
  return at == too_big_.end() ? nullptr : &at->second;
}

void WayBounds::mark_too_big(const Misfit& misfit, const TooBig& what) {
  TooBig& known = too_big_[misfit];
  if (known.batch == 0 || (what.batch <= known.batch && what.replicas >= known.replicas)) known = what;
}

/// What is kept of a sample, and of others that are under way, where the most is. The first or the last stage
/// has at least half of everything.
double WayBounds::held_bytes(const Candidate& c, const Kept& kept) const {
  if (c.pipeline == 1) return kept.all;
  const double half = 0.5 * kept.all * static_cast<double>(std::min(c.micro_batches, c.pipeline)) /
                      static_cast<double>(c.pipeline);
  return std::max(half, held_blocks(c) * kept.block);
}

double WayBounds::least_bytes(const Candidate& c, const Recompute& recompute, const Offload& offload) {
  const double state = state_bytes(c, offload);
  const Key key{c.stage_scheme, 0, static_cast<int>(c.precision), recompute.text()};
  const Kept sample = known(kept_, key, [&] { return find_kept(c, recompute); });
  const double sums = sums_bytes(c, offload, sample);
  if (offload.activations) return state + sums;
  const double kept = kRounding * held_bytes(c, sample) * static_cast<double>(c.batch);
  // Sums are there once a micro-batch is back: are then as many under way as before?
  const auto held = static_cast<double>(std::min(c.micro_batches, c.pipeline));
  const double later = c.micro_batches > c.pipeline * c.chunks ? kept : kept * (held - 1) / held;
  return state + std::max(kept, sums + later);
}

}  // namespace tandem::answers
