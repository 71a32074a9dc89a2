// SPDX-License-Identifier: Apache-2.0
// Small constants, which exporters compute shapes with.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

constexpr int64_t kMost = 1024;  ///< numbers that are looked at

template <typename T>
Numbers raw(const std::string& bytes) {
  Numbers out(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(value);
  }
  return out;
}

/// Those of a tensor that holds them itself, in any of the ways that ONNX has.
std::optional<Numbers> held(const TensorProto& t) {
  Numbers out;
  if (t.has_raw_data()) {
    switch (t.data_type()) {
      case 1:
        out = raw<float>(t.raw_data());
        break;
      case 2:
      case 9:
        out = raw<uint8_t>(t.raw_data());
        break;
      case 3:
        out = raw<int8_t>(t.raw_data());
        break;
      case 6:
        out = raw<int32_t>(t.raw_data());
        break;
      case 7:
        out = raw<int64_t>(t.raw_data());
        break;
      case 11:
        out = raw<double>(t.raw_data());
        break;
      default:
        return {};
    }
    return out;
  }
  out.assign(t.float_data().begin(), t.float_data().end());
  if (t.data_type() == 7) out.assign(t.int64_data().begin(), t.int64_data().end());
  if (t.data_type() == 11) out.assign(t.double_data().begin(), t.double_data().end());
  const bool narrow = t.data_type() == 2 || t.data_type() == 3 || t.data_type() == 6 || t.data_type() == 9;
  if (narrow) out.assign(t.int32_data().begin(), t.int32_data().end());
  return out;
}

/// Whether numbers so low are among them that it is a mask of scores.
bool is_mask(const TensorProto& t) {
  constexpr float kLow = -1e4F;
  if (t.data_type() != 1) return false;
  const std::string& bytes = t.raw_data();
  for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof(float));
    if (value <= kLow) return true;
  }
  return std::any_of(t.float_data().begin(), t.float_data().end(), [](float v) { return v <= kLow; });
}

std::optional<double> one(const Numbers& values, std::size_t i) {
  if (values.empty()) return {};
  return values.size() == 1 ? values[0] : i < values.size() ? std::optional(values[i]) : std::nullopt;
}

double calculated(std::string_view op, double a, double b, bool whole) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return b == 0 ? 0 : whole ? std::trunc(a / b) : a / b;
  if (op == "Mod") return b == 0 ? 0 : a - b * std::floor(a / b);
  if (op == "Pow") return std::pow(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "Min") return std::min(a, b);
  if (op == "Equal") return a == b ? 1 : 0;
  if (op == "Less") return a < b ? 1 : 0;
  if (op == "Greater") return a > b ? 1 : 0;
  if (op == "And") return a != 0 && b != 0 ? 1 : 0;
  return a != 0 || b != 0 ? 1 : 0;  // Or
}

constexpr std::string_view kPairs[] = {"Add", "Sub",   "Mul",  "Div",     "Mod", "Pow", "Max",
                                       "Min", "Equal", "Less", "Greater", "And", "Or"};

/// Of vectors and single numbers; broadcast tensors of more dimensions are not shapes.
std::optional<Numbers> paired(const Call& c) {
  const Value &a = c.required(0), &b = c.required(c.in.size() > 1 ? 1 : 0);
  if (!a.numbers || !b.numbers || c.in.size() > 2) return {};
  const std::size_t count = std::max(a.numbers->size(), b.numbers->size());
  const auto plain = [&](const Value& v) { return v.numbers->size() == count || v.numbers->size() == 1; };
  if (!plain(a) || !plain(b) || a.shape.size() > 1 || b.shape.size() > 1) return {};
  Numbers out;
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = one(*a.numbers, i), y = one(*b.numbers, i);
    if (!x || !y) return {};
    out.push_back(calculated(c.op, *x, *y, !a.floating));
  }
  return out;
}

std::optional<Numbers> shape_numbers(const Call& c) {
  const Shape& x = c.required(0).shape;
  if (c.op == "Size") return Numbers{static_cast<double>(elements(x))};
  const auto dims = static_cast<int64_t>(x.size());
  const int64_t start = c.integer("start", 0);
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + dims : start, 0, dims);
  return Numbers(x.begin() + first, x.begin() + first + c.out[0][0]);
}

std::optional<Numbers> constant_numbers(const Call& c) {
  for (const AttributeProto& a : c.node.attribute()) {
    if (a.name() == "value") return value_of(a.t()).numbers;
    if (a.name() == "value_int") return Numbers{static_cast<double>(a.i())};
    if (a.name() == "value_float") return Numbers{static_cast<double>(a.f())};
    if (a.name() == "value_ints") return Numbers(a.ints().begin(), a.ints().end());
    if (a.name() == "value_floats") return Numbers(a.floats().begin(), a.floats().end());
  }
  return {};
}

std::optional<Numbers> range_numbers(const Call& c) {
  const double begin = c.in[0]->numbers->at(0), step = c.in[2]->numbers->at(0);
  Numbers out;
  for (int64_t i = 0; i < c.out[0][0]; ++i) out.push_back(begin + step * static_cast<double>(i));
  return out;
}

/// Of a vector, the places that are looked up.
std::optional<Numbers> gathered(const Call& c) {
  const Value& x = c.required(0);
  if (!x.numbers || !c.required(1).numbers || x.shape.size() != 1) return {};
  Numbers out;
  for (const int64_t i : c.integers(1)) out.push_back((*x.numbers)[axis_of(i, x.numbers->size())]);
  return out;
}

