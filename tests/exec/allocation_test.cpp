// SPDX-License-Identifier: Apache-2.0
// Launches allocate nothing: the program's operator new is counted here. Sanitizers bring their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/exec/test_run.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Not inlined: GCC would take what is then left for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace tandem::tests {
namespace {

/// Models without convolutions, whose primitives in oneDNN gather their arguments anew each time.
TEST(Allocation, NothingIsAllocatedByALaunch) {
  for (const char* name : {"gpt2:layers=1,hidden=32,heads=4,vocabulary=60,sequence=12",
                           "lstm-ptb:hidden=24,vocabulary=40,sequence=9", "mlp"}) {
    const Graph graph = Graph::load(name);
    TestRun run(graph, 2);
    run.randomise(1);
    run.forward();  // what a library makes when it is first used
    run.backward();
    const int64_t before = allocations;
    run.forward();
    run.backward();
    EXPECT_EQ(allocations - before, 0) << name;
  }
}

}  // namespace
}  // namespace tandem::tests
#endif
