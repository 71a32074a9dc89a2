// SPDX-License-Identifier: Apache-2.0
#pragma once
// One worker: its device, and the handlers of its ops. Internal to exec.
#include <memory>
#include <vector>

#include "exec/workers/bench.h"

namespace tandem::exec {

/// Made by any thread. Then open() by the compute lane's thread and, once all workers are open, run() by each
/// lane's thread; drain() when these have ended. Records and device memory are read after the run, by one
/// thread at a time.
class Worker {
 public:
  Worker(Run& run, uint32_t instance);
  ~Worker();

  /// Whether the lane has its own thread. May be called before open().
  bool needs_thread(Lane lane) const;
  /// Opens the device and allocates memory and prepared calls. Throws DeviceError and InputError.
  void open();
  /// Runs the ops of all iterations that this lane's thread drives. Throws what an op throws, and Stopped.
  void run(Lane lane);
  /// After a failed run: waits until the device is idle, since it may use others' memory.
  void drain() noexcept;

  const std::vector<Executed>& executed(Lane lane) const { return bench_.lanes[lane].executed; }
  const LaneState& lane(Lane lane) const { return bench_.lanes[lane]; }
  const std::vector<double>& losses() const { return bench_.driver->losses(); }  ///< [iteration]
  const std::vector<CallTime>& calls() const { return bench_.driver->calls(); }
  /// [iteration]; empty with threads.
  const std::vector<Issued>& issued() const { return bench_.driver->issued(); }
  std::vector<LibraryChoice> choices() const { return bench_.device->choices(); }
  /// The device library's estimate of a collective in seconds, with Keep::calls; 0: none.
  double estimate(uint32_t op) const;
  /// Of such a collective: seconds of each of 20 back-to-back ones; 0: not measured.
  double in_row(uint32_t op) const;
  /// Bytes that an op passes to its collective or sends, per iteration; 0: neither.
  int64_t bytes(uint32_t op) const { return bench_.bytes[op]; }
  /// From the device's memory.
  std::vector<float> parameters() const;
  std::vector<float> state() const;
  std::vector<float> averaging() const;  ///< ExecutionResult::averaging
  std::vector<float> values(TensorId tensor) const;
  const std::vector<GradientNorms>& norms() const;  ///< [step], with Keep::norms

 private:
  struct Handlers;

  Bench bench_;
  std::unique_ptr<Handlers> handlers_;  ///< from open() on
};

/// Of the steps from `first` on, averaged over the workers.
std::vector<GradientNorms> mean_norms(const std::vector<std::unique_ptr<Worker>>& workers, std::size_t first);

}  // namespace tandem::exec
