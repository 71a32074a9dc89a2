// SPDX-License-Identifier: Apache-2.0
// Operators of each element by itself, and of two tensors element by element.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

/// A layer that keeps its input's shape and layout.
Values named(Translator& t, const Value& given, std::string_view type, Words words = {}) {
  const Value x = t.whole(given);
  return {t.live(x.shape, t.emit(type, {x.layer}, Shape(t.dims(x.layer)), std::move(words)), x.strides)};
}

struct Activation {
  std::string_view op, type;
};
constexpr Activation kActivations[] = {{"Sigmoid", "sigmoid"},
                                       {"Tanh", "tanh"},
                                       {"HardSwish", "hard-swish"},
                                       {"HardSigmoid", "hard-sigmoid"},
                                       {"Softplus", "softplus"},
                                       {"Swish", "swish"},
                                       {"Gelu", "gelu"}};

Values activation(Translator& t, const Call& c) {
  for (const Activation& a : kActivations) {
    if (a.op == c.op) return named(t, c.required(0), a.type);
  }
  return {};
}

/// In place where nothing else reads the input, as modules of vision are written.
Values relu(Translator& t, const Call& c) {
  if (c.required(0).once) return named(t, *c.in[0], "relu");
  return {t.each(*c.in[0], "output")};
}

Values two_operations(Translator& t, const Call& c) {
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    if (c.in[i] != nullptr && c.in[i]->kind == Kind::live) refuse("has a bound that depends on the sample");
  }
  Value x = c.required(0);
  if (c.op == "PRelu" && c.required(1).kind == Kind::learned) x = t.with_weights(x, c.in[1]->params);
  return {t.each(x, "input", 2)};
}

struct Unary {
  std::string_view op, keeps;
  int64_t flops;
};
constexpr Unary kUnary[] = {{"Neg", "none", 1},        {"Exp", "output", 4},
                            {"Sqrt", "output", 4},     {"Reciprocal", "output", 4},
                            {"Abs", "input", 1},       {"Sin", "input", 4},
                            {"Cos", "input", 4},       {"Tan", "input", 4},
                            {"Sinh", "input", 4},      {"Cosh", "input", 4},
                            {"Atan", "input", 4},      {"Log", "input", 4},
                            {"Erf", "input", 4},       {"Sign", "none", 1},
                            {"Floor", "none", 1},      {"Ceil", "none", 1},
                            {"Round", "none", 1},      {"CumSum", "none", 1},
                            {"Elu", "input", 4},       {"Selu", "output", 4},
                            {"Celu", "input", 4},      {"Mish", "input", 4},
                            {"Softsign", "input", 4},  {"Shrink", "input", 4},
                            {"LeakyRelu", "input", 2}, {"ThresholdedRelu", "input", 2}};

Values unary(Translator& t, const Call& c) {
  if (c.required(0).kind != Kind::live) refuse("reads a constant together with what depends on the sample");
  for (const Unary& u : kUnary) {
    if (u.op == c.op) return {t.each(*c.in[0], u.keeps, u.flops)};
  }
  return {};
}

Values dropout(Translator& t, const Call& c) {
  double p = c.real("ratio", 0.5);
  if (const Value* ratio = c.input(1); ratio != nullptr && ratio->numbers && ratio->numbers->size() == 1)
    p = (*ratio->numbers)[0];
  Value out = c.required(0);
  if (p > 0) out = named(t, out, "dropout", {{"p", std::min(p, 0.999)}})[0];
  Value mask;
  mask.shape = out.shape;
  mask.floating = false;
  mask.sources = {"?"};
  return {out, mask};
}

Shapes broadcast_shapes(const Call& c) {
  Shape out = c.required(0).shape;
  for (std::size_t i = 1; i < c.in.size(); ++i) out = broadcast_shape(out, c.required(i).shape);
  return {out};
}

bool sums(std::string_view op) { return op == "Add" || op == "Sub" || op == "Sum" || op == "Mean"; }
bool chooses(std::string_view op) { return op == "Where" || op == "Max" || op == "Min"; }

