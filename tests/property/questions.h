// SPDX-License-Identifier: Apache-2.0
#pragma once
// Questions drawn at random from models, machines and schemes, and their answers.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "models/graph.h"
#include "schemes/report/report.h"
#include "sim/simulate.h"
#include "topologies/system.h"

namespace tandem::tests {

/// What `tandem predict` would be asked.
struct Asked {
  std::string model, system, scheme = "allreduce", optimizer = "momentum";
  Precision precision = Precision::fp32;
  int64_t batch = 8, devices = 1;
  std::vector<std::pair<std::string, std::string>> sets = {};
  bool recompute = false, input = true;
  Offload offload = {};
  std::string recipe = "";  ///< "": the scheme's
  double compute_speed = 1;
  uint64_t seed = 1;
  int32_t iterations = 0;
  /// As the options of predict.
  std::string text() const;
};

/// Answers questions and remembers the answers.
class Answers {
 public:
  /// Null where the program refuses the question or the model does not fit.
  const Report* ask(const Asked& asked);
  /// Null only where the program refuses.
  const Report* ask_memory(const Asked& asked);
  const System& system(const std::string& name, const std::vector<std::pair<std::string, std::string>>& sets);
  const Graph& graph(const std::string& model);
  std::size_t asked() const { return reports_.size(); }
  std::size_t given() const;  ///< of them by a model that fits

 private:
  std::map<std::string, Graph> graphs_;
  std::map<std::string, System> systems_;
  std::map<std::string, std::optional<Report>> reports_;
};

/// Devices or servers each update a part of the parameters: several save what one does alone.
bool spreads_update(const std::string& scheme);
/// Samples/s that the devices cannot exceed: as many as one makes alone, times their number; where the update
/// is spread, as if each made its part of it alone.
double most_samples(Answers& answers, const Asked& asked);

/// A model with a batch that it is usually trained with, on some devices of some machine.
Asked draw(SplitMix64& random);

}  // namespace tandem::tests
