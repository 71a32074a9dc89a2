// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drives a worker's lanes through the iterations: with one thread per lane, or with the streams of an
// asynchronous device (stream_driver.h). Internal to exec.
#include <memory>
#include <span>
#include <vector>

#include "exec/run/lanes.h"

namespace tandem::exec {

/// A prepared call and its operands.
struct Launch {
  uint32_t prepared = 0;
  std::vector<std::vector<float*>> operands;  ///< [variant of the input's buffer], or one for all
  std::size_t time = 0;                       ///< LaneDriver::timed
  std::span<float* const> of(std::size_t variant) const {
    return operands[operands.size() > 1 ? variant : 0];
  }
};

/// How an iteration was issued to an asynchronous device.
enum class Issued : uint8_t {
  timed,     ///< op by op, each between two events
  eager,     ///< op by op
  captured,  ///< op by op into a graph, which then ran: the host was late
  replayed,  ///< as one graph
  observed   ///< as one graph, each call in it between two events (Keep::calls)
};

/// Made and used while ops are bound by the worker's first thread, which is then the compute lane's. After
/// that each function is called by the thread that drives the lane in question, unless stated otherwise;
/// functions without a lane by the compute lane's thread. Records are read after the run.
class LaneDriver {
 public:
  /// All arguments must outlive the driver.
  struct Setup {
    Run& run;
    uint32_t instance;
    Lanes& lanes;
    DeviceSession& device;
  };
  virtual ~LaneDriver() = default;
  LaneDriver(const LaneDriver&) = delete;
  LaneDriver& operator=(const LaneDriver&) = delete;

  /// Runs the ops of all iterations that this lane's thread drives. Throws DeviceError, naming op and
  /// iteration, if an op throws, and Stopped.
  virtual void run(Lane lane) = 0;

  // ---- while ops are bound ----

  /// A call whose launches are timed with Keep::calls: Launch::time.
  std::size_t timed(const Call& call);
  /// Some update uses the state of `lag` iterations ago. Throws InputError if that is too long ago.
  virtual void needs_state(int32_t lag) = 0;
  /// Host address of `elements` at the device's `at`: `at` itself, or host memory that to_host() and
  /// to_device() synchronise.
  virtual float* host_memory(float* at, int64_t elements) = 0;
  /// Collectives on the lane will share host memory of `elements`: collective_memory().
  virtual void reserve_collective(Lane lane, int64_t elements) = 0;
  enum class Staging : uint8_t { input, integers };
  /// staging() will be asked for this much of a kind: allocating it while others' collectives wait for this
  /// worker could deadlock.
  virtual void reserve_staging(Staging kind, int64_t elements) = 0;

  // ---- called by ops as they run ----

  /// In order, on the compute lane.
  virtual void launch(const std::vector<Launch>& list, std::size_t variant, const IterationState& state) = 0;
  /// The sum of these floats is the loss of the current iteration or micro-batch.
  virtual void take_losses(const std::vector<float*>& at) = 0;
  /// Like host_memory(), one buffer per kind, in which the host may write data of an iteration while the
  /// device still works on earlier ones. The input's is used by the copy lane's thread if it has one.
  virtual float* staging(Staging kind, int32_t iteration, float* at) = 0;
  virtual float* collective_memory(Lane lane, float* at) = 0;
  /// The device through which members of a collective reach each other's memory; null: they access it as host
  /// memory.
  virtual DeviceSession* peer_copies() = 0;
  /// Copies between device memory and its host memory; nothing if they are the same. The host waits only for
  /// to_host().
  void to_host(float* host, const float* at, int64_t elements, Lane lane);
  void to_device(float* at, const float* host, int64_t elements, Lane lane);

  // ---- after the run ----

  const std::vector<CallTime>& calls() const { return calls_; }  ///< empty without Keep::calls
  const std::vector<double>& losses() const { return losses_; }  ///< [iteration x micro-batch]
  const std::vector<Issued>& issued() const { return issued_; }  ///< [iteration]; empty with threads

 protected:
  explicit LaneDriver(const Setup& setup);
  /// Runs the lane's ops one by one in the calling thread, each when its dependencies have ended.
  void walk(Lane lane);
  /// The same for all lanes, in the order of the role's list, if no two ever work at the same time.
  void walk_all();
  /// Runs one of them without signalling its end.
  void step(LaneState& lane, const LaneOp& op, int32_t iteration);
  /// All iterations are done.
  static void leave(LaneState& lane, uint32_t passed);
  /// Until all dependencies of the op have ended.
  virtual void wait(const LaneOp& op, int32_t iteration) = 0;
  int64_t act(const LaneOp& op, int32_t iteration);
  /// Tells the run that this instance's iteration has ended.
  void ended(int32_t iteration);
  const Role& role() const { return plan_.role(instance_); }
  bool begins(const LaneState& lane, int32_t iteration);

  Run& run_;
  const RunPlan& plan_;
  const uint32_t instance_;
  Lanes& lanes_;
  DeviceSession& device_;
  std::vector<CallTime> calls_;
  std::vector<double> losses_;
  std::vector<Issued> issued_;

 private:
  void make(LaneState& lane, const LaneOp& op, int32_t iteration);
  void leave_store();
};

/// One thread per used lane, or one for all if no two work at the same time; an op is done when its call
/// returns, and the memory is the host's.
class ThreadDriver : public LaneDriver {
 public:
  explicit ThreadDriver(const Setup& setup) : LaneDriver(setup) {}
  void run(Lane lane) override;
  void needs_state(int32_t) override {}
  float* host_memory(float* at, int64_t) override { return at; }
  void reserve_collective(Lane, int64_t) override {}
  void reserve_staging(Staging, int64_t) override {}
  void launch(const std::vector<Launch>& list, std::size_t variant, const IterationState& state) override;
  void take_losses(const std::vector<float*>& at) override;
  float* staging(Staging, int32_t, float* at) override { return at; }
  float* collective_memory(Lane, float* at) override { return at; }
  DeviceSession* peer_copies() override { return nullptr; }

 protected:
  void wait(const LaneOp& op, int32_t iteration) override;

 private:
  // A coordinator's rounds (rounds.cpp).
  void walk_in_rounds(LaneState& lane);
  bool has_ended(const LaneOp& op, int32_t iteration) const;
  std::size_t agreed(const LaneState& lane, std::size_t next, int32_t iteration);
  std::size_t sum_agreed(LaneState& lane, std::size_t next, std::size_t count, int32_t iteration);
  std::vector<float> votes_;
  void launch_timed(const std::vector<Launch>& list, std::size_t variant, const IterationState& state);
};

/// Whether this lane has its own thread. Always the compute lane, which opens the device. With threads every
/// used lane, unless no two work at the same time; with streams those whose ops involve the host, and the
/// compute lane's thread issues all others. Any thread may ask.
bool needs_thread(const Backend& backend, const Lanes& lanes, Lane lane);

}  // namespace tandem::exec
