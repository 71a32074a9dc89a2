// SPDX-License-Identifier: Apache-2.0
#include "exec/lower/fused_norm.h"

#include <algorithm>
#include <limits>

namespace tandem::exec {

namespace {

class NormFusion {
 public:
  NormFusion(const Graph& graph, const GradientFlow& flow, EmittedCalls& calls)
      : layers_(graph.layers()), flow_(flow), e_(calls) {}

  void run() {
    for (uint32_t i = 0; i < layers_.size(); ++i) {
      if (marked(i) && makes(i, Function::unary)) fuse(i);
    }
  }

 private:
  /// What is found in front of a rectifier.
  struct Found {
    uint32_t norm = 0, add = 0, relu = 0;  ///< layers; without an addition `add` is `norm`
    TensorId added = kNoTensor;
    Call *gradient = nullptr, *sums = nullptr, *data = nullptr;  ///< calls of the backward passes; null: none
    bool adds() const { return add != norm; }
  };

  TensorId root(TensorId t) const { return e_.tensors.root(t); }
  Call& forward(uint32_t layer) { return e_.forward[layer][0]; }
  bool makes(uint32_t layer, Function function) const {
    const SliceTensors& s = e_.slice[layer];
    return e_.forward[layer].size() == 1 && e_.forward[layer][0].function == function && s.forward.empty() &&
           s.backward.empty();
  }

  bool marked(uint32_t layer) const {
    const auto& kernels = flow_.lowered[layer].forward;
    return !kernels.empty() && kernels.front().fused;
  }

  void fuse(uint32_t relu) {
    Found f;
    f.relu = relu;
    f.add = f.norm = layers_[relu].inputs[0];
    const Call& rectifier = forward(relu);
    const TensorId made = root(rectifier.operands[1]);
    if (marked(f.add)) {
      if (!makes(f.add, Function::sum)) return;
      find_added(f);
    }
    if (!makes(f.norm, Function::batch_norm) || flow_.outputs[f.norm].sent) return;
    const bool in_place = root(rectifier.operands[0]) == made && root(forward(f.add).operands[0]) == made;
    if (!in_place || !find_backward(f)) return;
    write_forward(f);
    write_backward(f);
  }

  /// The later of the addition's two inputs; the other is there when that is made.
  void find_added(Found& f) {
    const std::vector<uint32_t>& inputs = layers_[f.add].inputs;
    f.norm = std::max(inputs[0], inputs[1]);
    f.added = forward(f.add).operands[inputs[0] == f.norm ? 2 : 1];
  }

  Call* find(uint32_t layer, Function function) {
    auto& calls = e_.backward[layer];
    const auto at =
        std::find_if(calls.begin(), calls.end(), [&](const Call& c) { return c.function == function; });
    return at == calls.end() ? nullptr : &*at;
  }

  /// Whatever reads the gradient after the rectifier is to be fused, or comes later.
  bool find_backward(Found& f) {
    f.gradient = find(f.relu, Function::unary_backward);
    f.sums = find(f.norm, Function::batch_norm_sums);
    f.data = find(f.norm, Function::batch_norm_backward);
    if (f.gradient == nullptr) return f.sums == nullptr;
    if (f.sums == nullptr || (f.adds() && (f.data == nullptr || !e_.backward[f.add].empty()))) return false;
    const TensorId cut = root(f.gradient->operands[0]);
    if (root(f.sums->operands[3]) != cut || (f.data != nullptr && root(f.data->operands[2]) != cut))
      return false;
    for (uint32_t i = f.adds() ? f.norm + 1 : 0; i < layers_.size(); ++i) {
      for (const Call& c : e_.backward[i]) {
        const bool reads =
            std::any_of(c.operands.begin(), c.operands.end(), [&](TensorId t) { return root(t) == cut; });
        if (reads && &c != f.gradient && &c != f.sums && &c != f.data) return false;
      }
    }
    return true;
  }

  static float high(const Call& relu) {
    return static_cast<Unary>(relu.shape[1]) == Unary::relu6 ? 6.0F : std::numeric_limits<float>::infinity();
  }
  static void take_kernels(Call& to, const Call& from) {
    to.kernels.insert(to.kernels.end(), from.kernels.begin(), from.kernels.end());
  }
  static constexpr std::ptrdiff_t kLearned = 6;  ///< of batch_norm: where scale and shift are

  void write_forward(const Found& f) {
    Call& norm = forward(f.norm);
    norm.function = Function::batch_norm_relu;
    norm.operands[0] = forward(f.add).operands[0];
    norm.shape = shape_of(f);
    norm.scalars.push_back(high(forward(f.relu)));
    if (f.adds()) {
      norm.operands.insert(norm.operands.begin() + kLearned, f.added);
      take_kernels(norm, forward(f.add));
    }
    take_kernels(norm, forward(f.relu));
  }

  std::vector<int64_t> shape_of(const Found& f) const {
    const std::vector<int64_t>& s = e_.forward[f.norm][0].shape;
    return {s[0], s[1], s[2], 1, 0, f.adds() ? 1 : 0};
  }

  void write_backward(const Found& f) {
    const float limit = high(forward(f.relu));
    const TensorId kept = forward(f.norm).operands[0];
    std::vector<TensorId> learned(forward(f.norm).operands.begin() + kLearned + (f.adds() ? 1 : 0),
                                  forward(f.norm).operands.end());
    for (const uint32_t gone : {f.add, f.relu}) {
      if (gone == f.norm) continue;
      e_.forward[gone].clear();
      e_.elsewhere[gone] = true;
    }
    if (f.gradient == nullptr) return;
    const TensorId dy = f.gradient->operands[1];
    std::vector<TensorId>& o = f.sums->operands;
    f.sums->function = Function::batch_norm_relu_sums;
    f.sums->shape = shape_of(f);
    f.sums->scalars = {limit};
    if (f.adds()) {
      o = {o[0], o[1], f.gradient->operands[0], o[2], dy, kept, o[4], o[5]};
      take_kernels(*f.sums, *f.gradient);
    } else {
      o[3] = dy;
      o.insert(o.end(), learned.begin(), learned.end());
      take_kernels(f.data != nullptr ? *f.data : *f.sums, *f.gradient);
    }
    if (!f.adds() && f.data != nullptr) {
      f.data->function = Function::batch_norm_relu_backward;
      f.data->scalars = {limit};
      f.data->operands[2] = dy;
      f.data->operands.resize(7);
      f.data->operands.insert(f.data->operands.end(), learned.begin(), learned.end());
    }
    auto& calls = e_.backward[f.relu];
    calls.erase(calls.begin() + (f.gradient - calls.data()));
  }

  const std::vector<Layer>& layers_;
  const GradientFlow& flow_;
  EmittedCalls& e_;
};

}  // namespace

void fuse_norms(const Graph& graph, const GradientFlow& flow, EmittedCalls& calls) {
  NormFusion(graph, flow, calls).run();
}

void mark_what_is_fused(EmittedCalls& calls) {
  for (auto* passes : {&calls.forward, &calls.backward}) {
    for (std::vector<Call>& layer : *passes) {
      for (Call& c : layer) {
        const bool fused = c.function == Function::batch_norm_relu ||
                           c.function == Function::batch_norm_relu_sums ||
                           c.function == Function::batch_norm_relu_backward;
        for (Kernel& k : c.kernels) k.fused = k.fused && fused;
      }
    }
  }
}

}  // namespace tandem::exec
