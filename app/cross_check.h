#pragma once
// Measure, fit, predict, run and compare on this machine: what measure, fit, check and demo share. Floor 5.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "calibration/machine_fit.h"
#include "exec/execute.h"

namespace tandem {

/// Told what is being done, with a share of the whole in 0 .. 1.
using Tell = std::function<void(const std::string& what, double share)>;

/// Runs the suite (calibration/suite/suite.json) with 1 .. cores workers, each kernel timed where it stands;
/// `quick`: fewer iterations. `stop`: gives up between two graphs.
Measurements measure_machine(const Backend& backend, bool quick, const Tell& tell,
                             const std::atomic<bool>* stop);

/// One comparison. error = predicted / executed - 1; of a distribution the total variation distance.
struct CheckRow {
  std::string model, scheme, metric, pace;
  int64_t devices = 1, batch = 1;
  double predicted = 0, executed = 0, error = 0;
  double floor = 0;      ///< relative difference of two executions of the same
  bool covered = false;  ///< the prediction's interval holds the executed value
  bool interval = false;
};

/// What is judged: models and sizes that the suite does not hold.
struct CheckCase {
  std::string model;
  int64_t batch = 32, devices = 1;
  std::string scheme = "allreduce";
  int32_t iterations = 30;
  std::string pace = {};  ///< of the links between nodes of one worker each, e.g. "1Gbit/s"; empty: one node
};
std::vector<CheckCase> check_cases(bool quick);

/// Predicts with the profile in `file`, executes, executes again for the floor.
std::vector<CheckRow> check_case(const CheckCase& c, const std::string& profile_file, const Backend& backend,
                                 const std::atomic<bool>* stop);

}  // namespace tandem
