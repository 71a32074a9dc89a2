// SPDX-License-Identifier: Apache-2.0
#include "models/import/onnx/translator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tandem::models::onnx {

namespace {
constexpr int64_t kMostLinks = 4'000'000;
}  // namespace

void refuse(const std::string& why) { throw InputError(why); }

Shape contiguous(const Shape& shape) {
  Shape out(shape.size());
  int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = stride;
    stride = product({stride, std::max<int64_t>(shape[d], 1)});
  }
  return out;
}

std::size_t axis_of(int64_t axis, std::size_t dims) {
  const auto n = static_cast<int64_t>(dims);
  if (axis < -n || axis >= n) refuse(fmt::format("has the axis {} of a tensor of {} dimensions", axis, dims));
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

int64_t span(const Shape& shape, std::size_t begin, std::size_t end) {
  int64_t out = 1;
  for (std::size_t d = begin; d < end; ++d) out = product({out, shape[d]});
  return out;
}

JsonWriter same_or_list(const Shape& values) {
  const bool same = std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
  if (same && !values.empty()) return values[0];
  JsonWriter out = JsonWriter::array();
  for (const int64_t v : values) out.push_back(v);
  return out;
}

// ---- layers

std::string Translator::emit(std::string_view type, std::vector<std::string> from, Shape dims, Words words) {
  std::string base = path_.empty() ? std::string(type) : path_;
  std::string name = base;
  while (index_.count(name) != 0) name = fmt::format("{}-{}", base, ++names_[base] + 1);
  links_ += static_cast<int64_t>(from.size());
  if (links_ > kMostLinks) refuse(fmt::format("needs more than {} links between layers", kMostLinks));
  index_[name] = entries_.size();
  entries_.push_back({std::string(type), name, std::move(from), std::move(dims), std::move(words), {}});
  entries_.back().owns.swap(taken_);
  return name;
}

Value Translator::live(Shape shape, std::string layer, Shape strides) const {
  Value out;
  out.kind = Kind::live;
  out.strides = strides.empty() ? contiguous(shape) : std::move(strides);
  out.shape = std::move(shape);
  out.layer = std::move(layer);
  return out;
}

std::string Translator::as_shape(const Value& given, const Shape& shape) {
  const Value value = whole(given);
  if (dims(value.layer) == shape) return value.layer;
  if (elements(shape) != size(value.layer))
    refuse(fmt::format("reads {} elements, where {} are wanted", size(value.layer), models::to_text(shape)));
  std::string& out = reshaped_[{value.layer, shape}];
  if (out.empty()) {
    JsonWriter list = JsonWriter::array();
    for (const int64_t d : shape) list.push_back(d);
    std::vector<std::pair<std::string, int64_t>> taken;  // belongs to the layer that follows
    taken.swap(taken_);
    out = emit("reshape", {value.layer}, shape, {{"shape", list}});
    taken_.swap(taken);
  }
  return out;
}

Value Translator::whole(const Value& value) {
  if (value.kind != Kind::live) refuse("reads no tensor of the sample where it needs one");
  if (value.small.empty()) return value;
  Shape small = value.small;
  small.insert(small.begin(), value.shape.size() - small.size(), 1);
  Shape sizes{1}, factors;
  for (std::size_t d = 0; d < small.size(); ++d) {  // neighbours that stay as they are become one
    const int64_t factor = value.shape[d] / small[d];
    if (factor == 1 && !factors.empty() && factors.back() == 1) {
      sizes.back() *= small[d];
    } else {
      sizes.push_back(small[d]);
      factors.push_back(factor);
    }
  }
  Shape result = sizes;
  JsonWriter list = JsonWriter::array();
  for (std::size_t d = 0; d < factors.size(); ++d) {
    result[d + 1] = product({result[d + 1], factors[d]});
    list.push_back(factors[d]);
  }
  if (factors.size() > 3) refuse("repeats along more than three separate dimensions");
  const std::string source = as_shape(live(value.small, value.layer), sizes);
  Value out = live(value.shape, emit("upsample", {source}, result, {{"factor", list}}));
  out.once = value.once;
  return out;
}

Value Translator::broadcast(const Value& value, const Shape& shape) {
  const Value x = whole(value);
  if (x.shape == shape) return x;
  if (x.size() == elements(shape)) return live(shape, x.layer);
  Value out = live(shape, x.layer);
  out.small = x.shape;
  return whole(out);
}

std::string Translator::filler(const Value& like, int64_t count) {
  const int64_t most = size(like.layer);
  const std::string source = as_shape(like, {most});
  if (count <= 0) refuse("is empty");
  if (count / most > 4096) refuse("enters a constant of many more elements than what it meets");
  std::vector<std::string> parts;
  for (int64_t left = count; left > 0; left -= std::min(left, most)) {
    const int64_t n = std::min(left, most);
    parts.push_back(n == most ? source
                              : emit("slice", {source}, {n}, {{"axis", 0}, {"begin", 0}, {"end", n}}));
  }
  return parts.size() == 1 ? parts[0] : emit("concat", parts, {count}, {{"axis", 0}});
}

Value Translator::as_live(const Value& value, const Value& like) {
  if (value.kind == Kind::live) return value;
  const Value out = live(value.shape, filler(whole(like), value.size()));
  return with_weights(out, value.params);
}

Value Translator::each(const Value& value, std::string_view keeps, int64_t flops) {
  const Value x = whole(value);
  Words words;
  if (keeps != "none") words.emplace_back("keeps", std::string(keeps));
  if (flops != 1) words.emplace_back("flops", flops);
  int64_t reach = 1;
  for (std::size_t d = 0; d < x.shape.size(); ++d) reach += (x.shape[d] - 1) * x.strides[d];
  Shape strides = flops != 0 && reach == x.size() ? x.strides : contiguous(x.shape);
  return live(x.shape, emit("elementwise", {x.layer}, Shape(dims(x.layer)), std::move(words)),
              std::move(strides));
}

// ---- parameters

int64_t Translator::left(const std::string& param) const {
  const auto owned = owned_.find(param);
  return sizes_.at(param) - (owned == owned_.end() ? 0 : owned->second);
}

void Translator::take(const std::string& param, int64_t count) {
  owned_[param] += count;
  taken_.emplace_back(param, count);
}

bool Translator::free(const std::vector<std::string>& params, int64_t count) const {
  int64_t all = 0;
  for (const std::string& p : params) all = checked_add(all, left(p), "a parameter");
  return count > 0 && all >= count;
}

bool Translator::own(const std::vector<std::string>& params, int64_t count) {
  touched_.insert(params.begin(), params.end());
  if (!free(params, count)) return false;
  const auto one =
      std::find_if(params.begin(), params.end(), [&](const auto& p) { return left(p) >= count; });
  if (one != params.end()) {
    take(*one, count);
    return true;
  }
  for (const std::string& p : params) {
    const int64_t n = std::min(count, left(p));
    if (n > 0) take(p, n);
    count -= n;
  }
  return true;
}

Value Translator::with_weights(const Value& value, const std::vector<std::string>& params) {
  int64_t all = 0;
  touched_.insert(params.begin(), params.end());
  for (const std::string& p : params) all = checked_add(all, left(p), "a parameter");
  if (all == 0) return value;
  const Value x = whole(value);
  for (const std::string& p : params) {
    if (left(p) > 0) take(p, left(p));
  }
  return live(x.shape, emit("weights", {x.layer}, Shape(dims(x.layer)), {{"elements", all}}), x.strides);
}

const Shape* Translator::table(const Value& weight) const {
  if (weight.params.empty()) return nullptr;
  const auto found = tables_.find(weight.params[0]);
  return found == tables_.end() ? nullptr : &found->second;
}

void Translator::set_table(const Value& weight) { tables_.emplace(weight.params.at(0), weight.shape); }

/// The entry that made `value`, if it may own `weight` too.
Entry* Translator::owner_of(const Value& value, const Value& weight) {
  if (!value.once || !value.small.empty() || weight.params.size() != 1 || value.shape.empty()) return nullptr;
  Entry& entry = entries_[index_.at(value.layer)];
  if (entry.dims.empty() || entry.dims.back() != weight.size() || value.shape.back() != weight.size() ||
      left(weight.params[0]) != weight.size())
    return nullptr;
  const bool owner =
      std::none_of(entry.words.begin(), entry.words.end(), [](const auto& w) { return w.first == "shared"; });
  return owner ? &entry : nullptr;
}

bool Translator::bias(const Value& value, const Value& weight) {
  Entry* entry = owner_of(value, weight);
  if (entry == nullptr || (entry->type != "linear" && entry->type != "layer-norm")) return false;
  const auto none =
      std::find_if(entry->words.begin(), entry->words.end(), [](const auto& w) { return w.first == "bias"; });
  if (none == entry->words.end()) return false;
  entry->words.erase(none);
  touched_.insert(weight.params[0]);
  owned_[weight.params[0]] += weight.size();
  entry->owns.emplace_back(weight.params[0], weight.size());
  return true;
}

bool Translator::scale(const Value& value, const Value& weight) {
  Entry* entry = owner_of(value, weight);
  if (entry == nullptr || (entry->type != "rms-norm" && entry->type != "layer-norm")) return false;
  const auto none = std::find_if(entry->words.begin(), entry->words.end(),
                                 [](const auto& w) { return w.first == "affine"; });
  if (none == entry->words.end()) return false;
  entry->words.erase(none);
  if (entry->type == "layer-norm") entry->words.emplace_back("bias", false);
  touched_.insert(weight.params[0]);
  owned_[weight.params[0]] += weight.size();
  entry->owns.emplace_back(weight.params[0], weight.size());
  return true;
}

std::string Translator::add_input(const std::string& wanted, Shape shape) {
  std::string name;
  for (const char c : wanted.substr(0, 60)) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    name += fine ? c : '_';
  }
  if (name.empty()) name = "input";
  while (index_.count(name) != 0) name += '_';
  index_[name] = entries_.size();
  entries_.push_back({"", name, {}, shape, {}, {}});
  inputs_.emplace(name, std::move(shape));
  return name;
}

}  // namespace tandem::models::onnx
