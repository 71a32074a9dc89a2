// SPDX-License-Identifier: Apache-2.0
#pragma once
// An ExecutionGraph on one device, driven by hand: what the tests of exec share. Where the device's memory is
// not the host's, tests work on a mirror that is exchanged around each pass.
#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "exec/device/backend.h"
#include "exec/lower/execution_graph.h"
#ifdef TANDEM_TEST_EMULATED
#include "tests/exec/emulated_backend.h"
#endif

namespace tandem::tests {

/// The backend that the same tests are run on: the CPU, or what TANDEM_TEST_BACKEND names.
inline const Backend& test_backend() {
#ifdef TANDEM_TEST_EMULATED
  return emulated_backend();
#else
  const char* name = std::getenv("TANDEM_TEST_BACKEND");
  return backends_registry().at(name == nullptr ? "cpu" : name);
#endif
}

class TestRun {
 public:
  /// `apart`: every tensor has memory of its own, instead of places in the arena that others use too.
  explicit TestRun(const Graph& graph, int64_t batch, bool apart = false,
                   const Backend& backend = test_backend(), Precision precision = Precision::fp32)

      : execution_graph_(graph, batch, true, precision, {.fuses = backend.fuses_norms}),
        half_(precision),
        far_(backend.asynchronous),
        device_(open(backend, precision)) {
    inputs_ = allocate(execution_graph_.input_elements());
    arena_ = allocate(execution_graph_.arena());
    parameters_ = allocate(execution_graph_.parameters());
    gradients_ = allocate(execution_graph_.parameters());
    frozen_ = allocate(execution_graph_.frozen_words());
    for (TensorId t = 0; t < execution_graph_.tensors().size(); ++t) {
      const Tensor& x = execution_graph_.tensors()[t];
      if (apart) own_.push_back(allocate(x.elements));
      if (x.kind == TensorKind::buffer) std::fill_n(at(t), x.elements, x.initial);
    }
    const auto layers = static_cast<uint32_t>(graph.layers().size());
    for (uint32_t i = 0; i < layers; ++i)
      add(execution_graph_.forward(i), execution_graph_.slice(i).forward, forward_);
    for (uint32_t i = layers; i-- > 0;)
      add(execution_graph_.backward(i), execution_graph_.slice(i).backward, backward_);
    // A model without a loss is judged by the sum of its outputs times fixed random weights.
    if (execution_graph_.losses().empty()) {
      const auto& last = graph.layers().back();
      weights_.resize(static_cast<std::size_t>(batch * elements(last.output)));
    }
  }

  const ExecutionGraph& execution_graph() const { return execution_graph_; }

  void randomise(uint64_t seed) {
    SplitMix64 random(seed);
    const auto uniform = [&] { return static_cast<float>(2 * to_unit(random.next()) - 1); };
    for (const auto& list : {execution_graph_.inputs(), execution_graph_.labels()}) {
      for (const TensorId t : list) {
        const Tensor& x = execution_graph_.tensors()[t];
        for (int64_t i = 0; i < x.elements; ++i) {
          float* to = at(t) + i;
          if (x.integer)
            *reinterpret_cast<int32_t*>(to) = static_cast<int32_t>(random.next() % 4);
          else
            *to = uniform();
        }
      }
    }
    for (int64_t i = 0; i < execution_graph_.parameters(); ++i) parameters_[i] = 0.7F * uniform();
    for (float& w : weights_) w = uniform();
    std::vector<float> stays(static_cast<std::size_t>(execution_graph_.frozen_elements()));
    for (float& w : stays) w = 0.7F * uniform();
    set_frozen(stays);
  }

  void forward() {
    upload();
    for (Launch& l : forward_) run(l);
    download();
  }
  void backward() {
    std::fill_n(gradients_, execution_graph_.parameters(), 1e30F);  // whatever is not written shows
    upload();
    for (std::size_t i = 0; i < backward_.size(); ++i) {
      run(backward_[i]);
      if (i != 0 || weights_.empty()) continue;
      device_->synchronize(Lane::compute);
      std::vector<float> seeds = weights_;
      for (float& s : seeds) s *= half_ == Precision::fp16 ? kLossScale : 1;
      if (seed_is_half_) seeds = narrow(seeds);
      device_->upload(backward_[0].operands[0], seeds.data(), static_cast<int64_t>(seeds.size()));
    }
    device_->unscale(device_address(gradients_), execution_graph_.parameters(), false, Lane::compute);
    download();
  }
  double loss() const {
    double out = 0;
    for (const TensorId t : execution_graph_.losses()) out += static_cast<double>(*at(t));
    if (weights_.empty()) return out;
    const float* y = output();
    for (std::size_t i = 0; i < weights_.size(); ++i)
      out += static_cast<double>(y[i]) * static_cast<double>(weights_[i]);
    return out;
  }
  /// First operand of the last forward call: the output of the last layer.
  const float* output() const {
    const Tensor& y = execution_graph_.tensors()[execution_graph_.output()];
    if (!y.half) return at(execution_graph_.output());
    upcast_.resize(static_cast<std::size_t>(y.elements));
    const auto* from = reinterpret_cast<const uint16_t*>(at(execution_graph_.output()));
    for (std::size_t i = 0; i < upcast_.size(); ++i)
      upcast_[i] = half_ == Precision::fp16 ? static_cast<float>(std::bit_cast<Eigen::half>(from[i]))
                                            : std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
    return upcast_.data();
  }
  float* at(TensorId t) const {
    const Tensor& x = execution_graph_.tensors()[t];
    switch (x.kind) {
      case TensorKind::input:
      case TensorKind::label:
        return inputs_ + x.offset;
      case TensorKind::parameter:
        return parameters_ + x.offset;
      case TensorKind::parameter_gradient:
        return gradients_ + x.offset;
      case TensorKind::frozen:
        return frozen_ + x.offset;
      default:
        return own_.empty() ? arena_ + x.offset : own_[t];
    }
  }
  std::vector<float> parameters() const { return {parameters_, parameters_ + execution_graph_.parameters()}; }
  std::vector<float> gradients() const { return {gradients_, gradients_ + execution_graph_.parameters()}; }
  /// Values of weights that stay, as ExecutionGraph::frozen() has them one behind the other.
  void set_frozen(const std::vector<float>& values) {
    std::ranges::copy(execution_graph_.stored(values), frozen_);
  }
  void set_parameters(const std::vector<float>& p) { std::copy(p.begin(), p.end(), parameters_); }

