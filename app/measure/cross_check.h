// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measure, fit, predict, run and compare on this machine: what measure, fit, check and demo share.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/console/cli.h"
#include "app/measure/measure_input.h"
#include "calibration/fit/machine_fit.h"
#include "calibration/validate/check_result.h"
#include "exec/execute.h"

namespace tandem::app {

/// Receives the current activity, with the share done in 0 .. 1.
using Tell = std::function<void(const std::string& what, double share)>;

/// Receives the measurements so far.
using Save = std::function<void(const Measurements&)>;

/// --backend, "cpu" when absent. Throws UsageError.
const Backend& read_backend(const Arguments& arguments);
/// --no-meter.
Option no_meter_flag();
/// --precision, "fp32" when absent. Throws UsageError for one that the backend does not compute in;
/// DeviceError without the device.
Precision read_precision(const Arguments& arguments, const Backend& backend);
/// "fp32,bf16": one or more, in their order; `fallback` when absent.
std::vector<Precision> read_precisions(const Arguments& arguments, std::string_view fallback,
                                       const Backend& backend);

/// What `tandem measure` measures on a machine.
struct MeasureSettings {
  std::vector<Precision> precisions = {Precision::fp32};
  bool quick = true;  ///< fewer iterations, and workers
  int64_t repetitions = 1;
  int64_t workers = 0;  ///< at most that many; 0: one per core, or on GPUs as many as share one
  bool meter = false;   ///< reads what a device draws, for which one worker runs each graph once more
};

/// Runs the suite (calibration/suite) once in each precision and times every kernel in place. On a busy
/// machine take the fastest_of() several repetitions. `stop`: gives up between two graphs. `save`: called
/// after each graph.
Measurements measure_machine(const Backend& backend, const MeasureSettings& settings, const Tell& tell,
                             const std::atomic<bool>* stop, const Save& save = {});

/// All-reduces of 1 KiB to `bytes`, in factors of four, among 2 .. `most` workers, appended to
/// `m.all_reduce`: by the method that training uses (the device's library, or copies if workers share a
/// device), with models of one bucket each. `stop`: gives up between two.
void measure_collectives(const Backend& backend, int64_t most, int64_t bytes, const Tell& tell,
                         const std::atomic<bool>* stop, Measurements& m);

/// That many repetitions of measure_machine(), the fastest_of() them, and the machine's load over all of
/// them. `between`: called between repetitions with their number; false ends them. A repetition stopped
/// midway is dropped unless it is the first. `save`: called after each graph of the first repetition.
Measurements measure_repeatedly(const Backend& backend, const MeasureSettings& settings, const Tell& tell,
                                const std::atomic<bool>* stop,
                                const std::function<bool(int64_t repetition)>& between = {},
                                const Save& save = {});

/// Images generated for a case to train on.
struct CheckImages {
  MadeImages made;
  bool files = true;
  int64_t workers = 1;  ///< as --decode-workers
  /// "384x384 jpeg files, 1 decode worker".
  std::string text() const;
};

/// What is judged: models and sizes that are not in the suite.
struct CheckCase {
  std::string model;
  int64_t batch = 32, devices = 1;
  std::string scheme = "allreduce";
  int32_t iterations = 30;
  std::string rate_limit =
      {};  ///< of the links between nodes of one worker each, e.g. "1Gbit/s"; empty: one node
  Precision precision = Precision::fp32;
  std::string adapter = {};                ///< as --adapter; empty: the whole model is trained
  double throttle = 1;                     ///< of the last worker, as --throttle
  std::vector<int64_t> batches = {};       ///< as --batch-split; empty: all equal
  std::optional<CheckImages> images = {};  ///< none: the data is in memory from the start
  const char* optimizer = "momentum";
  bool sync_batch_norm = false;
};
/// On GPUs, those in calibration/suite/check-gpu.json.
std::vector<CheckCase> check_cases(const Backend& backend, bool quick);
/// Repetitions of suite and cases, unless the user chooses.
int64_t usual_repetitions(const Backend& backend, bool quick);

/// With the profile in `profile_file`; staleness over that many runs together. Throws InputError. `program`,
/// if not null, receives the case's.
Report predict_case(const CheckCase& c, const std::string& profile_file, std::size_t runs,
                    std::shared_ptr<const Program>* program = nullptr);
/// Throws DeviceError. `change`: may modify the execution before it starts.
ExecutionResult execute_case(const CheckCase& c, const Backend& backend, const std::atomic<bool>* stop,
                             const std::function<void(Execution&)>& change = {});
/// One row per metric. `executed` (at least one) are repetitions of one execution: the fastest counts, and
/// the staleness of all. The floor is how far every other run is from the rest.
std::vector<CheckRow> compare_case(const CheckCase& c, const Report& predicted,
                                   const std::vector<Report>& executed);

}  // namespace tandem::app
