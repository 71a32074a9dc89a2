// SPDX-License-Identifier: Apache-2.0
#include "exec/device/throttled.h"

#include <ctime>
#include <utility>

namespace tandem::exec {

namespace {

/// Processor seconds of the calling thread.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Launches may come from one thread per lane, as in any session.
class Throttled : public DeviceSession {
 public:
  Throttled(std::unique_ptr<DeviceSession> session, double factor)
      : session_(std::move(session)), factor_(factor) {}

  float* allocate(int64_t elements) override { return session_->allocate(elements); }
  uint32_t prepare(const Call& call) override { return session_->prepare(call); }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    const double begin = thread_seconds();
    session_->launch(prepared, operands, step, lane);
    const double end = begin + factor_ * (thread_seconds() - begin);
    while (thread_seconds() < end) {
    }
  }
  void copy(float* to, const float* from, int64_t elements, Lane lane) override {
    session_->copy(to, from, elements, lane);
  }
  void accumulate(float* to, const float* from, int64_t elements, Lane lane) override {
    session_->accumulate(to, from, elements, lane);
  }
  void scale(float* values, float factor, int64_t elements, Lane lane) override {
    session_->scale(values, factor, elements, lane);
  }
  void narrow(float* to, const float* from, int64_t elements, Lane lane) override {
    session_->narrow(to, from, elements, lane);
  }
  void upcast(float* to, const float* from, int64_t elements, Lane lane) override {
    session_->upcast(to, from, elements, lane);
  }
  void unscale(float* gradients, int64_t elements, bool alone, Lane lane) override {
    session_->unscale(gradients, elements, alone, lane);
  }
  void upload(float* to, const float* host, int64_t elements) override {
    session_->upload(to, host, elements);
  }
  void download(float* host, const float* from, int64_t elements) override {
    session_->download(host, from, elements);
  }
  void synchronize(Lane lane) override { session_->synchronize(lane); }

 private:
  std::unique_ptr<DeviceSession> session_;
  double factor_;
};

}  // namespace

std::unique_ptr<DeviceSession> throttled(std::unique_ptr<DeviceSession> session, double factor) {
  return std::make_unique<Throttled>(std::move(session), factor);
}

}  // namespace tandem::exec
