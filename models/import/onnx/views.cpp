// SPDX-License-Identifier: Apache-2.0
// Operators that move, choose or rename elements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

/// The strides under which elements laid out by `strides` have the shape `to` without a copy: dimensions that
/// lie in one row may be divided and joined.
std::optional<Shape> view_strides(const Shape& from, const Shape& strides, const Shape& to) {
  if (elements(from) == 0) return contiguous(to);
  Shape out(to.size(), 1);
  std::size_t next = to.size();
  int64_t inside = 1, covered = 1, base = from.empty() ? 1 : strides.back();
  for (std::size_t d = from.size(); d-- > 0;) {
    inside *= from[d];
    if (d > 0 && (from[d - 1] == 1 || strides[d - 1] == inside * base)) continue;
    while (next > 0 && (covered < inside || to[next - 1] == 1)) {
      --next;
      out[next] = covered * base;
      covered *= to[next];
    }
    if (covered != inside) return {};
    if (d > 0) base = strides[d - 1];
    inside = covered = 1;
  }
  return out;
}

Values viewed(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  const std::optional<Shape> strides = view_strides(x.shape, x.strides, c.out[0]);
  Value out = t.live(c.out[0], strides ? x.layer : t.copy(x).layer, strides.value_or(Shape{}));
  out.once = x.once;
  return {out};
}

Values identity(Translator&, const Call& c) { return {c.required(0)}; }

Shapes reshape_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  Shape out = c.opset > 0 && c.opset < 5 ? c.axes("shape", 1).value_or(Shape{}) : c.integers(1);
  int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (out[d] == 0 && c.integer("allowzero", 0) == 0) {
      if (d >= x.size()) refuse("keeps a dimension that its input does not have");
      out[d] = x[d];
    }
    if (out[d] == -1) {
      if (open) refuse("leaves two dimensions open");
      open = d;
    } else {
      known = product({known, out[d]});
    }
  }
  const int64_t all = elements(x);
  if (open) {
    if (known <= 0 || all % known != 0) refuse(fmt::format("cannot divide {} elements so", all));
    out[*open] = all / known;
  }
  if (elements(out) != all) refuse(fmt::format("makes {} of {} elements", models::to_text(out), all));
  return {out};
}

Shapes flatten_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  const int64_t axis = c.integer("axis", 1);
  const std::size_t at = axis == static_cast<int64_t>(x.size()) ? x.size() : axis_of(axis, x.size());
  return {{span(x, 0, at), span(x, at, x.size())}};
}

Shapes squeeze_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  const std::optional<Shape> axes = c.axes("axes", 1);
  std::vector<bool> gone(x.size(), false);
  if (!axes) {
    for (std::size_t d = 0; d < x.size(); ++d) gone[d] = x[d] == 1;
  } else {
    for (const int64_t axis : *axes) gone[axis_of(axis, x.size())] = true;
  }
  Shape out;
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (!gone[d]) out.push_back(x[d]);
    if (gone[d] && x[d] != 1) refuse(fmt::format("drops a dimension of {}", x[d]));
  }
  return {out};
}

Shapes unsqueeze_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  const Shape axes = c.axes("axes", 1).value_or(Shape{});
  if (axes.size() > 16) refuse("adds more than 16 dimensions");
  const std::size_t dims = x.size() + axes.size();
  std::vector<bool> added(dims, false);
  for (const int64_t axis : axes) added[axis_of(axis, dims)] = true;
  if (static_cast<std::size_t>(std::count(added.begin(), added.end(), true)) != axes.size())
    refuse("adds one dimension twice");
  Shape out(dims, 1);
  std::size_t next = 0;
  for (std::size_t d = 0; d < dims; ++d) {
    if (!added[d]) out[d] = x[next++];
  }
  return {out};
}

