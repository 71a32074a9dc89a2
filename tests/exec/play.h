#pragma once
// A Network on one CPU device, driven by hand: what the tests of exec share.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.h"
#include "exec/backend.h"
#include "exec/network.h"

namespace tandem {

class Play {
 public:
  /// `apart`: every tensor has memory of its own, instead of places in the arena that others use too.
  explicit Play(const Graph& graph, int64_t batch, bool apart = false)
      : network_(graph, batch), device_(backends_registry().at("cpu").open({0, Precision::fp32, 1, false})) {
    inputs_ = device_->allocate(network_.input_elements());
    arena_ = device_->allocate(network_.arena());
    parameters_ = device_->allocate(network_.parameters());
    gradients_ = device_->allocate(network_.parameters());
    for (TensorId t = 0; t < network_.tensors().size(); ++t) {
      const Tensor& x = network_.tensors()[t];
      if (apart) own_.push_back(device_->allocate(x.elements));
      if (x.kind == TensorKind::buffer) std::fill_n(at(t), x.elements, x.initial);
    }
    const auto layers = static_cast<uint32_t>(graph.layers().size());
    for (uint32_t i = 0; i < layers; ++i) add(network_.forward(i), forward_);
    for (uint32_t i = layers; i-- > 0;) add(network_.backward(i), backward_);
    // A model without a loss is judged by the sum of its outputs times fixed random weights.
    if (network_.losses().empty()) {
      const auto& last = graph.layers().back();
      weights_.resize(static_cast<std::size_t>(batch * elements(last.output)));
    }
  }

  const Network& network() const { return network_; }

  void randomise(uint64_t seed) {
    SplitMix64 random(seed);
    const auto uniform = [&] { return static_cast<float>(2 * to_unit(random.next()) - 1); };
    for (const auto& list : {network_.inputs(), network_.labels()}) {
      for (const TensorId t : list) {
        const Tensor& x = network_.tensors()[t];
        for (int64_t i = 0; i < x.elements; ++i) {
          float* to = at(t) + i;
          if (x.integer)
            *reinterpret_cast<int32_t*>(to) = static_cast<int32_t>(random.next() % 4);
          else
            *to = uniform();
        }
      }
    }
    for (int64_t i = 0; i < network_.parameters(); ++i) parameters_[i] = 0.7F * uniform();
    for (float& w : weights_) w = uniform();
  }

  void forward() {
    for (Launch& l : forward_) run(l);
  }
  void backward() {
    std::fill_n(gradients_, network_.parameters(), 1e30F);  // whatever is not written shows
    for (std::size_t i = 0; i < backward_.size(); ++i) {
      run(backward_[i]);
      if (i == 0 && !weights_.empty()) std::copy(weights_.begin(), weights_.end(), backward_[0].operands[0]);
    }
  }
  double loss() const {
    double out = 0;
    for (const TensorId t : network_.losses()) out += static_cast<double>(*at(t));
    if (weights_.empty()) return out;
    const float* y = output();
    for (std::size_t i = 0; i < weights_.size(); ++i)
      out += static_cast<double>(y[i]) * static_cast<double>(weights_[i]);
    return out;
  }
  /// First operand of the last forward call: the output of the last layer.
  const float* output() const { return at(network_.output()); }
  float* at(TensorId t) const {
    const Tensor& x = network_.tensors()[t];
    switch (x.kind) {
      case TensorKind::input:
      case TensorKind::label:
        return inputs_ + x.offset;
      case TensorKind::parameter:
        return parameters_ + x.offset;
      case TensorKind::parameter_gradient:
        return gradients_ + x.offset;
      default:
        return own_.empty() ? arena_ + x.offset : own_[t];
    }
  }
  std::vector<float> parameters() const { return {parameters_, parameters_ + network_.parameters()}; }
  std::vector<float> gradients() const { return {gradients_, gradients_ + network_.parameters()}; }
  void set_parameters(const std::vector<float>& p) { std::copy(p.begin(), p.end(), parameters_); }

 private:
  struct Launch {
    uint32_t prepared;
    std::vector<float*> operands;
  };
  void add(const std::vector<Call>& calls, std::vector<Launch>& to) {
    for (const Call& c : calls) {
      Launch l{device_->prepare(c), {}};
      for (const TensorId t : c.operands) l.operands.push_back(at(t));
      to.push_back(std::move(l));
    }
  }
  void run(Launch& l) { device_->launch(l.prepared, l.operands, step_, Lane::compute); }

  Network network_;
  std::unique_ptr<DeviceSession> device_;
  float *inputs_, *arena_, *parameters_, *gradients_;
  std::vector<float*> own_;  ///< per tensor, if apart
  std::vector<Launch> forward_, backward_;
  std::vector<float> weights_;
  IterationState step_;
};

}  // namespace tandem
