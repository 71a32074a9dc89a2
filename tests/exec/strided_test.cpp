// SPDX-License-Identifier: Apache-2.0
// Strided moves and products of every backend whose memory is not the host's, held against their definition
// (exec/lower/call.h): whatever sizes, orders, steps and first places, in 4 bytes and in 2. Numbers are small
// and whole, so that results are exact. As conformance_test.cpp, on the emulated device or on a GPU.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "exec/device/backend.h"
#ifdef TANDEM_TEST_EMULATED
#include "tests/exec/emulated_backend.h"
#endif

namespace tandem::tests {
namespace {

using exec::Call, exec::DeviceSession, exec::Function, exec::Lane, exec::Strided;

const exec::Backend& far_backend() {
#ifdef TANDEM_TEST_EMULATED
  return emulated_backend();
#else
  return exec::backends_registry().at("cuda");
#endif
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t end) { return static_cast<int64_t>(random_.next() % static_cast<uint64_t>(end)); }
  int64_t of(const std::vector<int64_t>& values) {
    return values[static_cast<std::size_t>(below(static_cast<int64_t>(values.size())))];
  }
  bool one_in(int64_t n) { return below(n) == 0; }

 private:
  SplitMix64 random_;
};

/// Strides of dimensions that lie in that order, the innermost last, with gaps in between that are multiples
/// of `step`.
std::vector<int64_t> laid_out(const std::vector<int64_t>& sizes, const std::vector<std::size_t>& order,
                              int64_t step, Draws& draws) {
  std::vector<int64_t> out(sizes.size());
  int64_t next = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    out[order[k]] = next;
    next *= sizes[order[k]];
    if (draws.one_in(2)) next = (next + step - 1) / step * step + step * draws.below(3);
  }
  return out;
}

/// Half of them keep runs of neighbours together, as concatenations do, some in places that suit them.
Strided drawn(std::size_t operands, Draws& draws) {
  Strided s;
  const bool runs = draws.one_in(2);
  const auto dims = static_cast<std::size_t>(1 + draws.below(4));
  for (std::size_t d = 0; d < dims; ++d) s.sizes.push_back(draws.of({1, 2, 3, 4, 5, 7, 9}));
  s.sizes.back() = draws.of({1, 3, 4, 8, 12, 16, 24, 31, 40, 64});
  s.adds = draws.one_in(2);
  const int64_t step = draws.of({1, 2, 4, 8});
  std::vector<std::size_t> order(dims);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t o = 0; o < operands; ++o) {
    for (std::size_t d = runs ? dims - 1 : dims; d > 1; --d)
      std::swap(order[d - 1], order[static_cast<std::size_t>(draws.below(static_cast<int64_t>(d)))]);
    s.strides.push_back(laid_out(s.sizes, order, step, draws));
    const auto repeated = static_cast<std::size_t>(draws.below(static_cast<int64_t>(dims)));
    if (draws.one_in(4) && (o > 0 || s.adds)) s.strides.back()[repeated] = 0;
    s.offsets.push_back(draws.of({0, 0, 1, 2, 4, 8}));
  }
  return s;
}

/// In the device's memory, `half`: in 2 bytes.
struct Operand {
  std::vector<float> values;
  bool half = false;
  float *memory = nullptr, *in_four_bytes = nullptr;

  int64_t count() const { return static_cast<int64_t>(values.size()); }
  void put(DeviceSession& device) {
    in_four_bytes = memory = device.allocate(count());
    if (half) memory = device.allocate((count() + 1) / 2);
    device.upload(in_four_bytes, values.data(), count());
    if (half) device.narrow(memory, in_four_bytes, count(), Lane::compute);
  }
  std::vector<float> got(DeviceSession& device) const {
    if (half) device.upcast(in_four_bytes, memory, count(), Lane::compute);
    device.synchronize(Lane::compute);
    std::vector<float> out(values.size());
    device.download(out.data(), in_four_bytes, count());
    return out;
  }
};

/// Which reach beyond what is used, where nothing may change.
std::vector<Operand> operands_of(const Strided& s, uint64_t halves, Draws& draws) {
  std::vector<Operand> out(s.offsets.size());
  for (std::size_t o = 0; o < out.size(); ++o) {
    int64_t end = s.offsets[o] + 17;
    for (std::size_t d = 0; d < s.sizes.size(); ++d) end += (s.sizes[d] - 1) * s.strides[o][d];
    for (int64_t i = 0; i < end; ++i) out[o].values.push_back(static_cast<float>(draws.below(3) - 1));
    out[o].half = (halves >> o & 1U) != 0;
  }
  return out;
}

