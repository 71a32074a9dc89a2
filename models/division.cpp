// SPDX-License-Identifier: Apache-2.0
#include "models/division.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tandem::models {

void blame(const Layer& layer, const InputError& error) {
  const Place& place = layer.attributes.place();
  std::string what = error.what();
  if (place.file != nullptr && !what.starts_with(*place.file))
    what = fmt::format("{}: {}", place.text(), what);
  throw InputError(fmt::format("{} (layer \"{}\", type {})", what, layer.name, layer.type->name));
}

bool makes_part(const std::vector<Layer>& layers, uint32_t index) {
  for (;;) {
    const Layer& layer = layers[index];
    if (layer.type == nullptr) return false;
    const std::string split = layer.attributes.text("split", "whole");
    const bool matrix = layer.type->name == "linear" || layer.type->name == "tied-linear";
    if (matrix && (split == "columns" || split == "vocabulary")) return true;
    if (matrix || split != "whole" || layer.inputs.size() != 1) return false;
    index = layer.inputs[0];
    if (layer.output != layers[index].output) return false;
  }
}

namespace {

/// Some layer's weights must be fewer, but none of a layer that does not split: its input is then split.
void check_split(const std::vector<Layer>& whole, const std::vector<Layer>& parts, int32_t ways,
                 const std::string& model) {
  bool splits = false;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const int64_t all = whole[i].parameter_elements() + whole[i].frozen_elements(),
                  own = parts[i].parameter_elements() + parts[i].frozen_elements();
    splits = splits || own < all;
    if (own != all && parts[i].attributes.text("split", "whole") == "whole")
      blame(whole[i], InputError("its input is split, but it has no \"split\""));
  }
  if (!splits)
    throw InputError(fmt::format(
        "{}: no layer says how it splits over {} devices; transformers do (docs/formats/model.md)", model,
        ways));
}

/// Linear layers are split by columns, all others not at all. The last one may be padded.
void split_linear_layers(std::vector<Layer>& layers, int32_t ways, const std::string& model) {
  bool any = false;
  for (Layer& layer : layers) {
    if (layer.type == nullptr) continue;
    const bool linear = layer.type->name == "linear";
    any = any || linear;
    const bool even = linear && Attributes(layer.attributes).integer("features") % ways == 0;
    const char* split = !linear ? "whole" : even ? "columns" : "vocabulary";
    if (linear || layer.attributes.find("split") != nullptr)
      layer.attributes.set("split", Json::make_text(split, layer.attributes.place()));
  }
  if (!any) throw InputError(fmt::format("{}: no linear layer that {} devices could share", model, ways));
}

/// Behind a linear layer that is split come layers that treat each feature by itself, or know of the others.
/// Padding must not be read.
void check_behind_linear_layers(const std::vector<Layer>& layers, int32_t ways) {
  constexpr std::string_view kTypes[] = {"linear", "relu",    "relu2", "gelu",          "swish", "sigmoid",
                                         "tanh",   "dropout", "clip",  "cross-entropy", "mse"};
  for (const Layer& layer : layers) {
    for (const uint32_t from : layer.inputs) {
      if (!makes_part(layers, from)) continue;
      uint32_t maker = from;
      while (layers[maker].type->name != "linear") maker = layers[maker].inputs[0];
      const std::string name = layers[maker].name;
      if (std::find(std::begin(kTypes), std::end(kTypes), layer.type->name) == std::end(kTypes))
        blame(layer, InputError(fmt::format(
                         "needs all features of \"{}\", of which each device has a part; tensor-parallel "
                         "divides such models",
                         name)));
      if (layer.type->name == "linear" && layers[maker].attributes.text("split", "") == "vocabulary")
        blame(layer, InputError(fmt::format("the features of \"{}\", which it reads, do not divide over {} "
                                            "devices",
                                            name, ways)));
    }
  }
}

/// Layers that treat each position by itself, or know of the others.
bool takes_parts_of_a_sequence(const Layer& layer) {
  constexpr std::string_view kTypes[] = {"embedding",    "position-embedding",
                                         "linear",       "tied-linear",
                                         "relu",         "relu2",
                                         "gelu",         "swish",
                                         "sigmoid",      "tanh",
                                         "dropout",      "add",
                                         "mul",          "clip",
                                         "layer-norm",   "softmax",
                                         "rms-norm",     "attention",
                                         "experts",      "scale",
                                         "cross-entropy"};
  const Json* axis = layer.attributes.find("axis");
  const bool along_width = axis != nullptr && axis->as_int() == 1;
  return std::find(std::begin(kTypes), std::end(kTypes), layer.type->name) != std::end(kTypes) ||
         (along_width && (layer.type->name == "slice" || layer.type->name == "split"));
}

/// Each of `devices` has an equal part of the inputs' positions: the i-th and the last but i-th of twice as
/// many chunks, so that a causal mask leaves all the same work.
void divide_sequence(std::vector<Layer>& layers, int32_t devices) {
  for (Layer& layer : layers) {
    if (layer.type != nullptr) {
      if (takes_parts_of_a_sequence(layer)) continue;
      blame(layer, InputError("needs the whole sequence, which is divided over devices"));
    }
    if (layer.output.size() != 1 || layer.output[0] % (2 * devices) != 0)
      throw InputError(fmt::format("input \"{}\" of {} does not divide into {} chunks, two for each device",
                                   layer.name, to_text(layer.output), 2 * devices));
    layer.output[0] /= devices;
  }
}

/// Some layer must have experts that divide over that many devices.
void check_experts(const std::vector<Layer>& layers, const std::string& model) {
  const bool any = std::any_of(layers.begin(), layers.end(), [](const Layer& l) {
    return std::any_of(l.parameters.begin(), l.parameters.end(), [](const Parameter& p) { return p.dealt; });
  });
  if (!any) throw InputError(fmt::format("{}: no layer has experts that could be dealt over devices", model));
}

}  // namespace

void divide_inputs(std::vector<Layer>& layers, const ModelSlice& sharing, const Sample& sample,
                   const std::string& model) {
  if (sharing.context > 1) {
    if (sample.unit != "sequences")
      throw InputError(fmt::format("{}: its samples are no sequences that devices could divide", model));
    divide_sequence(layers, sharing.context);
  }
  if (!sharing.samples) return;
  split_linear_layers(layers, sharing.ways, model);
  check_behind_linear_layers(layers, sharing.ways);  // before shapes that do not fit are blamed
}

void check_division(const std::vector<Layer>& whole, const std::vector<Layer>& parts,
                    const ModelSlice& sharing, const std::string& model) {
  if (sharing.ways > 1) check_split(whole, parts, sharing.ways, model);
  if (sharing.experts > 1 || sharing.capacity > 0) check_experts(parts, model);
}

std::vector<Layer> only(const std::vector<Layer>& layers, const ModelSlice& slice,
                        std::vector<bool>& received) {
  std::vector<bool> read(layers.size());
  for (uint32_t i = 0; i < layers.size(); ++i) {
    if (!slice.holds(i)) continue;
    for (const uint32_t from : layers[i].inputs) read[from] = true;
  }
  received.assign(layers.size(), false);
  std::vector<Layer> out;
  out.reserve(layers.size());
  for (uint32_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    if (slice.holds(i)) {
      out.push_back(layer);
      continue;
    }
    received[i] = read[i] && layer.type != nullptr;
    out.push_back({.name = layer.name, .attributes = layer.attributes});
    out.back().output = read[i] ? layer.output : Shape{0};
    out.back().frozen_bits = layer.frozen_bits;
  }
  return out;
}

}  // namespace tandem::models
