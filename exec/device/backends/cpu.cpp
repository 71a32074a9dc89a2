// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: an instance is a thread bound to a core, lanes are the threads that call, every launch
// is complete when it returns.
#include <fmt/format.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "exec/device/backend.h"
#include "exec/device/cores.h"
#include "exec/device/cpu/kernel.h"
#include "exec/device/cpu/onednn.h"
#include "exec/device/gauge.h"

namespace tandem::exec {

namespace cpu {

const Table& kernels() {
  static const Table table = [] {
    Table t{};
    for (const auto add : {add_basic, add_gemm, add_conv, add_pool, add_softmax, add_elementwise, add_norm,
                           add_attention, add_recurrent, add_embedding, add_experts}) {
      add(t);
    }
    return t;
  }();
  return table;
}

}  // namespace cpu

namespace {

#ifdef __SSE__
constexpr unsigned kFlush = 0x8040;  ///< MXCSR: results and operands that are denormal count as zero
unsigned flushing() { return _mm_getcsr() & kFlush; }
void set_flushing(unsigned bits) { _mm_setcsr((_mm_getcsr() & ~kFlush) | bits); }
#else
constexpr unsigned kFlush = 0;
unsigned flushing() { return 0; }
void set_flushing(unsigned) {}
#endif

/// Denormal numbers are flushed to zero: they cost a hundred times as much and carry nothing here. A thread
/// that opens sessions is as it was before when the last of them ends in it.
class Flushing {
 public:
  Flushing() {
    thread_local const auto own = std::make_shared<Opener>();
    opener_ = own;
    if (!opener_->flushes) opener_->before = flushing();
    opener_->flushes = true;
    ++opener_->sessions;
    set_flushing(kFlush);
  }
  ~Flushing() {
    if (--opener_->sessions > 0 || opener_->id != std::this_thread::get_id()) return;
    set_flushing(opener_->before);
    opener_->flushes = false;
  }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  struct Opener {
    const std::thread::id id = std::this_thread::get_id();
    std::atomic<int> sessions{0};  ///< which may end in other threads
    bool flushes = false;
    unsigned before = 0;
  };
  std::shared_ptr<Opener> opener_;
};

class CpuDevice : public DeviceSession {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : threads_(std::max(1, options.threads)), fp16_(half_format(options.precision) == Precision::fp16) {
    cpu::prepare_onednn();
    cpu::set_threads(threads_);
  }

  void join() override { set_flushing(kFlush); }

  float* allocate(int64_t elements) override {
    const std::size_t bytes = (static_cast<std::size_t>(elements) * sizeof(float) + 4095) / 4096 * 4096;
    void* memory = std::aligned_alloc(4096, bytes == 0 ? 4096 : bytes);
    if (memory == nullptr) throw DeviceError(fmt::format("no memory for {} bytes", bytes));
    std::memset(memory, 0, bytes);  // touches every page
    owned_.emplace_back(static_cast<float*>(memory), &std::free);
    return owned_.back().get();
  }

  uint32_t prepare(const Call& call) override {
    const auto make = cpu::kernels()[static_cast<std::size_t>(call.function)];
    TANDEM_CHECK(make != nullptr);
    prepared_.push_back(make(call, threads_));
    return static_cast<uint32_t>(prepared_.size() - 1);
  }

  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane) override {
    prepared_[prepared](operands, step);
  }

  void copy(float* to, const float* from, int64_t elements, Lane) override {
    if (elements > 0) std::memcpy(to, from, static_cast<std::size_t>(elements) * sizeof(float));
  }

  void accumulate(float* to, const float* from, int64_t elements, Lane) override {
    cpu::accumulate(to, from, elements);
  }

  void scale(float* values, float factor, int64_t elements, Lane) override {
    for (int64_t i = 0; i < elements; ++i) values[i] *= factor;
  }
  void narrow(float* to, const float* from, int64_t elements, Lane) override {
    cpu::narrow(to, from, fp16_, elements);
  }
  void upcast(float* to, const float* from, int64_t elements, Lane) override {
    cpu::upcast(to, from, fp16_, elements);
  }
  void accumulate_half(float* to, const float* from, int64_t words, Lane) override {
    cpu::accumulate_half(to, from, fp16_, words);
  }
  void upload(float* to, const float* host, int64_t elements) override {
    copy(to, host, elements, Lane::host);
  }
  void download(float* host, const float* from, int64_t elements) override {
    copy(host, from, elements, Lane::host);
  }

 private:
  Flushing flushing_;
  int threads_;
  bool fp16_;  ///< the format of 2 bytes, else bf16
  std::vector<std::unique_ptr<float, decltype(&std::free)>> owned_;
  std::vector<cpu::Prepared> prepared_;
};

std::string field(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

std::string describe() {
  const std::string library = cpu::onednn_version();
  return fmt::format("{}, {} processors, {}", field("model name"), machine_processors().count(),
                     library.empty() ? "own kernels" : library);
}

}  // namespace

void register_cpu(Registry<Backend>& registry) {
  Backend cpu{"cpu",
              "worker threads bound to cores; kernels of oneDNN and our own",
              [] { return std::string(); },
              [](const Call& call, Precision precision) {
                return precision == Precision::fp32 &&
                       cpu::kernels()[static_cast<std::size_t>(call.function)] != nullptr;
              },
              [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
                return std::make_unique<CpuDevice>(options);
              },
              describe};
  cpu.on_processors = true;
  cpu.gauges = [](const std::vector<uint32_t>&) { return rapl_gauges(); };
  registry.add(std::move(cpu));
}

}  // namespace tandem::exec
