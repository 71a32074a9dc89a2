// SPDX-License-Identifier: Apache-2.0
// A device that computes nothing, at once: real threads, real order, real messages. Memory is real, so that
// gradients and parameters still travel.
#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "exec/device/averaging.h"
#include "exec/device/backend.h"
#include "exec/device/compression.h"
#include "exec/device/cpu/kernel.h"
#include "exec/lower/call_shapes.h"

namespace tandem::exec {

namespace {

class NullDevice : public DeviceSession {
 public:
  explicit NullDevice(Precision precision) : fp16_(half_format(precision) == Precision::fp16) {}
  float* allocate(int64_t elements) override {
    owned_.push_back(std::make_unique<float[]>(static_cast<std::size_t>(elements)));
    return owned_.back().get();
  }
  uint32_t prepare(const Call& call) override {
    updates_.push_back(call.function == Function::update ? call.shape[0] : 0);
    routes_.push_back(call.function == Function::route ? std::make_unique<RouteShape>(call) : nullptr);
    const bool compresses = call.function == Function::compress || call.function == Function::decompress ||
                            call.function == Function::orthogonalise;
    others_.emplace_back(call.function == Function::average ? host_average(call)
                         : compresses                       ? host_compression(call)
                                                            : nullptr);
    return static_cast<uint32_t>(updates_.size() - 1);
  }
  /// Updates alone are made, by plain gradient descent and by averaging, gradients compressed for the way,
  /// and as many tokens sent to each expert.
  void launch(uint32_t prepared, std::span<float* const> o, const IterationState& s, Lane) override {
    if (routes_[prepared]) deal(*routes_[prepared], reinterpret_cast<int32_t*>(o[3]));
    if (others_[prepared]) others_[prepared](o);
    for (int64_t i = 0; i < updates_[prepared]; ++i) o[0][i] -= s.learning_rate * s.gradient_scale * o[1][i];
  }
  void copy(float* to, const float* from, int64_t elements, Lane) override {
    std::copy_n(from, elements, to);
  }
  void accumulate(float* to, const float* from, int64_t elements, Lane) override {
    for (int64_t i = 0; i < elements; ++i) to[i] += from[i];
  }
  void scale(float* values, float factor, int64_t elements, Lane) override {
    for (int64_t i = 0; i < elements; ++i) values[i] *= factor;
  }
  void narrow(float* to, const float* from, int64_t elements, Lane) override {
    cpu::narrow(to, from, fp16_, elements);
  }
  void upcast(float* to, const float* from, int64_t elements, Lane) override {
    cpu::upcast(to, from, fp16_, elements);
  }
  void accumulate_half(float* to, const float* from, int64_t words, Lane) override {
    cpu::accumulate_half(to, from, fp16_, words);
  }
  void upload(float* to, const float* host, int64_t elements) override { std::copy_n(host, elements, to); }
  void download(float* host, const float* from, int64_t elements) override {
    std::copy_n(from, elements, host);
  }

 private:
  bool fp16_;  ///< the format of 2 bytes, else bf16
  static void deal(const RouteShape& s, int32_t* counts) {
    const int64_t all = s.rows * s.active;
    for (int64_t e = 0; e < s.experts; ++e)
      counts[e] =
          static_cast<int32_t>(s.capacity > 0 ? s.capacity : all / s.experts + (e < all % s.experts ? 1 : 0));
  }

  std::vector<std::unique_ptr<float[]>> owned_;
  std::vector<int64_t> updates_;  ///< elements of each prepared call, 0 for all others
  std::vector<std::function<void(std::span<float* const>)>>
      others_;                                       ///< of averaging and compression, null for all else
  std::vector<std::unique_ptr<RouteShape>> routes_;  ///< of each prepared call, null for all others
};

}  // namespace

void register_null(Registry<Backend>& registry) {
  registry.add({"null", "computes nothing: shows order, messages and staleness alone",
                [] { return std::string(); }, [](const Call&, Precision) { return true; },
                [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
                  return std::make_unique<NullDevice>(options.precision);
                },
                [] { return std::string("no device"); }});
}

}  // namespace tandem::exec
