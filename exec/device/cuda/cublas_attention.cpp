// SPDX-License-Identifier: Apache-2.0
// Attention in 4 bytes, for which cuDNN has no kernels: by products of cuBLASLt, by our own tiles in fp32 or,
// in tf32, by such that tensor cores multiply. All are tried on separate memory, and a method other than the
// fp32 tiles is used only if it gives their results.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/device/cuda/choices.h"
#include "exec/device/cuda/product_attention.h"
#include "exec/device/cuda/session.h"
#include "exec/device/cuda/tensor_attention.h"
#include "exec/device/cuda/trial.h"

namespace tandem::exec::cuda {

namespace {

/// At 14 TFLOP/s this takes as long as one launch: there is nothing to gain below. Heads that fill no tiles
/// take plain kernels, which are slow.
constexpr double kLeastFlops = 2e7;

bool large_enough(const AttentionShape& a) {
  const double scores = static_cast<double>(a.batch * a.heads) * static_cast<double>(a.query * a.key);
  return a.size > kMostTiled || 4 * scores * static_cast<double>(a.size) >= kLeastFlops;
}

/// Operands of a call in separate memory. q, k and v overlap, with different numbers in each; results do not.
class Trial {
 public:
  Trial(const Call& call, int64_t scratch, Libraries& libraries)
      : a_(call),
        backward_(call.function == Function::attention_backward),
        inputs_(TrialMemory::floats(std::max(queries(), keys()) + 2 * kApart)),
        out_(TrialMemory::floats(outputs())),
        dout_(TrialMemory::floats(backward_ ? outputs() : 0)),
        sums_(TrialMemory::floats(sums())),
        dq_(TrialMemory::floats(backward_ ? queries() : 0)),
        dk_(TrialMemory::floats(backward_ ? keys() : 0)),
        dv_(TrialMemory::floats(backward_ ? keys() : 0)),
        scratch_(static_cast<std::size_t>(scratch) * sizeof(float), false),
        stream_(stream_of(libraries)) {
    float *const q = inputs_.at(), *const k = q + kApart, *const v = k + kApart;
    if (backward_)
      operands_ = {dq_.at(), dk_.at(), dv_.at(), q, k, v, out_.at(), dout_.at(), sums_.at()};
    else
      operands_ = {out_.at(), q, k, v, sums_.at()};
    check(cudaDeviceSynchronize(), "fill memory");  // which no stream of ours waits for
  }

  /// Throws DeviceError where a launch fails.
  void run(const Prepared& way) const { way.run({operands_.data(), nullptr, scratch_.at(), stream_}); }

  cudaStream_t stream() const { return stream_; }

  using Results = std::vector<std::vector<float>>;
  Results results(const Prepared& way) const {
    using Written = std::vector<std::pair<const TrialMemory*, int64_t>>;
    const Written written = backward_ ? Written{{&dq_, queries()}, {&dk_, keys()}, {&dv_, keys()}}
                                      : Written{{&out_, outputs()}, {&sums_, sums()}};
    for (const auto& [memory, n] : written)  // what lies between rows is not written
      check(cudaMemsetAsync(memory->get(), 0, memory->bytes(), stream_), "clear memory");
    run(way);
    check(cudaStreamSynchronize(stream_), "try an attention");
    Results out;
    for (const auto& [memory, n] : written) {
      auto& values = out.emplace_back(static_cast<std::size_t>(n));
      check(cudaMemcpy(values.data(), memory->get(), values.size() * sizeof(float), cudaMemcpyDeviceToHost),
            "download");
    }
    return out;
  }

 private:
  static constexpr int64_t kApart = 80044;  ///< floats: a multiple of 16 bytes
  int64_t queries() const { return a_.batch * a_.q_rows * a_.q_row; }
  int64_t keys() const { return a_.batch * a_.kv_rows * a_.kv_row; }
  int64_t outputs() const { return a_.batch * a_.out_rows * a_.out_row(); }
  int64_t sums() const { return a_.batch * a_.heads * a_.out_rows; }

