// SPDX-License-Identifier: Apache-2.0
// Forward passes on the CPU, held against plain double-precision formulas in the order of the model's shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include "exec/lower/call_shapes.h"
#include "tests/exec/layer_run.h"

namespace tandem::tests {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Reference, FunctionsOfOneElement) {
  const std::vector<std::pair<std::string, double (*)(double)>> functions{
      {R"("relu")", [](double x) { return std::max(x, 0.0); }},
      {R"("relu6")", [](double x) { return std::min(std::max(x, 0.0), 6.0); }},
      {R"("leaky-relu", "slope": 0.2)", [](double x) { return x > 0 ? x : 0.2 * x; }},
      {R"("clip", "low": -2, "high": 3)", [](double x) { return std::min(std::max(x, -2.0), 3.0); }},
      {R"("sigmoid")", sigmoid},
      {R"("tanh")", [](double x) { return std::tanh(x); }},
      {R"("gelu")", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {R"("swish")", [](double x) { return x * sigmoid(x); }},
      {R"("softplus")", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
      {R"("hard-sigmoid")", [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; }},
      {R"("relu2")", [](double x) { return x > 0 ? x * x : 0; }},
      {R"("hard-swish")", [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }}};
  for (const auto& [type, f] : functions) {
    for (const float scale : {1.0F, 10.0F, 300.0F}) {
      LayerRun b({{40}}, R"({"type": )" + type + "}", 5);
      b.change_input([&](float x) { return scale * x; });
      Values want = b.input();
      for (double& x : want) x = f(x);
      expect_near(b.run(), want, 1e-6, type);
    }
  }
}

/// Small integers: sums are exact in whatever order. Rows that are joined, taken by fours, and left over.
TEST(Reference, ColumnSumsOfFewAndManyColumnsAndRows) {
  const auto device = backends_registry().at("cpu").open({0, Precision::fp32, 1});
  for (const int64_t columns : {1, 2, 5, 6, 8, 16, 24, 63, 64, 100}) {
    for (const int64_t rows : {1, 2, 15, 64, 257, 1000}) {
      Call call;
      call.function = Function::column_sum;
      call.shape = {rows, columns};
      float *sums = device->allocate(columns), *x = device->allocate(rows * columns);
      std::vector<float> want(static_cast<std::size_t>(columns));
      for (int64_t i = 0; i < rows * columns; ++i) {
        x[i] = static_cast<float>(i * 7919 % 17 - 8);
        want[static_cast<std::size_t>(i % columns)] += x[i];
      }
      float* const operands[] = {sums, x};
      device->launch(device->prepare(call), operands, {}, Lane::compute);
      EXPECT_EQ(std::vector<float>(sums, sums + columns), want) << rows << " x " << columns;
    }
  }
}

/// A group of elements of a sample that are normalised together: mean and variance, or mean square.
void normalise(Values& x, const std::vector<std::size_t>& group, bool rms, double epsilon) {
  double mean = 0, square = 0;
  for (const std::size_t i : group) mean += x[i] / static_cast<double>(group.size());
  if (rms) mean = 0;
  for (const std::size_t i : group) square += (x[i] - mean) * (x[i] - mean);
  for (const std::size_t i : group)
    x[i] = (x[i] - mean) / std::sqrt(square / static_cast<double>(group.size()) + epsilon);
}

/// Normalises what `key` (of sample and element) puts together, then applies scale and shift by `channel`.
Values normalised(const LayerRun& b, const std::function<int64_t(int64_t, int64_t)>& key, bool rms,
                  double epsilon, const std::function<int64_t(int64_t)>& channel, const Values& scale,
                  const Values& shift) {
  Values x = b.input();
  const int64_t n = static_cast<int64_t>(x.size()) / b.batch;
  std::map<int64_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < x.size(); ++i)
    groups[key(static_cast<int64_t>(i) / n, static_cast<int64_t>(i) % n)].push_back(i);
  for (const auto& [k, group] : groups) normalise(x, group, rms, epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto c = static_cast<std::size_t>(channel(static_cast<int64_t>(i) % n));
    if (!scale.empty()) x[i] *= scale[c];
    if (!shift.empty()) x[i] += shift[c];
  }
  return x;
}

TEST(Reference, BatchNormAndItsRunningStatistics) {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{37, 3, 3}, Shape{3, 20}, Shape{7}}) {
    for (const float mean : {0.0F, 100.0F}) {
      LayerRun b({shape}, R"({"type": "batch-norm"})", 6);
      b.change_input([&](float x) { return x + mean; });
      const int64_t space = elements(shape) / shape[0];
      const auto channel = [&](int64_t i) { return i / space; };
      const Values want = normalised(
          b, [&](int64_t, int64_t i) { return channel(i); }, false, 1e-5, channel, b.parameter("scale"),
          b.parameter("shift"));
      const Values x = b.input();
      for (Values& v : b.buffers()) EXPECT_TRUE(v.size() == static_cast<std::size_t>(shape[0]));
      expect_near(b.run(), want, mean == 0 ? 3e-6 : 1e-4, to_text(shape));
      const auto state = b.buffers();
      ASSERT_EQ(state.size(), 2U);
      const double n = static_cast<double>(6 * space);
      for (int64_t c = 0; c < shape[0]; ++c) {
        double sum = 0, square = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (channel(static_cast<int64_t>(i) % elements(shape)) == c) sum += x[i] / n;
        }
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (channel(static_cast<int64_t>(i) % elements(shape)) == c)
            square += (x[i] - sum) * (x[i] - sum) / (n - 1);
        }
        const auto at = static_cast<std::size_t>(c);
        EXPECT_NEAR(state[0][at], 0.1 * sum, 1e-5 * (1 + std::abs(sum)));
        EXPECT_NEAR(state[1][at], 0.9 + 0.1 * square, 1e-4);
      }
    }
  }
}

