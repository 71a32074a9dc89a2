// SPDX-License-Identifier: Apache-2.0
// What a graph of ONNX is trained by, as a model document.
#include <fmt/format.h>

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "models/import/onnx/translator.h"

namespace tandem::models {

namespace onnx {

/// The last layer: a loss, or one that ends in all outputs.
std::string Translator::finish() {
  path_.clear();
  std::set<std::string> above;  // of any output: what is read on the way to it
  std::vector<std::string> ends;
  for (const Value& v : outputs_) {
    if (inputs_.count(v.layer) == 0 && std::find(ends.begin(), ends.end(), v.layer) == ends.end())
      ends.push_back(v.layer);
  }
  if (ends.empty()) refuse("no output depends on an input of the model and has gradients");
  std::set<std::string> reached(ends.begin(), ends.end());
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (reached.count(entry->name) == 0) continue;
    above.insert(entry->from.begin(), entry->from.end());
    reached.insert(entry->from.begin(), entry->from.end());
  }
  ends.erase(
      std::remove_if(ends.begin(), ends.end(), [&](const std::string& e) { return above.count(e) != 0; }),
      ends.end());
  if (ends.size() > 1) {
    if (!choices_.loss.empty())
      refuse(fmt::format("the model has {} outputs: no one loss is theirs", ends.size()));
    std::vector<std::string> parts;
    int64_t all = 0;
    for (const std::string& end : ends) {
      const int64_t n = size(end);
      all = checked_add(all, n, "an output");
      parts.push_back(as_shape(live(dims(end), end), {n}));
    }
    return emit("concat", parts, {all}, {{"axis", 0}});
  }
  if (choices_.loss.empty()) return ends[0];
  const Value& out =
      *std::find_if(outputs_.begin(), outputs_.end(), [&](const Value& v) { return v.layer == ends[0]; });
  std::string source = ends[0];
  if (choices_.loss == "cross-entropy") {
    const int64_t classes = out.shape.empty() ? 1 : out.shape.size() > 3 ? out.shape[1] : out.shape.back();
    if (size(source) != classes) source = as_shape(out, {size(source) / classes, classes});
  }
  return emit(choices_.loss, {source}, {});
}

/// The entries that the end needs, in order. Initializers that no layer has as a whole are in a "weights"
/// layer.
std::vector<const Entry*> Translator::pruned(std::string& end) {
  std::map<std::string, int64_t> owned;
  std::set<std::string> needed{end};
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (needed.count(entry->name) == 0) continue;
    needed.insert(entry->from.begin(), entry->from.end());
    for (const auto& [param, count] : entry->owns) owned[param] += count;
  }
  int64_t rest = 0;
  for (const std::string& param : touched_)
    rest = checked_add(rest, sizes_.at(param) - owned[param], "a parameter");
  if (rest > 0) {
    Entry& last = entries_[index_.at(end)];
    const bool loss = last.type == "cross-entropy" || last.type == "mse";
    if (loss) {
      const std::string before = last.from[0],
                        name = emit("weights", {before}, Shape(dims(before)), {{"elements", rest}});
      std::swap(entries_.back(), entries_[index_.at(end)]);  // the loss stays the last
      index_[name] = index_.at(end);
      index_[end] = entries_.size() - 1;
      entries_.back().from[0] = name;
      needed.insert(name);
    } else {
      end = emit("weights", {end}, Shape(dims(end)), {{"elements", rest}});
      needed.insert(end);
    }
    notes_.push_back(fmt::format(
        "{} parameters belong to no operator that has a layer; a layer of type weights holds them", rest));
  }
  std::vector<const Entry*> out;
  for (const Entry& entry : entries_) {
    if (needed.count(entry.name) != 0) out.push_back(&entry);
  }
  return out;
}

