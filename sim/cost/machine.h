// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs measured on one machine by `tandem measure` and fitted by `tandem fit`: kernels in situ, what other
// active workers cost, all-reduce in shared memory, copies.
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/precision.h"
#include "base/units.h"
#include "models/layers/kernel.h"
#include "sim/bound/bound_program.h"
#include "sim/cost/input_rates.h"
#include "sim/cost/neighbours.h"

namespace tandem::sim {

/// From where to where a copy goes. Of devices with their own memory (GPUs) all are measured, `peer` where
/// there are several; of those that compute in the host's memory `memory` alone.
enum class CopyWay : uint8_t {
  memory,  ///< within the host's
  to_device,
  from_device,  ///< to and from page-locked memory of the host
  pageable_to_device,
  pageable_from_device,  ///< ordinary memory, which the driver copies first
  device,                ///< within one device's memory
  peer,                  ///< from one device's memory to another's
  host_update,           ///< no copy: bytes that an optimiser's step in the host's memory reads and writes
};
inline constexpr int kCopyWays = 8;
std::string_view name(CopyWay way);  ///< "memory", "pinned-to-device", ...

/// Expected place of the `rank`-th smallest (1 ..) of n draws from a standard normal distribution (Blom 1958,
/// "Statistical Estimates and Transformed Beta-Variables").
double normal_score(int64_t rank, int64_t n);

/// The formats that a machine profile's document holds kernels of, its own first. Throws InputError.
std::vector<Precision> measured_precisions(const Json& document);

class MachineProfile {
 public:
  /// Null when the profile is none of a machine (a name in calibration/profiles, or a file of another
  /// schema). Read once per process, name and precision. Throws InputError, also where no kernels were
  /// measured in that precision: those of another say little (but Origin::format).
  static std::shared_ptr<const MachineProfile> find(const std::string& name_or_file, Precision precision);
  explicit MachineProfile(const Json& document, Precision precision = Precision::fp32);

