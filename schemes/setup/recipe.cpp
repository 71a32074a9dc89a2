// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/recipe.h"

#include <algorithm>

#include "base/data.h"
#include "base/kept.h"
#include "schemes/setup/memory_habits.h"

namespace tandem::schemes {

namespace {

constexpr std::string_view kRecipes = "schemes/recipes";

Recipe::Kernels read_kernels(const Json& json) {
  json.only({"convolution", "stream", "attention", "scores", "softmax"});
  return {json.real("convolution", 1, 0.1, 4), json.real("stream", 1, 0.1, 4),
          json.real("attention", 1, 0.1, 4), json.real("scores", 1, 0.1, 4), json.real("softmax", 1, 0.1, 4)};
}

Recipe::Composed read_composed(const Json& json) {
  json.only({"kernels", "traffic"});
  return {json.at("kernels").as_int(1, 100), json.at("traffic").as_int(1, 100)};
}

Recipe::Host read_host(const Json& json) {
  json.only({"forward", "backward", "mixed", "fp8", "experts", "micro_batch", "collective", "update",
             "runs_ahead", "awaits_sums", "awaits_messages", "awaits_sends", "awaits_counts",
             "overlaps_chunks", "shard"});
  Recipe::Host host;
  host.forward = json.at("forward").as_time();
  host.backward = json.at("backward").as_time();
  if (const Json* mixed = json.find("mixed")) host.mixed = mixed->as_time();
  host.experts = {host.forward, host.backward};
  if (const Json* experts = json.find("experts")) {
    if (experts->items().size() != host.experts.size())
      experts->fail("needs two times: forward and backward");
    for (std::size_t i = 0; i < host.experts.size(); ++i) host.experts[i] = experts->items()[i].as_time();
  }
  if (const Json* casts = json.find("fp8")) host.fp8 = casts->as_time();
  if (const Json* micro = json.find("micro_batch")) host.micro_batch = micro->as_time();
  if (const Json* collective = json.find("collective")) host.collective = collective->as_time();
  if (const Json* shard = json.find("shard")) host.shard = shard->as_time();
  const Json& update = json.at("update");
  const auto& times = update.items();
  if (times.size() != host.update.size())
    update.fail("needs three times: for optimisers that keep no, one and two tensors of state");
  for (std::size_t i = 0; i < host.update.size(); ++i) host.update[i] = times[i].as_time();
  host.runs_ahead = json.boolean("runs_ahead", true);
  host.awaits_sums = json.boolean("awaits_sums", false);
  host.awaits_messages = json.boolean("awaits_messages", false);
  host.overlaps_chunks = json.boolean("overlaps_chunks", false);
  host.awaits_sends = json.boolean("awaits_sends", false);
  host.awaits_counts = json.boolean("awaits_counts", false);
  return host;
}

/// What is done to a micro-batch's gradient, in multiples of adding it.
Recipe::Composed accumulation(const Recipe& recipe, Precision precision) {
  const Recipe::Accumulation& a = recipe.accumulation;
  const int64_t mixed = element_bytes(precision) == 2 ? 1 : 0;
  return {a.plain.kernels + mixed * a.mixed.kernels, a.plain.traffic + mixed * a.mixed.traffic};
}

Recipe read_recipe(const std::string& path) {
  const Json json = Json::load(path);
  json.only({"name",
             "summary",
             "composes",
             "wide_parts",
             "eager",
             "autocast",
             "fused_bias",
             "fuses_norms",
             "pads_products",
             "copied_convolution",
             "grouped_gradients",
             "memory",
             "memory_known",
             "fused_update",
             "composed_updates",
             "accumulation",
             "host",
             "fp32",
             "matrix",
             "products_in_parts",
             "fitted",
             "source"});
  Recipe out;
  out.name = json.at("name").as_text();
  out.summary = json.at("summary").as_text();
  out.source = json.at("source").as_text();
  out.products_in_parts = json.boolean("products_in_parts", false);
  out.composes = json.boolean("composes", false);
  out.wide_parts = json.boolean("wide_parts", false);
  out.autocast = json.boolean("autocast", false);
  out.eager = json.boolean("eager", false);
  out.fuses.bias = json.boolean("fused_bias", true);
  out.fuses.norms = json.boolean("fuses_norms", false);
  if (const Json* memory = json.find("memory")) {
    for (const auto& [key, value] : memory->members()) out.memory.emplace_back(key, value.as_text());
    memory_habits(out.memory, "memory", memory->place());
  }
  out.memory_known = json.boolean("memory_known", true);
  out.pads_products = json.boolean("pads_products", false);
  if (const Json* copied = json.find("copied_convolution")) out.convolutions.copied = copied->as_real(0, 4);
  if (const Json* rate = json.find("grouped_gradients"))
    out.convolutions.grouped_gradients = rate->as_flop_rate();
  out.fuses.update = json.boolean("fused_update", true);
  if (const Json* composed = json.find("composed_updates")) {
    for (const auto& [name, update] : composed->members()) {
      out.composed_updates[std::string(optimizer(name, composed->place()).name)] = read_composed(update);
    }
  }
  if (const Json* sums = json.find("accumulation")) {
    sums->only({"plain", "mixed"});
    out.accumulation.plain = read_composed(sums->at("plain"));
    if (const Json* mixed = sums->find("mixed")) out.accumulation.mixed = read_composed(*mixed);
  }
  out.host = read_host(json.at("host"));
  if (const Json* kernels = json.find("fp32")) out.fp32 = read_kernels(*kernels);
  if (const Json* kernels = json.find("matrix")) out.matrix = read_kernels(*kernels);
  return out;
}

}  // namespace

Recipe load_recipe(const std::string& name_or_file, const Place& place) {
  static base::Kept<Recipe> kept;
  return *kept.get(find_data(kRecipes, "recipe", name_or_file, place), read_recipe);
}

std::vector<Recipe> list_recipes() {
  std::vector<Recipe> out;
  for (const std::string& name : list_data(kRecipes)) out.push_back(load_recipe(name));
  return out;
}

Recipe with_updates_of(Recipe recipe, const Optimizer& optimizer) {
  const auto composed = recipe.composed_updates.find(optimizer.name);
  if (composed != recipe.composed_updates.end()) recipe.update = composed->second;
  return recipe;
}

std::optional<Bytes> joins_norm(const Recipe& recipe, const Kernel& kernel) {
  if (!recipe.fuses.norms || !kernel.fused) return {};
  const int64_t inputs = kernel.shape.at(1);
  return kernel.pass == Pass::forward && inputs > 1 ? Bytes{kernel.read.n / inputs} : Bytes{};
}

int64_t launches(const Recipe& recipe, const Kernel& kernel, Precision precision) {
  if (joins_norm(recipe, kernel)) return 0;
  if (kernel.sums) return kernel.repeat * accumulation(recipe, precision).traffic;
  if (kernel.kind == KernelKind::optimizer)
    return kernel.repeat * (recipe.fuses.update ? recipe.update.traffic : kernel.parts);
  const bool composed = recipe.composes || (recipe.eager && kernel.eager);
  const int64_t copies = recipe.eager && kernel.clones ? 1 : 0;
  return kernel.repeat * ((composed && kernel.kind != KernelKind::gemm ? kernel.parts : 1) + copies);
}

bool upcasts(const Recipe& recipe, const Kernel& kernel, Precision precision) {
  if (element_bytes(precision) != 2) return false;
  if (recipe.autocast && kernel.wide) return true;
  const bool wide = kernel.kind == KernelKind::norm || kernel.kind == KernelKind::softmax;
  if (recipe.eager && kernel.eager && wide) return true;
  return kernel.parts > 1 && (wide || kernel.kind == KernelKind::elementwise) && recipe.composes &&
         recipe.wide_parts;
}

Kernel bias_after(const Recipe& recipe, const Kernel& kernel) {
  Kernel bias;
  if (kernel.kind != KernelKind::gemm || kernel.parts < 2 || recipe.fuses.bias) return bias;
  const int64_t elements = kernel.shape[0] * kernel.shape[1] * kernel.shape[2];
  bias.pass = kernel.pass;
  bias.shape = {elements, 1};
  bias.flops = Flops{elements};
  bias.read = bias.written = kernel.written;
  bias.repeat = kernel.repeat;
  return bias;
}

Kernel cast_beside(const Recipe& recipe, const Kernel& kernel, Precision precision) {
  Kernel cast;
  if (!recipe.autocast || kernel.casts == 0 || element_bytes(precision) != 2) return cast;
  cast.pass = kernel.pass;
  cast.shape = {kernel.casts, 1};
  cast.flops = Flops{kernel.casts};
  cast.read = Bytes{4} * kernel.casts;
  cast.written = Bytes{2} * kernel.casts;
  return cast;
}

Time issue_time(const Recipe& recipe, const Task& task, Precision precision, const Optimizer& optimizer) {
  const Recipe::Host& host = recipe.host;
  const auto state = std::clamp<int64_t>(optimizer.state, 0, static_cast<int64_t>(host.update.size()) - 1);
  const Time mixed = element_bytes(precision) == 2 ? host.mixed : Time{};
  Time sum;
  for (const Kernel& k : task.kernels) {
    if (k.sums && recipe.accumulation.composed())
      sum += host.update[0] * (k.repeat * accumulation(recipe, precision).kernels);
    const bool casts = precision == Precision::fp8 && k.kind == KernelKind::gemm && !k.half && !k.routed;
    const Time fp8 = casts ? host.fp8 : Time{};
    const Time forward = mixed + fp8 + (k.routed ? host.experts[0] : host.forward);
    if (k.pass == Pass::update)
      sum += host.update[static_cast<std::size_t>(state)] * (k.repeat * recipe.update.kernels);
    if (k.pass == Pass::forward && task.pass == Pass::update) {  // an optimiser's product: one operation
      sum += host.update[0] * k.repeat;
      continue;
    }
    if (k.pass == Pass::forward && !bias_after(recipe, k).shape.empty()) sum += forward * k.repeat;
    if (k.pass == Pass::forward)
      sum += forward * launches(recipe, k);  // in backward too, where it is recomputed
    if (k.pass == Pass::backward_data)
      sum += (fp8 + (k.routed ? host.experts[1] : host.backward)) * launches(recipe, k);
  }
  return sum;
}

}  // namespace tandem::schemes