namespace {

JsonWriter listed(const Shape& shape) {
  JsonWriter out = JsonWriter::array();
  for (const int64_t d : shape) out.push_back(d);
  return out;
}

JsonWriter sample_of(const std::map<std::string, Shape>& inputs) {
  const auto every = [&](std::size_t dims) {
    return std::all_of(inputs.begin(), inputs.end(), [&](const auto& i) { return i.second.size() == dims; });
  };
  const bool words = every(1);
  const bool images =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& i) { return i.second.size() == 3; });
  int64_t bytes = 0;
  for (const auto& [name, shape] : inputs)
    bytes = checked_add(bytes, product({words ? 8 : 4, elements(shape)}), "a sample");
  const std::string size = fmt::format("{}B", bytes);
  return {{"unit", words    ? "sequences"
                   : images ? "images"
                            : "samples"},
          {"stored", words ? size : "0B"},  // the file does not say how
          {"decoded", size},
          {"decode", "0s"}};
}

/// Convolutions with biases and no norm anywhere are what exporters leave that fold norms into them.
bool may_be_folded(const std::vector<const Entry*>& entries) {
  int64_t biased = 0;
  for (const Entry* e : entries) {
    if (e->type.find("norm") != std::string::npos) return false;
    const bool plain =
        std::any_of(e->words.begin(), e->words.end(), [](const auto& w) { return w.first == "bias"; });
    if (e->type == "conv" && !plain) ++biased;
  }
  return biased >= 8;
}

}  // namespace

OnnxModel Translator::document(const std::string& file) {
  std::string end = finish();
  const std::vector<const Entry*> entries = pruned(end);
  std::map<std::string, Shape> inputs;
  JsonWriter layers = JsonWriter::array();
  std::set<std::string> read;
  for (const Entry* e : entries) read.insert(e->from.begin(), e->from.end());
  JsonWriter shapes;
  for (const Entry* e : entries) {
    if (!e->type.empty()) continue;
    inputs.emplace(e->name, e->dims);
    shapes[e->name] = listed(e->dims);
  }
  if (inputs.empty()) refuse("no output depends on an input of the model");
  for (const Entry* e : entries) {
    if (e->type.empty()) continue;
    JsonWriter one = {{"type", e->type}, {"name", e->name}};
    if (e->from.size() == 1) {
      one["from"] = e->from[0];
    } else {
      one["from"] = JsonWriter::array();
      for (const std::string& f : e->from) one["from"].push_back(f);
    }
    for (const auto& [key, value] : e->words) one[key] = value;
    layers.push_back(std::move(one));
  }
  const std::string producer = printable(model_.producer_name() + " " + model_.producer_version());
  const std::string graph = printable(model_.graph().name()).substr(0, 60);
  std::string name = std::filesystem::path(file).stem().string();
  name = name == printable(name) && !name.empty() ? name.substr(0, 60) : "onnx";
  if (may_be_folded(entries))
    notes_.push_back(
        "no norm among convolutions with biases: an exporter may have folded norms into them, and training "
        "has them; "
        "export without folding of constants to keep them");
  JsonWriter out = {{"name", name},
                    {"summary", fmt::format("the graph \"{}\" of a file of ONNX by {}", graph, producer)},
                    {"source", printable(file)},
                    {"sample", sample_of(inputs)}};
  out["inputs"] = std::move(shapes);
  out["layers"] = std::move(layers);
  return {out.dump(), notes_};
}

}  // namespace onnx

OnnxModel model_of_onnx(std::string_view bytes, const std::string& file, const OnnxChoices& choices) {
  const std::string called = printable(file);
  constexpr std::size_t kMost = std::size_t{1} << 31;
  if (bytes.size() >= kMost)
    throw InputError(
        fmt::format("{}: files of ONNX have less than 2 GiB; save the weights as external data", called));
  onnx::ModelProto model;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(32);
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage() || !model.has_graph())
    throw InputError(fmt::format("{}: no model of ONNX, or a damaged one", called));
  try {
    onnx::Translator translator(model, choices);
    translator.run();
    return translator.document(file);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", called, error.what()));
  }
}

/// The version of the format, a small number, and then the producer's name, the opset or the graph.
bool looks_like_onnx(std::string_view bytes) {
  if (bytes.size() < 4 || bytes[0] != 0x08 || bytes[1] < 1 || bytes[1] > 32) return false;
  return bytes[2] == 0x12 || bytes[2] == 0x1a || bytes[2] == 0x3a || bytes[2] == 0x42;
}

}  // namespace tandem::models
