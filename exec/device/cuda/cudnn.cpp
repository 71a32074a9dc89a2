// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN: what it proposes is filtered by precision and determinism, the
// fastest of the first few is kept. Where it has nothing (odd geometries), our own kernels compute.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "exec/device/cuda/cudnn_choices.h"
#include "exec/device/cuda/cudnn_graph.h"
#include "exec/device/cuda/cudnn_plan.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/session.h"

namespace tandem::exec::cuda {

namespace {

constexpr std::size_t kMostTried = 8;  ///< as PyTorch's benchmark mode tries ten

/// Where the three tensors lie.
cudnnStatus_t execute(const Plan& plan, const Libraries& libraries, void* x, void* y, void* w) {
  return run_plan(plan, libraries, {{kX, x}, {kY, y}, {kW, w}});
}

/// Memory of its own for a trial: numbers of 0.008 to 2 in any format, since zeros run faster than data.
class Trial {
 public:
  explicit Trial(std::size_t bytes, bool filled = true) {
    const std::size_t size = std::max<std::size_t>(bytes, 256);
    if (cudaMalloc(&memory_, size) != cudaSuccess) {
      cudaGetLastError();
      throw Refused{CUDNN_STATUS_ALLOC_FAILED};
    }
    if (filled) fill(size);
  }
  explicit Trial(int64_t elements) : Trial(static_cast<std::size_t>(elements) * sizeof(float)) {}
  ~Trial() { cudaFree(memory_); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  void* get() const { return memory_; }

 private:
  /// A piece from the host, then ever larger copies of what is there.
  void fill(std::size_t size) {
    std::vector<uint16_t> piece(std::min<std::size_t>(size, 1 << 20) / 2);
    uint32_t state = 1;
    for (uint16_t& half : piece) {
      state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator
      half = static_cast<uint16_t>(0x3C00U | (state >> 16 & 0x83FFU));
    }
    cudaMemcpy(memory_, piece.data(), piece.size() * 2, cudaMemcpyHostToDevice);
    auto* bytes = static_cast<char*>(memory_);
    for (std::size_t done = piece.size() * 2; done < size; done *= 2)
      cudaMemcpy(bytes + done, bytes, std::min(done, size - done), cudaMemcpyDeviceToDevice);
  }
  void* memory_ = nullptr;
};

/// Of one run in a row of five, in milliseconds; nothing when it fails. Copies in front of them keep the
/// device busy until the host has issued all.
std::optional<float> time_of(const Plan& plan, const Libraries& libraries, cudaStream_t stream, int64_t input,
                             const Trial& x, const Trial& y, const Trial& w) {
  constexpr int kRow = 5;
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "make an event");
  check(cudaEventCreate(&end), "make an event");
  const auto runs = [&](int times) {
    for (int i = 0; i < times; ++i) {
      if (execute(plan, libraries, x.get(), y.get(), w.get()) != CUDNN_STATUS_SUCCESS) return false;
    }
    return true;
  };
  std::optional<float> best;
  const auto half = static_cast<std::size_t>(input) * sizeof(float) / 2;
  auto* bytes = static_cast<char*>(x.get());
  bool works = runs(1) && cudaStreamSynchronize(stream) == cudaSuccess;
  for (int turn = 0; turn < 2 && works; ++turn) {
    for (int i = 0; i < 4; ++i) cudaMemcpyAsync(bytes + half, bytes, half, cudaMemcpyDeviceToDevice, stream);
    cudaEventRecord(begin, stream);
    works = runs(kRow);
    cudaEventRecord(end, stream);
    float ms = 0;
    works = works && cudaEventSynchronize(end) == cudaSuccess &&
            cudaEventElapsedTime(&ms, begin, end) == cudaSuccess;
    if (works) best = std::min(best.value_or(ms), ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (!works) {
    cudaGetLastError();
    return std::nullopt;
  }
  return best;
}

/// The fastest by trial; the first where there is no room for one; none where all fail.
std::optional<std::size_t> fastest(const std::vector<Plan>& plans, const ConvShape& s, Libraries libraries) {
  if (plans.size() < 2) return 0;
  std::optional<std::size_t> best;
  try {
    cudaStream_t stream = nullptr;
    check(cudnnGetStream(libraries.cudnn, &stream), "name its stream");
    const Trial x(s.in_elements()), y(s.out_elements()), w(s.weight_elements());
    int64_t most = 0;
    for (const Plan& p : plans) most = std::max(most, p.workspace);
    const Trial workspace(static_cast<std::size_t>(most), false);  // only the fastest one's is kept
    libraries.workspace = workspace.get();
    check(cudaDeviceSynchronize(), "wait");
    std::optional<float> least;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const auto ms = time_of(plans[i], libraries, stream, s.in_elements(), x, y, w);
      if (!ms || (least && *least <= *ms)) continue;
      least = ms;
      best = i;
    }
    check(cudaDeviceSynchronize(), "wait");
  } catch (const Refused&) {
    return 0;
  }
  return best;
}

std::vector<int64_t> key_of(const Call& call, const Types& types, const Libraries& libraries) {
  std::vector<int64_t> key = call.shape;
  for (const int64_t more : {static_cast<int64_t>(call.function), static_cast<int64_t>(libraries.precision),
                             static_cast<int64_t>(types.in), static_cast<int64_t>(types.out)})
    key.push_back(more);
  return key;
}

/// The next worker on such a chip takes the same way, sums alike, and is spared the trials. One thread of the
/// process at a time, so that trials do not disturb each other.
std::optional<Plan> plan_for(const Call& call, const ConvShape& s, const Types& types, Libraries& libraries,
                             std::string& why) {
  if (s.transposed) {
    why = "transposed convolutions are not asked for";
    return std::nullopt;
  }
  const std::vector<int64_t> key = key_of(call, types, libraries);
  if (const auto at = plans_of(libraries).made.find(key); at != plans_of(libraries).made.end()) {
    why = at->second.why;
    return at->second.plan;
  }
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  const std::string chip = fmt::format("{} cuDNN {}", libraries.chip, cudnnGetVersion());
  Choices& choices = Choices::of_process();
  Refusals refusals;
  std::optional<Plan> best;
  try {
    const Descriptor graph = convolution_graph(call, s, types, libraries.cudnn);
    const std::optional<Origin> known = choices.find(chip, key);
    std::vector<Plan> plans = candidates(graph, known, kMostTried, libraries, refusals);
    if (plans.empty() && known) plans = candidates(graph, std::nullopt, kMostTried, libraries, refusals);
    const std::optional<std::size_t> at = plans.empty() ? std::nullopt : fastest(plans, s, libraries);
    if (at) best = std::move(plans[*at]);
    why = best ? "" : plans.empty() ? refusals.text() : "every engine that was tried fails";
  } catch (const Refused& refused) {
    why = cudnnGetErrorString(refused.status);
  }
  if (best) {
    choices.keep(chip, key, best->origin);
    grow_workspace(libraries, static_cast<std::size_t>(best->workspace));
  }
  plans_of(libraries).made[key] = {best, why};
  return best;
}

void note_plan(Libraries& libraries, const Call& call, const std::optional<Plan>& plan, std::string why) {
  note_choice(libraries, call, "cuDNN", plan ? fmt::format("engine {}", plan->engine) : "",
              plan ? plan->workspace : 0, plan ? "" : std::move(why));
}

bool aligned(const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// `narrows`: the plan's output is of 2 bytes, and is upcast behind it.
Prepared convolve(const Call& call, const ConvShape& s, const Plan& plan, bool narrows,
                  const Libraries& libraries) {
  // Weights lie where the flat vector has them, on any multiple of 4 bytes: then they go through scratch.
  const int64_t weights = s.weight_elements();
  const Function f = call.function;
  const int64_t written = f == Function::conv                 ? s.out_elements()
                          : f == Function::conv_backward_data ? s.in_elements()
                                                              : weights;
  const bool bias = f == Function::conv && call.operands.size() > 3, last = call.shape.back() != 0;
  const Precision half = libraries.precision, stored = call.half(0) ? half : Precision::fp32;
  const int64_t positions = s.out[0] * s.out[1] * s.out[2];
  return {[=, &libraries](const Launch& l) {
            float* const* o = l.operands;
            float* to = narrows ? l.scratch : o[0];
            float* x = f == Function::conv_backward_data ? to : o[1];
            float* y = f == Function::conv ? to : f == Function::conv_backward_data ? o[1] : o[2];
            float* w = f == Function::conv_backward_weights ? to : o[2];
            float* placed = aligned(w) ? w : l.scratch;
            const auto move = [&](float* target, const float* from) {
              check(cudaMemcpyAsync(target, from, static_cast<std::size_t>(weights) * sizeof(float),
                                    cudaMemcpyDeviceToDevice, l.stream),
                    "copy");
            };
            if (placed != w && f != Function::conv_backward_weights) move(placed, w);
            check(execute(plan, libraries, x, y, placed), "convolve");
            if (placed != w && f == Function::conv_backward_weights) move(w, placed);
            if (narrows) upcast(o[0], to, half, written, l.stream);
            if (bias) add_bias(o[0], o[3], stored, s.batch, s.out_channels, positions, last, l.stream);
          },
          std::max(weights, narrows ? written / 2 + 1 : 0)};
}

/// On inputs of 2 bytes, where cuDNN has it: into what the output is stored in; if it has none for fp32, into
/// the inputs' format, as PyTorch's gradients of weights.
std::optional<Prepared> half_conv(const Call& call, const ConvShape& s, Libraries& libraries) {
  const Precision precision = libraries.precision;
  if (!is_half(precision)) return std::nullopt;
  const cudnnDataType_t in = precision == Precision::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  std::string why;
  std::optional<Plan> plan = plan_for(call, s, {in, call.half(0) ? in : CUDNN_DATA_FLOAT}, libraries, why);
  const bool narrows = !plan && !call.half(0);
  if (narrows) plan = plan_for(call, s, {in, in}, libraries, why);
  if (!plan) return std::nullopt;
  note_plan(libraries, call, plan, "");
  return multiply_half(call, precision,
                       [&](const Call& c) { return convolve(c, s, *plan, narrows, libraries); });
}

}  // namespace

Prepared library_conv(const Call& call, Libraries& libraries) {
  const ConvShape s = ConvShape::unpack({call.shape.begin(), call.shape.end() - 1});
  if (auto made = half_conv(call, s, libraries)) return std::move(*made);
  if (half_mask(call) != 0)
    return upcast(call, libraries.precision, [&](const Call& c) { return library_conv(c, libraries); });
  std::string why;
  const std::optional<Plan> plan = plan_for(call, s, {}, libraries, why);
  note_plan(libraries, call, plan, why);
  if (!plan) return prepare_own(call, libraries.precision);
  return convolve(call, s, *plan, false, libraries);
}

}  // namespace tandem::exec::cuda