TEST(Reference, NormsOfRowsGroupsAndPixels) {
  const auto none = [](int64_t) { return int64_t{0}; };
  {
    LayerRun b({{5, 19}}, R"({"type": "layer-norm"})", 2);
    const Values want = normalised(
        b, [](int64_t s, int64_t i) { return s * 5 + i / 19; }, false, 1e-5, [](int64_t i) { return i % 19; },
        b.parameter("scale"), b.parameter("shift"));
    expect_near(b.run(), want, 3e-6, "layer-norm");
  }
  {
    LayerRun b({{6, 4, 3}}, R"({"type": "layer-norm", "axis": 0})", 2);
    const Values want = normalised(
        b, [](int64_t s, int64_t i) { return s * 12 + i % 12; }, false, 1e-5,
        [](int64_t i) { return i / 12; }, b.parameter("scale"), b.parameter("shift"));
    expect_near(b.run(), want, 3e-6, "layer-norm of channels");
  }
  {
    LayerRun b({{5, 19}}, R"({"type": "rms-norm"})", 2);
    const Values want = normalised(
        b, [](int64_t s, int64_t i) { return s * 5 + i / 19; }, true, 1e-5, [](int64_t i) { return i % 19; },
        b.parameter("scale"), {});
    expect_near(b.run(), want, 3e-6, "rms-norm");
  }
  {
    LayerRun b({{6, 4, 3}}, R"({"type": "group-norm", "groups": 3})", 2);
    const Values want = normalised(
        b, [](int64_t s, int64_t i) { return s * 3 + i / 24; }, false, 1e-5, [](int64_t i) { return i / 12; },
        b.parameter("scale"), b.parameter("shift"));
    expect_near(b.run(), want, 3e-6, "group-norm");
  }
  {
    LayerRun b({{6, 4, 3}}, R"({"type": "pixel-norm"})", 2);
    const Values want =
        normalised(b, [](int64_t s, int64_t i) { return s * 12 + i % 12; }, true, 1e-8, none, {}, {});
    expect_near(b.run(), want, 3e-6, "pixel-norm");
  }
}

