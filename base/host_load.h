// SPDX-License-Identifier: Apache-2.0
#pragma once
// How busy a machine is with what this program did not start: of Linux's /proc and getrusage().
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_writer.h"

namespace tandem::base {

/// What a machine's processors and this process did until some moment.
struct HostUsage {
  int64_t processors = 0;    ///< of the whole machine; 0: its times are not known (no readable /proc/stat)
  double busy = 0;           ///< seconds of all processors together, all programs, what was stolen left out
  double stolen = 0;         ///< seconds in which a processor was ready to run but the hypervisor ran others
  double own = 0;            ///< processor seconds of this process and the children it has waited for
  int64_t preempted = 0;     ///< times that a thread of this process was made to leave its processor
  double load_average = -1;  ///< threads that want to run, mean of the last minute; < 0: not known
  double at = 0;             ///< seconds on a clock that only moves forward
};

/// Fills processors, busy and stolen from the text of /proc/stat (proc_stat(5)); leaves them where it holds
/// no line "cpu" with at least eight numbers. `ticks`: of its clock a second (sysconf(_SC_CLK_TCK)).
void read_proc_stat(std::string_view text, double ticks, HostUsage& usage);
/// The first number of /proc/loadavg (proc_loadavg(5)), or -1.
double read_load_average(std::string_view text);
/// Of this machine and process, now.
HostUsage host_usage();

/// What else a machine did between two readings.
struct HostLoad {
  int64_t processors = 0;    ///< 0: `others` and `stolen` are not known
  double others = 0;         ///< share of all processors that other programs took, 0 .. 1
  double stolen = 0;         ///< share of all processors that the hypervisor lent elsewhere
  double preempted = 0;      ///< times a second of own processor time that a thread was made to leave it
  double load_average = -1;  ///< as HostUsage's, at the end; that counts this program's own threads as well
  /// More than a tenth of the processors, or a fiftieth stolen, went elsewhere. Where that is not known: this
  /// process was preempted more often than 50 times a second: a processor that two programs share is
  /// taken from each about 150 times, after Linux's base slice of 3 ms (EEVDF, kernel/sched/fair.c).
  bool busy() const;
  /// "other programs took 43 % of 2 processors, the hypervisor 3 %"; never empty.
  std::string text() const;
  /// {"processors": 2, "other_programs_share": 0.43, "stolen_share": 0, "preemptions_per_second": 12}, and
  /// "load_average" where it is known.
  JsonWriter to_json() const;
  static HostLoad from_json(const Json& document);  ///< throws InputError
};
HostLoad load_between(const HostUsage& before, const HostUsage& after);

/// What the machine does while this thread sleeps for so long. The load average, which remembers for minutes
/// what has ended, such as the build of this program, says nothing of that.
HostLoad load_now(double seconds = 0.5);
/// A sentence for a person before anything is measured: "" on a quiet machine.
std::string busy_before(const HostLoad& now);
/// A sentence about what was measured meanwhile: "" on a quiet machine.
std::string busy_while(const HostLoad& load);

}  // namespace tandem::base
