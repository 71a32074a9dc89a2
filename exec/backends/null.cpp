// A device that computes nothing, at once: real threads, real order, real messages. Memory is real, so that
// gradients and parameters still travel.
#include <algorithm>
#include <memory>
#include <vector>

#include "exec/backend.h"

namespace tandem {

namespace {

class NullDevice : public Device {
 public:
  float* allocate(int64_t elements) override {
    owned_.push_back(std::make_unique<float[]>(static_cast<std::size_t>(elements)));
    return owned_.back().get();
  }
  uint32_t prepare(const Call&) override { return 0; }
  void launch(uint32_t, std::span<float* const>, const IterationState&, Lane) override {}
  void copy(float* to, const float* from, int64_t elements, Lane) override {
    std::copy_n(from, elements, to);
  }
  void accumulate(float* to, const float* from, int64_t elements, Lane) override {
    for (int64_t i = 0; i < elements; ++i) to[i] += from[i];
  }
  uint64_t record(Lane) override { return 0; }
  void wait(Lane, uint64_t) override {}
  void synchronize(Lane) override {}
  void upload(float* to, const float* host, int64_t elements) override { std::copy_n(host, elements, to); }
  void download(float* host, const float* from, int64_t elements) override {
    std::copy_n(from, elements, host);
  }

 private:
  std::vector<std::unique_ptr<float[]>> owned_;
};

}  // namespace

void register_null(Registry<Backend>& registry) {
  registry.add(
      {"null", "computes nothing: shows order, messages and staleness alone", [] { return std::string(); },
       [](const Call&) { return true; },
       [](const DeviceOptions&) -> std::unique_ptr<Device> { return std::make_unique<NullDevice>(); },
       [] { return std::string("no device"); }});
}

}  // namespace tandem
