// SPDX-License-Identifier: Apache-2.0
// Attention in 4 bytes by tiles and by products, held against the CPU, in sizes at which a GPU tries
// several ways: it takes the fastest, whose results it compares with those of its own tiles first.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "exec/lower/call_shapes.h"
#include "tests/exec/test_run.h"

namespace tandem::tests {
namespace {

struct Way {
  std::string name;
  const Backend* backend;
  Precision precision;
  double tolerance;         ///< of a tensor's norm
  std::size_t choices = 0;  ///< of both passes: so many are tried
};

#ifdef TANDEM_TEST_EMULATED
constexpr int kWays = 5;
Way way(int index) {
  constexpr double tolerance = 1e-5;
  if (index == 0) return {"tiles", &emulated_backend(), Precision::fp32, tolerance};
  if (index == 4) return {"tensor cores", &emulated_tensor_cores(), Precision::fp32, 1e-3};
  const Slices slices =
      std::array{Slices::few, Slices::some, Slices::many}[static_cast<std::size_t>(index - 1)];
  return {"products, slices " + std::to_string(index), &emulated_products(slices), Precision::fp32,
          tolerance};
}
#else
constexpr int kWays = 2;
Way way(int index) {
  const Backend& cuda = backends_registry().at("cuda");
  if (index == 0) return {"fp32", &cuda, Precision::fp32, 3e-5, 2};
  return {"tf32", &cuda, Precision::tf32, 5e-3, 2};
}
#endif

struct AttentionSizes {
  const char* name;
  int64_t batch, heads, kv_heads, query, key, size;
  bool causal;
  bool packed = false;  ///< q, k and v side by side in rows
  /// Elements in front of q, k and v each, and behind them in a row; rows of a sample in front of these.
  int64_t odd = 0, before = 0;
  int64_t window = 0;
};

#ifdef TANDEM_TEST_EMULATED
constexpr int64_t kTimes = 1;
#else
constexpr int64_t kTimes = 16;  ///< samples, so that all are worth a trial
#endif

std::vector<AttentionSizes> attention_sizes() {
  return {
      {"causal, packed", 2 * kTimes, 2, 2, 300, 300, 16, true, true},
      {"not causal", kTimes, 3, 3, 272, 272, 8, false},
      {"grouped heads", kTimes, 6, 2, 290, 290, 8, true, true},
      {"heads that share one key", kTimes, 4, 1, 70, 515, 12, false},
      {"long keys, causal", kTimes, 2, 2, 70, 600, 32, true},
      {"more queries than keys", kTimes, 2, 2, 390, 130, 16, true},
      {"odd sizes", 3 * kTimes, 1, 1, 269, 269, 13, true, true},
      {"at odd places", kTimes, 4, 2, 75, 75, 32, true, false, 3},
      {"at even places beside others", 2 * kTimes, 2, 2, 320, 320, 8, true, false, 4},
      {"parts of sequences", kTimes, 4, 2, 50, 100, 32, true, false, 0, 50},
      {"window", kTimes, 4, 2, 210, 210, 48, true, true, 0, 0, 75},
      {"large heads", kTimes, 2, 1, 70, 70, 160, true, true},
      {"one query", 16 * kTimes, 4, 4, 1, 150, 64, false},
      {"short", 15 * kTimes, 3, 3, 20, 20, 32, true, true},
#ifndef TANDEM_TEST_EMULATED
      {"gpt2", 1, 12, 12, 1024, 1024, 64, true, true},
      {"bert", 3, 16, 16, 512, 512, 64, false},
      {"vit", 8, 12, 12, 197, 197, 64, false, true},
      {"long", 1, 2, 1, 2500, 3001, 80, true},
#endif
  };
}

/// Operands of both passes: sizes and places.
struct Operands {
  int64_t q, k, out, sums;
  std::vector<int64_t> shape;
  explicit Operands(const AttentionSizes& c) {
    const int64_t wide = c.heads * c.size, narrow = c.kv_heads * c.size;
    const int64_t q_row = c.packed ? wide + 2 * narrow : wide + 2 * c.odd,
                  kv_row = c.packed ? q_row : narrow + 2 * c.odd, q_rows = c.query + c.before,
                  kv_rows = c.key + c.before;
    q = c.batch * q_rows * q_row;
    k = c.batch * kv_rows * kv_row;
    out = c.batch * q_rows * wide;
    sums = c.batch * c.heads * q_rows;
    const int64_t begin_q = c.packed ? 0 : c.odd + c.before * q_row,
                  begin_k = c.packed ? wide : c.odd + c.before * kv_row,
                  begin_v = c.packed ? wide + narrow : begin_k;
    shape = {c.batch, c.heads, c.kv_heads, c.query, c.key,   c.size, c.causal ? 1 : 0, q_row,   kv_row,
             begin_q, begin_k, begin_v,    q_rows,  kv_rows, q_rows, c.before,         c.window};
  }
};

struct Results {
  std::vector<float> out, sums, dq, dk, dv;
  bool operator==(const Results&) const = default;
};

class Attending {
 public:
  Attending(const AttentionSizes& c, const Backend& backend, Precision precision)
      : operands_(c), packed_(c.packed), device_(backend.open({0, precision, 1})) {
    forward_.function = Function::attention;
    backward_.function = Function::attention_backward;
    forward_.shape = backward_.shape = operands_.shape;
    forward_.operands.resize(5);
    backward_.operands.resize(9);
    forward_call_ = device_->prepare(forward_);
    backward_call_ = device_->prepare(backward_);
    q_ = random(operands_.q);
    k_ = c.packed ? q_ : random(operands_.k);
    v_ = c.packed ? q_ : random(operands_.k);
    dout_ = random(operands_.out);
    dq_ = device_->allocate(operands_.q);
    dk_ = c.packed ? dq_ : device_->allocate(operands_.k);
    dv_ = c.packed ? dq_ : device_->allocate(operands_.k);
    out_ = device_->allocate(operands_.out);
    sums_ = device_->allocate(operands_.sums);
    device_->set_state({}, Lane::compute);
  }
  Results run() {
    device_->launch(forward_call_, std::array{out_, q_, k_, v_, sums_}, {}, Lane::compute);
    device_->launch(backward_call_, std::array{dq_, dk_, dv_, q_, k_, v_, out_, dout_, sums_}, {},
                    Lane::compute);
    device_->synchronize(Lane::compute);
    Results r{read(out_, operands_.out), read(sums_, operands_.sums), read(dq_, operands_.q), {}, {}};
    if (packed_) return r;
    r.dk = read(dk_, operands_.k);
    r.dv = read(dv_, operands_.k);
    return r;
  }
  std::vector<LibraryChoice> choices() const { return device_->choices(); }

