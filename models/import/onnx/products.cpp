// SPDX-License-Identifier: Apache-2.0
// Products of matrices, attention and recurrent layers.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

/// Rows of `width` times a learned matrix.
Value learned_product(Translator& t, const Value& given, const Value& w, int64_t width, int64_t features,
                      const Shape& shape, const Value* bias = nullptr) {
  const Value x = t.whole(given);
  const int64_t rows = x.size() / width;
  const std::string source = t.as_shape(x, rows == 1 ? Shape{width} : Shape{rows, width});
  const Shape form = rows == 1 ? Shape{features} : Shape{rows, features};
  const bool owner = t.own(w.params, product({width, features}));
  const Shape* table = t.table(w);
  if (!owner && bias == nullptr && table != nullptr && *table == Shape{features, width})
    return t.live(shape, t.emit("tied-linear", {source}, form, {{"vocabulary", features}}));
  const bool biased = bias != nullptr && owner && t.own(bias->params, features);
  Words words{{"features", features}};
  if (!biased) words.emplace_back("bias", false);
  if (!owner) words.emplace_back("shared", true);
  Value out = t.live(shape, t.emit("linear", {source}, form, words));
  if (bias != nullptr && !biased) out = t.each(t.with_weights(out, bias->params));
  return w.size() > width * features ? t.with_weights(out, w.params) : out;  // a stack: each row meets one
}

Shapes gemm_shape(const Call& c) {
  const Shape &a = c.required(0).shape, &b = c.required(1).shape;
  if (a.size() != 2 || b.size() != 2) refuse("is of two matrices");
  const bool turn_a = c.integer("transA", 0) != 0, turn_b = c.integer("transB", 0) != 0;
  if (a[turn_a ? 0 : 1] != b[turn_b ? 1 : 0])
    refuse(fmt::format("multiplies {} and {}", models::to_text(a), models::to_text(b)));
  return {{a[turn_a ? 1 : 0], b[turn_b ? 0 : 1]}};
}

Value matrices(Translator& t, const Value& a, const Value& b, int64_t m, int64_t inner, int64_t n,
               const Shape& shape) {
  const Value& like = a.kind == Kind::live ? a : b;
  const std::string left = t.as_shape(t.as_live(a, like), {m, inner});
  const std::string right = t.as_shape(t.as_live(b, like), {inner, n});
  return t.live(shape, t.emit("matmul", {left, right}, {m, n}));
}

Values gemm(Translator& t, const Call& c) {
  const Value &a = c.required(0), &b = c.required(1);
  const Value* bias = c.input(2);
  const int64_t m = c.out[0][0], n = c.out[0][1], inner = a.size() / std::max<int64_t>(m, 1);
  Value out;
  const bool vector = bias != nullptr && bias->kind == Kind::learned && bias->size() == n;
  if (a.kind == Kind::live && b.kind == Kind::learned) {
    out = learned_product(t, a, b, inner, n, c.out[0], vector ? bias : nullptr);
  } else if (a.kind == Kind::learned && b.kind == Kind::live) {
    out = learned_product(t, b, a, inner, m, c.out[0]);
  } else {
    out = matrices(t, a, b, m, inner, n, c.out[0]);
  }
  if (bias != nullptr && bias->kind == Kind::live) return {met(t, "add", {out, *bias}, c.out[0])};
  if (bias != nullptr && bias->kind == Kind::learned && (!vector || b.kind != Kind::learned))
    out = t.each(t.with_weights(out, bias->params));
  return {out};
}

Shapes matmul_shape(const Call& c) {
  Shape a = c.required(0).shape, b = c.required(1).shape;
  if (a.empty() || b.empty()) refuse("multiplies a single number");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2])
    refuse(fmt::format("multiplies {} and {}", models::to_text(a), models::to_text(b)));
  Shape out = broadcast_shape({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!row) out.push_back(a[a.size() - 2]);
  if (!column) out.push_back(b.back());
  return {out};
}

/// An operand of a product of stacks of matrices, which PyTorch copies where no strides put them in one row.
Value stacked(Translator& t, const Value& given) {
  const Value x = t.whole(given);
  for (std::size_t d = 0; d + 3 < x.shape.size(); ++d) {
    if (x.shape[d] != 1 && x.strides[d] != x.shape[d + 1] * x.strides[d + 1]) return t.copy(x);
  }
  return x;
}