  AttentionShape a_;
  bool backward_;
  TrialMemory inputs_, out_, dout_, sums_, dq_, dk_, dv_, scratch_;
  cudaStream_t stream_;
  std::vector<float*> operands_;
};

/// A way as a graph, as steps replay it: products are many launches, which a host would issue slowly. Throws
/// DeviceError.
class Captured {
 public:
  Captured(const Trial& trial, const Prepared& way) : stream_(trial.stream()) {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "begin to capture");
    cudaGraph_t graph = nullptr;
    std::string failure;
    try {
      trial.run(way);
    } catch (const DeviceError& error) {
      failure = error.what();
    }
    check(cudaStreamEndCapture(stream_, &graph), "end the capture");
    const cudaError_t made = failure.empty() ? cudaGraphInstantiate(&ready_, graph, 0) : cudaSuccess;
    cudaGraphDestroy(graph);
    if (!failure.empty()) throw DeviceError(failure);
    check(made, "make a captured graph ready");
  }
  ~Captured() {
    cudaStreamSynchronize(stream_);
    cudaGraphExecDestroy(ready_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  bool replay() const { return cudaGraphLaunch(ready_, stream_) == cudaSuccess; }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t ready_ = nullptr;
};

/// The largest distance of a tensor from what it should be, in that one's length; NaN where one is not
/// finite.
double distance(const Trial::Results& got, const Trial::Results& want) {
  double most = 0;
  for (std::size_t t = 0; t < want.size(); ++t) {
    double apart = 0, all = 0;
    for (std::size_t i = 0; i < want[t].size(); ++i) {
      const double w = static_cast<double>(want[t][i]), d = static_cast<double>(got[t][i]) - w;
      apart += d * d;
      all += w * w;
    }
    const double of = std::sqrt(apart / all);
    if (std::isnan(of)) return of;
    most = std::max(most, of);
  }
  return most;
}

/// Counted up where our tiles become faster or slower: choices that are kept compare with them.
constexpr int kTilesVersion = 3;

/// As they stand among the choices that are kept.
enum Ways : int64_t { kProducts, kTiles, kTensorCores };

struct Candidate {
  Ways way;
  AttentionPlan plan;
};

/// Of results in tf32, 11 bits of whose inputs are multiplied: errors add up like noise. In fp32 24 are.
double allowed(Precision precision) { return precision == Precision::tf32 ? 1e-2 : 1e-4; }

/// The fastest of `ways`, the last of which are the tiles. One that gives other results than they do is left
/// out, for which there is a reason then. `known`: that the first is it, is known. Throws NoRoom where
/// nothing can be tried, and DeviceError.
Candidate fastest(const Call& call, std::vector<Candidate> ways, bool known, Libraries& libraries) {
  const std::lock_guard guard(one_trial());
  int64_t scratch = 0;
  for (const Candidate& c : ways) scratch = std::max(scratch, c.plan.prepared.scratch);
  const Trial trial(call, scratch, libraries);
  const auto want = trial.results(ways.back().plan.prepared);
  std::string refused;
  for (std::size_t i = 0; i + 1 < ways.size();) {
    const double off = distance(trial.results(ways[i].plan.prepared), want);
    if (off <= allowed(libraries.precision)) {
      ++i;
      continue;
    }
    refused = fmt::format("{} are {:.1e} of its length off what own kernels give",
                          ways[i].way == kProducts ? "products" : "tiles on tensor cores", off);
    ways.erase(ways.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::size_t best = 0;
  if (!known) {
    std::vector<std::unique_ptr<Captured>> captured;
    for (const Candidate& c : ways) captured.push_back(std::make_unique<Captured>(trial, c.plan.prepared));
    best = fastest_of(
               ways.size(), [&](std::size_t way) { return captured[way]->replay(); }, stream_of(libraries),
               libraries.workspace, libraries.workspace_bytes)
               .value_or(ways.size() - 1);
  }
  Candidate out = std::move(ways[best]);
  out.plan.choice.refused = refused;
  return out;
}

/// Throws DeviceError.
AttentionPlan by_products(const Call& call, Libraries& libraries) {
  ProductsUsed used;
  make_product() = [&](const Product& p) { return aligned_product(p, Precision::fp32, libraries, used); };
  Prepared products = attention_by_products(call);
  make_product() = fallback_product;
  if (used.refused) throw DeviceError("no algorithm for these layouts");
  const std::string engines = fmt::format("{} and softmax", fmt::join(used.engines, ", "));
  return {std::move(products), {call.function, "cuBLASLt", engines, used.workspace, "", 0}};
}

AttentionPlan plan_of(const Call& call, const std::vector<int64_t>& key, Libraries& libraries) {
  AttentionPlan tiles{prepare_own(call, libraries.precision), {}};
  const AttentionShape a(call);
  const bool tensor_cores = libraries.precision == Precision::tf32 && fits_tensor_cores(a);
  if (!large_enough(a) || !(multiplies(a) || tensor_cores)) return tiles;
  Choices& choices = Choices::of_process();
  const std::string chip = fmt::format("{} attention of 4 bytes, tiles {}, cuBLASLt {}", libraries.chip,
                                       kTilesVersion, cublasLtGetVersion());
  const std::optional<Way> known = choices.find(chip, key);
  tiles.choice = {call.function, "Tandem", "tiles", 0, "", 0};
  if (known == Way{kTiles}) return tiles;
  try {
    std::vector<Candidate> ways;  // the best estimate first
    if (tensor_cores && known != Way{kProducts})
      ways.push_back(
          {kTensorCores,
           {attention_on_tensor_cores(call), {call.function, "Tandem", "tiles on tensor cores", 0, "", 0}}});
    if (multiplies(a) && known != Way{kTensorCores})
      ways.push_back({kProducts, by_products(call, libraries)});
    ways.push_back({kTiles, tiles});
    Candidate best = fastest(call, std::move(ways), known.has_value(), libraries);
    if (best.plan.choice.refused.empty()) choices.keep(chip, key, {best.way});
    if (best.way != kTiles || best.plan.choice.refused.empty()) return best.plan;
    tiles.choice.refused = best.plan.choice.refused;
  } catch (const NoRoom&) {
    tiles.choice.refused = "no memory to try it";
  } catch (const DeviceError& error) {
    tiles.choice.refused = error.what();
  }
  make_product() = fallback_product;
  tiles.choice.library = "cuBLASLt";
  tiles.choice.engine = "";
  return tiles;
}

}  // namespace

Prepared attention_of_floats(const Call& call, Libraries& libraries) {
  std::vector<int64_t> key = call.shape;
  key.insert(key.end(), {static_cast<int64_t>(call.function), static_cast<int64_t>(libraries.precision)});
  auto plan = libraries.attentions.find(key);
  if (plan == libraries.attentions.end())
    plan = libraries.attentions.emplace(key, plan_of(call, key, libraries)).first;
  const LibraryChoice& c = plan->second.choice;
  if (!c.library.empty())
    note_choice(libraries, call, c.library.c_str(), c.engine, c.workspace_bytes, c.refused);
  return plan->second.prepared;
}

}  // namespace tandem::exec::cuda
