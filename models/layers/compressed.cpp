// SPDX-License-Identifier: Apache-2.0
// The attention of DeepSeek-V4: one key for all heads, which is also the value; a window of positions, and
// before it keys of many positions each; and a product of groups of heads.
#include <fmt/format.h>

#include <algorithm>

#include "models/layers/layer.h"
#include "models/layers/norm_kernel.h"

namespace tandem::models {

namespace {

/// {time, hidden} to {time / ratio, features}: a sum of each window's positions, weighted by a softmax, and
/// its norm. With "overlap" every position also counts in the next window, by separate products. A remainder
/// at the end is dropped, unless the sequence is shorter than a window.
Lowered compressor(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const Attributes& a = in.attributes;
  const int64_t ratio = a.integer("ratio"), features = a.integer("features"),
                series = a.boolean("overlap", false) ? 2 : 1, width = product({series, features}),
                size = in.element_size(), rows = product({in.batch, shape[0]}),
                windows = std::max<int64_t>(1, shape[0] / ratio);
  Lowered out;
  out.output = {windows, features};
  const int64_t made = product({rows, width}), results = product({in.batch, windows, features});
  for (const char* name : {"key", "gate"}) {
    out.parameters.push_back({name, product({shape[1], width})});
    out.parameters.back().rows = out.parameters.back().inner = shape[1];
    out.parameters.back().hidden = 1;
    out.forward.push_back(gemm(Pass::forward, 1, rows, width, shape[1], size));
    out.backward_data.push_back(gemm(Pass::backward_data, 1, rows, shape[1], width, size));
    out.backward_weights.push_back(gemm(Pass::backward_weights, 1, shape[1], width, rows, size));
  }
  out.parameters.push_back({"position", product({ratio, width})});
  out.parameters.push_back({"norm", features});
  out.forward.push_back(elementwise(Pass::forward, made, 1, size, 6));  // of gates, in fp32
  out.forward.push_back(reduction(Pass::forward, made, results, size));
  out.forward.push_back(norm(Pass::forward, results / features, features, 1, 1, 4, size));
  out.backward_data.insert(out.backward_data.begin(),
                           {norm(Pass::backward_data, results / features, features, 2, 1, 8, size),
                            elementwise(Pass::backward_data, made, 3, size, 8)});
  out.backward_weights.push_back(reduction(Pass::backward_weights, made, product({ratio, width}), size));
  out.backward_weights.push_back(norm(Pass::backward_weights, results / features, features, 2, 0, 4, size));
  out.keeps_input = true;
  const int64_t of_sample = product({shape[0], width});
  out.own = {{of_sample}, {of_sample, 4}, {of_sample}, {product({windows, features})}, {windows, 4}};
  return out;
}

struct Keys {
  int64_t heads, dim, time, pooled, seen;  ///< seen: keys that a query sees, on average
};

/// From queries {time, heads x head_dim}, keys {time, head_dim} and optionally keys of many positions
/// {windows, head_dim}, of which a query sees `top`, or with 0 all before it.
Keys read_keys(const LayerInput& in) {
  const Attributes& a = in.attributes;
  if (in.shapes.size() < 2 || in.shapes.size() > 3)
    a.fail("takes queries, keys and, where there are some, compressed keys");
  Keys k{a.integer("heads"), a.integer("head_dim"), in.shapes[0][0], 0, 0};
  for (std::size_t i = 0; i < in.shapes.size(); ++i) {
    const Shape& s = in.shapes[i];
    const int64_t width = i == 0 ? product({k.heads, k.dim}) : k.dim;
    if (s.size() != 2 || s[1] != width || (i == 1 && s[0] != k.time))
      a.fail(fmt::format("input {} is {}, not {{time, {}}}", i + 1, to_text(s), width));
  }
  const int64_t window = a.integer("window"), top = a.integer("top", 0, 0);
  if (in.shapes.size() == 3) k.pooled = in.shapes[2][0];
  const int64_t before = (k.pooled + 1) / 2;  // half of them, on average
  k.seen = std::min(window, k.time) + (top > 0 ? std::min(top, k.pooled) : before);
  return k;
}

/// The scores are in memory, including those of masked keys, as in the library's code, which has no fused
/// kernel.
std::vector<OwnTensor> own_scores(const LayerInput& in, const Keys& k, bool fused) {
  using Life = OwnTensor::Life;
  const int64_t queries = product({k.time, k.heads, k.dim}), keys = product({k.time + k.pooled, k.dim}),
                scores = product({k.heads, k.time, k.time + k.pooled});
  // Queries normed and rotated, keys rotated and concatenated, the result before it is rotated back.
  std::vector<OwnTensor> own{{queries}, {queries}, {keys}, {queries}, {product({k.time, k.heads}), 4}};
  if (fused) {
    own.insert(own.end(), {{product({k.heads, k.time}), 4}, {queries, 4, Life::backward}});
    return own;
  }
  own.insert(own.end(), {{scores, 0, Life::forward}, {scores, 0, Life::forward}, {scores}});
  if (in.attributes.real("dropout", 0, 0, 0.999) > 0) own.insert(own.end(), {{scores, 1}, {scores}});
  own.insert(own.end(), {{scores, 0, Life::backward}, {scores, 0, Life::backward}});
  return own;
}

Lowered compressed_attention(const LayerInput& in) {
  const Keys k = read_keys(in);
  const Attributes& a = in.attributes;
  const bool fused = a.boolean("fused", false);
  const int64_t size = in.element_size(), rope = a.integer("rope_dim", 0, 0, k.dim),
                queries = product({in.batch, k.time, k.heads}), all = product({queries, k.dim});
  a.real("dropout", 0, 0, 0.999);
  Lowered out;
  out.cheap = Lowered::Cheap::attention;
  out.output = in.shapes[0];
  for (const Pass pass : {Pass::forward, Pass::backward_data}) {
    const bool forward = pass == Pass::forward;
    std::vector<Kernel> kernels;
    kernels.push_back(norm(pass, queries, k.dim, forward ? 1 : 2, 1, forward ? 4 : 8, size));
    const auto turn = [&](int64_t vectors) {
      if (rope == 0) return;
      kernels.push_back(elementwise(pass, product({vectors, rope}), 1, size, 3));
      kernels.push_back(copy_kernel(pass, product({vectors, k.dim}), product({vectors, k.dim}), size));
    };
    turn(queries + product({in.batch, k.time}));
    kernels.push_back(
        attention_kernel(pass, in.batch, k.heads, 1, k.time, k.seen, k.dim, false, fused, size));
    turn(queries);  // back
    if (!forward) std::reverse(kernels.begin(), kernels.end());
    (forward ? out.forward : out.backward_data) = std::move(kernels);
  }
  out.parameters = {{"sinks", k.heads}};
  out.backward_weights = {reduction(Pass::backward_weights, all, k.heads, size)};
  out.keeps_input = true;
  out.own = own_scores(in, k, fused);
  return out;
}

/// y = x W where only features of one of `groups` meet: a stack of matrices.
Lowered grouped_linear(const LayerInput& in) {
  const Shape& shape = in.only(2);
  const int64_t groups = in.attributes.integer("groups"), features = in.attributes.integer("features");
  if (shape.size() != 2 || shape[1] % groups != 0 || features % groups != 0)
    in.attributes.fail(
        fmt::format("{} groups do not divide {} and {} features", groups, to_text(shape), features));
  const int64_t rows = product({in.batch, shape[0]}), from = shape[1] / groups, to = features / groups,
                size = in.element_size();
  Lowered out;
  out.output = {shape[0], features};
  out.parameters = {{"weight", product({from, features})}};
  out.parameters[0].hidden = groups;
  out.parameters[0].inner = from;
  out.forward = {gemm(Pass::forward, groups, rows, to, from, size)};
  out.backward_data = {gemm(Pass::backward_data, groups, rows, from, to, size)};
  out.backward_weights = {gemm(Pass::backward_weights, groups, from, to, rows, size)};
  out.keeps_input = true;
  return out;
}

}  // namespace

void register_compressed(Registry<LayerType>& registry) {
  registry.add({"compressor", "keys of many positions each, weighted by gates", compressor});
  registry.add({"compressed-attention", "attention over a window and over keys of many positions each",
                compressed_attention});
  registry.add({"grouped-linear", "linear layer whose features meet only within groups", grouped_linear});
}

}  // namespace tandem::models