TEST(Reference, FactorsAndProductsOfChannels) {
  LayerRun b({{6, 4, 3}}, R"({"type": "scale", "axis": 0})", 2);
  Values x = b.input(), factor = b.parameter("factor");
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= factor[i / 12 % 6];
  expect_near(b.run(), x, 1e-6, "scale");
  LayerRun l({{6, 4, 3}}, R"({"type": "linear", "features": 5, "axis": 0})", 2);
  x = l.input();
  const Values weight = l.parameter("weight"), bias = l.parameter("bias");
  Values want(std::size_t{2} * 5 * 12);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::size_t sample = i / 60, feature = i / 12 % 5, position = i % 12;
    want[i] = bias[feature];
    for (std::size_t c = 0; c < 6; ++c)
      want[i] += x[sample * 72 + c * 12 + position] * weight[c * 5 + feature];
  }
  expect_near(l.run(), want, 3e-6, "linear");
}

/// Krizhevsky et al. 2012, section 3.3: x / (2 + 1e-4 sum of squares over 5 neighbouring channels)^0.75. The
/// inputs are large enough for the sum to count.
TEST(Reference, LocalResponseNormalisation) {
  LayerRun b({{9, 3, 2}}, R"({"type": "lrn", "window": 5})", 2);
  b.change_input([](float x) { return 200 * x; });
  const Values x = b.input();
  Values want(x.size());
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t sample = i / 54, channel = i % 54 / 6, pixel = i % 6;
    double sum = 2;
    for (int64_t c = std::max<int64_t>(0, channel - 2); c <= std::min<int64_t>(8, channel + 2); ++c)
      sum += 1e-4 * std::pow(x[static_cast<std::size_t>(sample * 54 + c * 6 + pixel)], 2);
    want[static_cast<std::size_t>(i)] = x[static_cast<std::size_t>(i)] * std::pow(sum, -0.75);
  }
  expect_near(b.run(), want, 2e-6);
}

struct AttentionCase {
  int64_t heads, kv_heads, size, query, key;
  bool causal, rotary;
  int64_t window = 0;
  Values sinks = {}, bias = {};  ///< of each head; {bucket, head}
  int64_t buckets = 0;
};

/// _relative_position_bucket of T5's code.
int64_t bucket_of(int64_t query, int64_t key, bool causal, int64_t buckets) {
  int64_t apart = query - key, first = 0;
  if (causal) {
    apart = std::max<int64_t>(apart, 0);
  } else {
    buckets /= 2;
    first = apart < 0 ? buckets : 0;
    apart = std::abs(apart);
  }
  const int64_t exact = buckets / 2;
  if (apart < exact) return first + apart;
  const double steps = std::log(static_cast<double>(apart) / static_cast<double>(exact)) /
                       std::log(128.0 / static_cast<double>(exact)) * static_cast<double>(buckets - exact);
  return first + std::min(buckets - 1, exact + static_cast<int64_t>(steps));
}

/// Vector `head` of row `t` of a tensor {time, width}, turned by its position where asked.
Values head_of(const Values& x, int64_t row, int64_t width, int64_t offset, int64_t size, int64_t t,
               bool rotary) {
  const auto begin = x.begin() + row * width + offset;
  Values v(begin, begin + size);
  if (!rotary) return v;
  Values out(v.size());
  const std::size_t half = v.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(t) *
                         std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(v.size()));
    out[i] = v[i] * std::cos(angle) - v[i + half] * std::sin(angle);
    out[i + half] = v[i] * std::sin(angle) + v[i + half] * std::cos(angle);
  }
  return out;
}

