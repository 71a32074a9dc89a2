// SPDX-License-Identifier: Apache-2.0
#include "answers/way_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/description.h"
#include "sim/capacity.h"
#include "sim/simulate.h"

namespace tandem::answers {

namespace {

/// Stages may be unequal, so a bound that assumes equal ones needs a margin.
constexpr double kSlack = 0.97;
/// What is outside of blocks may take more time for its arithmetic than these.
constexpr double kLight = 0.95;
/// A model of more layers takes far longer than a host needs to be ahead of its device.
constexpr std::size_t kManyLayers = 400;
/// What longer pipelines hold of what shorter ones do.
constexpr double kLearned = 0.9;
/// An allocator rounds, and peaks of different micro-batches may lie at different ops.
constexpr double kRounding = 0.85;

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

}  // namespace

WayBounds::WayBounds(const Question& question, std::optional<Recipe> recipe)
    : q_(question), recipe_(std::move(recipe)) {
  const std::vector<Layer>& layers = q_.graph.layers();
  for (int p = 0; p < kPrecisions; ++p) {
    const auto precision = static_cast<Precision>(p);
    const std::vector<Lowered> lowered = q_.graph.lower(1, precision);
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
    double fastest = 0;
    for (std::size_t i = 0; i < q_.system.accelerators().size(); ++i) {
      const Device& device = q_.system.device(q_.system.accelerator(static_cast<int64_t>(i)));
      fastest = std::max(fastest, device.product_peak(precision).flops_per_second);
    }
    peak_[precision] = all > 0 ? fastest / all : INFINITY;
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
  if (blocks_ >= c.pipeline && c.pipeline > 1 && c.chunks == 1) {
    const int64_t most = (blocks_ + c.pipeline - 1) / c.pipeline;
    const double longest =
        kLight * once.device * in_blocks_ * static_cast<double>(most) / static_cast<double>(blocks_);
    step = std::max(step, (micro - 1) * longest + (c.zero_bubble ? once.device / 4 : once.device));
  }
  return static_cast<double>(c.batch * c.micro_batches * c.replicas) / (kSlack * step);
}

Request WayBounds::stage(const Candidate& c, int64_t batch, const Recompute& recompute,
                         const ResolvedScheme& scheme) const {
  Request p = q_.request(c.tensor * c.expert * c.context);
  p.job.scheme = &scheme;
  p.job.batch = batch;
  p.job.precision = c.precision;
  p.job.recompute = recompute;
  p.job.offload = {};
  p.job.optimizer = &optimizer("none");
  p.job.input = false;
  p.timeline = false;
  return p;
}

/// Of the stage's scheme, "" where it has none.
std::string WayBounds::micro_batch_option(const Candidate& c) const {
  const auto& options = resolved(c.stage_scheme).scheme->options;
  for (const char* name : {"microbatches", "accumulate"}) {
    if (std::any_of(options.begin(), options.end(), [&](const OptionSpec& o) { return o.name == name; }))
      return name;
  }
  return "";
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
            std::clamp(two.device - one.device, 0.0, one.device)};
  } catch (const InputError&) {
    return {INFINITY, INFINITY};
  }
}

WayBounds::StageTime WayBounds::step(const Candidate& c, const Recompute& recompute, const std::string& text,
                                     int64_t micro) const {
  const ResolvedScheme scheme = resolved(text);
  const Undisturbed found = sim::undisturbed(stage(c, c.batch, recompute, scheme));
  const double seconds = static_cast<double>(c.batch * micro * c.expert) / found.rate;
  return {seconds, seconds * (1 - found.launch)};
}

double WayBounds::kept_bytes(const Candidate& c, int64_t batch, const Recompute& recompute) const {
  try {
    const ResolvedScheme scheme = resolved(c.stage_scheme);
    const Request p = stage(c, batch, recompute, scheme);
    return static_cast<double>(memory_on(p, p.devices).activations.n);
  } catch (const InputError&) {
    return 0;
  }
}

double WayBounds::state_bytes(const Candidate& c, const Offload& offload) const {
  if (c.scheme.find("sharding-group=node") != std::string::npos) return 0;
  if (c.scheme.find("one-weird-trick") == 0) return 0;  // it divides some layers
  const Optimizer& optimizer = *q_.optimizer;
  const auto dealt = static_cast<double>(q_.graph.dealt_elements());
  const auto all = static_cast<double>(q_.graph.parameter_elements());
  const auto parts = static_cast<double>(c.tensor * c.pipeline);
  const double elements = (all - dealt) / parts + dealt / (parts * static_cast<double>(c.expert));
  const auto holders = static_cast<double>(c.replicas * c.context);
  constexpr int64_t kMany = 1 << 20;
  const double state = optimizer.factored || optimizer.paged
                           ? 0
                           : static_cast<double>(optimizer.device_state(kMany, 0, 1, true)) / kMany;
  // Sums of gradients stay while there are micro-batches to come.
  const bool sums = c.micro_batches > 1 && c.sharding < 2 && !offload.gradients;
  const double weights =
      offload.parameters ? 0 : element_bytes(c.precision) / (c.sharding >= 3 ? holders : 1);
  return elements * (weights + (sums ? element_bytes(c.precision) : 0) +
                     (offload.optimizer ? 0 : state / (c.sharding >= 1 ? holders : 1)));
}