/// A range of one dimension.
std::optional<Numbers> sliced(const Call& c) {
  const Value& x = c.required(0);
  const Shape begin = c.integers(1), axes = c.input(3) == nullptr ? Shape{0} : c.integers(3);
  const Shape steps = c.input(4) == nullptr ? Shape{1} : c.integers(4);
  if (!x.numbers || begin.size() != 1 || axes.size() != 1 || steps.size() != 1) return {};
  const std::size_t axis = axis_of(axes[0], x.shape.size());
  const int64_t n = x.shape[axis], step = std::clamp<int64_t>(steps[0], -INT32_MAX, INT32_MAX);
  if (n == 0) return {};
  const int64_t first = std::clamp<int64_t>(begin[0] < 0 ? begin[0] + n : begin[0], 0, step < 0 ? n - 1 : n);
  const int64_t outer = span(x.shape, 0, axis), inner = span(x.shape, axis + 1, x.shape.size());
  Numbers out;
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t at = 0; at < c.out[0][axis]; ++at) {
      for (int64_t k = 0; k < inner; ++k)
        out.push_back(x.numbers->at(static_cast<std::size_t>((i * n + first + at * step) * inner + k)));
    }
  }
  return out;
}

/// Of a matrix.
std::optional<Numbers> transposed(const Call& c) {
  const Value& x = c.required(0);
  if (!x.numbers || x.shape.size() != 2 || c.list("perm", 2, 0) == Shape{0, 1}) return {};
  const auto rows = static_cast<std::size_t>(x.shape[0]), columns = static_cast<std::size_t>(x.shape[1]);
  Numbers out;
  for (std::size_t j = 0; j < columns; ++j) {
    for (std::size_t i = 0; i < rows; ++i) out.push_back((*x.numbers)[i * columns + j]);
  }
  return out;
}

std::optional<Numbers> picked(const Call& c) {  // Where
  const Value &condition = c.required(0), &yes = c.required(1), &no = c.required(2);
  if (!condition.numbers || !yes.numbers || !no.numbers) return {};
  Numbers out;
  for (int64_t i = 0; i < elements(c.out[0]); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto which = one(*condition.numbers, at), a = one(*yes.numbers, at), b = one(*no.numbers, at);
    if (!which || !a || !b) return {};
    out.push_back(*which != 0 ? *a : *b);
  }
  return out;
}

constexpr std::string_view kSame[] = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "CastLike"};

}  // namespace

Value value_of(const TensorProto& tensor) {
  Value out;
  out.shape.assign(tensor.dims().begin(), tensor.dims().end());
  for (const int64_t d : out.shape) {
    if (d < 0) refuse("a tensor of the file has a dimension below 0");
  }
  const int32_t type = tensor.data_type();
  out.floating =
      type == 1 || type == 10 || type == 11 || type == 16 || (type >= 17 && type <= 20) || type == 23;
  const int64_t size = elements(out.shape);
  if (size <= kMost && tensor.data_location() == 0) {
    out.numbers = held(tensor);
    if (out.numbers && static_cast<int64_t>(out.numbers->size()) != size) out.numbers.reset();
  }
  if (out.floating && !is_mask(tensor)) out.kind = Kind::learned;
  return out;
}

std::optional<Numbers> folded(const Call& c) {
  if (c.out.size() != 1 || elements(c.out[0]) > kMost) return {};
  const auto among = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), c.op) != std::end(list);
  };
  if (c.op == "Shape" || c.op == "Size") return shape_numbers(c);
  if (c.op == "Constant") return constant_numbers(c);
  if (c.op == "Range") return range_numbers(c);
  if (among(kSame)) return c.required(0).numbers;
  if (among(kPairs)) return paired(c);
  if (c.op == "Where") return picked(c);
  if (c.op == "Gather") return gathered(c);
  if (c.op == "Slice" && c.in.size() > 2) return sliced(c);
  if (c.op == "Transpose") return transposed(c);
  if (c.op == "Cast" && c.required(0).numbers) {
    Numbers out = *c.in[0]->numbers;
    const int64_t to = c.integer("to", 1);
    for (double& v : out) v = to == 9 ? v != 0 : to == 6 || to == 7 ? std::trunc(v) : v;
    return out;
  }
  if (c.op == "Concat") {
    Numbers out;
    for (const Value* v : c.in) {
      if (!v->numbers || v->shape.size() != 1) return {};
      out.insert(out.end(), v->numbers->begin(), v->numbers->end());
    }
    return out;
  }
  const auto count = static_cast<std::size_t>(elements(c.out[0]));
  if (c.op == "ConstantOfShape") {
    const AttributeProto* value = c.attribute("value");
    const auto fill = value == nullptr ? std::optional(Numbers{0}) : value_of(value->t()).numbers;
    if (!fill || fill->size() != 1) return {};
    return Numbers(count, (*fill)[0]);
  }
  if (c.op == "Expand" && c.required(0).numbers && c.in[0]->numbers->size() == 1)
    return Numbers(count, (*c.in[0]->numbers)[0]);
  if (c.op == "ReduceProd" && c.required(0).numbers && count == 1)
    return Numbers{
        std::accumulate(c.in[0]->numbers->begin(), c.in[0]->numbers->end(), 1.0, std::multiplies<>())};
  if (c.op == "Neg" || c.op == "Floor" || c.op == "Ceil" || c.op == "Not" || c.op == "Sqrt") {
    if (!c.required(0).numbers) return {};
    Numbers out = *c.in[0]->numbers;
    for (double& v : out) {
      v = c.op == "Neg"     ? -v
          : c.op == "Floor" ? std::floor(v)
          : c.op == "Ceil"  ? std::ceil(v)
          : c.op == "Sqrt"  ? std::sqrt(std::max(v, 0.0))
                            : (v == 0 ? 1 : 0);
    }
    return out;
  }
  return {};
}

}  // namespace tandem::models::onnx