/// `packed` holds q, k and v of a time step side by side; else three tensors.
Values attention(const AttentionCase& c, int64_t batch, const std::vector<Values>& in) {
  const bool packed = in.size() == 1;
  const int64_t wq = packed ? (c.heads + 2 * c.kv_heads) * c.size : c.heads * c.size;
  const int64_t wk = packed ? wq : c.kv_heads * c.size;
  Values out;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < c.query; ++t)
      for (int64_t h = 0; h < c.heads; ++h) {
        const int64_t kv = h / (c.heads / c.kv_heads);
        const Values q = head_of(in[0], b * c.query + t, wq, h * c.size, c.size, t, c.rotary);
        Values y(static_cast<std::size_t>(c.size), 0.0);
        double sum = c.sinks.empty() ? 0 : std::exp(c.sinks[static_cast<std::size_t>(h)]);
        for (int64_t s = 0; s < c.key; ++s) {
          if (c.causal && (s > t || (c.window > 0 && s + c.window <= t))) continue;
          const int64_t row = b * c.key + s;
          const Values k = head_of(in[packed ? 0 : 1], row, wk, (packed ? c.heads * c.size : 0) + kv * c.size,
                                   c.size, s, c.rotary);
          const Values v =
              head_of(in[packed ? 0 : 2], row, wk,
                      (packed ? (c.heads + c.kv_heads) * c.size : 0) + kv * c.size, c.size, s, false);
          double score =
              std::inner_product(q.begin(), q.end(), k.begin(), 0.0) / std::sqrt(static_cast<double>(c.size));
          if (c.buckets > 0)
            score += c.bias[static_cast<std::size_t>(bucket_of(t, s, c.causal, c.buckets) * c.heads + h)];
          const double weight = std::exp(score);
          sum += weight;
          for (std::size_t i = 0; i < y.size(); ++i) y[i] += weight * v[i];
        }
        for (const double v : y) out.push_back(v / sum);
      }
  return out;
}

/// Attention within windows of `grid` x `grid` elements of an image of `across` x `across` of them, packed,
/// with a score of each head for how far apart two elements are, down and across. Of a moved image only those
/// see each other that came in from the other side together.
Values windowed(int64_t heads, int64_t size, int64_t grid, int64_t across, bool shifted, const Values& in,
                const Values& bias) {
  const int64_t side = 2 * grid - 1, rows = grid * grid, width = 3 * heads * size, edge = grid - grid / 2;
  Values out;
  for (int64_t w = 0; w < static_cast<int64_t>(in.size()) / (rows * width); ++w)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t h = 0; h < heads; ++h) {
        const Values q = head_of(in, w * rows + i, width, h * size, size, 0, false);
        Values y(static_cast<std::size_t>(size), 0.0);
        double sum = 0;
        for (int64_t j = 0; j < rows; ++j) {
          const int64_t iy = i / grid, ix = i % grid, jy = j / grid, jx = j % grid,
                        wy = w % (across * across) / across, wx = w % across;
          const bool down = wy == across - 1 && (iy < edge) != (jy < edge),
                     right = wx == across - 1 && (ix < edge) != (jx < edge);
          if (shifted && (down || right)) continue;
          const Values k = head_of(in, w * rows + j, width, (heads + h) * size, size, 0, false),
                       v = head_of(in, w * rows + j, width, (2 * heads + h) * size, size, 0, false);
          const int64_t at = (iy - jy + grid - 1) * side + ix - jx + grid - 1;
          const double weight = std::exp(std::inner_product(q.begin(), q.end(), k.begin(), 0.0) /
                                             std::sqrt(static_cast<double>(size)) +
                                         bias[static_cast<std::size_t>(at * heads + h)]);
          sum += weight;
          for (std::size_t d = 0; d < y.size(); ++d) y[d] += weight * v[d];
        }
        for (const double v : y) out.push_back(v / sum);
      }
  return out;
}

TEST(Reference, AttentionInWindowsOfAnImage) {
  for (const auto& [grid, across, shifted] :
       {std::tuple{2, 2, true}, std::tuple{2, 2, false}, std::tuple{3, 3, true}, std::tuple{3, 1, false}}) {
    const std::string layer = R"({"type": "attention", "heads": 2, "parts": )" +
                              std::to_string(across * across) + R"(, "grid": )" + std::to_string(grid) +
                              R"(, "shifted": )" + (shifted ? "true}" : "false}");
    LayerRun b({{grid * grid * across * across, 3 * 2 * 5}}, layer, 2);
    const Values want = windowed(2, 5, grid, across, shifted, b.input(), b.parameter("bias"));
    expect_near(b.run(), want, 3e-6, layer);
  }
}

