// SPDX-License-Identifier: Apache-2.0
// Operators that look elements up, and those that give shapes, places and ranges.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

/// Elements at other places, fewer or more of them: a copy.
std::vector<Value> moved(Translator& t, const Call& c) {
  const auto live = std::find_if(c.in.begin(), c.in.end(), [](const Value* v) {
    return v != nullptr && v->kind == Kind::live && v->floating;
  });
  if (live == c.in.end()) refuse("chooses among constants by what depends on the sample");
  const Value x = t.whole(**live);
  const int64_t size = elements(c.out[0]);
  if (size == 0) refuse("gives an empty tensor");
  std::string name;
  if (size == x.size()) {
    name = t.copy(x).layer;
  } else if (size > x.size() && size % x.size() == 0) {
    const int64_t times = size / x.size();
    JsonWriter factor = JsonWriter::array();
    factor.push_back(1);
    factor.push_back(times);
    name = t.emit("upsample", {t.as_shape(x, {1, x.size(), 1})}, {1, x.size(), times}, {{"factor", factor}});
  } else {
    name = t.copy(t.live({size}, t.filler(x, size))).layer;
  }
  Value out = t.live(c.out[0], name);
  for (const Value* v : c.in) {
    if (v != nullptr && v->kind == Kind::learned) out = t.with_weights(out, v->params);
  }
  Values all(c.out.size());
  for (std::size_t i = 1; i < all.size(); ++i) {
    all[i].shape = c.out[i];
    all[i].sources = {"?"};
  }
  all[0] = out;
  return all;
}

namespace {

Shapes single(const Call&) { return {{}}; }

Shapes gather_shape(const Call& c) {
  const Shape &x = c.required(0).shape, &places = c.required(1).shape;
  const auto axis = static_cast<std::ptrdiff_t>(axis_of(c.integer("axis", 0), x.size()));
  Shape out(x.begin(), x.begin() + axis);
  out.insert(out.end(), places.begin(), places.end());
  out.insert(out.end(), x.begin() + axis + 1, x.end());
  return {out};
}

Values embedding(Translator& t, const Call& c) {
  const Value &table = *c.in[0], &words = *c.in[1];
  const int64_t tokens = words.size(), width = table.size() / std::max<int64_t>(table.shape[0], 1);
  std::string source;
  for (const std::string& s : words.sources) {
    const auto found = t.inputs().find(s);
    if (source.empty() && found != t.inputs().end() && elements(found->second) == tokens) source = s;
  }
  if (source.empty()) source = t.add_input("indices", {tokens});
  if (t.dims(source) != Shape{tokens}) source = t.as_shape(t.live({tokens}, source), {tokens});
  Words attributes{{"vocabulary", table.shape[0]}, {"width", width}};
  if (!t.own(table.params, table.size())) attributes.emplace_back("shared", true);
  t.set_table(table);
  return {t.live(c.out[0], t.emit("embedding", {source}, {tokens, width}, attributes))};
}

Values gather(Translator& t, const Call& c) {
  const Value &x = *c.in[0], &places = *c.in[1];
  const std::size_t axis = axis_of(c.integer("axis", 0), x.shape.size());
  if (x.kind == Kind::learned) {
    if (axis == 0 && places.kind == Kind::constant) return embedding(t, c);
    refuse("chooses learned elements by what depends on the sample");
  }
  if (x.kind != Kind::live || !places.numbers || places.size() != 1) return moved(t, c);
  Value one =
      cut(t, x, axis,
          static_cast<int64_t>(axis_of(c.integers(1)[0], static_cast<std::size_t>(x.shape[axis]))), 1);
  if (places.shape.empty()) {
    one.shape.erase(one.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    one.strides.erase(one.strides.begin() + static_cast<std::ptrdiff_t>(axis));
    return {one};
  }
  return {t.live(c.out[0], one.layer)};
}

// ---- of shapes alone, and places

Shapes shape_shape(const Call& c) {
  const auto dims = static_cast<int64_t>(c.required(0).shape.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + dims : at, 0, dims); };
  return {{std::max<int64_t>(place(c.integer("end", dims)) - place(c.integer("start", 0)), 0)}};
}

Shapes constant_shape(const Call& c) {
  for (const AttributeProto& a : c.node.attribute()) {
    if (a.name() == "value") return {Shape(a.t().dims().begin(), a.t().dims().end())};
    if (a.name() == "value_int" || a.name() == "value_float") return {{}};
    if (a.name() == "value_ints") return {{a.ints_size()}};
    if (a.name() == "value_floats") return {{a.floats_size()}};
  }
  refuse("holds no numbers");
}

Shapes constant_of_shape(const Call& c) { return {c.integers(0)}; }

Shapes range_shape(const Call& c) {
  double ends[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const Value& v = c.required(i);
    if (!v.numbers || v.numbers->size() != 1) refuse("has ends that depend on the data");
    ends[i] = (*v.numbers)[0];
  }
  const double count = std::ceil((ends[1] - ends[0]) / ends[2]);
  if (!(count < 1e9)) refuse("has no end");
  return {{count > 0 ? static_cast<int64_t>(count) : 0}};
}

Shapes one_hot_shape(const Call& c) {
  Shape out = c.required(0).shape;
  const Shape depth = c.integers(1);
  const std::size_t axis = axis_of(c.integer("axis", -1), out.size() + 1);
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis), depth.empty() ? 0 : depth[0]);
  return {out};
}