Values matmul(Translator& t, const Call& c) {
  const Value &a = c.required(0), &b = c.required(1);
  Shape left = a.shape, right = b.shape;
  if (left.size() == 1) left.insert(left.begin(), 1);
  if (right.size() == 1) right.push_back(1);
  const int64_t inner = left.back(), n = right.back();
  int64_t m = left[left.size() - 2];
  if (a.kind == Kind::live && b.kind == Kind::learned) return {learned_product(t, a, b, inner, n, c.out[0])};
  if (a.kind == Kind::learned && b.kind == Kind::live) return {learned_product(t, b, a, inner, m, c.out[0])};
  const int64_t stack_a = span(left, 0, left.size() - 2), stack_b = span(right, 0, right.size() - 2);
  int64_t stack = std::max(stack_a, stack_b);
  if (stack_b == 1 && stack_a > 1) {
    m = product({m, stack_a});
    stack = 1;
  }
  if (stack == 1) return {matrices(t, a, b, m, inner, n, c.out[0])};
  const Value& like = a.kind == Kind::live ? a : b;
  Shape full = broadcast_shape({left.begin(), left.end() - 2}, {right.begin(), right.end() - 2});
  stack = elements(full);
  const auto operand = [&](const Value& v, int64_t rows, int64_t columns) {
    Value x = t.as_live(v, like);
    Shape shape = full;
    shape.push_back(rows);
    shape.push_back(columns);
    x = x.size() == elements(shape) ? stacked(t, x) : t.broadcast(x, shape);
    return t.as_shape(x, {stack, rows, columns});
  };
  const std::string x = operand(a, m, inner);
  const std::string y = operand(b, inner, n);
  return {t.live(c.out[0], t.emit("matmul", {x, y}, {stack, m, n}))};
}

struct Einsum {
  std::string a, b, out;
  std::map<char, int64_t> sizes;
  int64_t of(const std::string& letters) const {
    int64_t n = 1;
    for (const char letter : letters) n = product({n, sizes.at(letter)});
    return n;
  }
};

Einsum einsum_of(const Call& c) {
  std::string text = c.text("equation", "");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (c.in.size() != 2 || comma == text.npos || arrow == text.npos || comma > arrow ||
      text.find('.') != text.npos)
    refuse(
        fmt::format("is understood of two tensors, with letters and \"->\", not of \"{}\"", printable(text)));
  Einsum out{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2), {}};
  const auto read = [&](const std::string& letters, const Shape& shape) {
    if (letters.size() != shape.size()) refuse("has another number of letters than its input dimensions");
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!out.sizes.emplace(letters[d], shape[d]).second && out.sizes[letters[d]] != shape[d])
        refuse(fmt::format("has two sizes for \"{}\"", printable(letters.substr(d, 1))));
    }
  };
  read(out.a, c.required(0).shape);
  read(out.b, c.required(1).shape);
  for (const char letter : out.out) {
    if (out.sizes.count(letter) == 0) refuse("gives a letter that no input has");
  }
  return out;
}

Shapes einsum_shape(const Call& c) {
  const Einsum e = einsum_of(c);
  Shape out;
  for (const char letter : e.out) out.push_back(e.sizes.at(letter));
  return {out};
}

Values einsum(Translator& t, const Call& c) {
  const Einsum e = einsum_of(c);
  std::string stack, inner, rows, columns;
  for (const char letter : e.a) {
    const bool both = e.b.find(letter) != std::string::npos, kept = e.out.find(letter) != std::string::npos;
    (both ? (kept ? stack : inner) : rows) += letter;
  }
  for (const char letter : e.b) {
    if (e.a.find(letter) == std::string::npos) columns += letter;
  }
  const Value &a = *c.in[0], &b = *c.in[1];
  const int64_t s = e.of(stack), k = e.of(inner), m = e.of(rows), n = e.of(columns);
  if (b.kind == Kind::learned) return {learned_product(t, a, b, k, n, c.out[0])};
  if (a.kind == Kind::learned) return {learned_product(t, b, a, k, m, c.out[0])};
  if (s == 1) return {matrices(t, a, b, m, k, n, c.out[0])};
  const Value& like = a.kind == Kind::live ? a : b;
  const std::string x = t.as_shape(t.as_live(a, like), {s, m, k});
  const std::string y = t.as_shape(t.as_live(b, like), {s, k, n});
  return {t.live(c.out[0], t.emit("matmul", {x, y}, {s, m, n}))};
}

// ---- attention (opset 23)

struct Heads {
  int64_t batch, heads, kv_heads, queries, keys, dim, v_dim;
};

Heads heads_of(const Call& c) {
  const Shape &q = c.required(0).shape, &k = c.required(1).shape, &v = c.required(2).shape;
  if (q.size() == 4 && k.size() == 4 && v.size() == 4) return {q[0], q[1], k[1], q[2], k[2], q[3], v[3]};
  const int64_t heads = c.integer("q_num_heads", 0), kv = c.integer("kv_num_heads", 0);
  if (q.size() != 3 || k.size() != 3 || v.size() != 3 || heads < 1 || kv < 1 || q[2] % heads != 0 ||
      k[2] % kv != 0 || v[2] % kv != 0)
    refuse("is of queries, keys and values of 4 dimensions, or of 3 with numbers of heads");
  return {q[0], heads, kv, q[1], k[1], q[2] / heads, v[2] / kv};
}

Shapes attention_shape(const Call& c) {
  const Heads h = heads_of(c);
  if (c.required(0).shape.size() == 4) return {{h.batch, h.heads, h.queries, h.v_dim}};
  return {{h.batch, h.queries, product({h.heads, h.v_dim})}};
}

