#pragma once
// Measure, fit, predict, run and compare on this machine: what measure, fit, check and demo share. Floor 5.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibration/check_result.h"
#include "calibration/machine_fit.h"
#include "exec/execute.h"

namespace tandem {

/// Told what is being done, with a share of the whole in 0 .. 1.
using Tell = std::function<void(const std::string& what, double share)>;

/// Runs the suite (calibration/suite/suite.json) with 1 .. cores workers, each kernel timed where it stands;
/// `quick`: fewer iterations. `stop`: gives up between two graphs.
Measurements measure_machine(const Backend& backend, bool quick, const Tell& tell,
                             const std::atomic<bool>* stop);

/// What is judged: models and sizes that the suite does not hold.
struct CheckCase {
  std::string model;
  int64_t batch = 32, devices = 1;
  std::string scheme = "allreduce";
  int32_t iterations = 30;
  std::string pace = {};  ///< of the links between nodes of one worker each, e.g. "1Gbit/s"; empty: one node
};
std::vector<CheckCase> check_cases(const Backend& backend, bool quick);

/// With the profile in `profile_file`. Throws InputError.
Report predict_case(const CheckCase& c, const std::string& profile_file);
/// Throws DeviceError.
Report execute_case(const CheckCase& c, const Backend& backend, const std::atomic<bool>* stop);
/// One row a metric; `executed` (at least one) is the same execution made several times.
std::vector<CheckRow> compare_case(const CheckCase& c, const Report& predicted,
                                   const std::vector<Report>& executed);

}  // namespace tandem