/// The learned factor of each feature as a "scale" layer, if the factors are of one dimension.
std::optional<Value> scaled(Translator& t, const Value& x, const Value& w) {
  Shape inside = w.shape;
  if (inside.size() > x.shape.size()) return {};
  inside.insert(inside.begin(), x.shape.size() - inside.size(), 1);
  std::optional<std::size_t> wide;
  for (std::size_t d = 0; d < inside.size(); ++d) {
    if (inside[d] == 1) continue;
    if (wide) return {};
    wide = d;
  }
  if (!wide) return {};
  const int64_t n = inside[*wide], after = span(x.shape, *wide + 1, x.shape.size());
  Shape form;
  if (after == 1) {
    form = x.size() == n ? Shape{n} : Shape{x.size() / n, n};
  } else if (span(x.shape, 0, *wide) == 1) {
    form = {n, after, 1};
  } else {
    return {};
  }
  const std::string source = t.as_shape(x, form);
  t.own(w.params, n);
  return t.live(x.shape, t.emit("scale", {source}, form, after > 1 ? Words{{"axis", 0}} : Words{}));
}

/// A matrix for all heads that is added to scores: their mask, where its numbers are in another file.
bool masks(const Call& c, const Value& x, const Value& w) {
  const std::size_t dims = w.shape.size(), all = x.shape.size();
  return c.op == "Add" && x.part.what == "scores" && dims >= 2 && all >= dims &&
         w.size() == product({w.shape[dims - 2], w.shape[dims - 1]}) &&
         w.shape[dims - 1] == x.shape[all - 1] && w.shape[dims - 2] == x.shape[all - 2];
}

Value with_learned(Translator& t, const Call& c, const Value& x, const Value& w) {
  const bool free = w.params.size() == 1 && t.left(w.params[0]) == t.stored(w.params[0]);
  if (masks(c, x, w)) return t.each(x);
  if ((c.op == "Add" && t.bias(x, w)) || (c.op == "Mul" && t.scale(x, w))) return x;
  if (c.op == "Mul" && free && w.size() == t.stored(w.params[0])) {
    if (const std::optional<Value> out = scaled(t, x, w)) return *out;
  }
  Shape shape = x.shape;
  while (shape.size() > 1 && shape[0] == 1) shape.erase(shape.begin());
  if (c.op == "Add" && free && w.size() == x.size() && shape.size() > 1) {
    const int64_t width = x.size() / shape[0], all = t.stored(w.params[0]);
    if (all % width == 0 && all >= x.size()) {
      const std::string source = t.as_shape(x, {shape[0], width});
      t.own(w.params, all);
      Words words;
      if (all / width != shape[0]) words.emplace_back("length", all / width);
      return t.live(x.shape, t.emit("position-embedding", {source}, {shape[0], width}, words));
    }
  }
  const Value beside = t.with_weights(x, w.params);
  return t.each(beside, sums(c.op) || chooses(c.op) ? "none" : "input");
}

/// A power with a constant, or a live value with constants.
Value with_constant(Translator& t, const Call& c, const Value& x) {
  const bool last = c.in.back() != nullptr && c.in.back()->kind == Kind::live;
  const Value* other = last ? c.in[0] : c.in.back();
  if (c.op == "Div" && last) return t.each(x, "input");
  if (c.op == "Pow") {
    const bool square = !last && other->numbers && other->numbers->size() == 1 && (*other->numbers)[0] == 2;
    return t.each(x, last ? "output" : "input", square ? 1 : 4);
  }
  return t.each(x, c.op == "Max" || c.op == "Min" ? "input" : "none");
}

