// SPDX-License-Identifier: Apache-2.0
// Layers that move, join or look up elements, held against the index arithmetic of the model's shapes.
#include <gtest/gtest.h>

#include <functional>

#include "tests/exec/layer_run.h"

namespace tandem::tests {
namespace {

/// y[i] = x[from(i)] for every element of a sample, or 0 where from is negative.
void expect_moved(const Shape& shape, const std::string& layer, const std::function<int64_t(int64_t)>& from) {
  LayerRun b({shape}, layer, 2);
  const Values x = b.input();
  const Shape& output = b.graph.layers().back().output;
  const int64_t in = elements(shape), out = elements(output);
  Values want;
  for (int64_t i = 0; i < 2 * out; ++i) {
    const int64_t at = from(i % out);
    want.push_back(at < 0 ? 0 : x[static_cast<std::size_t>(i / out * in + at)]);
  }
  EXPECT_EQ(b.run(), want) << layer;
}

TEST(Moves, LayersThatMoveElements) {
  // {2,3,4}: element (c, y, x) counts c 12 + y 4 + x.
  expect_moved({2, 3, 4}, R"({"type": "transpose", "order": [2, 0, 1]})",  // to {4,2,3}
               [](int64_t i) { return i % 6 * 4 + i / 6; });
  expect_moved({3, 4}, R"({"type": "transpose", "order": [1, 0]})",
               [](int64_t i) { return i % 3 * 4 + i / 3; });
  expect_moved({2, 3, 4}, R"({"type": "slice", "axis": 2, "begin": 1, "end": 3})",
               [](int64_t i) { return i / 2 * 4 + 1 + i % 2; });
  expect_moved({4, 3, 2}, R"({"type": "split", "parts": 2, "index": 1})", [](int64_t i) { return 12 + i; });
  expect_moved({2, 3, 4}, R"({"type": "reshape", "shape": [4, 6]})", [](int64_t i) { return i; });
  expect_moved({2, 3, 4}, R"({"type": "reshape", "shape": [3, 2, 4]})", [](int64_t i) { return i; });
  expect_moved({4, 6}, R"({"type": "reshape", "shape": [2, 3, 4]})", [](int64_t i) { return i; });
  expect_moved({2, 1, 2}, R"({"type": "pad", "amount": [1, 0]})", [](int64_t i) {  // to {2,3,2}
    return i % 6 / 2 == 1 ? i / 6 * 2 + i % 2 : -1;
  });
  expect_moved({2, 1, 2}, R"({"type": "upsample", "factor": [1, 2]})", [](int64_t i) { return i / 2; });
}

TEST(Moves, LayersOfSeveralInputs) {
  const auto at = [](const Values& v, int64_t i) { return v[static_cast<std::size_t>(i)]; };
  for (const std::string type : {"add", "mul"}) {
    const auto join = [&](double a, double b) { return type == "add" ? a + b : a * b; };
    // What element `i` of {2,3,4} meets, per shape of the second input.
    const std::vector<std::pair<Shape, std::function<int64_t(int64_t)>>> cases{
        {{2, 3, 4}, [](int64_t i) { return i; }},
        {{2}, [](int64_t i) { return i / 12; }},
        {{4}, [](int64_t i) { return i % 4; }},
        {{1}, [](int64_t) { return int64_t{0}; }},
        {{2, 1, 1}, [](int64_t i) { return i / 12; }},
        {{1, 3, 4}, [](int64_t i) { return i % 12; }},
        {{2, 1, 4}, [](int64_t i) { return i / 12 * 4 + i % 4; }}};
    for (const auto& [shape, meets] : cases) {
      LayerRun b({{2, 3, 4}, shape}, R"({"type": ")" + type + R"(", "from": ["a", "b"]})", 3);
      const Values x = b.input(0), z = b.input(1);
      const int64_t n = elements(shape);
      Values want;
      for (int64_t i = 0; i < 72; ++i) want.push_back(join(at(x, i), at(z, i / 24 * n + meets(i % 24))));
      expect_near(b.run(), want, 1e-6, type + " of " + to_text(shape));
    }
    LayerRun rows({{3, 4}, {4}}, R"({"type": ")" + type + R"(", "from": ["a", "b"]})", 3);
    const Values x = rows.input(0), z = rows.input(1);
    Values want;
    for (int64_t i = 0; i < 36; ++i) want.push_back(join(at(x, i), at(z, i / 12 * 4 + i % 4)));
    expect_near(rows.run(), want, 1e-6, type + " of rows");
  }
  LayerRun b({{2, 3, 4}, {2, 2, 4}}, R"({"type": "concat", "axis": 1, "from": ["a", "b"]})", 2);
  const Values x = b.input(0), z = b.input(1);
  Values want;
  for (int64_t i = 0; i < 2 * 40; ++i) {
    const int64_t plane = i / 20, row = i % 20 / 4, column = i % 4;
    want.push_back(row < 3 ? at(x, plane * 12 + row * 4 + column)
                           : at(z, plane * 8 + (row - 3) * 4 + column));
  }
  EXPECT_EQ(b.run(), want);
}

TEST(Moves, TokensPositionsAndMeans) {
  const auto at = [](const Values& v, int64_t i) { return v[static_cast<std::size_t>(i)]; };
  LayerRun tokens({{5}}, R"({"type": "embedding", "vocabulary": 9, "width": 3})", 4);
  const float* stored = tokens.graph_run.at(tokens.graph_run.execution_graph().inputs()[0]);
  const Values table = tokens.parameter("weight");
  Values want;
  for (int64_t i = 0; i < 60; ++i)
    want.push_back(at(table, reinterpret_cast<const int32_t*>(stored)[i / 3] * 3 + i % 3));
  EXPECT_EQ(tokens.run(), want);

  for (const Shape& shape : {Shape{3, 8}, Shape{3, 2, 4}}) {
    LayerRun b({shape}, R"({"type": "position-embedding", "length": 5})", 2);
    want = b.input();
    const Values positions = b.parameter("weight");
    for (int64_t i = 0; i < 48; ++i) want[static_cast<std::size_t>(i)] += at(positions, i % 24);
    expect_near(b.run(), want, 1e-6);
  }

  LayerRun cls({{3, 4}}, R"({"type": "cls-token"})", 2);
  const Values x = cls.input(), token = cls.parameter("token");
  want.clear();
  for (int64_t i = 0; i < 32; ++i)
    want.push_back(i % 16 < 4 ? at(token, i % 16) : at(x, i / 16 * 12 + i % 16 - 4));
  EXPECT_EQ(cls.run(), want);

  for (const int64_t axis : {0, 1}) {
    LayerRun b({{3, 4}}, R"({"type": "mean", "axis": )" + std::to_string(axis) + "}", 2);
    const Values in = b.input();
    want.assign(axis == 0 ? 8 : 6, 0);
    for (int64_t i = 0; i < 24; ++i) {
      const int64_t sample = i / 12, row = i % 12 / 4, column = i % 4;
      if (axis == 0) want[static_cast<std::size_t>(sample * 4 + column)] += at(in, i) / 3;
      if (axis == 1) want[static_cast<std::size_t>(sample * 3 + row)] += at(in, i) / 4;
    }
    expect_near(b.run(), want, 1e-6);
  }
}

}  // namespace
}  // namespace tandem::tests
