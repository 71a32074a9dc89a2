// SPDX-License-Identifier: Apache-2.0
// Gradients in the forms in which they travel, as a device makes them and makes gradients of them again, held
// against the CPU: int8 and topk to the bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "exec/device/compression.h"
#include "tests/exec/test_run.h"

namespace tandem::tests {
namespace {

const Backend& tested() {
#ifdef TANDEM_TEST_EMULATED
  return emulated_backend();
#else
  return backends_registry().at("cuda");
#endif
}
/// Sessions of the CPU and of the device, for all of a test.
struct Devices {
  std::unique_ptr<DeviceSession> cpu = backends_registry().at("cpu").open({0, Precision::fp32, 1}),
                                 tested = tandem::tests::tested().open({0, Precision::fp32, 1});
};

#define SKIP_WITHOUT_DEVICE()                                     \
  if (const std::string why = tested().missing(); !why.empty()) { \
    GTEST_SKIP() << tested().name << ": " << why;                 \
  }

using Kind = Compression::Kind;
/// Gradient i of worker w in step t.
using Gradient = std::function<float(uint64_t t, uint64_t w, uint64_t i)>;
constexpr int64_t kSteps = 2;  ///< the second with what the first left out

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

const std::vector<std::pair<const char*, Gradient>>& gradients() {
  static const auto draw = [](uint64_t t, uint64_t w, uint64_t i) { return draw_bits(7, t, w, i); };
  static const auto usual = [](uint64_t t, uint64_t w, uint64_t i) {
    const uint64_t bits = draw(t, w, i);
    return static_cast<float>(to_normal(bits) * std::exp2(static_cast<double>(bits % 9)));
  };
  static const std::vector<std::pair<const char*, Gradient>> all{
      {"usual", usual},
      {"ties", [](uint64_t t, uint64_t w,
                  uint64_t i) { return 0.25F * static_cast<float>(draw(t, w, i) % 7) - 0.75F; }},
      {"zeros", [](uint64_t, uint64_t, uint64_t) { return 0.0F; }},
      {"of one size",
       [](uint64_t t, uint64_t w, uint64_t i) { return draw(t, w, i) % 2 == 0 ? 3.0F : -3.0F; }},
      {"few",
       [](uint64_t t, uint64_t w, uint64_t i) { return draw(t, w, i) % 50 == 0 ? usual(t, w, i) : -0.0F; }},
      {"near each other", [](uint64_t t, uint64_t w,
                             uint64_t i) { return 1 + 0x1p-23F * static_cast<float>(draw(t, w, i) % 5000); }},
      {"no numbers",
       [](uint64_t t, uint64_t w, uint64_t i) {
         const uint64_t kind = draw(t, w, i) % 1500;
         return kind == 0 ? kNan : kind == 1 ? kInf : kind == 2 ? -kInf : usual(t, w, i);
       }},
      {"denormal", [](uint64_t t, uint64_t w, uint64_t i) {
         const uint64_t bits = draw(t, w, i);
         return std::bit_cast<float>(static_cast<uint32_t>(bits & 0x80ffffffU)) * (bits >> 40 & 1U ? 1 : 4);
       }}};
  return all;
}

/// What workers make of their gradients, step by step.
struct Made {
  std::vector<float> messages, left_out, sums;
};
/// Buffers begin `odd` elements behind an aligned address.
Made make(DeviceSession& device, const CompressedBucket& form, const Gradient& gradient, int64_t odd) {
  const int64_t n = form.elements, message = form.message();
  float *const messages = device.allocate(form.words() + odd) + odd,
               *const deltas = device.allocate((n + 1) * form.workers + odd) + odd,
               *const given = device.allocate(n + odd) + odd, *const sums = device.allocate(n + odd) + odd;
  const uint32_t there = device.prepare(compression_call(Function::compress, form)),
                 back = device.prepare(compression_call(Function::decompress, form));
  Made out;
  const auto fetch = [&](std::vector<float>& to, const float* from, int64_t elements) {
    device.synchronize(Lane::compute);
    to.resize(to.size() + static_cast<std::size_t>(elements));
    device.download(to.data() + to.size() - elements, from, elements);
  };
  device.set_state({}, Lane::compute);
  for (int64_t t = 0; t < kSteps; ++t) {
    for (int64_t w = 0; w < form.workers; ++w) {
      std::vector<float> values;
      for (int64_t i = 0; i < n; ++i)
        values.push_back(
            gradient(static_cast<uint64_t>(t), static_cast<uint64_t>(w), static_cast<uint64_t>(i)));
      device.upload(given, values.data(), n);
      float* const delta = form.rule.feedback ? deltas + w * (n + 1) : given;
      device.launch(there, std::array{messages + w * message, delta, given}, {}, Lane::compute);
      fetch(out.left_out, delta, n);
    }
    device.launch(back, std::array{sums, messages, form.rule.feedback ? deltas : given}, {}, Lane::compute);
    fetch(out.messages, messages, form.words());
    fetch(out.sums, sums, n);
  }
  return out;
}

/// One NaN is as good as another.
bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}
void expect_same(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(same(got[i], want[i])) << what << " " << i << ": " << got[i] << ", by the CPU " << want[i];
}

void expect_equal(const Devices& devices, const CompressedBucket& form, const Gradient& gradient, int64_t odd,
                  const std::string& what) {
  const Made want = make(*devices.cpu, form, gradient, odd), got = make(*devices.tested, form, gradient, odd);
  expect_same(got.left_out, want.left_out, what + ", left out");
  expect_same(got.sums, want.sums, what + ", sums");
  ASSERT_EQ(got.messages.size(), want.messages.size());
  const auto message = static_cast<std::size_t>(form.message()), places = static_cast<std::size_t>(form.kept);
  for (std::size_t i = 0; i < got.messages.size(); ++i) {
    const bool number = form.rule.kind == Kind::topk && i % message >= places;
    const bool equal =
        number ? same(got.messages[i], want.messages[i])
               : std::bit_cast<uint32_t>(got.messages[i]) == std::bit_cast<uint32_t>(want.messages[i]);
    ASSERT_TRUE(equal) << what << ", word " << i << " of messages of " << message;
  }
}

CompressedBucket bucket(Kind kind, bool feedback, int64_t elements, int64_t workers, double density) {
  Compression rule;
  rule.kind = kind;
  rule.feedback = feedback;
  rule.density = density;
  CompressedBucket form(rule, elements);
  form.workers = workers;
  return form;
}

TEST(ConformanceOfCompression, BytesAreTheCpus) {
  SKIP_WITHOUT_DEVICE()
  const Devices devices;
  for (const auto& [name, gradient] : gradients()) {
    for (const int64_t n : {1, 3, 31, 511, 512, 513, 4099, 9001}) {
      for (const bool feedback : {true, false}) {
        for (const int64_t workers : {1, 3})
          expect_equal(devices, bucket(Kind::int8, feedback, n, workers, 1), gradient, n % 4,
                       fmt::format("int8 of {} {}, {} workers, feedback {}", n, name, workers, feedback));
      }
    }
  }
}

TEST(ConformanceOfCompression, TheLargestAreTheCpus) {
  SKIP_WITHOUT_DEVICE()
  const Devices devices;
  for (const auto& [name, gradient] : gradients()) {
    for (const int64_t n : {1, 31, 511, 512, 513, 4099}) {
      for (const double density : {0.01, 0.4, 1.0}) {
        for (const bool feedback : {true, false}) {
          const int64_t workers = feedback ? 3 : 1;
          expect_equal(devices, bucket(Kind::topk, feedback, n, workers, density), gradient, n % 4,
                       fmt::format("topk {} of {} {}, {} workers", density, n, name, workers));
        }
      }
    }
  }
}

/// More chunks than a block has threads that add them up.
TEST(ConformanceOfCompression, TheLargestOfMillionsAreTheCpus) {
  SKIP_WITHOUT_DEVICE()
  const Devices devices;
  expect_equal(devices, bucket(Kind::topk, true, (int64_t{1} << 22) + 4099, 1, 0.003), gradients()[1].second,
               1, fmt::format("topk of millions, {}", gradients()[1].first));
}

/// A bucket of tensors of these sizes, one behind the other.
CompressedBucket factored(bool feedback, int64_t workers, int32_t rank,
                          const std::vector<std::pair<int64_t, int64_t>>& sizes) {
  Compression rule;
  rule.kind = Kind::powersgd;
  rule.feedback = feedback;
  rule.rank = rank;
  CompressedBucket form(rule, 0);
  form.workers = workers;
  for (const auto& [rows, columns] : sizes) {
    form.factors.push_back({form.elements, rows, columns, columns > 1 ? rank : 0});
    form.elements += rows * columns;
  }
  return form;
}

/// Each of the three functions on the same operands on both backends; and on the device a second time.
class Steps {
 public:
  Steps(const Devices& devices, const CompressedBucket& form) : form_(form) {
    for (DeviceSession* device : {devices.cpu.get(), devices.tested.get()}) {
      auto& s = sides_.emplace_back();
      s.device = device;
      for (int64_t words : {form.words(), form.elements, form.elements})
        s.at.push_back(s.device->allocate(words + 1) + 1);
    }
    values_ = {std::vector<float>(static_cast<std::size_t>(form.words())),
               std::vector<float>(static_cast<std::size_t>(form.elements)),
               std::vector<float>(static_cast<std::size_t>(form.elements))};
    uint64_t drawn = 0;
    for (auto& buffer : values_) {
      for (float& v : buffer) v = static_cast<float>(to_normal(draw_bits(3, ++drawn)));
    }
  }
  /// Of messages, delta and gradients; all are then the CPU's.
  void run(Function function, std::array<std::size_t, 3> operands) {
    std::vector<std::vector<float>> results[3];
    const Call call = compression_call(function, form_);
    for (const std::size_t side : {0, 1, 1}) {
      Side& s = sides_[side];
      for (std::size_t b = 0; b < 3; ++b)
        s.device->upload(s.at[b], values_[b].data(), static_cast<int64_t>(values_[b].size()));
      s.device->set_state({}, Lane::compute);
      s.device->launch(s.device->prepare(call),
                       std::array{s.at[operands[0]], s.at[operands[1]], s.at[operands[2]]}, {},
                       Lane::compute);
      s.device->synchronize(Lane::compute);
      for (std::size_t b = 0; b < 3; ++b) {
        auto& out = results[b].emplace_back(values_[b].size());
        s.device->download(out.data(), s.at[b], static_cast<int64_t>(out.size()));
      }
    }
    for (std::size_t b = 0; b < 3; ++b) {
      values_[b] = results[b][0];
      expect_near(results[b][1], results[b][0], fmt::format("{}, buffer {}", name(function), b));
      EXPECT_EQ(results[b][2], results[b][1]) << name(function) << " is not the same each time";
    }
  }

