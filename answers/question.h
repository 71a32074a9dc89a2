// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is asked: a model, a machine, a way to train, and how sure the answer is to be. A value.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answers/aims.h"
#include "answers/values.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "models/adapter.h"
#include "models/graph.h"
#include "schemes/setup/scheme.h"
#include "sim/simulate.h"
#include "topologies/system.h"

namespace tandem::answers {

/// What the calling program provides. Each may be unset: then a question that needs it is an InputError, and
/// notes are dropped. Called by the thread that reads the question.
struct Hooks {
  /// Fills `loading` from what `data` names ("digits", a folder, a file) for `graph`.
  std::function<void(const std::string& data, const Graph& graph, Loading& loading)> open_data;
  /// The measured collectives of a file.
  std::function<std::shared_ptr<const MeasuredCollectives>(const std::string& file)> read_collectives;
  /// A note to the user.
  std::function<void(std::string_view)> note;
};

/// Every option of a question: the one table for flags, help, JSON keys and their schema.
const std::vector<Option>& question_options();
/// One of them by its current or an earlier name. Throws InputError with the nearest.
const Option& question_option(std::string_view name, const Place& place = {});
/// Option::fallback of one of them.
std::string_view fallback(std::string_view name);

/// The JSON Schema (draft 2020-12) of "tandem-question-1", made from the table.
JsonWriter question_schema();

/// The options of a "tandem-question-1" document, or of the reports in a "tandem-reports-2" document, which
/// must all answer one question; each knows its place. Throws InputError: an unknown key, with the nearest; a
/// value of the wrong type; reports without a question or of several.
Values values_of(const Json& document);

/// Owns all it names: copy it, compare it, send it to a thread. Copies share model and machine and are cheap.
/// Any thread may read it. Made by read() or from_json(). Members may be changed afterwards, but to_json()
/// and hash() describe the options as given, and of the members only `devices`.
struct Question {
  /// Of options by name ("model", "system", "batch" ...), those of question_options(). `model` and `system`
  /// may be JSON documents instead of names. Reads the files that the options name and no others. Throws
  /// UsageError and InputError (answers/values.h says which).
  static Question read(const Values& values, const Hooks& hooks = {});
  /// The same from pairs: {{"model", "vgg16"}, {"system", "dgx1-v100"}, {"batch", "64"}}. A switch is set by
  /// "true" or "" and unset by "false". Throws UsageError too if an option with one value occurs twice.
  static Question of(const std::vector<std::pair<std::string, std::string>>& options,
                     const Hooks& hooks = {});
  /// From a document, as values_of() takes it. Throws InputError at the place in the document.
  static Question from_json(const Json& document, const Hooks& hooks = {});
  /// The same question with some options changed; an empty value removes an option, as "false" does for a
  /// switch. A repeatable option ("set") is replaced as a whole. Model, machine, data and measured
  /// collectives are read again only if they change.
  Question with(const std::vector<std::pair<std::string, std::string>>& changes,
                const Hooks& hooks = {}) const;
  /// A "tandem-question-1" document: all options that differ from the defaults, and always the device counts.
  /// Reads back as an equal question.
  JsonWriter to_json() const;
  /// Of to_json(), the machine's document and the contents of the files named by path when they were read.
  /// The order of options, and options set to their defaults, make no difference. Units are not converted:
  /// "60min" and "1h" are two questions. A key within one version. FNV-1a, 64 bits. O(document).
  uint64_t hash() const;
  bool operator==(const Question& other) const { return hash() == other.hash(); }