Shapes as_second(const Call& c) { return {c.required(1).shape}; }

Shapes gather_nd_shape(const Call& c) {
  const Shape &x = c.required(0).shape, &places = c.required(1).shape;
  const int64_t batch = c.integer("batch_dims", 0), deep = places.empty() ? 0 : places.back();
  if (places.empty() || batch < 0 || deep < 1 || batch + deep > static_cast<int64_t>(x.size()))
    refuse("has places of more dimensions than its input has");
  Shape out(places.begin(), places.end() - 1);
  out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(batch + deep), x.end());
  return {out};
}

Shapes depth_shape(const Call& c) {
  Shape out = c.required(0).shape;
  const int64_t block = c.integer("blocksize", 0);
  if (out.size() != 4 || block < 1 || block > 65536) refuse("is of images with a blocksize");
  const bool deeper = c.op == "SpaceToDepth";
  out[1] = deeper ? product({out[1], block, block}) : out[1] / (block * block);
  for (const std::size_t d : {2, 3}) out[d] = deeper ? out[d] / block : product({out[d], block});
  return {out};
}

Shapes top_shape(const Call& c) {
  Shape out = c.required(0).shape;
  const Shape count = c.axes("k", 1).value_or(Shape{});
  if (count.size() != 1) refuse("takes one number of elements");
  out[axis_of(c.integer("axis", -1), out.size())] = count[0];
  return {out, out};
}

}  // namespace

void add_places(Operators& table) {
  table["Gather"] = {gather_shape, gather};
  table["GatherElements"] = {as_second, moved};
  table["GatherND"] = {gather_nd_shape, moved};
  table["ScatterND"] = table["ScatterElements"] = table["Trilu"] = table["ReverseSequence"] =
      Operator{as_first, moved};
  table["DepthToSpace"] = table["SpaceToDepth"] = Operator{depth_shape, moved};
  table["TopK"] = {top_shape, moved};
  table["Shape"] = {shape_shape, nullptr, true};
  table["Size"] = {single, nullptr, true};
  table["OneHot"] = {one_hot_shape, nullptr, true};
  table["Constant"] = {constant_shape, nullptr};
  table["ConstantOfShape"] = {constant_of_shape, nullptr};
  table["Range"] = {range_shape, nullptr};
}

}  // namespace tandem::models::onnx
