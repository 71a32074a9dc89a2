// SPDX-License-Identifier: Apache-2.0
// Convolutions, pooling and changes of size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/import/onnx/translator.h"

namespace tandem::models::onnx {

namespace {

/// A window that slides over the spatial dimensions of {batch, channels, space...}.
struct Sliding {
  std::size_t dims = 0;
  Shape kernel, stride, dilation, before, after, out;
  bool ceil = false;
};

Sliding sliding(const Call& c, const Shape& kernel) {
  const Shape& x = c.required(0).shape;
  if (x.size() < 3 || x.size() > 5)
    refuse(fmt::format("is of 1 to 3 spatial dimensions, not {}", models::to_text(x)));
  Sliding s;
  s.dims = x.size() - 2;
  s.kernel = kernel;
  if (s.kernel.size() != s.dims) refuse("has a kernel of another number of dimensions than its input");
  s.stride = c.list("strides", s.dims, 1);
  s.dilation = c.list("dilations", s.dims, 1);
  const Shape pads = c.list("pads", 2 * s.dims, 0);
  s.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(s.dims));
  s.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(s.dims), pads.end());
  s.ceil = c.integer("ceil_mode", 0) != 0;
  const std::string rule = c.text("auto_pad", "NOTSET");
  for (std::size_t d = 0; d < s.dims; ++d) {
    if (s.kernel[d] < 1 || s.stride[d] < 1 || s.dilation[d] < 1 || s.kernel[d] > INT32_MAX)
      refuse("has a kernel, stride or dilation below 1");
    const int64_t n = x[d + 2], reach = product({s.dilation[d], s.kernel[d] - 1}) + 1, pace = s.stride[d];
    if (rule == "SAME_UPPER" || rule == "SAME_LOWER") {
      const int64_t total = std::max<int64_t>(((n + pace - 1) / pace - 1) * pace + reach - n, 0);
      s.before[d] = rule == "SAME_UPPER" ? total / 2 : total - total / 2;
      s.after[d] = total - s.before[d];
    }
    const int64_t room = n + s.before[d] + s.after[d] - reach;
    if (room < 0) refuse(fmt::format("has a window of {} over {} elements", reach, n));
    int64_t count = (room + (s.ceil ? pace - 1 : 0)) / pace + 1;
    if (s.ceil && (count - 1) * pace >= n + s.before[d]) --count;  // it would begin in the padding behind
    s.out.push_back(count);
  }
  return s;
}

Shape kernel_of(const Call& c) {
  const AttributeProto* a = c.attribute("kernel_shape");
  if (a == nullptr) refuse("has no kernel_shape");
  return {a->ints().begin(), a->ints().end()};
}

Shape with_space(const Shape& x, int64_t channels, const Shape& space) {
  Shape out{x[0], channels};
  out.insert(out.end(), space.begin(), space.end());
  return out;
}

/// `x` where both sides have the same padding; otherwise a "pad" layer pads it, and the window does not.
Value evenly_padded(Translator& t, const Value& x, Sliding& s) {
  if (s.before == s.after) return x;
  Shape before{0, 0}, after{0, 0};
  before.insert(before.end(), s.before.begin(), s.before.end());
  after.insert(after.end(), s.after.begin(), s.after.end());
  s.before.assign(s.dims, 0);
  s.after = s.before;
  return padded(t, x, before, after);
}

void add_window(Words& words, const Sliding& s, bool frames, bool stride_always) {
  const auto list = [&](Shape values, int64_t first) {
    if (frames) values.insert(values.begin(), first);
    return values;
  };
  const auto other = [](const Shape& values, int64_t usual) {
    return std::any_of(values.begin(), values.end(), [&](int64_t v) { return v != usual; });
  };
  words.emplace_back("kernel", same_or_list(list(s.kernel, 1)));
  if (stride_always || other(s.stride, 1)) words.emplace_back("stride", same_or_list(list(s.stride, 1)));
  if (other(s.before, 0)) words.emplace_back("pad", same_or_list(list(s.before, 0)));
  if (other(s.dilation, 1)) words.emplace_back("dilation", same_or_list(list(s.dilation, 1)));
}

// ---- convolutions

Shape filter_kernel(const Call& c) {
  const Shape& w = c.required(1).shape;
  if (w.size() < 3) refuse("has a kernel of fewer than 3 dimensions");
  return {w.begin() + 2, w.end()};
}

Shapes conv_shape(const Call& c) {
  const Shape &x = c.required(0).shape, &w = c.required(1).shape;
  const Sliding s = sliding(c, filter_kernel(c));
  const int64_t groups = c.integer("group", 1);
  if (groups < 1 || groups > INT32_MAX || x[1] != product({w[1], groups}) || w[0] % groups != 0)
    refuse(fmt::format("has a kernel {} in {} groups over an input {}", models::to_text(w), groups,
                       models::to_text(x)));
  return {with_space(x, w[0], s.out)};
}