Shape order_of(const Call& c) {
  const std::size_t dims = c.required(0).shape.size();
  Shape order(dims);
  std::iota(order.rbegin(), order.rend(), 0);
  if (const AttributeProto* perm = c.attribute("perm"); perm != nullptr)
    order.assign(perm->ints().begin(), perm->ints().end());
  Shape sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t d = 0; d < std::max(dims, sorted.size()); ++d) {
    if (sorted.size() != dims || sorted[d] != static_cast<int64_t>(d))
      refuse(fmt::format("does not name each of {} dimensions once", dims));
  }
  return order;
}

Shapes transpose_shape(const Call& c) {
  Shape out;
  for (const int64_t d : order_of(c)) out.push_back(c.in[0]->shape[static_cast<std::size_t>(d)]);
  return {out};
}

Values transpose(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  Shape strides;
  for (const int64_t d : order_of(c)) strides.push_back(x.strides[static_cast<std::size_t>(d)]);
  Value out = t.live(c.out[0], x.layer, std::move(strides));
  out.once = x.once;
  return {out};
}

Shapes expand_shape(const Call& c) { return {broadcast_shape(c.required(0).shape, c.integers(1))}; }

Values expand(Translator& t, const Call& c) {
  const Value& x = c.required(0);
  if (elements(c.out[0]) == x.size()) return viewed(t, c);
  const Value all = t.whole(x);
  Value out = t.live(c.out[0], all.layer);
  out.small = all.shape;
  return {out};
}

Shapes tile_shape(const Call& c) {
  Shape out = c.required(0).shape;
  const Shape times = c.integers(1);
  if (times.size() != out.size()) refuse("repeats another number of dimensions than its input has");
  for (std::size_t d = 0; d < out.size(); ++d) out[d] = product({out[d], std::max<int64_t>(times[d], 0)});
  return {out};
}

struct Range {
  std::size_t axis = 0;
  int64_t begin = 0, count = 0, step = 1;
};

std::vector<Range> ranges_of(const Call& c) {
  const Shape& x = c.required(0).shape;
  const bool old = c.attribute("starts") != nullptr;
  const Shape starts = old ? *c.axes("starts", 1) : c.integers(1);
  const Shape ends = old && c.attribute("ends") != nullptr ? *c.axes("ends", 2) : c.integers(2);
  std::optional<Shape> axes = c.axes("axes", 3);
  Shape steps(starts.size(), 1);
  if (c.input(4) != nullptr) steps = c.integers(4);
  if (!axes) {
    axes.emplace(starts.size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (ends.size() != starts.size() || axes->size() != starts.size() || steps.size() != starts.size())
    refuse("has starts, ends, axes and steps of different numbers");
  std::vector<Range> out;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Range r;
    r.axis = axis_of((*axes)[i], x.size());
    r.step = std::clamp<int64_t>(steps[i], -INT32_MAX, INT32_MAX);
    const int64_t n = x[r.axis];
    if (r.step == 0) refuse("has a step of 0");
    const auto place = [&](int64_t at) {
      const int64_t low = r.step > 0 ? 0 : -1, high = r.step > 0 ? n : n - 1;
      return std::clamp(at < 0 ? at + n : at, low, std::max(high, low));
    };
    const int64_t begin = r.step > 0 ? place(starts[i]) : std::max<int64_t>(place(starts[i]), 0);
    const int64_t end = place(ends[i]);
    const int64_t reach = r.step > 0 ? end - begin : begin - end, pace = std::abs(r.step);
    r.count = reach <= 0 ? 0 : (reach + pace - 1) / pace;
    r.begin = begin;
    out.push_back(r);
  }
  return out;
}

Shapes slice_shape(const Call& c) {
  Shape out = c.required(0).shape;
  for (const Range& r : ranges_of(c)) out[r.axis] = r.count;
  return {out};
}

Values slice(Translator& t, const Call& c) {
  Value x = c.required(0);
  for (const Range& r : ranges_of(c)) {
    if (r.count == 0) refuse("gives an empty tensor");
    if (r.step != 1) return moved(t, c);
    x = cut(t, x, r.axis, r.begin, r.count);
  }
  return {x};
}

Shapes split_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  const std::size_t axis = axis_of(c.integer("axis", 0), x.size());
  std::optional<Shape> parts = c.axes("split", 1);
  const bool sequence = c.op == "SplitToSequence";
  const int64_t count = sequence ? x[axis] : std::max(c.node.output_size(), 1);
  if (sequence && parts && parts->size() == 1 && c.input(1)->shape.empty()) {
    const int64_t each = std::max<int64_t>((*parts)[0], 1);
    parts = Shape(static_cast<std::size_t>(std::min<int64_t>(x[axis] / each, 65536)), each);
    if (x[axis] % each != 0) parts->push_back(x[axis] % each);
  }
  if (!parts) {
    if (count > 65536) refuse("makes more than 65,536 parts");
    const int64_t each = (x[axis] + count - 1) / count;
    parts = Shape(static_cast<std::size_t>(count), each);
    if (!parts->empty()) parts->back() = x[axis] - each * (count - 1);
  }
  Shapes out;
  int64_t all = 0;
  for (const int64_t n : *parts) {
    if (n < 0 || n > x[axis]) refuse(fmt::format("has a part of {}", n));
    out.push_back(x);
    out.back()[axis] = n;
    all += n;
  }
  if (all != x[axis]) refuse(fmt::format("divides a dimension of {} into parts of {} in all", x[axis], all));
  return out;
}

