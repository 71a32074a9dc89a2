// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the power of an execution's devices while it runs. Internal to exec.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/device/gauge.h"

namespace tandem::exec {

/// From and to, as now_ns().
using TimeSpan = std::pair<int64_t, int64_t>;

/// What the readings of a device within some stretches of time say.
struct MeteredDevice {
  std::string name;  ///< its own on all machines: "host 0000:3b:00.0"
  int64_t readings = 0;
  bool counter = false;  ///< `watts` are joules of its counter over seconds; else a mean of readings of watts
  double watts = 0, least = 0, most = 0;
  double clock_mhz = 0, memory_mhz = 0, celsius = 0;  ///< means, and the highest; 0: not known
  double by_power = 0, by_heat = 0;                   ///< shares of the readings
  double seconds = 0;                                 ///< that a reading takes, on average
};
/// One of its readings.
struct TimedReading {
  int64_t at = 0;  ///< as now_ns()
  PowerReading said;
};
/// Of readings in order, without name and seconds. A counter counts between readings of one stretch, if it
/// never ran backwards.
MeteredDevice metered(const std::vector<TimedReading>& readings, const std::vector<TimeSpan>& stretches);

struct Metered {
  std::string source;                  ///< PowerGauges::source
  std::vector<MeteredDevice> devices;  ///< all, or none
  std::string missing;                 ///< why none
};

/// Reads in a separate thread, from its construction until stop(), which the destructor calls. Made,
/// stopped and asked by one thread.
class Meter {
 public:
  /// Readings that a result needs at least. Every 100 ms: of a second, since NVML's watts are a mean over as
  /// long, and a counter that is renewed ten times a second is then off by a tenth at most.
  static constexpr int64_t kLeast = 10;

  /// Gauges that say why they are missing are let be so, and a thread that the system refuses is why.
  Meter(PowerGauges gauges, std::chrono::milliseconds every);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void stop();
  /// After stop(). Of a device that was lost meanwhile, or that said too little, that is why none.
  Metered over(const std::vector<TimeSpan>& stretches) const;

 private:
  /// Of one gauge.
  struct Record {
    std::vector<TimedReading> readings;
    int64_t taken = 0, failed = 0;  ///< in all; the last ones that failed, one after another
    double seconds = 0;             ///< that reading took, in all
    std::string problem;            ///< of the last that failed
    bool lost() const { return failed >= kGivenUp; }
  };
  static constexpr int64_t kGivenUp = 3;  ///< failures after which a device is read no more

  void read_on();
  void read_all();
  void thin();
  static std::string too_little(const MeteredDevice& device, const Record& record,
                                const std::vector<TimeSpan>& stretches);

  PowerGauges gauges_;
  std::chrono::milliseconds every_;
  std::vector<Record> records_;  ///< [gauge]; the thread's while it runs
  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tandem::exec