WayBounds::Schedule WayBounds::schedule(const Candidate& c, const Recompute& recompute) {
  return {c.stage_scheme, static_cast<int>(c.precision), recompute.text(), c.chunks, c.zero_bubble};
}

/// How many blocks times micro-batches a stage holds at once at least, if blocks are cut by number
/// (schemes/step/model_cuts.h): the first of p stages has all p under way, the second one fewer.
double WayBounds::held_blocks(const Candidate& c) const {
  const int64_t p = c.pipeline, parts = p * c.chunks;
  if (blocks_ < parts) return 0;
  const int64_t all = std::min(c.micro_batches, p), fewer = std::min(c.micro_batches, p - 1);
  int64_t out = c.chunks * (blocks_ / parts) * all;
  if (c.chunks > 1 || p < 3) return static_cast<double>(out);
  if ((blocks_ + 1) % p == 0) out = std::max(out, (blocks_ + 1) / p * all);
  if (blocks_ % p != 0 && (blocks_ + 2) % p == 0) out = std::max(out, (blocks_ + 2) / p * fewer);
  return static_cast<double>(out);
}

void WayBounds::learn(const Candidate& c, const Recompute& recompute, Bytes activations) {
  const int64_t parts = c.pipeline * c.chunks;
  if (c.pipeline == 1 || c.micro_batches < c.pipeline || blocks_ < parts) return;
  const int64_t most = c.pipeline * c.chunks * ((blocks_ + parts - 1) / parts);
  const Learned now{c.pipeline, c.batch,
                    static_cast<double>(activations.n) / static_cast<double>(c.batch * most)};
  Learned& known = learned_[schedule(c, recompute)];
  if (known.pipeline == 0 || std::pair(now.pipeline, -now.batch) < std::pair(known.pipeline, -known.batch))
    known = now;
}

const WayBounds::TooBig* WayBounds::too_big(const Misfit& misfit) const {
  const auto at = too_big_.find(misfit);
  return at == too_big_.end() ? nullptr : &at->second;
}

void WayBounds::mark_too_big(const Misfit& misfit, const TooBig& what) {
  TooBig& known = too_big_[misfit];
  if (known.batch == 0 || (what.batch <= known.batch && what.replicas >= known.replicas)) known = what;
}

/// From what a shorter pipeline of the same schedule holds, which has fewer micro-batches under way of longer
/// stages.
double WayBounds::learned_bytes(const Candidate& c, const Recompute& recompute) const {
  const auto at = learned_.find(schedule(c, recompute));
  // Of several chunks a stage has more under way the more micro-batches there are.
  const int64_t least = c.chunks > 1 ? 2 * c.pipeline : c.pipeline;
  if (at == learned_.end() || at->second.pipeline > c.pipeline || c.micro_batches < least) return 0;
  if (at->second.batch < c.batch) return 0;  // some of it does not grow with the batch
  return kLearned * held_blocks(c) * at->second.block * static_cast<double>(c.batch);
}

/// Bytes that a sample can keep of layers outside of blocks: two formats of an output, and of a loss its
/// logits, their softmax and their gradient; infinite where the model does not divide like this.
double WayBounds::most_outside_blocks(const Candidate& c) const {
  constexpr double kOutput = 12, kOwn = 8;  // bytes an element
  try {
    const Graph part = q_.graph.slice({.ways = static_cast<int32_t>(c.tensor),
                                       .experts = static_cast<int32_t>(c.expert),
                                       .context = static_cast<int32_t>(c.context)});
    const std::vector<Lowered> lowered = part.lower(1, c.precision);
    double bytes = 0;
    for (std::size_t i = 0; i < lowered.size(); ++i) {
      if (!block_of(part.layers()[i]).empty()) continue;
      bytes += kOutput * static_cast<double>(elements(lowered[i].output));
      for (const OwnTensor& own : lowered[i].own) bytes += kOwn * static_cast<double>(own.elements);
    }
    return bytes;
  } catch (const InputError&) {
    return INFINITY;
  }
}

/// What is kept of a sample, and of others that are under way, where the most is: of `sample` bytes of one on
/// all stages. The first or the last stage has at least half of everything.
double WayBounds::held_bytes(const Candidate& c, double sample) {
  if (c.pipeline == 1) return sample;
  const double half = 0.5 * sample * static_cast<double>(std::min(c.micro_batches, c.pipeline)) /
                      static_cast<double>(c.pipeline);
  const double blocks = held_blocks(c);
  if (!(blocks > 0)) return half;
  const Key key{c.stage_scheme, 0, static_cast<int>(c.precision), ""};
  const double outside = known(outside_, key, [&] { return most_outside_blocks(c); });
  return std::max(half, (sample - outside) * blocks / static_cast<double>(blocks_));
}

double WayBounds::least_bytes(const Candidate& c, const Recompute& recompute, const Offload& offload) {
  if (offload.activations) return state_bytes(c, offload);
  const Key key{c.stage_scheme, 0, static_cast<int>(c.precision), recompute.text()};
  // What two samples keep beyond one: what does not grow with the batch is none of it.
  const double sample = known(
      kept_, key, [&] { return std::max(0.0, kept_bytes(c, 2, recompute) - kept_bytes(c, 1, recompute)); });
  const double kept = kRounding * held_bytes(c, sample) * static_cast<double>(c.batch);
  return state_bytes(c, offload) + std::max(kept, learned_bytes(c, recompute));
}

}  // namespace tandem::answers
