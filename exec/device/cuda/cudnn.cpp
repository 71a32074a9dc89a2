// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN: what it proposes is filtered by precision and determinism, the fastest of the first
// few is kept; of kernels of 1x1 also cuBLASLt's products are tried. Where there is nothing (odd geometries),
// our own kernels compute.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/device/cuda/choices.h"
#include "exec/device/cuda/cudnn_graph.h"
#include "exec/device/cuda/cudnn_plan.h"
#include "exec/device/cuda/half.h"
#include "exec/device/cuda/mirror.h"
#include "exec/device/cuda/pointwise.h"
#include "exec/device/cuda/session.h"
#include "exec/device/cuda/trial.h"

namespace tandem::exec::cuda {

namespace {

constexpr std::size_t kMostTried = 8;  ///< as PyTorch's benchmark mode tries ten

/// Where the three tensors lie, and what a product may use.
struct Tensors {
  void *x, *y, *w;
  float* scratch;
  cudaStream_t stream;
};

void execute(const BoundProgram& plan, const Libraries& libraries, const Tensors& t) {
  check(run_plan(plan, libraries, {{kX, t.x}, {kY, t.y}, {kW, t.w}}), "convolve");
}
void execute(const ByProduct& product, Function pass, const Tensors& t) {
  auto *x = static_cast<float*>(t.x), *y = static_cast<float*>(t.y), *w = static_cast<float*>(t.w);
  const std::array operands = pass == Function::conv                 ? std::array{y, x, w}
                              : pass == Function::conv_backward_data ? std::array{x, y, w}
                                                                     : std::array{w, x, y};
  product.run.run({operands.data(), nullptr, t.scratch, t.stream});
}

/// The fastest by trial, plans first, then the product; none if all fail. One that stands alone is run as
/// well: whether it runs, and so that nothing is left to load at its first launch. The first where there is
/// no room for a trial.
std::optional<std::size_t> fastest(const std::vector<BoundProgram>& plans,
                                   const std::optional<ByProduct>& product, Function pass, const ConvShape& s,
                                   Libraries libraries) {
  std::optional<std::size_t> best;
  try {
    const cudaStream_t stream = stream_of(libraries);
    const auto x = TrialMemory::floats(s.in_elements()), y = TrialMemory::floats(s.out_elements()),
               w = TrialMemory::floats(s.weight_elements()),
               scratch = TrialMemory::floats(product ? product->run.scratch : 0);
    int64_t most = 0;
    for (const BoundProgram& p : plans) most = std::max(most, p.workspace);
    // Only the fastest one's is kept; products take the session's.
    const TrialMemory workspace(static_cast<std::size_t>(most), false);
    libraries.workspace = workspace.get();
    const Tensors tensors{x.get(), y.get(), w.get(), scratch.at(), stream};
    const auto run = [&](std::size_t i) {
      try {
        i < plans.size() ? execute(plans[i], libraries, tensors) : execute(*product, pass, tensors);
        return true;
      } catch (const DeviceError&) {
        return false;
      }
    };
    best = fastest_of(plans.size() + (product ? 1 : 0), run, stream, x.get(), x.bytes());
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

/// The convolution as a product, if it is one of operands with equal layout.
std::optional<ByProduct> product_for(const Call& call, const Types& types, Libraries& libraries) {
  if (types.in != types.out) return std::nullopt;
  const Precision stored = types.in == CUDNN_DATA_FLOAT ? Precision::fp32 : libraries.precision;
  ProductsUsed used;
  auto made =
      pointwise(call, stored, [&](const Product& p) { return aligned_product(p, stored, libraries, used); });
  if (!made || used.refused) return std::nullopt;
  return ByProduct{std::move(*made), *used.engines.begin(), used.workspace};
}

/// As Choices keeps it, in place of an Origin.
const Way kByProduct{0};

PlanCache::Made choose(const Call& call, const ConvShape& s, const Types& types,
                       const std::optional<ByProduct>& product, const std::optional<Way>& way,
                       Libraries& libraries) {
  if (product && way == kByProduct) return {std::nullopt, "", product};
  const std::optional<Origin> known = origin_of(way);
  const std::optional<ByProduct> rival = known ? std::nullopt : product;
  Refusals refusals;
  try {
    const Descriptor graph = convolution_graph(call, s, types, libraries.cudnn);
    std::vector<BoundProgram> plans = candidates(graph, known, kMostTried, libraries, refusals);
    if (plans.empty() && known) plans = candidates(graph, std::nullopt, kMostTried, libraries, refusals);
    if (plans.empty() && !rival) return {std::nullopt, refusals.text()};
    const auto at = fastest(plans, rival, call.function, s, libraries);
    if (!at) return {std::nullopt, "every engine that was tried fails"};
    if (*at == plans.size()) return {std::nullopt, "", rival};
    return {std::move(plans[*at]), ""};
  } catch (const Refused& refused) {
    return {std::nullopt, cudnnGetErrorString(refused.status)};
  }
}

/// The next worker on such a chip uses the same plan, sums in the same order, and skips the trials.
PlanCache::Made plan_for(const Call& call, const ConvShape& s, const Types& types, Libraries& libraries) {
  std::vector<int64_t> key = key_of(call, types, libraries);
  auto& made = plans_of(libraries).made;
  if (const auto at = made.find(key); at != made.end()) return at->second;
  const std::optional<ByProduct> product = product_for(call, types, libraries);
  const std::lock_guard guard(one_trial());  // products have made theirs
  const std::string chip = chip_of(libraries);
  Choices& choices = Choices::of_process();
  std::vector<int64_t> kept = key;
  if (product) kept.push_back(1);  // there was another choice
  const PlanCache::Made best = choose(call, s, types, product, choices.find(chip, kept), libraries);
  if (best.usable()) choices.keep(chip, kept, best.plan ? way_of(best.plan->origin) : kByProduct);
  if (best.plan) grow_workspace(libraries, static_cast<std::size_t>(best.plan->workspace));
  made[key] = best;
  return best;
}

void note_plan(Libraries& libraries, const Call& call, const PlanCache::Made& made) {
  if (made.product)
    note_choice(libraries, call, "cuBLASLt", made.product->engine, made.product->workspace, "");
  else
    note_choice(libraries, call, "cuDNN", made.plan ? fmt::format("engine {}", made.plan->engine) : "",
                made.plan ? made.plan->workspace : 0, made.plan ? "" : made.why);
}

bool aligned(const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// The convolution that cuDNN is asked for, and what is particular about it.
struct Asked {
  Call call;
  ConvShape shape;
  std::optional<WeightSwap> to, back;  ///< of a transposed one: the weights that it takes, or gives
  bool narrows = false;                ///< the plan's output is of 2 bytes, and is upcast afterwards

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
  /// Of scratch: weights first, then what is upcast.
  int64_t behind_weights() const { return (shape.weight_elements() + 63) / 64 * 64; }
  /// So much in front of a product's.
  int64_t scratch() const { return (behind_weights() + (narrows ? written() / 2 + 1 : 0) + 63) / 64 * 64; }
  static ConvShape shape_of(const Call& c) { return ConvShape::unpack({c.shape.begin(), c.shape.end() - 1}); }
};

/// Runs it on {x, y, w} of what cuDNN was asked for. Weights lie where the flat vector has them, on any
/// multiple of 4 bytes: then they go through scratch, as those that are swapped do.
void run_conv(const PlanCache::Made& way, const Asked& a, Precision half, bool half_inputs,
              const Libraries& libraries, const Launch& l) {
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
  const Tensors tensors{x, y, placed, l.scratch + a.scratch(), l.stream};
  way.product ? execute(*way.product, f, tensors) : execute(*way.plan, libraries, tensors);
  if (a.back)
    swap_weights(o[0], Precision::fp32, placed, made, *a.back, l.stream);
  else if (a.narrows)
    upcast(o[0], to, half, a.written(), l.stream);
  else if (placed != w && weights)
    move(w, placed);
}

Prepared convolve(const Call& call, const Asked& a, const PlanCache::Made& way, bool half_inputs,
                  const Libraries& libraries) {
  const ConvShape s = Asked::shape_of(call);
  const bool bias = call.function == Function::conv && call.operands.size() > 3,
             last = call.shape.back() != 0;
  const Precision half = libraries.precision, stored = call.half(0) ? half : Precision::fp32;
  const int64_t positions = s.out[0] * s.out[1] * s.out[2];
  return {[=, &libraries](const Launch& l) {
            run_conv(way, a, half, half_inputs, libraries, l);
            if (bias)
              add_bias(l.operands[0], l.operands[3], stored, s.batch, s.out_channels, positions, last,
                       l.stream);
          },
          a.scratch() + (way.product ? way.product->run.scratch : 0)};
}

/// On inputs of 2 bytes, where cuDNN has it. Gradients of weights are made in 2 bytes, as PyTorch's are, and
/// upcast: what cuDNN 9 has for results of 4 bytes uses no tensor cores.
std::optional<Prepared> half_conv(const Call& call, Libraries& libraries, std::string& why) {
  const Precision precision = libraries.precision;
  const cudnnDataType_t in = precision == Precision::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  Asked a(call);
  PlanCache::Made way = plan_for(a.call, a.shape, {in, in}, libraries);
  a.narrows = way.usable() && !call.half(0);
  if (!way.usable() && !call.half(0)) way = plan_for(a.call, a.shape, {in, CUDNN_DATA_FLOAT}, libraries);
  why = way.why;
  if (!way.usable()) return std::nullopt;
  note_plan(libraries, call, way);
  return multiply_half(call, precision, [&](const Call& c) { return convolve(c, a, way, true, libraries); });
}

}  // namespace

Prepared library_conv(const Call& call, Libraries& libraries) {
  std::string why_not;
  if (is_half(libraries.precision)) {
    if (auto made = half_conv(call, libraries, why_not)) return std::move(*made);
  }
  if (half_mask(call) != 0)
    return upcast(call, libraries.precision, [&](const Call& c) { return library_conv(c, libraries); });
  const Asked a(call);
  const PlanCache::Made way = plan_for(a.call, a.shape, {}, libraries);
  note_plan(libraries, call, way);
  if (!way.usable()) return prepare_own(call, libraries.precision);
  // Not a refusal, since cuDNN computes it; but it takes copies, and more time.
  if (!why_not.empty()) libraries.choices.back().engine += " on copies of 4 bytes";
  return convolve(call, a, way, false, libraries);
}

}  // namespace tandem::exec::cuda
