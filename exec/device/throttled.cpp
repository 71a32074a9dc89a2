// SPDX-License-Identifier: Apache-2.0
#include "exec/device/throttled.h"

#include <ctime>
#include <utility>

#include "exec/device/forward.h"

namespace tandem::exec {

namespace {

/// Processor seconds of the calling thread.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Launches may come from one thread per lane, as in any session.
class Throttled : public ForwardDevice {
 public:
  Throttled(std::unique_ptr<DeviceSession> session, double factor)
      : ForwardDevice(std::move(session)), factor_(factor) {}
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    const double begin = thread_seconds();
    ForwardDevice::launch(prepared, operands, step, lane);
    const double end = begin + factor_ * (thread_seconds() - begin);
    while (thread_seconds() < end) {
    }
  }

 private:
  double factor_;
};

}  // namespace

std::unique_ptr<DeviceSession> throttled(std::unique_ptr<DeviceSession> session, double factor) {
  return std::make_unique<Throttled>(std::move(session), factor);
}

}  // namespace tandem::exec