Values attention(Translator& t, const Call& c) {
  const Heads h = heads_of(c);
  if (c.input(4) != nullptr || c.input(5) != nullptr)
    refuse("reads keys of the past, which training has not");
  if (h.batch > 1 && h.queries != h.keys) refuse("is of several sequences of queries and other keys");
  const auto live = std::find_if(c.in.begin(), c.in.end(),
                                 [](const Value* v) { return v != nullptr && v->kind == Kind::live; });
  if (live == c.in.end()) refuse("has no queries, keys or values of the sample");
  std::vector<std::string> sources;
  const Shape widths{product({h.heads, h.dim}), product({h.kv_heads, h.dim}), product({h.kv_heads, h.v_dim})};
  for (std::size_t i = 0; i < 3; ++i) {
    const int64_t rows = product({h.batch, i == 0 ? h.queries : h.keys});
    sources.push_back(t.as_shape(t.as_live(*c.in[i], **live), {rows, widths[i]}));
  }
  Words words{{"heads", h.heads}};
  if (h.kv_heads != h.heads) words.emplace_back("kv_heads", h.kv_heads);
  if (h.v_dim != h.dim) words.emplace_back("v_head_dim", h.v_dim);
  if (c.integer("is_causal", 0) != 0) words.emplace_back("causal", true);
  if (h.batch > 1) words.emplace_back("parts", h.batch);
  const Shape form{product({h.batch, h.queries}), product({h.heads, h.v_dim})};
  return {t.live(c.out[0], t.emit("attention", sources, form, words))};
}

// ---- recurrent layers

struct Recurrent {
  std::string_view op, type;
  int64_t gates;
};
constexpr Recurrent kRecurrent[] = {{"LSTM", "lstm", 4}, {"GRU", "gru", 3}, {"RNN", "rnn", 1}};

const Recurrent& recurrent_of(const Call& c) {
  return *std::find_if(std::begin(kRecurrent), std::end(kRecurrent),
                       [&](const Recurrent& r) { return r.op == c.op; });
}

Shapes recurrent_shape(const Call& c) {
  const Shape &x = c.required(0).shape, &w = c.required(1).shape, &r = c.required(2).shape;
  const int64_t gates = recurrent_of(c).gates;
  if (x.size() != 3 || w.size() != 3 || r.size() != 3 || w[1] != gates * r[2] || w[2] != x[2] ||
      w[0] != r[0] || r[1] != w[1] || w[0] < 1 || w[0] > 2)
    refuse("has weights that do not fit its input");
  const bool by_batch = c.integer("layout", 0) != 0;
  const int64_t steps = x[by_batch ? 1 : 0], batch = x[by_batch ? 0 : 1];
  const Shape all = by_batch ? Shape{batch, steps, w[0], r[2]} : Shape{steps, w[0], batch, r[2]};
  const Shape last = by_batch ? Shape{batch, w[0], r[2]} : Shape{w[0], batch, r[2]};
  return {all, last, last};
}

Values recurrent(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  const Value &w = c.required(1), &r = c.required(2);
  const Value* b = c.input(3);
  const bool biased = b != nullptr && b->kind == Kind::learned;
  const int64_t directions = w.shape[0], hidden = r.shape[2], features = x.shape[2],
                steps = x.size() / features;
  if (w.kind != Kind::learned || r.kind != Kind::learned) refuse("has weights that are not learned");
  if (elements(c.out[0]) != product({steps, directions, hidden})) refuse("does not fit its input");
  const std::string source = t.as_shape(x, {steps, features});
  bool owner =
      t.free(w.params, w.size()) && t.free(r.params, r.size()) && (!biased || t.free(b->params, b->size()));
  for (const Value* v : {&w, &r, biased ? b : nullptr}) {
    if (owner && v != nullptr) t.own(v->params, v->size());
  }
  Words words{{"hidden", hidden}};
  if (directions == 2) words.emplace_back("bidirectional", true);
  if (!biased) words.emplace_back("bias", false);
  if (!owner) words.emplace_back("shared", true);
  const Value all =
      t.live(c.out[0], t.emit(recurrent_of(c).type, {source}, {steps, product({hidden, directions})}, words));
  Values out{all};
  for (int i = 1; i < c.node.output_size() && i < 3; ++i) {
    if (c.node.output(i).empty()) {
      out.emplace_back();
      continue;
    }
    out.push_back(t.live(c.out[static_cast<std::size_t>(i)], t.filler(all, product({directions, hidden}))));
  }
  return out;
}

}  // namespace

void add_products(Operators& table) {
  table["Gemm"] = {gemm_shape, gemm};
  table["MatMul"] = {matmul_shape, matmul};
  table["Einsum"] = {einsum_shape, einsum};
  table["Attention"] = {attention_shape, attention};
  for (const Recurrent& r : kRecurrent) table[r.op] = {recurrent_shape, recurrent};
}

}  // namespace tandem::models::onnx