TEST(Reference, RollMovesWhatLeavesToTheFront) {
  LayerRun b({{2, 5, 3}}, R"({"type": "roll", "axis": 1, "by": 2})", 2);
  const Values x = b.input();
  Values want(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) want[i / 15 * 15 + (i / 3 % 5 + 2) % 5 * 3 + i % 3] = x[i];
  expect_near(b.run(), want, 0);
}

TEST(Reference, Attention) {
  for (const AttentionCase& c : {AttentionCase{2, 2, 6, 7, 7, false, false},
                                 {4, 2, 4, 5, 5, true, false},
                                 {3, 1, 8, 6, 6, true, true},
                                 {4, 2, 6, 3, 9, false, false},
                                 {2, 2, 4, 8, 5, false, true},
                                 {2, 1, 4, 1, 1, true, true}}) {
    const std::string layer = R"({"type": "attention", "heads": )" + std::to_string(c.heads) +
                              R"(, "kv_heads": )" + std::to_string(c.kv_heads) + R"(, "causal": )" +
                              (c.causal ? "true" : "false") + R"(, "rotary": )" +
                              (c.rotary ? "true" : "false");
    const Shape q{c.query, c.heads * c.size}, k{c.key, c.kv_heads * c.size};
    LayerRun three({q, k, k}, layer + R"(, "from": ["a", "b", "c"]})", 3);
    three.change_input([](float x) { return 3 * x; });
    const Values want = attention(c, 3, {three.input(0), three.input(1), three.input(2)});
    expect_near(three.run(), want, 3e-6, layer);
    if (c.query != c.key) continue;
    LayerRun packed({{c.query, (c.heads + 2 * c.kv_heads) * c.size}}, layer + "}", 3);
    const Values expected = attention(c, 3, {packed.input()});
    expect_near(packed.run(), expected, 3e-6, layer);
  }
}

/// GPT-OSS' windows and sinks, T5's scores of distances.
TEST(Reference, AttentionWithLearnedScoresAndWindows) {
  for (AttentionCase c : {AttentionCase{4, 2, 6, 9, 9, true, true, 3},
                          {2, 2, 4, 12, 12, true, false, 1},
                          {2, 2, 4, 6, 6, true, false, 40},
                          {2, 1, 4, 150, 150, true, false, 70, {}, {}, 32},
                          {2, 2, 4, 150, 140, false, false, 0, {}, {}, 12}}) {
    for (const bool sinks : {true, false}) {
      const std::string layer = R"({"type": "attention", "heads": )" + std::to_string(c.heads) +
                                R"(, "kv_heads": )" + std::to_string(c.kv_heads) +
                                (c.causal ? R"(, "causal": true)" : "") +
                                (c.rotary ? R"(, "rotary": true)" : "") +
                                (c.window > 0 ? R"(, "window": )" + std::to_string(c.window) : "") +
                                (sinks ? R"(, "sinks": true)" : "") +
                                (c.buckets > 0 ? R"(, "bias_buckets": )" + std::to_string(c.buckets) : "") +
                                R"(, "from": ["a", "b", "c"]})";
      const Shape q{c.query, c.heads * c.size}, k{c.key, c.kv_heads * c.size};
      LayerRun run({q, k, k}, layer, 2);
      run.change_input([](float x) { return 3 * x; });
      c.sinks = sinks ? run.parameter("sinks") : Values{};
      if (c.buckets > 0) c.bias = run.parameter("bias");
      expect_near(run.run(), attention(c, 2, {run.input(0), run.input(1), run.input(2)}), 3e-6, layer);
    }
  }
}