 private:
  struct Side {
    DeviceSession* device;
    std::vector<float*> at;
  };
  static void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                          const std::string& what) {
    double largest = 0;
    for (const float v : want) largest = std::max(largest, std::abs(static_cast<double>(v)));
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 2e-5 * largest) << what << " element " << i << " of " << want.size();
  }
  CompressedBucket form_;
  std::vector<Side> sides_;
  std::vector<std::vector<float>> values_;  ///< [messages, delta, gradients]
};

TEST(ConformanceOfCompression, ThinMatricesAreTheCpus) {
  SKIP_WITHOUT_DEVICE()
  const Devices devices;
  std::vector<std::pair<int64_t, int64_t>> many;
  for (int64_t k = 0; k < 70; ++k) many.emplace_back(11 + k % 5, k % 3 == 0 ? 1 : 12 + k % 7);
  for (const int32_t rank : {1, 2, 3, 5, 8, 9}) {
    for (const auto& sizes : {std::vector<std::pair<int64_t, int64_t>>{{7, 1}, {33, 65}, {5000, 1}, {64, 32}},
                              {{21, 1301}, {601, 19}},
                              many}) {
      const bool feedback = (rank + static_cast<int32_t>(sizes.size())) % 3 != 0;
      SCOPED_TRACE(fmt::format("rank {}, {} tensors, feedback {}", rank, sizes.size(), feedback));
      Steps steps(devices, factored(feedback, 3, rank, sizes));
      const std::size_t delta = feedback ? 1 : 2;
      steps.run(Function::compress, {0, delta, 2});
      steps.run(Function::orthogonalise, {0, delta, delta});
      steps.run(Function::decompress, {2, 0, delta});
    }
  }
}

}  // namespace
}  // namespace tandem::tests
