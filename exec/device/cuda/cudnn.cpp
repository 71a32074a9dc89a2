// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN: what it proposes is filtered by precision and determinism, the
// fastest of the first few is kept. Where it has nothing (odd geometries), our own kernels compute.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "exec/device/cuda/choices.h"
#include "exec/device/cuda/cudnn_graph.h"
#include "exec/device/cuda/cudnn_plan.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/mirror.h"
#include "exec/device/cuda/session.h"
#include "exec/device/cuda/trial.h"

namespace tandem::exec::cuda {

namespace {

constexpr std::size_t kMostTried = 8;  ///< as PyTorch's benchmark mode tries ten

/// Where the three tensors lie.
cudnnStatus_t execute(const Plan& plan, const Libraries& libraries, void* x, void* y, void* w) {
  return run_plan(plan, libraries, {{kX, x}, {kY, y}, {kW, w}});
}

/// The fastest by trial; none where all fail. A plan that stands alone is run as well: whether it runs, and
/// so that nothing is left to load at its first launch. The first where there is no room for a trial.
std::optional<std::size_t> fastest(const std::vector<Plan>& plans, const ConvShape& s, Libraries libraries) {
  std::optional<std::size_t> best;
  try {
    const cudaStream_t stream = stream_of(libraries);
    const auto x = TrialMemory::floats(s.in_elements()), y = TrialMemory::floats(s.out_elements()),
               w = TrialMemory::floats(s.weight_elements());
    int64_t most = 0;
    for (const Plan& p : plans) most = std::max(most, p.workspace);
    const TrialMemory workspace(static_cast<std::size_t>(most), false);  // only the fastest one's is kept
    libraries.workspace = workspace.get();
    const auto run = [&](std::size_t i) {
      return execute(plans[i], libraries, x.get(), y.get(), w.get()) == CUDNN_STATUS_SUCCESS;
    };
    best = fastest_of(plans.size(), run, stream, x.get(), x.bytes());
    check(cudaDeviceSynchronize(), "wait");
  } catch (const NoRoom&) {
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
  const std::vector<int64_t> key = key_of(call, types, libraries);
  if (const auto at = plans_of(libraries).made.find(key); at != plans_of(libraries).made.end()) {
    why = at->second.why;
    return at->second.plan;
  }
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  const std::string chip = chip_of(libraries);
  Choices& choices = Choices::of_process();
  Refusals refusals;
  std::optional<Plan> best;
  try {
    const Descriptor graph = convolution_graph(call, s, types, libraries.cudnn);
    const std::optional<Origin> known = origin_of(choices.find(chip, key));
    std::vector<Plan> plans = candidates(graph, known, kMostTried, libraries, refusals);
    if (plans.empty() && known) plans = candidates(graph, std::nullopt, kMostTried, libraries, refusals);
    const std::optional<std::size_t> at = plans.empty() ? std::nullopt : fastest(plans, s, libraries);
    if (at) best = std::move(plans[*at]);
    why = best ? "" : plans.empty() ? refusals.text() : "every engine that was tried fails";
  } catch (const Refused& refused) {
    why = cudnnGetErrorString(refused.status);
  }
  if (best) {
    choices.keep(chip, key, way_of(best->origin));
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

/// The convolution that cuDNN is asked for, and what is particular about it.
struct Asked {
  Call call;
  ConvShape shape;
  std::optional<WeightSwap> to, back;  ///< of a transposed one: the weights that it takes, or gives
  bool narrows = false;                ///< the plan's output is of 2 bytes, and is upcast behind it

  explicit Asked(const Call& wanted) : call(wanted), shape(shape_of(wanted)) {
    if (!shape.transposed) return;
    call = mirrored(wanted);
    shape = shape_of(call);
    if (call.function == Function::conv_backward_weights)
      back = WeightSwap(wanted, true);
    else
      to = WeightSwap(wanted, false);
  }
  int64_t written() const {
    return call.function == Function::conv                 ? shape.out_elements()
           : call.function == Function::conv_backward_data ? shape.in_elements()
                                                           : shape.weight_elements();
  }
  /// Of scratch: weights first, behind them what is upcast.
  int64_t behind_weights() const { return (shape.weight_elements() + 63) / 64 * 64; }
  int64_t scratch() const { return behind_weights() + (narrows ? written() / 2 + 1 : 0); }
  static ConvShape shape_of(const Call& c) { return ConvShape::unpack({c.shape.begin(), c.shape.end() - 1}); }
};

/// Runs the plan on {x, y, w} of what cuDNN was asked for. Weights lie where the flat vector has them, on any
/// multiple of 4 bytes: then they go through scratch, as those that are swapped do.
void run_conv(const Plan& plan, const Asked& a, Precision half, bool half_inputs, const Libraries& libraries,
              const Launch& l) {
  float* const* o = l.operands;
  const Function f = a.call.function;
  const bool weights = f == Function::conv_backward_weights;
  const int64_t count = a.shape.weight_elements();
  const Precision inputs = half_inputs ? half : Precision::fp32, made = a.narrows ? half : Precision::fp32;
  float* to = a.narrows ? l.scratch + a.behind_weights() : o[0];
  float* x = f == Function::conv_backward_data ? to : o[1];
  float* y = f == Function::conv ? to : f == Function::conv_backward_data ? o[1] : o[2];
  if (a.back) std::swap(x, y);
  float* w = weights ? to : o[2];
  float* placed = a.to || a.back || !aligned(w) ? l.scratch : w;
  const auto move = [&](float* target, const float* from) {
    check(cudaMemcpyAsync(target, from, static_cast<std::size_t>(count) * sizeof(float),
                          cudaMemcpyDeviceToDevice, l.stream),
          "copy");
  };
  if (a.to)
    swap_weights(placed, inputs, w, inputs, *a.to, l.stream);
  else if (placed != w && !weights)
    move(placed, w);
  check(execute(plan, libraries, x, y, placed), "convolve");
  if (a.back)
    swap_weights(o[0], Precision::fp32, placed, made, *a.back, l.stream);
  else if (a.narrows)
    upcast(o[0], to, half, a.written(), l.stream);
  else if (placed != w && weights)
    move(w, placed);
}

Prepared convolve(const Call& call, const Asked& a, const Plan& plan, bool half_inputs,
                  const Libraries& libraries) {
  const ConvShape s = Asked::shape_of(call);
  const bool bias = call.function == Function::conv && call.operands.size() > 3,
             last = call.shape.back() != 0;
  const Precision half = libraries.precision, stored = call.half(0) ? half : Precision::fp32;
  const int64_t positions = s.out[0] * s.out[1] * s.out[2];
  return {[=, &libraries](const Launch& l) {
            run_conv(plan, a, half, half_inputs, libraries, l);
            if (bias)
              add_bias(l.operands[0], l.operands[3], stored, s.batch, s.out_channels, positions, last,
                       l.stream);
          },
          a.scratch()};
}

/// On inputs of 2 bytes, where cuDNN has it. Gradients of weights are made in 2 bytes, as PyTorch's are, and
/// upcast: what cuDNN 9 has for results of 4 bytes uses no tensor cores.
std::optional<Prepared> half_conv(const Call& call, Libraries& libraries, std::string& why) {
  const Precision precision = libraries.precision;
  const cudnnDataType_t in = precision == Precision::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  Asked a(call);
  std::optional<Plan> plan = plan_for(a.call, a.shape, {in, in}, libraries, why);
  a.narrows = plan && !call.half(0);
  if (!plan && !call.half(0)) plan = plan_for(a.call, a.shape, {in, CUDNN_DATA_FLOAT}, libraries, why);
  if (!plan) return std::nullopt;
  note_plan(libraries, call, plan, "");
  return multiply_half(call, precision,
                       [&](const Call& c) { return convolve(c, a, *plan, true, libraries); });
}

}  // namespace

Prepared library_conv(const Call& call, Libraries& libraries) {
  std::string why_not;
  if (is_half(libraries.precision)) {
    if (auto made = half_conv(call, libraries, why_not)) return std::move(*made);
  }
  if (half_mask(call) != 0)
    return upcast(call, libraries.precision, [&](const Call& c) { return library_conv(c, libraries); });
  std::string why;
  const Asked a(call);
  const std::optional<Plan> plan = plan_for(a.call, a.shape, {}, libraries, why);
  note_plan(libraries, call, plan, why);
  if (!plan) return prepare_own(call, libraries.precision);
  // Not a refusal, since cuDNN computes it; but it takes copies, and more time.
  if (!why_not.empty()) libraries.choices.back().engine += " on copies of 4 bytes";
  return convolve(call, a, *plan, false, libraries);
}

}  // namespace tandem::exec::cuda
