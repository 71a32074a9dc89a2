// SPDX-License-Identifier: Apache-2.0
// Means, softmax and norms.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

Shape reduced_axes(const Call& c) {
  const std::size_t dims = c.required(0).shape.size();
  Shape axes = c.axes("axes", 1).value_or(Shape{});
  if (axes.empty() && c.integer("noop_with_empty_axes", 0) == 0) {
    axes.resize(dims);
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = static_cast<int64_t>(axis_of(axis, dims));
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

Shape without(const Shape& shape, const Shape& axes, bool keep) {
  Shape out;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (!gone) out.push_back(shape[d]);
    if (gone && keep) out.push_back(1);
  }
  return out;
}

Shapes reduced_shape(const Call& c) {
  return {without(c.required(0).shape, reduced_axes(c), c.integer("keepdims", 1) != 0)};
}

Values reduction(Translator& t, const Call& c) {
  Value x = c.required(0);
  if (c.op != "ReduceMean" && c.op != "ReduceSum")
    x = t.each(x, c.op == "ReduceMax" || c.op == "ReduceMin" ? "none" : "input", 2);
  return {reduced(t, x, reduced_axes(c), c.out[0])};
}

Shapes found_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  const Shape axis{static_cast<int64_t>(axis_of(c.integer("axis", 0), x.size()))};
  return {without(x, axis, c.integer("keepdims", 1) != 0)};
}

Shapes global_shape(const Call& c) {
  Shape out = c.required(0).shape;
  if (out.size() < 3) refuse("is of images");
  std::fill(out.begin() + 2, out.end(), 1);
  return {out};
}

Values global_pool(Translator& t, const Call& c) {
  Shape axes(c.required(0).shape.size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  const Value x = c.op == "GlobalMaxPool" ? t.each(*c.in[0], "input") : *c.in[0];
  return {reduced(t, x, axes, c.out[0])};
}

Values softmax(Translator& t, const Call& c) {
  const Value& x = c.required(0);
  const bool old = c.opset > 0 && c.opset < 13;
  const std::size_t axis = axis_of(c.integer("axis", old ? 1 : -1), x.shape.size());
  return {softmaxed(t, x, axis)};
}

// ---- norms

bool is_learned(const Value* v) { return v != nullptr && v->kind == Kind::learned; }

/// Whether a norm's scale and shift are an earlier layer's: words for it, and what it owns is taken.
Words affine(Translator& t, const Value* scale, const Value* shift, bool may_lack_shift) {
  Words words;
  if (!is_learned(scale) && !is_learned(shift)) {
    words.emplace_back("affine", false);
    return words;
  }
  const bool owns = (!is_learned(scale) || t.free(scale->params, scale->size())) &&
                    (!is_learned(shift) || t.free(shift->params, shift->size()));
  for (const Value* v : {scale, shift}) {
    if (owns && is_learned(v)) t.own(v->params, v->size());
  }
  if (!is_learned(shift) && may_lack_shift) words.emplace_back("bias", false);
  if (!owns) words.emplace_back("shared", true);
  return words;
}

void check_constant(const Value* v) {
  if (v != nullptr && v->kind == Kind::live) refuse("has a scale that depends on the sample");
}

Shapes batch_norm_shape(const Call& c) {
  Shapes out(static_cast<std::size_t>(std::max(c.node.output_size(), 1)), c.required(1).shape);
  out[0] = c.required(0).shape;
  return out;
}

Values batch_norm(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  check_constant(c.input(1));
  if (x.shape.empty()) refuse("is of channels");
  const std::size_t at = x.shape.size() > 1 ? 1 : 0;
  const int64_t channels = x.shape[at];
  Shape form{channels};
  const int64_t frames = span(x.shape, 0, at);
  if (frames == 1) {
    form.insert(form.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(at) + 1, x.shape.end());
  } else {
    form.push_back(x.size() / channels);
  }
  const std::string source = t.as_shape(x, form);
  const Words words = affine(t, c.input(1), c.input(2), false);
  Values out(c.out.size());
  out[0] = t.live(x.shape, t.emit("batch-norm", {source}, form, words));
  for (std::size_t i = 1; i < out.size(); ++i) out[i].shape = c.out[i];
  return out;
}

Values instance_norm(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  check_constant(c.input(1));
  if (x.shape.size() < 3) refuse("is of images");
  const int64_t channels = x.shape[1];
  if (is_learned(c.input(1))) {
    const std::string source = t.as_shape(x, {channels, x.size() / channels, 1});
    Words words = affine(t, c.input(1), c.input(2), false);
    words.emplace_back("groups", channels);
    return {t.live(x.shape, t.emit("group-norm", {source}, {channels, x.size() / channels, 1}, words))};
  }
  const int64_t rows = channels * x.shape[0];
  const std::string source = t.as_shape(x, {rows, x.size() / rows});
  return {t.live(x.shape, t.emit("layer-norm", {source}, {rows, x.size() / rows}, {{"affine", false}}))};
}

Shapes layer_norm_shape(const Call& c) {
  Shape stats = c.required(0).shape;
  const std::size_t axis = axis_of(c.integer("axis", -1), stats.size());
  std::fill(stats.begin() + static_cast<std::ptrdiff_t>(axis), stats.end(), 1);
  Shapes out(static_cast<std::size_t>(std::max(c.node.output_size(), 1)), stats);
  out[0] = c.required(0).shape;
  return out;
}

Values layer_norm(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  check_constant(c.input(1));
  const std::size_t axis = axis_of(c.integer("axis", -1), x.shape.size());
  const int64_t width = span(x.shape, axis, x.shape.size());
  const Shape form = x.size() == width ? Shape{width} : Shape{x.size() / width, width};
  const std::string source = t.as_shape(x, form);
  const bool rms = c.op == "RMSNormalization";
  const Words words = affine(t, c.input(1), rms ? nullptr : c.input(2), !rms);
  Values out(c.out.size());
  out[0] = t.live(x.shape, t.emit(rms ? "rms-norm" : "layer-norm", {source}, form, words));
  for (std::size_t i = 1; i < out.size(); ++i) out[i] = t.live(c.out[i], t.filler(x, elements(c.out[i])));
  return out;
}

Values group_norm(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  check_constant(c.input(1));
  if (x.shape.size() < 3) refuse("is of images");
  const int64_t channels = x.shape[1], groups = c.integer("num_groups", 1);
  const Shape form{channels, x.size() / channels};
  const std::string source = t.as_shape(x, form);
  Words words = affine(t, c.input(1), c.input(2), false);
  words.emplace_back("groups", groups);
  return {t.live(x.shape, t.emit("group-norm", {source}, form, words))};
}

Values lrn(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  return {
      t.live(x.shape, t.emit("lrn", {x.layer}, Shape(t.dims(x.layer)), {{"window", c.integer("size", 5)}}))};
}

Values lp_norm(Translator& t, const Call& c) {
  const Value x = t.each(c.required(0), "input", 2);
  return {t.each(x, "input", 2)};
}

}  // namespace

