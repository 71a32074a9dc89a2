// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which processors workers compute on, and which only communicate. Linux's NUMA nodes are those of
// /sys/devices/system/node.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::exec {

/// Processors that this process may use, by the NUMA node whose memory is theirs; no node is empty.
struct Processors {
  std::vector<std::vector<int>> nodes;
  std::size_t count() const;
  /// "0-3;8-11": nodes in order.
  std::string text() const;
};
/// Of this machine. One node where the system does not say; none where it does not say which it lets us use.
Processors machine_processors();

/// What a worker is bound to.
enum class Bind : uint8_t {
  core,  ///< its own processors, as many as it has threads; round robin where there are too few
  numa,  ///< those of one NUMA node, which workers are dealt out to in equal runs
  none,  ///< none: the system moves its threads as it likes
};
std::string_view name(Bind bind);
/// Throws InputError at `place` with the valid names.
Bind parse_bind(std::string_view text, const Place& place);

/// Of one worker; an empty list binds nothing.
struct WorkerCores {
  std::vector<int> compute;
  std::vector<int> communicate;  ///< of Program::comm_cores; nothing else runs there
  bool operator==(const WorkerCores&) const = default;
};
struct BindRequest {
  Bind bind = Bind::core;
  uint32_t workers = 1;  ///< that share the processors
  int threads = 1;       ///< of each, that compute
  int32_t comm_cores = 0;
};
/// [worker]. Communicating cores lie on the worker's own NUMA node, after those that compute. Throws
/// InputError where comm_cores are asked for and there are too few processors, or nothing is bound.
/// O(workers x processors).
std::vector<WorkerCores> assign_cores(const Processors& processors, const BindRequest& request);

/// The calling thread and those it starts from now on; nothing for an empty list. A system that refuses is
/// let have its way.
void bind_thread(const std::vector<int>& processors);

/// Binds the calling thread, and gives it back what it had in the end.
class BoundThread {
 public:
  explicit BoundThread(const std::vector<int>& processors);
  ~BoundThread();
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;

 private:
  std::vector<int> before_;
};

}  // namespace tandem::exec