/// The first distance of each of the 16 buckets that T5 has for what comes before.
TEST(Reference, DistancesOfT5) {
  Call call;
  call.shape = {1, 1, 1, 500, 500, 64, 0, 64, 64, 0, 0, 0, 500, 500, 500, 0, 0, 32};
  const exec::DistanceBuckets buckets{exec::AttentionShape(call)};
  const std::vector<int64_t> begins{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  for (int64_t bucket = 0; bucket < 16; ++bucket) {
    const int64_t apart = begins[static_cast<std::size_t>(bucket)];
    EXPECT_EQ(buckets.bucket(499, 499 - apart), bucket);
    if (bucket > 0) {
      EXPECT_EQ(buckets.bucket(499, 499 - apart + 1), bucket - 1);
      EXPECT_EQ(buckets.bucket(0, apart), 16 + bucket) << "what comes after";
    }
  }
  EXPECT_EQ(buckets.bucket(499, 0), 15);
}

/// DeepSeek-V2, equations 41 to 47: a head's key is its own part and behind that the part that turns, which
/// all heads share; values may be narrower.
TEST(Reference, LatentAttention) {
  const int64_t batch = 2, time = 5, heads = 3, own = 4, rope = 2, size = own + rope, width = 9;
  for (const int64_t value : {3, 6}) {
    LayerRun run({{time, heads * size}, {time, heads * (own + value)}, {time, width}},
                 R"({"type": "attention", "heads": 3, "head_dim": 6, "rope_dim": 2, "v_head_dim": )" +
                     std::to_string(value) + R"(, "causal": true, "rotary": true, "from": ["a", "b", "c"]})",
                 batch);
    run.change_input([](float x) { return 3 * x; });
    const Values q = run.input(0), kv = run.input(1), down = run.input(2);
    const auto joined = [&](Values first, const Values& second) {
      first.insert(first.end(), second.begin(), second.end());
      return first;
    };
    Values want;
    for (int64_t row = 0; row < batch * time; ++row) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t t = row % time;
        const Values query = joined(head_of(q, row, heads * size, h * size, own, t, false),
                                    head_of(q, row, heads * size, h * size + own, rope, t, true));
        Values y(static_cast<std::size_t>(value), 0.0);
        double sum = 0;
        for (int64_t s = 0; s <= t; ++s) {
          const int64_t other = row - t + s, begin = h * (own + value);
          const Values key = joined(head_of(kv, other, heads * (own + value), begin, own, s, false),
                                    head_of(down, other, width, width - rope, rope, s, true));
          const Values v = head_of(kv, other, heads * (own + value), begin + own, value, s, false);
          const double weight =
              std::exp(std::inner_product(query.begin(), query.end(), key.begin(), 0.0) / std::sqrt(6.0));
          sum += weight;
          for (std::size_t i = 0; i < y.size(); ++i) y[i] += weight * v[i];
        }
        for (const double v : y) want.push_back(v / sum);
      }
    }
    expect_near(run.run(), want, 3e-6, "latent");
  }
}

/// Norms of each head's queries and keys, in front of the turning.
TEST(Reference, AttentionWithNormsOfQueriesAndKeys) {
  const AttentionCase c{4, 2, 4, 5, 5, true, true};
  LayerRun run(
      {{5, 32}},
      R"({"type": "attention", "heads": 4, "kv_heads": 2, "causal": true, "rotary": true, "qk_norm": true})",
      3);
  Values x = run.input();
  const Values scales[] = {run.parameter("q_scale"), run.parameter("k_scale")};
  for (std::size_t at = 0; at < x.size(); at += 4) {
    const std::size_t head = at % 32 / 4;
    if (head >= 6) continue;  // values
    double square = 0;
    for (std::size_t i = 0; i < 4; ++i) square += x[at + i] * x[at + i] / 4;
    for (std::size_t i = 0; i < 4; ++i) x[at + i] *= scales[head < 4 ? 0 : 1][i] / std::sqrt(square + 1e-5);
  }
  expect_near(run.run(), attention(c, 3, {x}), 3e-6, "norms");
}

