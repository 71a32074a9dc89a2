// SPDX-License-Identifier: Apache-2.0
// The backward pass of attention whose heads share keys, by copies of these, against the kernels that share
// them.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/random.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/shared_keys.h"
#include "tests/exec/emulated_backend.h"
#include "tests/exec/layer_cases.h"

namespace tandem::tests {
namespace {

namespace cuda = exec::cuda;

struct Case {
  int64_t batch, heads, kv_heads, time, size;
  bool causal, packed;
};

Call backward_of(const Case& c) {
  const int64_t all = (c.heads + 2 * c.kv_heads) * c.size, q = c.packed ? all : c.heads * c.size,
                kv = c.packed ? all : c.kv_heads * c.size;
  Call call;
  call.function = Function::attention_backward;
  call.operands = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  call.shape = {c.batch,
                c.heads,
                c.kv_heads,
                c.time,
                c.time,
                c.size,
                c.causal ? 1 : 0,
                q,
                kv,
                0,
                c.packed ? c.heads * c.size : 0,
                c.packed ? (c.heads + c.kv_heads) * c.size : 0};
  call.half_operands = {1, 1, 1, 1, 1, 1, 1, 1, 0};
  return call;
}

class SharedKeys : public testing::Test {
 protected:
  std::vector<float> random(int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& v : values) v = static_cast<float>(to_unit(random_.next()) - 0.5);
    return values;
  }
  static std::vector<float> narrowed(const std::vector<float>& from, Precision stored) {
    std::vector<float> out(from.size() / 2 + 1);
    cuda::narrow(out.data(), from.data(), stored, static_cast<int64_t>(from.size()), nullptr);
    return out;
  }

  void expect_same(const Case& c, Precision stored, Bytes most) {
    const Call shared = backward_of(c);
    const int64_t rows = c.batch * c.time, queries = rows * shared.shape[7], keys = rows * shared.shape[8],
                  results = rows * c.heads * c.size;
    std::vector<float> q = narrowed(random(queries), stored),
                       k = c.packed ? std::vector<float>{} : narrowed(random(keys), stored),
                       v = c.packed ? std::vector<float>{} : narrowed(random(keys), stored),
                       out(static_cast<std::size_t>(results / 2 + 1)),
                       sums(static_cast<std::size_t>(c.batch * c.heads * c.time)),
                       dout = narrowed(random(results), stored);
    float *const at_k = c.packed ? q.data() : k.data(), *const at_v = c.packed ? q.data() : v.data();
    Call forward = shared;
    forward.function = Function::attention;
    forward.operands = {0, 1, 2, 3, 4};
    forward.half_operands = {1, 1, 1, 1, 0};
    run(cuda::prepare_own(forward, stored), {out.data(), q.data(), at_k, at_v, sums.data()});

    const Call own = cuda::with_own_keys(shared, most);
    ASSERT_EQ(c.batch % own.shape[0], 0);
    ASSERT_FALSE(cuda::shares_keys(own));
    const auto gradients = [&](const cuda::Prepared& call) {
      // What the call does not write, stays.
      std::vector<float> dq = narrowed(random(queries), stored), dk(static_cast<std::size_t>(keys / 2 + 1)),
                         dv = dk;
      run(call, {dq.data(), c.packed ? dq.data() : dk.data(), c.packed ? dq.data() : dv.data(), q.data(),
                 at_k, at_v, out.data(), dout.data(), sums.data()});
      std::vector<float> all;
      for (const auto* d : {&dq, &dk, &dv}) {
        std::vector<float> numbers(static_cast<std::size_t>(d == &dq ? queries : keys));
        cuda::upcast(numbers.data(), d->data(), stored, static_cast<int64_t>(numbers.size()), nullptr);
        all.insert(all.end(), numbers.begin(), numbers.end());
      }
      return all;
    };
    const auto want = gradients(cuda::prepare_own(shared, stored));
    const auto got = gradients(cuda::by_own_keys(shared, own, cuda::prepare_own(own, stored), stored));
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(want[i], got[i], 0.02) << i;
  }

 private:
  static void run(const cuda::Prepared& call, std::vector<float*> operands) {
    std::vector<float> scratch(static_cast<std::size_t>(call.scratch) + 1, 77);
    call.run({operands.data(), nullptr, scratch.data(), nullptr});
    EXPECT_EQ(scratch.back(), 77) << "written beyond its scratch";
  }
  SplitMix64 random_{4};
};

TEST_F(SharedKeys, AreTheSumsOverTheirCopies) {
  for (const Precision stored : {Precision::bf16, Precision::fp16}) {
    for (const bool packed : {true, false}) {
      expect_same({2, 4, 2, 9, 8, true, packed}, stored, Bytes{1 << 20});
      expect_same({3, 6, 1, 5, 16, false, packed}, stored, Bytes{1 << 20});
    }
  }
}

TEST_F(SharedKeys, TakeAPartOfTheBatchAtATime) {
  const Case c{6, 4, 2, 9, 8, true, true};
  const auto samples = [&](int64_t bytes) {
    return cuda::with_own_keys(backward_of(c), Bytes{bytes}).shape[0];
  };
  // A sample's keys, values and their gradients: 2 x 9 x 64 numbers of 2 bytes, in steps of 256 bytes.
  EXPECT_EQ(samples(6 * 2560), 6);
  EXPECT_EQ(samples(6 * 2560 - 1), 3) << "of 5 and 4 none divides the batch";
  EXPECT_EQ(samples(2 * 2560), 2);
  EXPECT_EQ(samples(1), 1);
  for (const int64_t bytes : {3 * 2560, 2 * 2560, 1}) expect_same(c, Precision::bf16, Bytes{bytes});
}

}  // namespace
}  // namespace tandem::tests
