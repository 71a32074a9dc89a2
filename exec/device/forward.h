// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device that hands all calls to another: what shall differ derives from it.
#include <memory>
#include <utility>

#include "exec/device/backend.h"

namespace tandem::exec {

/// Of backends that are not asynchronous. Owns the other session, and is called by the threads that may call
/// it.
class ForwardDevice : public DeviceSession {
 public:
  explicit ForwardDevice(std::unique_ptr<DeviceSession> inner) : inner_(std::move(inner)) {}
  float* allocate(int64_t elements) override { return inner_->allocate(elements); }
  void join() override { inner_->join(); }
  uint32_t prepare(const Call& call) override { return inner_->prepare(call); }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    inner_->launch(prepared, operands, step, lane);
  }
  void copy(float* to, const float* from, int64_t n, Lane lane) override { inner_->copy(to, from, n, lane); }
  void accumulate(float* to, const float* from, int64_t n, Lane lane) override {
    inner_->accumulate(to, from, n, lane);
  }
  void scale(float* values, float factor, int64_t n, Lane lane) override {
    inner_->scale(values, factor, n, lane);
  }
  void narrow(float* to, const float* from, int64_t n, Lane lane) override {
    inner_->narrow(to, from, n, lane);
  }
  void upcast(float* to, const float* from, int64_t n, Lane lane) override {
    inner_->upcast(to, from, n, lane);
  }
  void narrow_gradients(float* to, const float* from, int64_t n, Lane lane) override {
    inner_->narrow_gradients(to, from, n, lane);
  }
  void upcast_gradients(float* to, const float* from, int64_t n, Lane lane) override {
    inner_->upcast_gradients(to, from, n, lane);
  }
  void accumulate_half(float* to, const float* from, int64_t words, Lane lane) override {
    inner_->accumulate_half(to, from, words, lane);
  }
  void unscale(float* gradients, int64_t n, bool alone, Lane lane) override {
    inner_->unscale(gradients, n, alone, lane);
  }
  void judge(const float* gradients, int64_t n, Lane lane) override { inner_->judge(gradients, n, lane); }
  void upload(float* to, const float* host, int64_t n) override { inner_->upload(to, host, n); }
  void download(float* host, const float* from, int64_t n) override { inner_->download(host, from, n); }
  void synchronize(Lane lane) override { inner_->synchronize(lane); }

 private:
  std::unique_ptr<DeviceSession> inner_;
};

}  // namespace tandem::exec