std::vector<float> wanted(const Strided& s, const std::vector<Operand>& operands) {
  std::vector<float> y = operands[0].values;
  std::vector<int64_t> index(s.sizes.size(), 0);
  for (;;) {
    const auto at = [&](std::size_t o) {
      return static_cast<std::size_t>(
          std::inner_product(index.begin(), index.end(), s.strides[o].begin(), s.offsets[o]));
    };
    float v = operands[1].values[at(1)];
    if (operands.size() > 2) v *= operands[2].values[at(2)];
    y[at(0)] = s.adds ? y[at(0)] + v : v;
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == s.sizes[d - 1]) index[--d] = 0;
    if (d == 0) return y;
  }
}

void expect_as_defined(DeviceSession& device, const Strided& s, uint64_t halves, Draws& draws) {
  std::vector<Operand> operands = operands_of(s, halves, draws);
  Call call;
  call.function = operands.size() > 2 ? Function::product : Function::move;
  call.shape = s.pack();
  std::vector<float*> memory;
  for (std::size_t o = 0; o < operands.size(); ++o) {
    operands[o].put(device);
    memory.push_back(operands[o].memory);
    call.operands.push_back(static_cast<exec::TensorId>(o));
    call.half_operands.push_back(operands[o].half ? operands[o].count() : 0);
  }
  device.launch(device.prepare(call), memory, {}, Lane::compute);
  ASSERT_EQ(operands[0].got(device), wanted(s, operands)) << fmt::format(
      "{} of sizes {} strides {} offsets {} adds {} in 2 bytes: {:b}", exec::name(call.function),
      fmt::join(s.sizes, ","), s.strides, fmt::join(s.offsets, ","), s.adds, halves);
}

class StridedConformance : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (const std::string why = far_backend().missing(); !why.empty()) GTEST_SKIP() << why;
    device_ = far_backend().open({0, GetParam(), 1});
  }
  std::unique_ptr<DeviceSession> device_;
};

TEST_P(StridedConformance, WhateverLiesHow) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Draws draws(seed);
    const std::size_t operands = seed % 4 == 3 ? 3 : 2;
    const Strided s = drawn(operands, draws);
    for (const uint64_t halves :
         operands == 3 ? std::vector<uint64_t>{0, 7} : std::vector<uint64_t>{0, 1, 2, 3})
      expect_as_defined(*device_, s, halves, draws);
    if (HasFatalFailure()) return;
  }
}

/// Parts of all lengths, joined and taken out again.
TEST_P(StridedConformance, PartsOfRows) {
  Draws draws(1);
  for (int64_t part = 1; part <= 24; ++part) {
    for (const int64_t from : {0, 1, 2, 4, 8}) {
      const int64_t row = part + from + from % 3;
      const std::vector<int64_t> sizes{37, part}, whole{row, 1}, alone{part, 1};
      for (const uint64_t halves : {0, 3}) {
        expect_as_defined(*device_, {sizes, {whole, alone}, {from, 0}, false}, halves, draws);
        expect_as_defined(*device_, {sizes, {alone, whole}, {0, from}, false}, halves, draws);
      }
    }
  }
}

/// Whole blocks of pieces, and divisors of many digits.
TEST_P(StridedConformance, LargeOnes) {
  Draws draws(2);
  const int64_t rows = 271'003;
  const std::vector<int64_t> sizes{rows, 8}, turned{1, rows};
  expect_as_defined(*device_, {sizes, {{16, 1}, {8, 1}}, {8, 0}, false}, 3, draws);
  expect_as_defined(*device_, {sizes, {turned, {8, 1}}, {0, 0}, false}, 3, draws);
  expect_as_defined(*device_, {{3, 100'003, 4}, {{400'012, 4, 1}, {4, 12, 1}}, {0, 0}, true}, 3, draws);
  const int64_t outputs = 140'004;  // so many that each is summed by one thread
  const std::vector<int64_t> sum{0, 1}, terms{outputs, 1};
  expect_as_defined(*device_, {{5, outputs}, {sum, terms}, {4, 0}, true}, 2, draws);
  expect_as_defined(*device_, {{5, outputs}, {sum, terms, {1, 0}}, {0, 4, 0}, true}, 7, draws);
  expect_as_defined(*device_, {{5, outputs}, {sum, terms, terms}, {0, 4, 8}, true}, 7, draws);
}

INSTANTIATE_TEST_SUITE_P(Halves, StridedConformance, testing::Values(Precision::bf16, Precision::fp16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tandem::tests
