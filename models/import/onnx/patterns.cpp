// SPDX-License-Identifier: Apache-2.0
// Layers that exporters write as several operators, known again: GELU and SiLU, layer norm and RMS norm. Each
// value remembers what of which layer it is; the layers that a recognised one replaces are then read by
// nobody.
#include <cmath>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

/// The one live input, or the first of two, and the number that it meets.
struct Operands {
  const Value* a = nullptr;
  const Value* b = nullptr;      ///< the second live one
  std::optional<double> number;  ///< of a constant, with one live input
  bool number_first = false;
};

Operands operands_of(const Call& c) {
  Operands out;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    const Value* v = c.in[i];
    if (v == nullptr) continue;
    if (v->kind == Kind::live) {
      (out.a == nullptr ? out.a : out.b) = v;
    } else if (v->numbers && v->numbers->size() == 1) {
      out.number = (*v->numbers)[0];
      out.number_first = i == 0;
    }
  }
  return out;
}

bool near(const std::optional<double>& number, double wanted) {
  return number && std::abs(*number - wanted) < 1e-3 * wanted;
}

using Being = std::optional<Value::Part>;

bool is(const Value* v, std::string_view what, const std::string& of) {
  return v != nullptr && v->part.what == what && v->part.of == of;
}

/// Whether one of two values is that part of a layer, and the other the layer's output or the other part.
std::string both(const Operands& o, std::string_view what, std::string_view other = {}) {
  for (const auto& [x, y] : {std::pair(o.a, o.b), std::pair(o.b, o.a)}) {
    if (x == nullptr || y == nullptr || y->part.what != what) continue;
    if (other.empty() ? x->layer == y->part.of : is(x, other, y->part.of)) return y->part.of;
  }
  return {};
}

/// What a product is, with a number or of two.
Being product_part(const Operands& o) {
  if (o.b == o.a || (o.b != nullptr && o.a->layer == o.b->layer))
    return o.a->part.what == "centred" ? Value::Part{"squared", o.a->part.of}
                                       : Value::Part{"squares", o.a->layer};
  if (o.b != nullptr) {
    const std::string of = both(o, "erf + 1");
    return of.empty() ? Being() : Value::Part{"x (erf + 1)", of};
  }
  if (near(o.number, M_SQRT1_2)) return Value::Part{"x / sqrt 2", o.a->layer};
  if (!near(o.number, 0.5)) return {};
  if (o.a->part.what == "erf + 1") return Value::Part{"(erf + 1) / 2", o.a->part.of};
  return Value::Part{"x / 2", o.a->layer};
}

Being mean_part(const Call& c, const Value& a) {
  const auto axes = c.axes("axes", 1);
  const auto last = static_cast<int64_t>(a.shape.size()) - 1;
  if (!axes || axes->size() != 1 || ((*axes)[0] != -1 && (*axes)[0] != last)) return {};
  if (a.part.what == "squared") return Value::Part{"variance", a.part.of};
  if (a.part.what == "squares") return Value::Part{"mean square", a.part.of};
  return Value::Part{"mean", a.layer};
}

Being part_of(const Call& c) {
  const Operands o = operands_of(c);
  if (o.a == nullptr) return {};
  const Value::Part& p = o.a->part;
  if (c.op == "MatMul" && o.b != nullptr) return Value::Part{"scores", ""};
  if (p.what == "scores" && o.b == nullptr && o.number && (c.op == "Mul" || c.op == "Div")) return p;
  if (c.op == "Sigmoid") return Value::Part{"sigmoid", o.a->layer};
  if (c.op == "Erf" && p.what == "x / sqrt 2") return Value::Part{"erf", p.of};
  if (c.op == "Div" && near(o.number, M_SQRT2) && !o.number_first)
    return Value::Part{"x / sqrt 2", o.a->layer};
  if (c.op == "Mul") return product_part(o);
  if (c.op == "Pow" && near(o.number, 2) && !o.number_first)
    return p.what == "centred" ? Value::Part{"squared", p.of} : Value::Part{"squares", o.a->layer};
  if (c.op == "Add" && o.b == nullptr) {
    if (p.what == "erf" && near(o.number, 1)) return Value::Part{"erf + 1", p.of};
    if ((p.what == "variance" || p.what == "mean square") && o.number) return p;
  }
  if (c.op == "Sub" && o.b != nullptr && is(o.b, "mean", o.a->layer))
    return Value::Part{"centred", o.a->layer};
  if (c.op == "ReduceMean") return mean_part(c, *o.a);
  if (c.op == "Sqrt" && p.what == "variance") return Value::Part{"deviation", p.of};
  if (c.op == "Sqrt" && p.what == "mean square") return Value::Part{"rms", p.of};
  if (c.op == "Reciprocal" && p.what == "deviation") return Value::Part{"1 / deviation", p.of};
  if (c.op == "Reciprocal" && p.what == "rms") return Value::Part{"1 / rms", p.of};
  if (c.op == "Identity" || c.op == "Cast") return p;
  return {};
}

Value norm(Translator& t, std::string_view type, const std::string& of, const Shape& shape) {
  const Value x = t.live(shape, of);
  const int64_t width = shape.back();
  const Shape form = x.size() == width ? Shape{width} : Shape{x.size() / width, width};
  return t.live(shape, t.emit(type, {t.as_shape(x, form)}, form, {{"affine", false}}));
}

}  // namespace

std::optional<Value> recognised(Translator& t, const Call& c) {
  const Operands o = operands_of(c);
  if (o.a == nullptr || (c.op != "Mul" && c.op != "Div")) return {};
  const Shape& shape = c.out[0];
  const auto activation = [&](std::string_view type, const std::string& of) -> std::optional<Value> {
    if (of.empty() || t.size(of) != elements(shape)) return {};
    return t.live(shape, t.emit(type, {of}, Shape(t.dims(of))));
  };
  if (c.op == "Mul") {
    if (auto out = activation("swish", both(o, "sigmoid"))) return out;
    if (auto out = activation("gelu", both(o, "erf + 1", "x / 2"))) return out;
    if (auto out = activation("gelu", both(o, "(erf + 1) / 2"))) return out;
    if (o.b == nullptr && near(o.number, 0.5) && o.a->part.what == "x (erf + 1)")
      return activation("gelu", o.a->part.of);
  }
  const bool by = c.op == "Div";
  if (by && (o.b == nullptr || c.in[0] != o.a)) return {};
  if (shape.empty()) return {};
  const std::string centred =
      by ? (is(o.a, "centred", o.b->part.of) && o.b->part.what == "deviation" ? o.b->part.of : "")
         : both(o, "1 / deviation", "centred");
  if (!centred.empty() && t.size(centred) == elements(shape)) return norm(t, "layer-norm", centred, shape);
  const std::string plain = by ? (is(o.b, "rms", o.a->layer) ? o.a->layer : "") : both(o, "1 / rms");
  if (!plain.empty() && t.size(plain) == elements(shape)) return norm(t, "rms-norm", plain, shape);
  return {};
}

void remember(const Call& c, Value& out) {
  if (const Being part = part_of(c); part && out.kind == Kind::live) out.part = *part;
}

}  // namespace tandem::models::onnx