  Values given{};  ///< as given, plus the device counts
  /// By option and text: hashes of the files named by path, as they were when read.
  std::map<std::pair<std::string, std::string>, uint64_t> contents{};
  Graph graph;
  System system;
  ResolvedScheme scheme;
  std::optional<Adapter> adapter{};                         ///< --adapter, which `graph` has
  std::vector<std::string> frozen{};                        ///< --freeze, the same
  std::vector<std::pair<std::string, std::string>> sets{};  ///< changes of the system, in order
  std::vector<int64_t> devices{};
  int64_t batch = 32;
  BatchSplit split = BatchSplit::even;
  std::vector<int64_t>
      batches{};  ///< one per device, if --batch-split lists them; `batch` is then their mean
  Precision precision = Precision::fp32;
  const Optimizer* optimizer = nullptr;
  Recompute recompute = {};
  Offload offload = {};
  bool sync_batch_norm = false;
  std::vector<std::pair<std::string, std::string>> memory{};  ///< --memory key=value, in order
  bool input = true;
  Loading loading{};
  int32_t iterations = 0;  ///< 0: as many as a steady rate needs
  uint64_t seed = 1;
  std::string profile = "stock";
  std::shared_ptr<const MeasuredCollectives> measured{};  ///< of --collective-profile
  std::optional<Anchor> anchor{};
  std::optional<Disturbance> disturbance{};
  Stragglers stragglers{};
  Pauses pauses{};
  bool timeline = true;  ///< reports have one
  /// --with: jobs on the same machine.
  struct Beside {
    Graph graph;
    ResolvedScheme scheme;
    int64_t devices = 1, batch = 32;
  };
  std::vector<Beside> beside{};
  /// --then: networks trained alternately with the model.
  struct Then {
    Graph graph;
    double passes = 1;
    int64_t batch = 32;
  };
  std::vector<Then> then{};
  std::optional<Failures> failures{};        ///< --mtbf and what belongs to it
  std::optional<ProgressQuestion> target{};  ///< --target-loss, --epochs, --tokens or --samples

  /// Compiled programs shared by this question and those that with() makes of it.
  std::shared_ptr<Programs> programs = std::make_shared<Programs>();

  /// For that many devices; points into this question, which must outlive it.
  Request request(int64_t device_count) const;
  /// The system's name with its changes: "5090-2x with rtx-pro-6000". A system that its file calls "imported"
  /// is named after the file.
  std::string system_label() const;
};

/// Question::read() of values some of which come from a document: errors about these are InputErrors at their
/// place.
Question read_located(const Values& values, const Hooks& hooks = {});

/// --decode-workers and --prefetch with their help.
std::vector<Option> loading_flags();
/// Their values; `workers`: the default.
Loading read_loading(const Values& arguments, int64_t workers);
/// --batch-split with its help.
Option batch_split_flag();
/// Its value. A list holds one number per device: with other `counts` only one count may be asked about,
/// which gets the mean. Throws InputError.
struct AskedBatches {
  BatchSplit split = BatchSplit::even;
  std::vector<int64_t> batches = {};  ///< empty where none are listed
};
AskedBatches read_batch_split(const Values& arguments);
void check_counts(const AskedBatches& asked, const std::vector<int64_t>& counts);
/// --batch, or the mean of --batch-split's list. Throws InputError if that is not a whole number or
/// contradicts --batch.
int64_t read_batch(const Values& arguments, const AskedBatches& asked, int64_t most);
/// --recompute with its help.
Option recompute_flag();
/// --offload with its help.
Option offload_flag();
/// --batch-norm with its help, and whether it says "sync".
Option batch_norm_flag();
bool read_batch_norm(const Values& arguments);
/// --without, --with-bridges, --swap and --place with their help.
std::vector<Option> board_flags();
/// What --without, --swap, --with-bridges and --place ask for, as System::Sets in that order.
std::vector<std::pair<std::string, std::string>> read_board_changes(const Values& arguments);
/// One value of one of these options. Throws UsageError.
std::pair<std::string, std::string> board_change(std::string_view option, const std::string& text);
/// --adapter and --freeze with their help.
std::vector<Option> fine_tuning_flags();
/// The model with --adapter and --freeze applied; `model` is a name, a file or a JSON document. Throws
/// InputError.
Graph read_model(const Values& values, const std::string& model, const Place& place = {},
                 const Hooks& hooks = {});
/// The machine of --system with changes; `system` is a name, a file or a JSON document. Throws InputError.
System load_system(const std::string& system, const System::Sets& sets, const Place& place = {});
/// Whether the value of --model or --system is a JSON document.
bool is_document(std::string_view text);
/// Adds hashes of files to Question::contents where missing. Reads the files.
void add_contents(Question& question);
/// "path=value" pairs of --set, one of those, and all of them with read_board_changes().
std::vector<std::pair<std::string, std::string>> read_sets(const Values& arguments);
System::Sets asked_sets(const Values& arguments);
std::pair<std::string, std::string> read_set(const std::string& text, std::string_view option);
/// Splits lists of names with options: "vgg16,resnet50,transformer:layers=4,width=512" has three. A piece
/// with "=" and no ":" belongs to the name before it.
std::vector<std::string> split_names(const std::vector<std::string>& given);

}  // namespace tandem::answers