/// One direction of one recurrent layer after cuDNN's developer guide (cudnnRNNMode_t): x {batch, time, f}.
struct Unit {
  std::string cell;
  int64_t batch, time, features, hidden;
  bool reverse;
  Values w, r, bias;

  int64_t gates() const { return cell == "lstm" ? 4 : cell == "gru" ? 3 : 1; }
  /// Gate `g`, unit `j`: x W + its bias, or h R + its bias.
  double product(const Values& m, const double* v, int64_t n, int64_t half, int64_t g, int64_t j) const {
    const int64_t width = gates() * hidden, column = g * hidden + j;
    double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(half * width + column)];
    for (int64_t i = 0; i < n; ++i) sum += v[i] * m[static_cast<std::size_t>(i * width + column)];
    return sum;
  }
  Values run(const Values& x) const {
    Values out(static_cast<std::size_t>(batch * time * hidden));
    for (int64_t b = 0; b < batch; ++b) {
      Values h(static_cast<std::size_t>(hidden), 0.0), c = h;
      for (int64_t n = 0; n < time; ++n) {
        const int64_t t = reverse ? time - 1 - n : n;
        const double* in = x.data() + (b * time + t) * features;
        Values next(h.size());
        for (std::size_t j = 0; j < h.size(); ++j) {
          const auto wx = [&](int64_t g) { return product(w, in, features, 0, g, static_cast<int64_t>(j)); };
          const auto rh = [&](int64_t g) {
            return product(r, h.data(), hidden, 1, g, static_cast<int64_t>(j));
          };
          if (cell == "rnn") {
            next[j] = std::tanh(wx(0) + rh(0));
          } else if (cell == "lstm") {
            c[j] = sigmoid(wx(1) + rh(1)) * c[j] + sigmoid(wx(0) + rh(0)) * std::tanh(wx(2) + rh(2));
            next[j] = sigmoid(wx(3) + rh(3)) * std::tanh(c[j]);
          } else {
            const double z = sigmoid(wx(1) + rh(1));
            next[j] = (1 - z) * std::tanh(wx(2) + sigmoid(wx(0) + rh(0)) * rh(2)) + z * h[j];
          }
        }
        h = next;
        std::copy(h.begin(), h.end(), out.begin() + (b * time + t) * hidden);
      }
    }
    return out;
  }
};

TEST(Reference, RecurrentLayersStackedAndInBothDirections) {
  const int64_t batch = 3, time = 5, hidden = 7;
  for (const std::string cell : {"rnn", "lstm", "gru"})
    for (const int64_t directions : {1, 2})
      for (const bool bias : {true, false}) {
        LayerRun b({{time, 4}},
                   R"({"type": ")" + cell + R"(", "hidden": 7, "layers": 3, "bidirectional": )" +
                       (directions == 2 ? "true" : "false") + R"(, "bias": )" + (bias ? "true" : "false") +
                       "}",
                   batch);
        Values x = b.input();
        int64_t features = 4;
        for (int64_t layer = 0; layer < 3; ++layer) {
          Values joined(static_cast<std::size_t>(batch * time * hidden * directions));
          for (int64_t d = 0; d < directions; ++d) {
            const std::string suffix = std::to_string(layer) + (d == 0 ? "" : "_reverse");
            const Unit unit{cell,
                            batch,
                            time,
                            features,
                            hidden,
                            d == 1,
                            b.parameter("input_weight" + suffix),
                            b.parameter("recurrent_weight" + suffix),
                            bias ? b.parameter("bias" + suffix) : Values{}};
            const Values y = unit.run(x);
            for (std::size_t i = 0; i < y.size(); ++i) {
              const auto n = static_cast<std::size_t>(hidden);
              joined[i / n * n * static_cast<std::size_t>(directions) + static_cast<std::size_t>(d) * n +
                     i % n] = y[i];
            }
          }
          x = joined;
          features = hidden * directions;
        }
        expect_near(b.run(), x, 3e-6, cell);
      }
}

}  // namespace
}  // namespace tandem::tests
