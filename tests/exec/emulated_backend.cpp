// SPDX-License-Identifier: Apache-2.0
// The CUDA plugin's own kernels on a emulated device: a backend for tests, in memory that the host must not
// touch directly (as a GPU's).
#include "tests/exec/emulated_backend.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exec/device/cuda/fp8.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/product_attention.h"
#include "exec/device/cuda/tensor_attention.h"

namespace tandem::tests {

namespace {

std::atomic<int64_t> judged{0}, checked{0};
std::mutex history_mutex;
std::map<uint32_t, std::vector<float>> history;  ///< [instance][iteration]

/// How attention in 4 bytes is computed; nothing where own tiles are to do it.
using Attention = std::optional<cuda::Prepared> (*)(const Call& call);

class EmulatedDevice : public DeviceSession {
 public:
  /// `attention`: null: by own tiles.
  explicit EmulatedDevice(const DeviceOptions& options, Attention attention = nullptr)
      : attention_(attention),
        precision_(options.precision == Precision::fp8 ? Precision::bf16 : options.precision),
        fp8_(options.precision == Precision::fp8),
        loss_{options.loss_scale} {}
  float* allocate(int64_t elements) override {
    // 256-byte aligned, as cudaMalloc gives it.
    const std::size_t bytes = (static_cast<std::size_t>(elements) * sizeof(float) + 255) / 256 * 256;
    owned_.emplace_back(static_cast<float*>(std::aligned_alloc(256, std::max<std::size_t>(bytes, 256))),
                        &std::free);
    std::memset(owned_.back().get(), 0, std::max<std::size_t>(bytes, 256));
    return owned_.back().get();
  }
  uint32_t prepare(const Call& call) override {
    const bool multiplies = call.function == Function::gemm || call.function == Function::conv ||
                            call.function == Function::conv_backward_data ||
                            call.function == Function::conv_backward_weights;
    const bool attends =
        call.function == Function::attention || call.function == Function::attention_backward;
    std::optional<cuda::Prepared> attention;
    if (attends && attention_ != nullptr && precision_ == Precision::fp32) attention = attention_(call);
    if (attention)
      made_.push_back(*attention);
    else if (fp8_ && cuda::multiplies_fp8(call))
      made_.push_back(cuda::multiply_fp8(call, cuda::fallback_fp8));
    else if (multiplies && cuda::is_half(precision_))
      made_.push_back(cuda::multiply_half(
          call, precision_, [this](const Call& c) { return cuda::fallback_half(c, precision_); }));
    else
      made_.push_back(cuda::prepare_own(call, precision_));
    if (multiplies) choices_.push_back({call.function, "none", "", 0, "emulated", 1});
    if (made_.back().scratch > static_cast<int64_t>(scratch_.size()))
      scratch_.assign(static_cast<std::size_t>(made_.back().scratch), 1e30F);
    calls_.push_back(call);
    kept_.push_back(made_.back().kept > 0 ? allocate(made_.back().kept) : nullptr);
    return static_cast<uint32_t>(made_.size() - 1);
  }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane) override {
    expect_right_copies(calls_[prepared], operands);
    std::fill(scratch_.begin(), scratch_.end(), 1e30F);  // whatever is read before it is written shows
    made_[prepared].run(
        {operands.data(), states_ + step.slot, scratch_.data(), nullptr, kept_[prepared], step.micro});
  }
  std::vector<LibraryChoice> choices() const override { return choices_; }
  void copy(float* to, const float* from, int64_t n, Lane) override { std::copy_n(from, n, to); }
  void accumulate(float* to, const float* from, int64_t n, Lane) override {
    cuda::accumulate(to, from, n, nullptr);
  }
  void scale(float* values, float factor, int64_t n, Lane) override {
    cuda::scale(values, factor, n, nullptr);
  }
  void narrow(float* to, const float* from, int64_t n, Lane) override {
    cuda::narrow(to, from, half_format(precision_), n, nullptr);
  }
  void renew(const CopiedRange& range, const float* vector, Lane) override {
    cuda::renew(range, vector, half_format(precision_), nullptr);
  }
  void upcast(float* to, const float* from, int64_t n, Lane) override {
    cuda::upcast(to, from, half_format(precision_), n, nullptr);
  }
  void narrow_gradients(float* to, const float* from, int64_t n, Lane) override {
    cuda::narrow(to, from, half_format(precision_), n, nullptr, states_);
  }
  void upcast_gradients(float* to, const float* from, int64_t n, Lane) override {
    cuda::upcast(to, from, half_format(precision_), n, nullptr, states_);
  }
  void accumulate_half(float* to, const float* from, int64_t words, Lane) override {
    cuda::accumulate_half(to, from, half_format(precision_), 2 * words, nullptr);
  }
  void upload(float* to, const float* host, int64_t n) override { std::copy_n(host, n, to); }
  void download(float* host, const float* from, int64_t n) override { std::copy_n(from, n, host); }
  void set_state(const IterationState& state, Lane) override {
    const bool scaled = precision_ == Precision::fp16;
    cuda::set_state(states_ + state.slot, cuda::device_state(state), scaled ? &loss_ : nullptr,
                    state.slot == 0, nullptr);
    if (state.slot != 0) return;
    const std::lock_guard guard(history_mutex);
    auto& scales = history[state.instance];
    if (state.iteration == 0) scales.clear();
    scales.push_back(states_[0].loss_scale);
  }
  void unscale(float* gradients, int64_t n, bool alone, Lane) override {
    if (precision_ == Precision::fp16) cuda::unscale(gradients, states_, alone, n, nullptr);
  }
  void judge(const float* gradients, int64_t n, Lane) override {
    ++judged;
    if (precision_ == Precision::fp16) cuda::judge(gradients, states_, n, nullptr);
  }

