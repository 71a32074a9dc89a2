#pragma once
// All that a kind of device must supply to run Programs. A backend is one folder in exec/. Floor 3.
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/registry.h"
#include "base/units.h"
#include "exec/call.h"
#include "schemes/program.h"

namespace tandem {

/// One instance's device. Opened and used from that instance's threads: at any time one thread per lane.
/// Memory is the device's (host memory for the CPU); addresses may be offset.
class DeviceSession {
 public:
  virtual ~DeviceSession() = default;
  /// Zeroed and touched by the calling thread; owned by the device until it is destroyed.
  virtual float* allocate(int64_t elements) = 0;
  /// Makes everything that repeated launches of the call need; the handle is an index. Slow.
  virtual uint32_t prepare(const Call& call) = 0;
  /// Enqueues on the lane; `operands` as in Call. May return before completion. Allocates nothing.
  virtual void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
                      Lane lane) = 0;
  virtual void copy(float* to, const float* from, int64_t elements, Lane lane) = 0;
  /// to += from.
  virtual void accumulate(float* to, const float* from, int64_t elements, Lane lane) = 0;
  /// Marks what the lane has been given so far; wait() makes another lane's later work wait for it.
  virtual uint64_t record(Lane lane) = 0;
  virtual void wait(Lane lane, uint64_t event) = 0;
  /// The host waits for the lane; throws DeviceError.
  virtual void synchronize(Lane lane) = 0;
  /// Between host memory and the device's; the host waits.
  virtual void upload(float* to, const float* host, int64_t elements) = 0;
  virtual void download(float* host, const float* from, int64_t elements) = 0;
};

struct DeviceOptions {
  uint32_t index = 0;  ///< of the instance
  int threads = 1;     ///< that compute together for one instance (CPU)
  bool pin = true;     ///< bind the calling thread, and those it starts, to processors of its own
};

struct Backend {
  std::string_view name, summary;
  /// Empty when usable here, else what is missing.
  std::string (*missing)();
  bool (*supports)(const Call& call);
  /// Called in the thread that will run the instance's compute lane.
  std::unique_ptr<DeviceSession> (*open)(const DeviceOptions& options);
  /// What the device is called in topologies' terms: cores, clock, memory; for provenance.
  std::string (*describe)();
  bool host_memory = true;  ///< its memory is the host's: threads may reach into it
};
/// Generated from the list in exec/CMakeLists.txt.
const Registry<Backend>& backends_registry();

}  // namespace tandem
