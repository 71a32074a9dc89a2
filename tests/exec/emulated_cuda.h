// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emulates a CUDA device for the .cu files compiled as C++: blocks one after the other, the threads of a
// block as fibers that take turns in changing order, so that a missing __syncthreads shows. Given with
// -include.
//
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#define EMULATED_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define EMULATED_ASAN 0
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct float4 {
  float x, y, z, w;
};

namespace emulated {

inline dim3 thread_index, block_index, block_size, grid_size;

/// What AddressSanitizer is told of stacks: which one a switch goes to, and that what an ended block's
/// threads left on theirs is nobody's. Nothing without it.
class Stack {
 public:
  static constexpr bool kWatched = EMULATED_ASAN != 0;
  static constexpr std::size_t kBytes = kWatched ? 128 * 1024 : 64 * 1024;  // of its redzones, too
  char* make() {
    bytes_.resize(kBytes);
#if EMULATED_ASAN
    __asan_unpoison_memory_region(bytes_.data(), kBytes);
#endif
    return bytes_.data();
  }
  /// In front of a switch to this stack, and behind it when it comes back.
  void leave_for_this() {
#if EMULATED_ASAN
    __sanitizer_start_switch_fiber(&outer_, bytes_.data(), kBytes);
#endif
  }
  void back_from_this() {
#if EMULATED_ASAN
    __sanitizer_finish_switch_fiber(outer_, nullptr, nullptr);
#endif
  }
  /// On this stack, first of all and behind every pause; and in front of one.
  void arrived() {
#if EMULATED_ASAN
    __sanitizer_finish_switch_fiber(inner_, &from_, &from_bytes_);
#endif
  }
  void pauses() {
#if EMULATED_ASAN
    __sanitizer_start_switch_fiber(&inner_, from_, from_bytes_);
#endif
  }
  void restart() { inner_ = nullptr; }

 private:
  std::vector<char> bytes_;
  void *outer_ = nullptr, *inner_ = nullptr;
  [[maybe_unused]] const void* from_ = nullptr;
  [[maybe_unused]] std::size_t from_bytes_ = 0;
};

#ifdef __x86_64__
/// Saves the callee's registers and the stack's top in *from and goes on at `to`. ucontext would do the same
/// with two system calls.
extern "C" void emulated_switch(void** from, void* to);
asm(R"(
.pushsection .text.emulated_switch,"axG",@progbits,emulated_switch,comdat
.weak emulated_switch
.type emulated_switch,@function
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulated_switch,.-emulated_switch
.popsection
)");

class Fiber {
 public:
  void start(void (*entry)()) {
    char* const bytes = stack_.make();
    stack_.restart();
    auto* top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(bytes + Stack::kBytes) / 16 * 16);
    *--top = nullptr;  // where entry would return to; it does not. Its stack is then aligned as after a call
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    at_ = top;
  }
  void resume() {
    stack_.leave_for_this();
    emulated_switch(&back_, at_);
    stack_.back_from_this();
  }
  /// By its thread, at the beginning.
  void begins() { stack_.arrived(); }
  void pause() {
    stack_.pauses();
    emulated_switch(&at_, back_);
    stack_.arrived();
  }

 private:
  Stack stack_;
  void *at_ = nullptr, *back_ = nullptr;
};
#else
class Fiber {
 public:
  void start(void (*entry)()) {
    char* const bytes = stack_.make();
    stack_.restart();
    getcontext(&at_);
    at_.uc_stack.ss_sp = bytes;
    at_.uc_stack.ss_size = Stack::kBytes;
    makecontext(&at_, entry, 0);
  }
  void resume() {
    stack_.leave_for_this();
    swapcontext(&back_, &at_);
    stack_.back_from_this();
  }
  /// By its thread, at the beginning.
  void begins() { stack_.arrived(); }
  void pause() {
    stack_.pauses();
    swapcontext(&at_, &back_);
    stack_.arrived();
  }

 private:
  Stack stack_;
  ucontext_t at_{}, back_{};
};
#endif

/// One block's threads. In a turn each runs to where it waits next, so that those of a warp that take the
/// same way stay in step.
class Block {
 public:
  static Block& running() {
    static Block block;
    return block;
  }