 private:
  /// What a call finds behind its operands is what it would have made of them.
  void expect_right_copies(const Call& call, std::span<float* const> operands) {
    for (std::size_t k = 0; k < call.operands.size(); ++k) {
      const bool half = (cuda::wants_copies(call, fp8_ ? Precision::fp8 : precision_).half >> k & 1U) != 0;
      checked += call.has_copy(k) ? 1 : 0;
      if (!call.has_copy(k) || !half) continue;
      const auto n = static_cast<std::size_t>(elements_of(call, k));
      std::vector<uint16_t> want(n);
      cuda::narrow(want.data(), operands[k], half_format(precision_), static_cast<int64_t>(n), nullptr);
      if (std::memcmp(want.data(), operands[call.copy_of(k)], 2 * n) != 0)
        throw DeviceError("a copy of a parameter is not what the parameter is");
    }
  }
  static int64_t elements_of(const Call& call, std::size_t k) {
    const auto& s = call.shape;
    if (call.function == Function::gemm) return k == 3 ? s[1] : s[2] * s[k == 1 ? 0 : 1];
    const ConvShape conv = ConvShape::unpack({s.begin(), s.end() - 1});
    return k == 3 ? conv.out_channels : conv.weight_elements();
  }

  Attention attention_;
  Precision precision_;
  bool fp8_;
  std::vector<std::unique_ptr<float, decltype(&std::free)>> owned_;
  std::vector<cuda::Prepared> made_;
  std::vector<Call> calls_;
  std::vector<float*> kept_;
  std::vector<float> scratch_;
  std::vector<LibraryChoice> choices_;
  cuda::State states_[kStateSlots];
  cuda::LossScale loss_;
};

}  // namespace

}  // namespace tandem::tests

namespace tandem::exec::cuda {
void check_launch() {}
}  // namespace tandem::exec::cuda

namespace tandem::tests {

std::vector<float> emulated_loss_scales(uint32_t instance) {
  const std::lock_guard guard(history_mutex);
  return history[instance];
}

int64_t emulated_judged() { return judged; }

int64_t emulated_copies() { return checked; }

const Backend& emulated_backend() {
  static const Backend backend = [] {
    Backend b;
    b.name = "emulated";
    b.summary = "the CUDA plugin's kernels as C++";
    b.missing = [] { return std::string(); };
    b.supports = [](const Call&, Precision precision) { return precision != Precision::tf32; };
    b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
      return std::make_unique<EmulatedDevice>(options);
    };
    b.describe = [] { return std::string("a emulated device"); };
    b.asynchronous = true;
    b.fuses_norms = true;
    b.copies = cuda::wants_copies;
    return b;
  }();
  return backend;
}

namespace {

template <int64_t slice_bytes>
std::optional<cuda::Prepared> by_products(const Call& call) {
  if (!cuda::multiplies(AttentionShape(call))) return std::nullopt;
  return cuda::attention_by_products(call, slice_bytes);
}
std::optional<cuda::Prepared> on_tensor_cores(const Call& call) {
  if (!cuda::fits_tensor_cores(AttentionShape(call))) return std::nullopt;
  return cuda::attention_on_tensor_cores(call);
}

template <Attention attention>
const Backend& with() {
  static const Backend backend = [] {
    Backend out = emulated_backend();
    out.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
      return std::make_unique<EmulatedDevice>(options, attention);
    };
    return out;
  }();
  return backend;
}

}  // namespace

const Backend& emulated_products(Slices slices) {
  if (slices == Slices::few) return with<by_products<cuda::kSliceBytes>>();
  return slices == Slices::some ? with<by_products<512 << 10>>() : with<by_products<16 << 10>>();
}
const Backend& emulated_tensor_cores() { return with<on_tensor_cores>(); }

}  // namespace tandem::tests