Shapes conv_transpose_shape(const Call& c) {
  const Shape &x = c.required(0).shape, &w = c.required(1).shape;
  if (x.size() < 3 || w.size() != x.size() || x[1] != w[0])
    refuse("has a kernel that does not fit its input");
  const std::size_t dims = x.size() - 2;
  const Shape stride = c.list("strides", dims, 1), pads = c.list("pads", 2 * dims, 0);
  const Shape more = c.list("output_padding", dims, 0), wide = c.list("dilations", dims, 1);
  const std::string rule = c.text("auto_pad", "NOTSET");
  const int64_t groups = c.integer("group", 1);
  if (groups < 1 || groups > INT32_MAX) refuse("has groups below 1");
  Shape space;
  for (std::size_t d = 0; d < dims; ++d) {
    const int64_t full = product({stride[d], x[d + 2] - 1}) + more[d] + product({wide[d], w[d + 2] - 1}) + 1;
    space.push_back(rule == "SAME_UPPER" || rule == "SAME_LOWER" ? product({x[d + 2], stride[d]})
                                                                 : full - pads[d] - pads[dims + d]);
    if (space[d] < 1) refuse("gives an empty tensor");
  }
  if (c.attribute("output_shape") != nullptr) space = c.list("output_shape", dims, 1);
  return {with_space(x, product({w[1], groups}), space)};
}

/// A learned kernel, as a layer type over {channels, space...}; of several pictures of one sample these are
/// the first spatial dimension.
Values convolved(Translator& t, const Call& c, const Value& given, const Sliding& s, bool turned,
                 Words words) {
  const Value& w = c.required(1);
  const Value* bias = c.input(2);
  if (w.kind != Kind::learned)
    refuse(w.kind == Kind::live ? "has a kernel that depends on the sample"
                                : "has a kernel that is a constant: weights have to be initializers");
  const Value x = t.whole(given);
  const int64_t batch = x.shape[0], channels = x.shape[1], filters = c.out[0][1],
                groups = c.integer("group", 1);
  const bool frames = batch > 1;
  if (frames && s.dims > 2) refuse("is of several volumes of one sample");
  Shape form{channels}, result{filters};
  if (frames) form.push_back(batch), result.push_back(batch);
  form.insert(form.end(), x.shape.begin() + 2, x.shape.end());
  result.insert(result.end(), c.out[0].begin() + 2, c.out[0].end());
  const std::string source = t.as_shape(x, form);
  const bool owner = t.own(w.params, w.size());
  const bool learned = bias != nullptr && bias->kind == Kind::learned;
  const bool biased = learned && owner && t.own(bias->params, bias->size());
  add_window(words, s, frames, false);
  if (!biased) words.emplace_back("bias", false);
  if (!owner) words.emplace_back("shared", true);
  std::string_view type = turned ? "conv-transpose" : "conv";
  if (groups == channels && channels > 1 && !turned) {
    type = "depthwise-conv";
    if (filters != channels) words.emplace_back("multiplier", filters / channels);
  } else {
    words.emplace_back("filters", filters);
    if (groups > 1) words.emplace_back("groups", groups);
  }
  Value out = t.live(c.out[0], t.emit(type, {source}, result, words));
  if (learned && !biased) out = t.each(t.with_weights(out, bias->params));
  return {out};
}

Values conv(Translator& t, const Call& c) {
  Sliding s = sliding(c, filter_kernel(c));
  const Value x = evenly_padded(t, c.required(0), s);
  return convolved(t, c, x, s, false, {});
}

Values conv_transpose(Translator& t, const Call& c) {
  const Shape& x = c.required(0).shape;
  Sliding s;
  s.dims = x.size() - 2;
  s.kernel = filter_kernel(c);
  s.stride = c.list("strides", s.dims, 1);
  s.dilation = c.list("dilations", s.dims, 1);
  if (std::any_of(s.dilation.begin(), s.dilation.end(), [](int64_t d) { return d != 1; }))
    refuse("is transposed and dilated");
  Shape more;  // the layer crops both sides by the same; what is left over is at the end
  for (std::size_t d = 0; d < s.dims; ++d) {
    const int64_t full = (x[d + 2] - 1) * s.stride[d] + s.kernel[d], wanted = c.out[0][d + 2];
    s.before.push_back(std::max<int64_t>((full - wanted + 1) / 2, 0));
    more.push_back(wanted - (full - 2 * s.before[d]));
  }
  Words words;
  if (std::any_of(more.begin(), more.end(), [](int64_t n) { return n != 0; })) {
    if (x[0] > 1) more.insert(more.begin(), 0);
    JsonWriter list = JsonWriter::array();
    for (const int64_t n : more) list.push_back(n);
    words.emplace_back("output_pad", list);
  }
  return convolved(t, c, c.required(0), s, true, words);
}