Values split(Translator& t, const Call& c) {
  const std::size_t axis = axis_of(c.integer("axis", 0), c.in[0]->shape.size());
  Values out;
  int64_t begin = 0;
  for (const Shape& shape : c.out) {
    if (shape[axis] == 0) refuse("makes an empty part");
    out.push_back(cut(t, *c.in[0], axis, begin, shape[axis]));
    begin += shape[axis];
  }
  return out;
}

Values to_sequence(Translator& t, const Call& c) {
  Value out;
  out.parts = split(t, c);
  if (c.integer("keepdims", 1) == 0 && c.input(1) == nullptr) {
    const std::size_t axis = axis_of(c.integer("axis", 0), c.in[0]->shape.size());
    for (Value& part : out.parts) {
      part.shape.erase(part.shape.begin() + static_cast<std::ptrdiff_t>(axis));
      part.strides.erase(part.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    }
  }
  return {out};
}

Values sequence(Translator&, const Call& c) {
  Value out;
  for (std::size_t i = 0; i < c.in.size(); ++i) out.parts.push_back(c.required(i));
  return {out};
}

Shapes nothing(const Call&) { return {{}}; }

Values sequence_at(Translator&, const Call& c) {
  const Shape at = c.integers(1);
  if (at.size() != 1) refuse("takes one place");
  return {c.required(0).parts[axis_of(at[0], c.in[0]->parts.size())]};
}

Shape concat_shape(const std::vector<Shape>& parts, std::size_t axis) {
  Shape out = parts.at(0);
  out[axis] = 0;
  for (const Shape& part : parts) {
    if (part.size() != out.size()) refuse("joins tensors of different numbers of dimensions");
    for (std::size_t d = 0; d < out.size(); ++d) {
      if (d != axis && part[d] != out[d]) refuse("joins tensors that differ in other dimensions too");
    }
    out[axis] = checked_add(out[axis], part[axis], "a dimension");
  }
  return out;
}

Shapes concat_shapes(const Call& c) {
  std::vector<Shape> parts;
  for (std::size_t i = 0; i < c.in.size(); ++i) parts.push_back(c.required(i).shape);
  if (parts.empty()) refuse("joins nothing");
  return {concat_shape(parts, axis_of(c.integer("axis", 0), parts[0].size()))};
}

Values concat(Translator& t, const Call& c) {
  Values parts;
  for (const Value* v : c.in) parts.push_back(*v);
  return {joined(t, std::move(parts), axis_of(c.integer("axis", 0), c.out[0].size()), c.out[0])};
}

Values concat_sequence(Translator& t, const Call& c) {
  Values parts = c.required(0).parts;
  if (parts.empty()) refuse("joins nothing");
  Shapes shapes;
  const bool stacked = c.integer("new_axis", 0) != 0;
  const std::size_t axis = axis_of(c.integer("axis", 0), parts[0].shape.size() + (stacked ? 1 : 0));
  for (Value& part : parts) {
    if (stacked) {
      part = t.whole(part);
      part.shape.insert(part.shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
      part.strides = contiguous(part.shape);
    }
    shapes.push_back(part.shape);
  }
  return {joined(t, parts, axis, concat_shape(shapes, axis))};
}

struct Pads {
  Shape before, after;
};

Pads pads_of(const Call& c) {
  const std::size_t dims = c.required(0).shape.size();
  const Shape all = c.axes("pads", 1).value_or(Shape{});
  Shape axes(dims);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.input(3) != nullptr) axes = c.integers(3);
  if (all.size() != 2 * axes.size()) refuse("has pads of another number of dimensions than its input");
  Pads out{Shape(dims, 0), Shape(dims, 0)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t d = axis_of(axes[i], dims);
    out.before[d] = std::clamp<int64_t>(all[i], -INT32_MAX, INT32_MAX);
    out.after[d] = std::clamp<int64_t>(all[axes.size() + i], -INT32_MAX, INT32_MAX);
  }
  return out;
}

Shapes pad_shape(const Call& c) {
  Shape out = c.required(0).shape;
  const Pads pads = pads_of(c);
  for (std::size_t d = 0; d < out.size(); ++d) out[d] += pads.before[d] + pads.after[d];
  return {out};
}

Values pad(Translator& t, const Call& c) {
  if (c.required(0).kind != Kind::live) refuse("takes pads that depend on the sample");
  const Pads pads = pads_of(c);
  return {padded(t, *c.in[0], pads.before, pads.after)};
}

Values cast(Translator& t, const Call& c) { return {t.each(c.required(0), "none", 0)}; }

}  // namespace