  void run(dim3 grid, dim3 size, const std::function<void()>& body) {
    const std::lock_guard guard(mutex_);  // lanes of several workers share the one emulated device
    grid_size = grid;
    block_size = size;
    body_ = &body;
    const std::size_t threads = std::size_t{size.x} * size.y * size.z;
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
    indices_.clear();
    for (unsigned z = 0; z < size.z; ++z)
      for (unsigned y = 0; y < size.y; ++y)
        for (unsigned x = 0; x < size.x; ++x) indices_.emplace_back(x, y, z);
    for (unsigned z = 0; z < grid.z; ++z)
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
          block_index = {x, y, z};
          run_block(threads);
        }
  }
  unsigned thread() const { return current_; }
  void yield() { fibers_[current_]->pause(); }
  void barrier() {
    const uint64_t generation = generation_;
    ++arrived_;
    do yield();
    while (generation_ == generation);
  }

  /// The running thread shows the others of its warp a value; returns what all show, in the next turn. Two
  /// places in turn: who is ahead shows its next value while others still read this one.
  const uint64_t* show(uint64_t value) {
    const unsigned t = current_;
    uint64_t* const place = shown_[shows_[t]++ % 2];
    place[t] = value;
    yield();
    return place;
  }
  int any = 0;

 private:
  static void enter() {
    Block& b = running();
    b.fibers_[b.current_]->begins();
    (*b.body_)();
    b.done_[b.current_] = true;
    --b.alive_;
    b.yield();  // for ever
  }
  void run_block(std::size_t threads) {
    alive_ = threads;
    arrived_ = 0;
    done_.assign(threads, false);
    shows_.assign(threads, 0);
    for (std::size_t t = 0; t < threads; ++t) fibers_[t]->start(&Block::enter);
    for (std::size_t turn = 0; alive_ > 0; ++turn) {
      if (arrived_ == alive_) {  // all leave in the same turn
        arrived_ = 0;
        ++generation_;
      }
      for (std::size_t k = 0; k < threads; ++k) {
        const std::size_t t = turn % 2 == 0 ? k : threads - 1 - k;
        if (done_[t]) continue;
        current_ = static_cast<unsigned>(t);
        thread_index = indices_[t];
        fibers_[t]->resume();
      }
    }
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<dim3> indices_;  // of the threads
  std::vector<char> done_;
  std::vector<uint32_t> shows_;  // so often has each thread shown something
  uint64_t shown_[2][1024] = {};
  const std::function<void()>* body_ = nullptr;
  unsigned current_ = 0;
  std::size_t alive_ = 0, arrived_ = 0;
  uint64_t generation_ = 0;
};

inline void run(dim3 grid, dim3 block, const std::function<void()>& body) {
  Block::running().run(grid, block, body);
}

}  // namespace emulated

#define threadIdx emulated::thread_index
#define blockIdx emulated::block_index
#define blockDim emulated::block_size
#define gridDim emulated::grid_size

inline void __syncthreads() { emulated::Block::running().barrier(); }
inline int __syncthreads_or(int predicate) {
  auto& b = emulated::Block::running();
  b.barrier();
  b.any = 0;
  b.barrier();
  if (predicate != 0) b.any = 1;
  b.barrier();
  return b.any;
}
/// All lanes of a warp take the same way to it, so that one turn later all have shown their value.
template <typename T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  auto& b = emulated::Block::running();
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const uint64_t* const shown = b.show(bits);
  T out;
  std::memcpy(&out, &shown[b.thread() ^ static_cast<unsigned>(distance)], sizeof(T));
  return out;
}
inline unsigned __ballot_sync(unsigned, bool predicate) {
  auto& b = emulated::Block::running();
  const uint64_t* const shown = b.show(predicate ? 1 : 0);
  unsigned out = 0;
  for (unsigned k = 0; k < 32; ++k) out |= static_cast<unsigned>(shown[b.thread() / 32 * 32 + k]) << k;
  return out;
}
inline unsigned atomicMax(unsigned* at, unsigned value) { return std::exchange(*at, std::max(*at, value)); }
inline unsigned atomicAdd(unsigned* at, unsigned value) { return std::exchange(*at, *at + value); }
inline void __threadfence() {}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }

namespace emulated {

/// cvt.rna.tf32.f32: 10 bits of mantissa, ties away from zero.
inline uint32_t tf32(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000U) & 0xffffe000U : bits;
}
/// mma.sync.m16n8k8 of tf32: each lane shows what it has of both operands (PTX ISA, "Matrix Fragments for
/// mma.m16n8k8"), and takes its four sums.
inline void mma_tf32(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Block& block = Block::running();
  const unsigned first = block.thread() / 32 * 32, group = block.thread() % 32 / 4, turn = block.thread() % 4;
  const auto shown = [&](uint32_t low, uint32_t high) { return block.show(low | uint64_t{high} << 32); };
  const auto half = [](uint64_t both, unsigned k) {
    return std::bit_cast<float>(static_cast<uint32_t>(both >> 32 * k));
  };
  float left[2][8], right[8][2];  // rows g and g + 8; columns 2t and 2t + 1
  for (unsigned step = 0; step < 2; ++step) {
    const uint64_t* const all = shown(a[2 * step], a[2 * step + 1]);
    for (unsigned k = 0; k < 8; ++k)
      left[k / 4][4 * step + k % 4] = half(all[first + 4 * group + k % 4], k / 4);
  }
  const uint64_t* const all = shown(b[0], b[1]);
  for (unsigned k = 0; k < 16; ++k)
    right[k / 2][k % 2] = half(all[first + 4 * (2 * turn + k % 2) + k / 2 % 4], k / 8);
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 8; ++k) sum[i] += left[i / 2][k] * right[k][i % 2];
  }
}

}  // namespace emulated