Value reduced(Translator& t, const Value& given, const Shape& axes, const Shape& shape) {
  Value x = t.whole(given);
  Shape left = axes, now = x.shape;
  left.erase(std::remove_if(left.begin(), left.end(),
                            [&](int64_t d) { return now[static_cast<std::size_t>(d)] == 1; }),
             left.end());
  while (!left.empty()) {
    int64_t first = left.back();
    const int64_t last = first;
    left.pop_back();
    while (!left.empty() && left.back() == first - 1) {
      first = left.back();
      left.pop_back();
    }
    const auto from = static_cast<std::size_t>(first), to = static_cast<std::size_t>(last) + 1;
    const int64_t outer = span(now, 0, from), n = span(now, from, to), inner = span(now, to, now.size());
    const auto wide = std::count_if(now.begin(), now.begin() + first, [](int64_t d) { return d > 1; });
    std::string layer;
    if (inner == 1 && wide == 1 && to - from > 1) {
      Shape form{outer};
      form.insert(form.end(), now.begin() + first, now.begin() + last + 1);
      layer = t.emit("global-pool", {t.as_shape(x, form)}, {outer});
    } else {
      Shape form{n}, result;
      if (outer > 1) form.insert(form.begin(), outer), result.push_back(outer);
      if (inner > 1) form.push_back(inner), result.push_back(inner);
      layer = t.emit("mean", {t.as_shape(x, form)}, result, {{"axis", outer > 1 ? 1 : 0}});
    }
    std::fill(now.begin() + first, now.begin() + last + 1, 1);
    x = t.live(now, layer);
  }
  return t.live(shape, x.layer);
}

Value softmaxed(Translator& t, const Value& given, std::size_t axis) {
  const Value x = t.whole(given);
  const int64_t n = x.shape[axis];
  const std::string source = t.as_shape(x, {x.size() / n, n});
  return t.live(x.shape, t.emit("softmax", {source}, {x.size() / n, n}));
}

void add_reductions(Operators& table) {
  for (const std::string_view op :
       {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
    table[op] = {reduced_shape, reduction};
  table["ArgMax"] = table["ArgMin"] = Operator{found_shape, nullptr, true};
  table["GlobalAveragePool"] = table["GlobalMaxPool"] = Operator{global_shape, global_pool};
  table["Softmax"] = table["LogSoftmax"] = Operator{as_first, softmax};
  table["BatchNormalization"] = {batch_norm_shape, batch_norm};
  table["InstanceNormalization"] = {as_first, instance_norm};
  table["LayerNormalization"] = table["RMSNormalization"] = Operator{layer_norm_shape, layer_norm};
  table["GroupNormalization"] = {as_first, group_norm};
  table["LRN"] = {as_first, lrn};
  table["LpNormalization"] = {as_first, lp_norm};
}

}  // namespace tandem::models::onnx
