// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `tandem measure` saw on one machine, and its documents.
//
// Values without state of their own: any thread may make, copy and read them; functions are pure.
#include <optional>
#include <string>
#include <vector>

#include "base/host_load.h"
#include "base/json.h"
#include "schemes/report/device_power.h"
#include "schemes/setup/loading.h"
#include "sim/cost/machine.h"

namespace tandem::calibration {

/// In-situ times of one kernel in one graph of the suite.
struct MeasuredKernel {
  Kernel kernel;
  uint32_t graph = 0;                ///< index into Measurements::graphs
  int64_t workers = 1;               ///< that were active
  double median = 0, cv = 0;         ///< seconds of one launch; standard deviation / mean
  int64_t samples = 0, dropped = 0;  ///< launches counted; left out for an involuntary context switch
};

/// One graph of the suite as a whole.
struct MeasuredGraph {
  std::string model;
  int64_t batch = 1, workers = 1, ops = 0;
  double step_median = 0, step_spread = 0;  ///< seconds; half the distance of the quartiles / 0.6745 / median
  double all_reduce = 0;                    ///< of a step, all collectives together
  Precision precision = Precision::fp32;    ///< of it and its kernels
  std::optional<DevicePower> power = {};    ///< what a meter said of more steps of it; of one worker
};

/// One graph on workers that do not wait for each other, as many as cores: what else makes steps differ, to
/// be replayed (as the noise recordings of Hoefler, Schneider and Lumsdaine, SC 2010).
struct MeasuredWorkers {
  std::string model;
  std::vector<std::vector<double>> steps;  ///< [worker][step], seconds; as many of each
};

struct MeasuredTransfer {
  int64_t ranks = 1;  ///< 1: a copy
  double bytes = 0, seconds = 0;
  double estimate = 0;            ///< seconds that the device's library (NCCL) expected; 0: it did not say
  CopyWay way = CopyWay::memory;  ///< of a copy
  double in_row = 0;  ///< seconds of each of 20 one after another, as nccl-tests counts; 0: not measured
};

/// Of a kernel that does next to nothing, on a device that its host runs ahead of; 0: not measured.
struct MeasuredLaunch {
  double issue = 0;       ///< seconds of each, one after another
  double round_trip = 0;  ///< until the host knows that one has ended
};

/// An all-reduce between nodes that one machine emulates.
struct MeasuredTcp {
  int64_t ranks = 2;
  double rate = 0;  ///< bytes per second that each node's port is limited to; 0: as fast as loopback goes
  double bytes = 0, seconds = 0;
  double cpu_seconds = 0;  ///< processor time of one rank
};

/// Samples of one size, read from the page cache or decoded by one thread.
struct MeasuredInput {
  bool decodes = false;
  ImageFormat format = ImageFormat::jpeg;
  bool files = true;                         ///< of a read: a file each
  double bytes = 0, pixels = 0, values = 0;  ///< of a sample: stored, of the picture, of the model's input
  double seconds = 0;                        ///< of a sample
  bool grey = false;                         ///< decoded to one channel, else to three
};

struct Measurements {
  std::string machine, date, versions;
  int64_t cores = 1;
  std::vector<MeasuredGraph> graphs;
  std::vector<MeasuredKernel> kernels;
  std::vector<MeasuredWorkers> workers;
  /// Seconds that a thread kept its core while another wanted it, one after another.
  std::vector<double> turns;
  std::vector<MeasuredTransfer> all_reduce, copy;
  std::vector<MeasuredTcp> tcp;
  std::vector<MeasuredInput> input;
  MeasuredLaunch launch;
  HostLoad load;                ///< of the machine meanwhile; processors 0: not known
  std::string to_json() const;  ///< "tandem-measurements-1"
  static Measurements from_json(const Json& document);
};

/// The suite measured twice: of each graph the faster repetition with the kernels timed in it, of each
/// transfer the shorter time, of power what either has; of `workers` and `turns` both count. Whatever else a
/// machine does only ever slows a run down, so the fastest of several is what repeats (Chen and Revels 2016,
/// "Robust benchmarking in noisy environments"). Throws InputError when the two are not of the same suite.
Measurements fastest_of(const Measurements& one, const Measurements& other);

}  // namespace tandem::calibration