// ---- pooling

Shapes pool_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  const Shape out = with_space(x, x.at(1), sliding(c, kernel_of(c)).out);
  return {out, out};
}

Values pool(Translator& t, const Call& c) {
  Sliding s = sliding(c, kernel_of(c));
  if (std::any_of(s.dilation.begin(), s.dilation.end(), [](int64_t d) { return d != 1; }))
    refuse("is dilated");
  const Value x = t.whole(evenly_padded(t, c.required(0), s));
  const int64_t planes = product({x.shape[0], x.shape[1]});
  Shape form{planes}, result{planes};
  form.insert(form.end(), x.shape.begin() + 2, x.shape.end());
  result.insert(result.end(), c.out[0].begin() + 2, c.out[0].end());
  Words words;
  add_window(words, s, false, true);
  if (s.ceil) words.emplace_back("ceil", true);
  const std::string source = t.as_shape(x, form);
  Values out(2);
  out[0] = t.live(c.out[0], t.emit(c.op == "MaxPool" ? "max-pool" : "avg-pool", {source}, result, words));
  out[1].shape = c.out[1];
  return out;
}

// ---- sizes

Shapes resize_shape(const Call& c) {
  const Shape& x = c.required(0).shape;
  const std::size_t scales = c.op == "Upsample" || c.in.size() == 2 ? 1 : 2;
  Shape axes;
  for (std::size_t d = 0; d < x.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (const AttributeProto* a = c.attribute("axes"); a != nullptr) {
    axes.assign(a->ints().begin(), a->ints().end());
    for (int64_t& axis : axes) axis = static_cast<int64_t>(axis_of(axis, x.size()));
  }
  Shape out = x;
  if (c.input(3) != nullptr) {
    const Shape sizes = c.integers(3);
    if (sizes.size() != axes.size()) refuse("has sizes of another number of dimensions than its input");
    for (std::size_t i = 0; i < axes.size(); ++i) out[static_cast<std::size_t>(axes[i])] = sizes[i];
    return {out};
  }
  Numbers factors;
  if (const AttributeProto* a = c.attribute("scales"); a != nullptr && c.op == "Upsample") {
    factors.assign(a->floats().begin(), a->floats().end());
  } else {
    const Value& v = c.required(scales);
    if (!v.numbers) refuse("has scales that depend on the data");
    factors = *v.numbers;
  }
  if (factors.size() != axes.size()) refuse("has scales of another number of dimensions than its input");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    int64_t& n = out[static_cast<std::size_t>(axes[i])];
    const double wanted = std::floor(static_cast<double>(n) * factors[i] + 1e-6);
    if (!(wanted >= 1 && wanted < 1e9)) refuse("gives an empty tensor");
    n = static_cast<int64_t>(wanted);
  }
  return {out};
}

Values resize(Translator& t, const Call& c) {
  const Value x = t.whole(c.required(0));
  const Shape& out = c.out[0];
  std::size_t first = 0;
  while (first < out.size() && out[first] == x.shape[first]) ++first;
  if (first == out.size()) return {t.copy(x)};
  if (first == 0 || out.size() - first > 3) refuse("resizes the batch or more than three dimensions");
  const int64_t planes = span(out, 0, first);
  Shape form{planes}, result{planes}, size, factor;
  bool whole = true;
  for (std::size_t d = first; d < out.size(); ++d) {
    form.push_back(x.shape[d]);
    result.push_back(out[d]);
    size.push_back(out[d]);
    factor.push_back(out[d] / std::max<int64_t>(x.shape[d], 1));
    whole = whole && x.shape[d] > 0 && out[d] % x.shape[d] == 0;
  }
  const std::string source = t.as_shape(x, form);
  JsonWriter list = JsonWriter::array();
  for (const int64_t n : whole ? factor : size) list.push_back(n);
  return {t.live(out, t.emit(whole ? "upsample" : "adaptive-pool", {source}, result,
                             {{whole ? "factor" : "size", list}}))};
}

}  // namespace

void add_windows(Operators& table) {
  table["Conv"] = {conv_shape, conv};
  table["ConvTranspose"] = {conv_transpose_shape, conv_transpose};
  table["MaxPool"] = table["AveragePool"] = Operator{pool_shape, pool};
  table["Resize"] = table["Upsample"] = Operator{resize_shape, resize};
}

}  // namespace tandem::models::onnx