Value cut(Translator& t, const Value& given, std::size_t axis, int64_t begin, int64_t count) {
  const int64_t n = given.shape[axis];
  if (count == n) return given;
  const Value x = t.whole(given);
  const int64_t outer = span(x.shape, 0, axis), inner = span(x.shape, axis + 1, x.shape.size());
  Shape form = outer == 1 && inner == 1 ? Shape{n}
               : outer == 1             ? Shape{n, inner}
               : inner == 1             ? Shape{outer, n}
                                        : Shape{outer, n, inner};
  const std::size_t at = outer == 1 ? 0 : 1;
  const std::string source = t.as_shape(x, form);
  form[at] = count;
  Shape shape = x.shape;
  shape[axis] = count;
  return t.live(shape,
                t.emit("slice", {source}, form,
                       {{"axis", static_cast<int64_t>(at)}, {"begin", begin}, {"end", begin + count}}),
                x.strides);
}

Value joined(Translator& t, std::vector<Value> parts, std::size_t axis, const Shape& shape) {
  parts.erase(std::remove_if(parts.begin(), parts.end(), [](const Value& v) { return v.size() == 0; }),
              parts.end());
  const auto like =
      std::find_if(parts.begin(), parts.end(), [](const Value& v) { return v.kind == Kind::live; });
  if (like == parts.end()) refuse("joins nothing that has elements");
  const Value first = *like;
  const int64_t outer = span(shape, 0, axis), inner = span(shape, axis + 1, shape.size());
  const Value& head = parts[0];
  if (parts.size() == 2 && head.kind == Kind::learned && outer == 1 && head.size() == inner &&
      head.params.size() == 1 && t.left(head.params[0]) == inner && t.stored(head.params[0]) == inner) {
    const int64_t rows = parts[1].size() / inner;
    const std::string source = t.as_shape(parts[1], {rows, inner});
    t.own(head.params, inner);
    return t.live(shape, t.emit("cls-token", {source}, {rows + 1, inner}));
  }
  for (Value& part : parts) part = t.as_live(part, first);
  if (parts.size() == 1) return t.live(shape, t.copy(parts[0]).layer);
  const auto form = [&](int64_t size) {
    return outer == 1   ? Shape{size / inner, inner}
           : inner == 1 ? Shape{outer, size / outer}
                        : Shape{outer, size / (outer * inner), inner};
  };
  std::vector<std::string> sources;
  for (const Value& part : parts) sources.push_back(t.as_shape(part, form(part.size())));
  return t.live(shape, t.emit("concat", sources, form(elements(shape)), {{"axis", outer == 1 ? 0 : 1}}));
}

