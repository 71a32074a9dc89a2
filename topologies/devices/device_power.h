// SPDX-License-Identifier: Apache-2.0
#pragma once
// What accelerators draw by what they do, and how much slower a power limit makes them. Figures are data
// (topologies/power/devices.json), fitted by calibration/fit/fit_power.py.
//
//   drawn    = products p + streams s + communicating c + spinning w + standing i, shares of the rated power
//              times shares of the time; that of kernels (p, s) times the architecture's `scale`
//   under a limit L, a share of the rated power, cores run at the clock f, of 1 at most, at which
//   held L   = base + (k - base) v(f)^2 / t(f)
//   k        = what a step's kernels draw at f = 1: the levels above, or for products
//              base + (demand - base) u where that is more. u is the share that they reach of the device's
//              best. `demand` is of an architecture and of formats of at most 2 bytes, whose products would
//              draw more than the rated power at the highest clock; that power holds them down too: L = 1
//              gives a clock below 1. A step whose levels stay under the limit is not slowed
//   t(f)     = p / f + s       products take as much longer as the clock is lower; what streams waits for
//                              memory, whose clock stays
//   v(f)     = max(least_voltage, 1 - slope (1 - f)), the voltage relative to that at f = 1
//
// Switching draws energy as the voltage squared times the number of operations, here k - base over a step
// that is t(f) long; `base` is leakage and memory. A limit is held to a little below it: by `held` on
// average.
#include <string>
#include <utility>

#include "topologies/devices/device.h"

namespace tandem::topologies {

/// What a device does, as shares of the time.
struct Activity {
  double products = 0;       ///< kernels of matrix products and convolutions
  double streams = 0;        ///< all other kernels
  double communicating = 0;  ///< only kernels that move bytes between devices, which are on their way
  double spinning = 0;       ///< such kernels wait for other devices
  double standing = 0;       ///< nothing runs
  double kernels() const { return products + streams; }
  double sum() const { return products + streams + communicating + spinning + standing; }
};

/// The figures of one device. Immutable; any thread may call.
class PowerModel {
 public:
  /// Reads the data once per process and file; throws InputError where that is damaged. The device's own
  /// limit counts.
  explicit PowerModel(const Device& device);

  /// Watts on average while it does so; 0 where the rated power is not known. Requires that the sum is
  /// positive; the shares are of that.
  double watts(const Activity& activity) const;
  /// Bounds of the 90 % interval of watts(), narrower for architectures that were measured; it ends at what
  /// the device may draw.
  std::pair<double, double> interval(const Activity& activity) const;

  /// The clock, relative to that at rated power, at which the device's limit holds a step whose kernels take
  /// so long for products and for all else at rated power. 1 without a limit, or where it does not bind.
  /// `reach`: operations per second of the products over those of the device's best, 0 to 1; 0 where they are
  /// of more than 2 bytes.
  double clock(double products, double streams, double reach = 1) const;
  /// Standard error of the logarithm of the speed of a step's kernels under a limit, where the speed is that.
  double speed_error(double speed) const;
  /// Where the figures that clock() uses were measured: "V100 (Zeus, 2023)".
  const std::string& clock_of() const { return clock_of_; }

 private:
  double clock_at(double limit, double streams, double demand) const;

  double rated_ = 0, limit_ = 1;  ///< watts; share of these
  double scale_ = 1, base_ = 0, held_ = 1, least_voltage_ = 1, slope_ = 0;
  double products_ = 0, streams_ = 0, communicating_ = 0, spinning_ = 0, standing_ = 0;
  double relative_error_ = 0, limit_error_ = 0;
  double demand_ = 0;  ///< 0: not known, and not above the rated power
  std::string clock_of_;
};

/// The device with the limit that `watts` states ("300W"), a field of a system's file. Throws InputError at
/// its place with the range that is valid: not below the least share that was ever measured.
Device with_power_limit(Device device, const Json& watts);

/// "v100-pcie at 175 W"; the name alone where no limit is set.
std::string limited_name(const Device& device);
/// "power limit of 175 W (70 % of 250 W) on v100-pcie: kernels at 90.4 % of their speed (88.1 to 94.6 %), by
/// clocks and voltages of V100 (Zeus, 2023)", the speed being that of a step's kernels. Requires a limit
/// below 1.
std::string describe_power_limit(const Device& device, double speed);

}  // namespace tandem::topologies