  int64_t cores() const { return cores_; }
  /// What the profile says that it was measured on, and when.
  const std::string& machine() const { return origin_.machine; }
  const std::string& date() const { return origin_.date; }
  const KernelNeighbours& kernels() const { return *kernels_; }
  double kernel_overhead() const { return kernel_overhead_; }  ///< of a kernel in a step besides its own time
  /// All launches of a kernel, in a step that moves `step`, while `active` workers compute. Of more workers
  /// than cores, and than were measured to share a GPU, each gets its part all the time. On a GPU with what
  /// passes until the next kernel starts.
  double seconds(const Kernel& kernel, int64_t active, Bytes step, double* distance = nullptr) const;
  /// How much of seconds(), at most, is not known where workers share a GPU and that was not measured:
  /// between kernels that run one after another and those that begin in each other's starts, when the GPU is
  /// idle.
  double seconds_unknown(const Kernel& kernel, int64_t active, Bytes step) const;
  double op_overhead() const { return op_overhead_; }  ///< of issuing one op of a program
  /// Among that many workers in shared memory; log-log between measured sizes.
  double all_reduce(double bytes, int64_t ranks) const;
  /// Seconds; where no such way was measured, there is none: devices are one, or compute in the host's
  /// memory.
  double copy(double bytes, CopyWay way = CopyWay::memory) const;
  /// Seconds of an optimiser's step in the host's memory that reads and writes that many bytes; where none
  /// was measured, as long as copies that read and write as much.
  double host_update(double moved) const;
  bool apart() const { return !copy_[static_cast<std::size_t>(CopyWay::to_device)].empty(); }  ///< as GPUs
  /// One message over loopback between nodes that this machine emulates, as a step of a ring all-reduce sends
  /// and receives it, each node's port limited to `rate` bytes per second (0: not limited); 0 when nothing
  /// was measured. Between measured rates by their logarithm, below the least in proportion.
  double tcp_message(double bytes, double rate) const;
  double tcp_cpu(double bytes) const;  ///< processor time that it takes, of one rank
  bool has_tcp() const { return !tcp_.empty(); }
  double wake() const { return wake_; }  ///< from one lane's thread to another's that waits for it
  /// Do that many workers that do not wait for each other share the cores in time slices, as measured? Then a
  /// kernel takes as long as with as many workers as there are cores, and the rest is in Disturbance::shared.
  bool takes_turns(int64_t active) const { return active > cores_ && !turns().empty(); }
  /// Of threads that share a core; none where devices compute apart from their hosts.
  std::span<const Time> turns() const { return apart() ? std::span<const Time>() : turns_; }
  /// Linux' fair scheduler leaves whoever got a processor on it for sysctl_sched_base_slice, 0.7 ms times
  /// 1 + log2(processors, at most 8) (kernel/sched/fair.c, since 6.6; before, sysctl_sched_min_granularity,
  /// 0.75).
  Time least_turn() const;
  /// What makes steps with `seconds` of compute differ, while `active` workers compute: recordings of workers
  /// that did not wait for each other, with a core each, and turns where `active` are more than cores.
  /// `lock_step`: all wait for each other, so that the slowest sets the time, and what one loses in time
  /// slices on a core another has gained.
  Disturbance disturbance(int64_t active, double seconds, bool lock_step) const;
  /// Relative standard error of a step's compute whose kernels are so far from measured ones, on average by
  /// time: as graphs left out of the fit show, as a graph's own steps differ, and as what passes between
  /// kernels differs.
  double error(double distance) const {
    return std::hypot(std::hypot(error_per_distance_ * distance, step_sigma_), error_of_overhead_);
  }
  double error_of_several() const { return error_of_several_; }  ///< what simultaneous workers add to it
  const InputRates& input() const { return input_; }
  /// Which of topologies/devices it is: as the profile says, else the only one that its words fit; "" where
  /// none does, or several do. Throws InputError.
  std::string device() const;
  /// How it was measured.
  struct Origin {
    std::string machine, date, device;  ///< as the profile says
    std::string busy;  ///< what other programs took meanwhile, in words; "" on a quiet machine
    /// Of the kernels: the one that was asked for. find() gives bf16 where that is fp8, none were measured in
    /// it and device() is known, so that descriptions can tell the two apart (sim/cost/other_chip.h).
    Precision format = Precision::fp32;
  };
  const Origin& origin() const { return origin_; }

 private:
  struct Point {
    double at, value;
  };
  void read_kernels(const Json& d);
  void read_transfers(const Json& d);
  void read_disturbances(const Json& d);
  double idle(const Kernel& kernel, int64_t active, double alone) const;
  static double interpolate(const std::vector<Point>& table, double at);
  int64_t cores_ = 1;
  InputRates input_;
  Origin origin_;
  std::unique_ptr<KernelNeighbours> kernels_;
  std::vector<std::vector<double>> slowdown_;   ///< [active - 1][kind]
  std::vector<std::vector<Point>> all_reduce_;  ///< [ranks - 2]
  std::array<std::vector<Point>, kCopyWays> copy_;
  std::map<double, std::vector<Point>> tcp_;  ///< [rate, infinite where not limited]: a step's bytes, seconds
  struct Recording {
    double step;                               ///< mean, seconds
    std::vector<std::vector<double>> factors;  ///< [worker][step]
  };
  std::vector<std::vector<double>> recorded(double seconds) const;
  std::vector<Recording> noise_;
  std::vector<Time> turns_;     ///< how long one thread keeps a core that another wants
  double lock_step_ = 1;        ///< factor on steps where all cores wait for each other
  double interrupted_ = 1;      ///< mean step over the usual one
  std::vector<Point> tcp_cpu_;  ///< of a step
  double op_overhead_ = 0, kernel_overhead_ = 0, wake_ = 0, step_sigma_ = 0;
  double error_of_overhead_ = 0, error_per_distance_ = 0, error_of_several_ = 0;
};

}  // namespace tandem::sim