Value padded(Translator& t, const Value& given, const Shape& before, const Shape& after) {
  Value x = t.whole(given);
  Shape changed, shape = x.shape;
  bool even = true;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (before[d] != 0 || after[d] != 0) changed.push_back(static_cast<int64_t>(d));
    even = even && before[d] == after[d] && before[d] >= 0;
    shape[d] += before[d] + after[d];
    if (shape[d] < 1 || before[d] <= -x.shape[d] || after[d] <= -x.shape[d]) refuse("gives an empty tensor");
  }
  if (changed.empty()) return t.live(shape, t.copy(x).layer);
  const auto first = static_cast<std::size_t>(changed[0]);
  if (even && first > 0 && shape.size() - first <= 3) {
    Shape form{span(x.shape, 0, first)}, amount(before.begin() + changed[0], before.end());
    form.insert(form.end(), x.shape.begin() + changed[0], x.shape.end());
    const std::string source = t.as_shape(x, form);
    for (std::size_t d = 1; d < form.size(); ++d) form[d] += 2 * amount[d - 1];
    JsonWriter list = JsonWriter::array();
    for (const int64_t n : amount) list.push_back(n);
    return t.live(shape, t.emit("pad", {source}, form, {{"amount", list}}));
  }
  for (const int64_t axis : changed) {
    const auto d = static_cast<std::size_t>(axis);
    const int64_t skip = std::max<int64_t>(-before[d], 0);
    const int64_t kept = x.shape[d] - skip - std::max<int64_t>(-after[d], 0);
    if (kept < 1) refuse("gives an empty tensor");
    x = cut(t, x, d, skip, kept);
    const int64_t more = std::max<int64_t>(before[d], 0) + std::max<int64_t>(after[d], 0);
    if (more == 0) continue;
    Value fill;
    fill.shape = x.shape;
    fill.shape[d] = more;
    Shape wide = x.shape;
    wide[d] += more;
    x = joined(t, {x, fill}, d, wide);
  }
  return t.live(shape, x.layer);
}

void add_views(Operators& table) {
  table["Identity"] = {as_first, identity};
  table["Reshape"] = {reshape_shape, viewed};
  table["Flatten"] = {flatten_shape, viewed};
  table["Squeeze"] = {squeeze_shape, viewed};
  table["Unsqueeze"] = {unsqueeze_shape, viewed};
  table["Transpose"] = {transpose_shape, transpose};
  table["Expand"] = {expand_shape, expand};
  table["Tile"] = {tile_shape, moved};
  table["Cast"] = {as_first, cast};
  table["CastLike"] = {as_first, identity};
  table["Slice"] = {slice_shape, slice};
  table["Split"] = {split_shape, split};
  table["SplitToSequence"] = {split_shape, to_sequence};
  table["SequenceConstruct"] = {nothing, sequence};
  table["SequenceAt"] = {nothing, sequence_at};
  table["ConcatFromSequence"] = {nothing, concat_sequence};
  table["Concat"] = {concat_shapes, concat};
  table["Pad"] = {pad_shape, pad};
}

}  // namespace tandem::models::onnx