 private:
  /// Small enough that nothing overflows, and not 1: gradients carry it until they are unscaled.
  static constexpr float kLossScale = 64;
  static std::unique_ptr<DeviceSession> open(const Backend& backend, Precision precision) {
    DeviceOptions options{0, precision, 1};
    options.loss_scale = kLossScale;
    return backend.open(options);
  }
  struct Launch {
    uint32_t prepared;
    std::vector<float*> operands;
    std::vector<std::pair<float*, int64_t>> summed = {};  ///< over devices, before it
  };
  struct Mirror {
    std::vector<float> host;
    float* device;
  };
  /// The device's memory where the host can reach it, else a mirror of it.
  float* allocate(int64_t elements) {
    float* memory = device_->allocate(elements);
    if (!far_) return memory;
    mirrors_.push_back({std::vector<float>(static_cast<std::size_t>(elements)), memory});
    return mirrors_.back().host.data();
  }
  float* device_address(float* p) const {
    for (const Mirror& m : mirrors_) {
      if (p >= m.host.data() && p < m.host.data() + m.host.size()) return m.device + (p - m.host.data());
    }
    return p;
  }
  void upload() {
    for (const Mirror& m : mirrors_)
      device_->upload(m.device, m.host.data(), static_cast<int64_t>(m.host.size()));
    if (far_) device_->set_state(step_, Lane::compute);
  }
  void download() {
    device_->synchronize(Lane::compute);
    for (Mirror& m : mirrors_)
      device_->download(m.host.data(), m.device, static_cast<int64_t>(m.host.size()));
  }
  /// In 2 bytes, to the nearest, two a word.
  std::vector<float> narrow(const std::vector<float>& values) const {
    std::vector<float> out((values.size() + 1) / 2);
    auto* to = reinterpret_cast<uint16_t*>(out.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (half_ == Precision::fp16) {
        to[i] = std::bit_cast<uint16_t>(Eigen::half(values[i]));
        continue;
      }
      const auto bits = std::bit_cast<uint32_t>(values[i]);
      to[i] = static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
    }
    return out;
  }
  void add(const std::vector<Call>& calls, const std::vector<ExchangedTensors>& exchanges,
           std::vector<Launch>& to) {
    if (&to == &backward_ && to.empty() && !calls.empty()) seed_is_half_ = calls.front().half(0);
    for (uint32_t k = 0; k < calls.size(); ++k) {
      Launch l{device_->prepare(calls[k]), {}};
      for (const TensorId t : calls[k].operands) l.operands.push_back(device_address(at(t)));
      for (const ExchangedTensors& x : exchanges) {
        if (x.before == k)
          l.summed.emplace_back(device_address(at(x.to)), execution_graph_.tensors()[x.to].elements);
      }
      to.push_back(std::move(l));
    }
  }
  /// Where batch normalisation is over several devices, all have the same samples.
  void run(Launch& l) {
    const auto devices = static_cast<float>(execution_graph_.graph().sharing().norm_devices);
    for (const auto& [sums, elements] : l.summed) {
      if (devices > 1) device_->scale(sums, devices, elements, Lane::compute);
    }
    device_->launch(l.prepared, l.operands, step_, Lane::compute);
  }

  ExecutionGraph execution_graph_;
  Precision half_;  ///< of what is stored in 2 bytes
  bool far_;
  std::unique_ptr<DeviceSession> device_;
  std::vector<Mirror> mirrors_;
  float *inputs_, *arena_, *parameters_, *gradients_, *frozen_;
  std::vector<float*> own_;  ///< per tensor, if apart
  std::vector<Launch> forward_, backward_;
  std::vector<float> weights_;
  bool seed_is_half_ = false;
  mutable std::vector<float> upcast_;
  IterationState step_;
};

}  // namespace tandem::tests
