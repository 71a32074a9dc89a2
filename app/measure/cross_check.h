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

/// Told what is being done, with a share of the whole in 0 .. 1.
using Tell = std::function<void(const std::string& what, double share)>;

/// Given what was measured so far.
using Save = std::function<void(const Measurements&)>;

/// --backend, "cpu" when absent. Throws UsageError.
const Backend& read_backend(const Arguments& arguments);
/// --precision, "fp32" when absent. Throws UsageError for one that the backend does not compute in;
/// DeviceError without the device.
Precision read_precision(const Arguments& arguments, const Backend& backend);
/// "fp32,bf16": one or more, in their order; `fallback` when absent.
std::vector<Precision> read_precisions(const Arguments& arguments, std::string_view fallback,
                                       const Backend& backend);

/// What `tandem measure` measures of a machine.
struct MeasureSettings {
  std::vector<Precision> precisions = {Precision::fp32};
  bool quick = true;  ///< fewer iterations, and workers
  int64_t repetitions = 1;
  int64_t workers = 0;  ///< at most that many; 0: as many as there are cores, of GPUs as many as share one
};

/// Runs the suite (calibration/suite) in each precision, each kernel timed where it stands; once: where other
/// things run too, the fastest_of() several such repetitions is to be taken. `stop`: gives up between two
/// graphs. `save`: called after each graph.
Measurements measure_machine(const Backend& backend, const MeasureSettings& settings, const Tell& tell,
                             const std::atomic<bool>* stop, const Save& save = {});

/// All-reduces of 1 KiB to `bytes`, by fours, among 2 .. `most` workers, appended to `m.all_reduce`: by the
/// way that training takes (the device's library, or its own copies where workers share a device), of models
/// that are one bucket each. `stop`: gives up between two.
void measure_collectives(const Backend& backend, int64_t most, int64_t bytes, const Tell& tell,
                         const std::atomic<bool>* stop, Measurements& m);

/// That many repetitions of measure_machine(), the fastest_of() them, and the machine's load from first to
/// last. `between`: what is run between them, told which; false ends them. Stopped in a later one than the
/// first, that one is left out. `save`: called after each graph of the first repetition.
Measurements measure_repeatedly(const Backend& backend, const MeasureSettings& settings, const Tell& tell,
                                const std::atomic<bool>* stop,
                                const std::function<bool(int64_t repetition)>& between = {},
                                const Save& save = {});

/// Pictures that a case trains on, made for it.
struct CheckImages {
  MadeImages made;
  bool files = true;
  int64_t workers = 1;  ///< as --decode-workers
  /// "384x384 jpeg files, 1 decode worker".
  std::string text() const;
};

/// What is judged: models and sizes that the suite does not hold.
struct CheckCase {
  std::string model;
  int64_t batch = 32, devices = 1;
  std::string scheme = "allreduce";
  int32_t iterations = 30;
  std::string rate_limit =
      {};  ///< of the links between nodes of one worker each, e.g. "1Gbit/s"; empty: one node
  Precision precision = Precision::fp32;
  std::string adapter = {};                ///< as --adapter; empty: all of the model is trained
  double throttle = 1;                     ///< of the last worker, as --throttle
  std::vector<int64_t> batches = {};       ///< as --batch-split; empty: all equal
  std::optional<CheckImages> images = {};  ///< none: data that is there from the beginning
  const char* optimizer = "momentum";
  bool sync_batch_norm = false;
};
/// Of GPUs those in calibration/suite/check-gpu.json.
std::vector<CheckCase> check_cases(const Backend& backend, bool quick);
/// How often the suite is measured, and the cases run, unless the user says otherwise.
int64_t usual_repetitions(const Backend& backend, bool quick);

/// With the profile in `profile_file`; staleness of that many runs together. Throws InputError. `program`,
/// where it is given: gets the case's.
Report predict_case(const CheckCase& c, const std::string& profile_file, std::size_t runs,
                    std::shared_ptr<const Program>* program = nullptr);
/// Throws DeviceError. `change`: may ask more of the execution before it begins.
ExecutionResult execute_case(const CheckCase& c, const Backend& backend, const std::atomic<bool>* stop,
                             const std::function<void(Execution&)>& change = {});
/// One row a metric; `executed` (at least one) is the same execution made several times: the fastest counts,
/// and the staleness of all of them. How far every other run by itself is from the rest is the floor.
std::vector<CheckRow> compare_case(const CheckCase& c, const Report& predicted,
                                   const std::vector<Report>& executed);

}  // namespace tandem::app
