// SPDX-License-Identifier: Apache-2.0
#pragma once
// The question that predict, demo and plot ask: the options they share, read and resolved.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/console/cli.h"
#include "models/adapter.h"
#include "models/graph.h"
#include "schemes/report.h"
#include "schemes/scheme.h"
#include "sim/simulate.h"
#include "topologies/system.h"

namespace tandem::app {

/// Owns everything a Prediction points to; must outlive the predictions made from it.
struct Question {
  Graph graph;
  System system;
  ResolvedScheme scheme;
  std::string system_text;                                ///< as written: name or file
  std::string model_text{};                               ///< the same
  std::optional<Adapter> adapter{};                       ///< --adapter, which `graph` has
  std::vector<std::string> frozen{};                      ///< --freeze, the same
  std::vector<std::pair<std::string, std::string>> sets;  ///< --set path=value, in order
  std::vector<int64_t> devices;
  int64_t batch = 32;
  BatchSplit split = BatchSplit::even;
  std::vector<int64_t> batches{};  ///< of each device, where --batch-split lists them; `batch` in the mean
  Precision precision = Precision::fp32;
  const Optimizer* optimizer = nullptr;
  Recompute recompute = {};
  Offload offload = {};
  bool sync_batch_norm = false;
  std::vector<std::pair<std::string, std::string>> memory{};  ///< --memory key=value, in order
  bool input = true;
  Loading loading{};
  int32_t iterations = 0;  ///< 0: as many as steady figures need
  uint64_t seed = 1;
  std::string profile = "stock";
  std::shared_ptr<const MeasuredCollectives> measured{};  ///< of --collective-profile
  std::optional<Anchor> anchor;
  std::optional<Disturbance> disturbance;
  Stragglers stragglers{};
  Pauses pauses{};
  bool timeline = true;  ///< reports have one
  /// --with: jobs on the same machine.
  struct Beside {
    Graph graph;
    ResolvedScheme scheme;
    int64_t devices = 1, batch = 32;
  };
  std::vector<Beside> beside;
  /// --then: networks trained in turn with the model.
  struct Then {
    Graph graph;
    double passes = 1;
    int64_t batch = 32;
  };
  std::vector<Then> then{};

  Prediction prediction(int64_t device_count) const;
  /// The system with what was changed of it: "5090-2x with rtx-pro-6000". One that a file calls "imported"
  /// has that file's name.
  std::string system_label() const;
};

/// --model, --system, --devices, ... with their help.
std::vector<Flag> question_flags();
/// --decode-workers and --prefetch with their help.
std::vector<Flag> loading_flags();
/// What they say; `workers`: where nothing is said.
Loading read_loading(const Arguments& arguments, int64_t workers);
/// --batch-split with its help.
Flag batch_split_flag();
/// What it says. A list is for as many devices as it has numbers: of other `counts` one alone may be asked
/// for, which has the mean. Throws InputError.
struct AskedBatches {
  BatchSplit split = BatchSplit::even;
  std::vector<int64_t> batches = {};  ///< empty where none are listed
};
AskedBatches read_batch_split(const Arguments& arguments);
void check_counts(const AskedBatches& asked, const std::vector<int64_t>& counts);
/// --batch: of a list the mean, unless it is said. Throws InputError where that is no whole number, or
/// another.
int64_t read_batch(const Arguments& arguments, const AskedBatches& asked, int64_t most);
/// --recompute with its help.
Flag recompute_flag();
/// --offload with its help.
Flag offload_flag();
/// --batch-norm with its help, and whether it says "sync".
Flag batch_norm_flag();
bool read_batch_norm(const Arguments& arguments);
/// --without, --with-bridges, --swap and --place with their help.
std::vector<Flag> board_flags();
/// What --without, --swap, --with-bridges and --place ask for, as System::Sets in that order.
std::vector<std::pair<std::string, std::string>> read_board_changes(const Arguments& arguments);
/// What a value of one of these options asks for. Throws UsageError.
std::pair<std::string, std::string> board_change(std::string_view option, const std::string& text);
/// --adapter and --freeze with their help.
std::vector<Flag> fine_tuning_flags();
/// The model, with what --adapter and --freeze make of it. Throws InputError.
Graph read_model(const Arguments& arguments, const std::string& model, const Place& place = {});
/// Throws InputError and UsageError (app/console/cli.h says which).
Question read_question(const Arguments& arguments);
/// The same with a model and a system that did not come as --model, --system and --set.
Question read_question(const Arguments& arguments, const std::string& model, const std::string& system,
                       const std::vector<std::pair<std::string, std::string>>& sets);
/// "path=value" pairs of --set, one of those, and all of them with read_board_changes().
std::vector<std::pair<std::string, std::string>> read_sets(const Arguments& arguments);
System::Sets asked_sets(const Arguments& arguments);
std::pair<std::string, std::string> read_set(const std::string& text, std::string_view option);
/// Names with options in lists: "vgg16,resnet50,transformer:layers=4,width=512" holds three. A piece with "="
/// and no ":" goes on with the name before it.
std::vector<std::string> split_names(const std::vector<std::string>& given);

}  // namespace tandem::app