Values binary(Translator& t, const Call& c) {
  Values lives;
  std::vector<const Value*> learned;
  for (std::size_t i = c.op == "Where" ? 1 : 0; i < c.in.size(); ++i) {
    const Value& v = c.required(i);
    if (v.kind == Kind::live) lives.push_back(v);
    // Factors and epsilons are single numbers that exporters write as initializers.
    if (v.kind == Kind::learned && v.size() > 1) learned.push_back(&v);
  }
  const Shape& shape = c.out[0];
  if (lives.empty()) {  // Where chooses among constants by what depends on the sample
    Value out;
    out.shape = shape;
    out.sources = {"?"};
    return {out};
  }
  Value out;
  const bool sum = sums(c.op) || chooses(c.op);
  if (lives.size() > 1) {
    if (lives.size() == 2 && c.in.size() == 2 && c.in[0] == c.in[1] && !sum)
      return {t.each(lives[0], "input")};
    out = met(t, sum ? "add" : "mul", lives, shape);
    if (chooses(c.op)) out = t.each(out, "mask");
    for (const Value* w : learned) out = t.with_weights(out, w->params);
    return {out};
  }
  out = t.broadcast(lives[0], shape);
  out.once = lives[0].once;
  if (c.op == "Add" && learned.empty()) {  // the bias of one feature
    for (const Value* v : c.in) {
      if (v->kind == Kind::constant && !v->params.empty() && t.bias(out, *v)) return {out};
    }
  }
  for (const Value* w : learned) out = with_learned(t, c, out, *w);
  return {learned.empty() ? with_constant(t, c, out) : out};
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape out = a.size() >= b.size() ? a : b;
  const Shape& small = a.size() >= b.size() ? b : a;
  const std::size_t skip = out.size() - small.size();
  for (std::size_t d = 0; d < small.size(); ++d) {
    int64_t& n = out[skip + d];
    if (n == 1) n = small[d];
    if (small[d] != n && small[d] != 1)
      refuse(fmt::format("takes tensors that do not fit: {} and {}", models::to_text(a), models::to_text(b)));
  }
  return out;
}

Value met(Translator& t, std::string_view type, Values values, const Shape& shape) {
  std::stable_sort(values.begin(), values.end(),
                   [](const Value& a, const Value& b) { return a.size() > b.size(); });
  const int64_t total = elements(shape);
  const Value first = values[0].size() < total ? t.broadcast(values[0], shape) : t.whole(values[0]);
  const bool equal =
      std::all_of(values.begin() + 1, values.end(), [&](const Value& v) { return v.size() == total; });
  const Shape form = t.dims(first.layer);
  std::vector<std::string> sources{first.layer};
  if (equal) {
    for (std::size_t i = 1; i < values.size(); ++i) sources.push_back(t.as_shape(values[i], form));
    Shape strides = first.strides.size() == shape.size() ? first.strides : Shape{};
    return t.live(shape, t.emit(type, sources, form), std::move(strides));
  }
  std::vector<Shape> merged(
      values.size());  // neighbours that are both broadcast, or both not, become one dimension
  std::vector<bool> before;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    std::vector<bool> alike;
    Shape sizes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      Shape small = i == 0 ? shape : values[i].small.empty() ? values[i].shape : values[i].small;
      small.insert(small.begin(), shape.size() - small.size(), 1);
      alike.push_back(small[d] == shape[d]);
      sizes.push_back(small[d]);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (alike == before) {
        merged[i].back() *= sizes[i];
      } else {
        merged[i].push_back(sizes[i]);
      }
    }
    before = alike;
  }
  sources = {t.as_shape(first, merged[0])};
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Shape small = values[i].small.empty() ? values[i].shape : values[i].small;
    sources.push_back(t.as_shape(t.live(small, values[i].layer), merged[i]));
  }
  return t.live(shape, t.emit(type, sources, merged[0]));
}

void add_elementwise(Operators& table) {
  for (const Activation& a : kActivations) table[a.op] = {as_first, activation};
  for (const Unary& u : kUnary) table[u.op] = {as_first, unary};
  table["Relu"] = {as_first, relu};
  table["Clip"] = table["PRelu"] = Operator{as_first, two_operations};
  table["Dropout"] = {as_first, dropout};
  for (const std::string_view op :
       {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "Mod", "Where"})
    table[op] = {broadcast_shapes, binary};
  for (const std::string_view op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or",
                                    "Xor", "BitwiseAnd", "BitwiseOr"})
    table[op] = {broadcast_shapes, nullptr, true};
  for (const std::string_view op : {"Not", "IsNaN", "IsInf", "Bernoulli"})
    table[op] = {as_first, nullptr, true};
  for (const std::string_view op : {"RandomNormalLike", "RandomUniformLike"})
    table[op] = {as_first, nullptr, true};
}

}  // namespace tandem::models::onnx