 private:
  float* random(int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = static_cast<float>(4 * to_unit(random_.next()) - 2);
    float* const at = device_->allocate(n);
    device_->upload(at, values.data(), n);
    return at;
  }
  std::vector<float> read(const float* at, int64_t n) {
    std::vector<float> out(static_cast<std::size_t>(n));
    device_->download(out.data(), at, n);
    return out;
  }

  Operands operands_;
  bool packed_;
  std::unique_ptr<DeviceSession> device_;
  SplitMix64 random_{5};
  Call forward_, backward_;
  uint32_t forward_call_ = 0, backward_call_ = 0;
  float *q_, *k_, *v_, *dout_, *dq_, *dk_, *dv_, *out_, *sums_;
};

/// What a call leaves alone is 0 in both.
void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double w = static_cast<double>(want[i]), d = static_cast<double>(got[i]) - w;
    difference += d * d;
    all += w * w;
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(all))
      << what << ": apart by " << std::sqrt(difference / all);
}

class ConformanceOfAttention : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(ConformanceOfAttention, EqualsTheCpu) {
  const auto [index, size] = GetParam();
  const Way by = way(index);
  if (const std::string why = by.backend->missing(); !why.empty()) GTEST_SKIP() << why;
  const AttentionSizes c = attention_sizes().at(size);
  const std::string what = by.name + ", " + c.name;
  Attending device(c, *by.backend, by.precision), cpu(c, backends_registry().at("cpu"), Precision::fp32);
  const Results want = cpu.run(), got = device.run();
  expect_near(got.out, want.out, by.tolerance, what + ": output");
  expect_near(got.sums, want.sums, by.tolerance, what + ": log sums");
  expect_near(got.dq, want.dq, by.tolerance, what + (c.packed ? ": gradients" : ": dq"));
  expect_near(got.dk, want.dk, by.tolerance, what + ": dk");
  expect_near(got.dv, want.dv, by.tolerance, what + ": dv");
  EXPECT_TRUE(device.run() == got) << what << ": not the same bits over what the first run left behind";
  const bool tiles_alone = c.window > 0 && by.precision == Precision::fp32;
  EXPECT_EQ(device.choices().size(), tiles_alone ? 0 : by.choices) << what;
  for (const LibraryChoice& choice : device.choices()) {
    EXPECT_EQ(choice.refused, "") << what;
    std::cout << what << ": " << name(choice.function) << " by " << choice.library << ", " << choice.engine
              << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ConformanceOfAttention,
                         testing::Combine(testing::Range(0, kWays),
                                          testing::Range(std::size_t{0}, attention_sizes().size())));

}  // namespace
}  // namespace tandem::tests
