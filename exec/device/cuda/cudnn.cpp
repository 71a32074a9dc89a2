// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN: what it proposes is filtered by precision and determinism, the
// fastest of the first few is kept. Where it has nothing (odd geometries), our own kernels compute.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

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

/// Memory of its own for a trial, of any content but NaN: zeros.
class Trial {
 public:
  explicit Trial(int64_t elements) {
    const auto size = static_cast<std::size_t>(elements) * sizeof(float);
    if (cudaMalloc(&memory_, size) != cudaSuccess) {
      cudaGetLastError();
      throw Refused{};
    }
    cudaMemset(memory_, 0, size);
  }
  ~Trial() { cudaFree(memory_); }
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

/// Least of three runs after one to warm up, in milliseconds; nothing when it fails.
std::optional<float> time_of(const Plan& plan, const Libraries& libraries, cudaStream_t stream,
                             const Trial& x, const Trial& y, const Trial& w) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "make an event");
  check(cudaEventCreate(&end), "make an event");
  std::optional<float> best;
  for (int i = 0; i < 4; ++i) {
    cudaEventRecord(begin, stream);
    const cudnnStatus_t status = execute(plan, libraries, x.get(), y.get(), w.get());
    cudaEventRecord(end, stream);
    float ms = 0;
    if (status != CUDNN_STATUS_SUCCESS || cudaEventSynchronize(end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, begin, end) != cudaSuccess) {
      best.reset();
      break;
    }
    if (i > 0) best = std::min(best.value_or(ms), ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

/// The fastest by trial; the first where there is no room for one.
std::size_t fastest(const std::vector<Plan>& plans, const ConvShape& s, const Libraries& libraries) {
  if (plans.size() < 2) return 0;
  std::size_t best = 0;
  try {
    cudaStream_t stream = nullptr;
    check(cudnnGetStream(libraries.cudnn, &stream), "name its stream");
    const Trial x(s.in_elements()), y(s.out_elements()), w(s.weight_elements());
    check(cudaDeviceSynchronize(), "wait");
    std::optional<float> least;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const auto ms = time_of(plans[i], libraries, stream, x, y, w);
      if (!ms || (least && *least <= *ms)) continue;
      least = ms;
      best = i;
    }
  } catch (const Refused&) {
  }
  return best;
}

/// What was chosen is remembered per process: the next worker on such a GPU takes the same way, sums alike,
/// and is spared the trials. One thread at a time, so that trials do not disturb each other.
std::optional<Plan> plan_for(const Call& call, const ConvShape& s, const Types& types,
                             const Libraries& libraries) {
  if (s.transposed) return std::nullopt;
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, std::optional<Origin>> known;  // none: cuDNN has nothing
  std::vector<int64_t> key = call.shape;
  for (const int64_t more : {static_cast<int64_t>(call.function), static_cast<int64_t>(libraries.precision),
                             static_cast<int64_t>(libraries.device), static_cast<int64_t>(types.in),
                             static_cast<int64_t>(types.out)})
    key.push_back(more);
  const std::lock_guard guard(mutex);
  const auto found = known.find(key);
  if (found != known.end() && !found->second) return std::nullopt;
  try {
    const Descriptor graph = convolution_graph(call, s, types, libraries.cudnn);
    std::vector<Plan> plans =
        candidates(graph, found != known.end() ? found->second : std::nullopt, kMostTried, libraries);
    if (!plans.empty()) {
      Plan& best = plans[fastest(plans, s, libraries)];
      known[key] = best.origin;
      return std::move(best);
    }
  } catch (const Refused&) {
  }
  known[key] = std::nullopt;
  return std::nullopt;
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
std::optional<Prepared> half_conv(const Call& call, const ConvShape& s, const Libraries& libraries) {
  const Precision precision = libraries.precision;
  if (!is_half(precision)) return std::nullopt;
  const cudnnDataType_t in = precision == Precision::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  std::optional<Plan> plan = plan_for(call, s, {in, call.half(0) ? in : CUDNN_DATA_FLOAT}, libraries);
  const bool narrows = !plan && !call.half(0);
  if (narrows) plan = plan_for(call, s, {in, in}, libraries);
  if (!plan) return std::nullopt;
  return multiply_half(call, precision,
                       [&](const Call& c) { return convolve(c, s, *plan, narrows, libraries); });
}

}  // namespace

Prepared library_conv(const Call& call, Libraries& libraries) {
  const ConvShape s = ConvShape::unpack({call.shape.begin(), call.shape.end() - 1});
  if (auto made = half_conv(call, s, libraries)) return std::move(*made);
  if (half_mask(call) != 0)
    return upcast(call, libraries.precision, [&](const Call& c) { return library_conv(c, libraries); });
  const std::optional<Plan> plan = plan_for(call, s, {}, libraries);
  if (!plan) return prepare_own(call, libraries.precision);
  return convolve(call, s, *plan, false, libraries);
}

}  // namespace tandem::exec::cuda
