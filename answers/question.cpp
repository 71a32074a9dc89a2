// SPDX-License-Identifier: Apache-2.0
#include "answers/question.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "answers/labels.h"
#include "base/text.h"
#include "models/adapter.h"
#include "models/import/hf/config.h"
#include "schemes/setup/memory_habits.h"

namespace tandem::answers {

namespace {

constexpr int64_t kMostDevices = 1'000'000;

Anchor read_anchor(const std::string& text, const Place& place) {
  const auto at = text.find('@');
  Anchor anchor;
  anchor.rate = parse_real(std::string_view(text).substr(0, at), 1e-9, 1e12, place);
  if (at != std::string::npos) {
    anchor.devices = parse_integer(std::string_view(text).substr(at + 1), 1, kMostDevices, place);
  }
  return anchor;
}

std::vector<std::pair<std::string, std::string>> read_memory(const std::string& text, const Place& place) {
  auto settings = parse_selection("memory:" + text, place).settings;
  memory_habits(settings, "memory", place);
  return settings;
}

/// "share=0.01,slow=1.5", all keys given. Throws InputError.
Options read_keys(const std::string& option, const std::vector<OptionSpec>& specs, const std::string& text,
                  const Place& place) {
  const auto settings = parse_selection(option + ":" + text, place).settings;
  for (const OptionSpec& spec : specs) {
    const bool given = std::any_of(settings.begin(), settings.end(),
                                   [&](const auto& setting) { return setting.first == spec.name; });
    if (!given)
      throw InputError(place, fmt::format("\"{}\" lacks {}=, {}", printable(text), spec.name, spec.help));
  }
  return Options(specs, settings, "--" + option, place);
}

Stragglers read_stragglers(const std::string& text, const Place& place) {
  using Type = OptionSpec::Type;
  static const std::vector<OptionSpec> specs = {
      {"share", Type::real, "0", "the share of the devices that are slow, such as 0.01", "", 0, 1},
      {"slow", Type::real, "1", "factor on their compute time, such as 1.5", "", 0.01, 1000}};
  const Options options = read_keys("stragglers", specs, text, place);
  return {options.real("share"), options.real("slow")};
}

Pauses read_pauses(const std::string& text, const Place& place) {
  using Type = OptionSpec::Type;
  static const std::vector<OptionSpec> specs = {
      {"every", Type::time, "1s", "mean time of work between two pauses of a device, such as 60s"},
      {"for", Type::time, "0s", "its mean length, such as 0.5s"}};
  const Options options = read_keys("pauses", specs, text, place);
  const Pauses out{options.time("every").seconds(), options.time("for").seconds()};
  if (!(out.every > 0)) throw InputError(place, "every= must be above 0");
  return out;
}

/// "DEVICES MODEL [SCHEME [BATCH]]".
Question::Beside read_beside(const std::string& text, int64_t batch) {
  const Place place = option_place("with");
  std::vector<std::string> words = split(text, ' ');
  std::erase(words, "");
  if (words.size() < 2 || words.size() > 4)
    refuse_option("with",
                  fmt::format("\"{}\" is not \"DEVICES MODEL [SCHEME [BATCH]]\", for example \"4 vgg16 "
                              "pytorch-ddp 64\"",
                              printable(text)));
  Question::Beside out{.graph = Graph::load(words[1], place),
                       .scheme = resolve_scheme(words.size() > 2 ? words[2] : "allreduce", place),
                       .devices = parse_integer(words[0], 1, kMostDevices, place),
                       .batch = batch};
  if (words.size() > 3) out.batch = parse_integer(words[3], 1, 1 << 24, place);
  return out;
}

/// "PASSES MODEL [BATCH]".
Question::Then read_then(const std::string& text, int64_t batch) {
  const Place place = option_place("then");
  std::vector<std::string> words = split(text, ' ');
  std::erase(words, "");
  if (words.size() < 2 || words.size() > 3)
    refuse_option("then", fmt::format("\"{}\" is not \"PASSES MODEL [BATCH]\", for example \"4 "
                                      "futuregan-discriminator\"",
                                      printable(text)));
  Question::Then out{Graph::load(words[1], place), parse_real(words[0], 1e-6, 1e6, place), batch};
  if (words.size() > 2) out.batch = parse_integer(words[2], 1, 1 << 24, place);
  return out;
}

/// 1, 2, 4, ... and all accelerators of the system, at most 64.
std::vector<int64_t> doublings(int64_t count) {
  std::vector<int64_t> out;
  const int64_t most = std::clamp<int64_t>(count, 1, 64);
  for (int64_t n = 1; n < most; n *= 2) out.push_back(n);
  out.push_back(most);
  return out;
}

}  // namespace

AskedBatches read_batch_split(const Values& values) {
  const std::string text = values.text("batch-split", fallback("batch-split"));
  if (text == "even") return {};
  if (text == "speed") return {BatchSplit::speed};
  if (text.find_first_not_of("0123456789,") != std::string::npos)
    refuse_option("batch-split", fmt::format("\"{}\" is neither even nor speed nor a batch for each device, "
                                             "for example 48,16",
                                             printable(text)));
  AskedBatches out;
  for (const std::string& part : split(text, ','))
    out.batches.push_back(parse_integer(part, 1, 1'000'000, option_place("batch-split")));
  if (out.batches.size() > kMostDevices)
    refuse_option("batch-split", "more batches than the largest number of devices");
  return out;
}

void check_counts(const AskedBatches& asked, const std::vector<int64_t>& counts) {
  for (const int64_t n : counts) {
    const auto given = static_cast<int64_t>(asked.batches.size());
    if (given > 0 && n != given && n != 1)
      refuse_option("batch-split", fmt::format("{} batches for {} devices, which need one each", given, n));
  }
}

int64_t read_batch(const Values& values, const AskedBatches& asked, int64_t most) {
  const int64_t batch = values.integer("batch", 32, 1, most);
  if (asked.batches.empty()) return batch;
  const auto count = static_cast<int64_t>(asked.batches.size());
  const int64_t sum = std::accumulate(asked.batches.begin(), asked.batches.end(), int64_t{0});
  if (sum % count != 0 || (values.has("batch") && batch != sum / count))
    refuse_option("batch-split", fmt::format("{} samples for {} devices; their mean must be {}", sum, count,
                                             values.has("batch") ? fmt::format("the batch, {}", batch)
                                                                 : std::string("a whole number")));
  return sum / count;
}

bool read_batch_norm(const Values& values) {
  return values.choice("batch-norm", fallback("batch-norm"), {"local", "sync"}) == "sync";
}

std::pair<std::string, std::string> read_set(const std::string& text, std::string_view option) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse_option(option, fmt::format("\"{}\" is not path=value, for example nodes=16", printable(text)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> read_sets(const Values& values) {
  std::vector<std::pair<std::string, std::string>> out;
  values.each("set", [&](const std::string& text) { out.push_back(read_set(text, "set")); });
  return out;
}

std::vector<std::string> split_names(const std::vector<std::string>& given) {
  std::vector<std::string> out;
  for (const std::string& list : given) {
    if (is_document(list)) {
      out.push_back(list);
      continue;
    }
    bool first = true;
    for (const std::string& piece : split(list, ',')) {
      const bool more = piece.find('=') != std::string::npos && piece.find(':') == std::string::npos;
      if (more && !first) {
        out.back() += "," + piece;
      } else {
        out.push_back(piece);
      }
      first = false;
    }
  }
  return out;
}

std::pair<std::string, std::string> board_change(std::string_view option, const std::string& text) {
  if (option == "with-bridges") return {"bridges", text};
  if (option != "swap") return {std::string(option), text};
  const auto equals = text.find('=');
  if (equals == std::string::npos || text.substr(0, equals) != "device")
    refuse_option("swap",
                  fmt::format("\"{}\" is not device=NAME, for example device=rtx-3090", printable(text)));
  return {"device", text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> read_board_changes(const Values& values) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* option : {"without", "swap", "with-bridges", "place"}) {
    values.each(option, [&](const std::string& text) { out.push_back(board_change(option, text)); });
  }
  return out;
}

System::Sets asked_sets(const Values& values) {
  constexpr std::size_t kMost = 1000;
  System::Sets out = read_sets(values);
  if (out.size() > kMost) refuse_option("set", fmt::format("{} changes are more than {}", out.size(), kMost));
  for (auto& change : read_board_changes(values)) out.push_back(std::move(change));
  return out;
}

bool is_document(std::string_view text) { return text.starts_with('{') && text.ends_with('}'); }

System load_system(const std::string& system, const System::Sets& sets, const Place& place) {
  return is_document(system) ? System::from_json(Json::parse(system, "system"), sets)
                             : System::load(system, sets, place);
}

namespace {

Graph load_graph(const std::string& model, const Place& place) {
  return is_document(model) ? Graph::from_text(model, "model") : Graph::load(model, place);
}

}  // namespace

Graph read_model(const Values& values, const std::string& model, const Place& place, const Hooks& hooks) {
  Graph graph = values.within("model", [&] { return load_graph(model, place); });
  const std::string part = left_out_of_hf_config(graph.summary());
  if (!part.empty() && hooks.note) hooks.note(part);
  if (values.has("adapter"))
    graph = with_adapter(graph, values.value("adapter", "", parse_adapter), option_place("adapter"));
  if (values.has("freeze"))
    graph = with_frozen(graph, split(values.text("freeze", ""), ','), option_place("freeze"));
  return graph;
}

namespace {

bool same(const Values& a, const Values& b, std::initializer_list<std::string_view> options) {
  return std::all_of(options.begin(), options.end(),
                     [&](std::string_view option) { return a.all(option) == b.all(option); });
}

/// What run's --data would train on.
void read_data(const Values& values, const Hooks& hooks, const Question* like, Question& q) {
  if (!values.has("data")) return;
  if (like != nullptr && same(values, like->given, {"model", "data"})) {
    q.loading.data = like->loading.data;
    q.loading.decoded = like->loading.decoded;
    return;
  }
  const std::string data = values.text("data", "");
  if (hooks.open_data) return hooks.open_data(data, q.graph, q.loading);
  if (data != "synthetic") refuse_option("data", "this program cannot open data; it knows only synthetic");
  q.loading.decoded = true;
}

void read_measured(const Values& values, const Hooks& hooks, const Question* like, Question& q) {
  if (!values.has("collective-profile")) return;
  if (like != nullptr && same(values, like->given, {"collective-profile"})) {
    q.measured = like->measured;
    return;
  }
  if (!hooks.read_collectives)
    refuse_option("collective-profile", "this program cannot read profiles of collectives");
  q.measured = hooks.read_collectives(values.text("collective-profile", ""));
}

/// 1, 2, 4 ... and all that the system has; of a split model those that whole replicas take.
std::vector<int64_t> usual_counts(const Question& q) {
  const Scheme& scheme = *q.scheme.scheme;
  const int64_t replica = scheme.replica_devices == nullptr ? 1 : scheme.replica_devices(q.scheme.options);
  std::vector<int64_t> counts = doublings(q.system.accelerator_count());
  std::erase_if(counts, [&](int64_t n) { return n % replica != 0; });
  return counts.empty() ? std::vector{replica} : counts;
}

/// Frozen weights of a model with an adapter are loaded in the format of the computation, as every recipe of
/// PEFT, LitGPT and torchtune does it; those of qlora that are not stored in fewer bits in fp32
/// (prepare_model_for_kbit_training). Unless the preset or --memory says what weights are kept in.
void keep_frozen_half(const Values& values, Question& q) {
  if (!values.has("adapter") || element_bytes(q.precision) != 2) return;
  if (!values.value("adapter", "", parse_adapter).store.empty()) return;
  for (const auto* settings : {&q.scheme.memory, &q.memory}) {
    for (const auto& [key, value] : *settings) {
      if (key == "weights") return;
    }
  }
  q.memory.emplace_back("weights", "half");
}

void read_training(const Values& values, const Hooks& hooks, const Question* like, Question& q) {
  const AskedBatches asked = read_batch_split(values);
  const auto listed = static_cast<int64_t>(asked.batches.size());
  q.devices = values.integers("devices", listed > 0 ? std::vector{listed} : usual_counts(q), 1, kMostDevices);
  check_counts(asked, q.devices);
  q.batch = read_batch(values, asked, 1 << 24);
  q.split = asked.split;
  q.batches = asked.batches;
  q.precision = values.value("precision", fallback("precision"), parse_precision);
  q.optimizer = &values.value("optimizer", fallback("optimizer"), optimizer);
  q.recompute = values.value("recompute", q.scheme.recompute.text(), parse_recompute);
  q.offload = values.value("offload", fallback("offload"), parse_offload);
  q.sync_batch_norm = read_batch_norm(values);
  if (values.has("memory")) q.memory = values.value("memory", "", read_memory);
  keep_frozen_half(values, q);
  q.input = values.choice("input", fallback("input"), {"real", "synthetic"}) == "real";
  q.loading = read_loading(values, 0);
  q.loading.on_device = values.choice("decode", fallback("decode"), {"host", "device"}) == "device";
  q.loading.first_epoch = values.choice("epoch", fallback("epoch"), {"later", "first"}) == "first";
  q.loading.staged = values.has("staged");
  read_data(values, hooks, like, q);
}

/// How it is simulated, and what else goes on.
void read_conditions(const Values& values, const Hooks& hooks, const Question* like, Question& q) {
  q.iterations = static_cast<int32_t>(values.integer("iterations", 0, 2, 1'000'000));
  q.seed = static_cast<uint64_t>(values.integer("seed", 1, 0, INT64_MAX));
  q.profile = values.text("profile", fallback("profile"));
  read_measured(values, hooks, like, q);
  if (values.has("anchor")) q.anchor = values.value("anchor", "", read_anchor);
  values.each("with", [&](const std::string& job) { q.beside.push_back(read_beside(job, q.batch)); });
  values.each("then", [&](const std::string& next) { q.then.push_back(read_then(next, q.batch)); });
  if (values.has("jitter")) {
    q.disturbance.emplace();
    q.disturbance->iteration_sigma = values.real("jitter", 0, 0, 10);
  }
  if (values.has("stragglers")) q.stragglers = values.value("stragglers", "", read_stragglers);
  if (values.has("pauses")) q.pauses = values.value("pauses", "", read_pauses);
  q.failures = read_failures(values);
  q.target = read_progress_question(values);
}

/// `like`: what of the model and the machine need not be read again; may be null.
Question question_of(const Values& values, const Hooks& hooks, const Question* like) {
  const std::string model = values.required("model", "resnet50");
  const auto graph = [&] {
    const bool known = like != nullptr && same(values, like->given, {"model", "adapter", "freeze"});
    return known ? like->graph : read_model(values, model, values.place("model"), hooks);
  };
  if (!values.has("system")) graph();  // a wrong name is worth more than a missing option
  const std::string name = values.required("system", "dgx1-v100");
  const System::Sets sets = asked_sets(values);
  const auto system = [&] {
    const bool known = like != nullptr && same(values, like->given, {"system"});
    if (!known)
      return values.within("system", [&] { return load_system(name, sets, values.place("system")); });
    return sets == like->sets ? like->system : like->system.with(sets);
  };
  Question q{.given = values,
             .graph = graph(),
             .system = system(),
             .scheme = resolve_scheme(values.text("scheme", fallback("scheme")), values.place("scheme")),
             .sets = sets};
  if (values.has("adapter")) q.adapter = values.value("adapter", "", parse_adapter);
  if (values.has("freeze")) q.frozen = split(values.text("freeze", ""), ',');
  if (values.has("recipe")) q.scheme.recipe = load_recipe(values.text("recipe", ""), option_place("recipe"));
  read_training(values, hooks, like, q);
  read_conditions(values, hooks, like, q);
  q.given.set("devices", {fmt::format("{}", fmt::join(q.devices, ","))});
  if (like != nullptr) q.programs = like->programs;
  if (like != nullptr && q.graph.same(like->graph)) {  // whatever its file holds by now
    for (const auto& [file, hash] : like->contents) {
      if (file.first == "model") q.contents[file] = hash;
    }
  }
  add_contents(q);
  return q;
}

}  // namespace

Question Question::read(const Values& values, const Hooks& hooks) {
  return question_of(values, hooks, nullptr);
}

namespace {

/// Sets values of options: of each all that stand in `pairs`.
void set_all(Values& values, const std::vector<std::pair<std::string, std::string>>& pairs, bool takes_away) {
  std::set<std::string_view> begun;
  for (const auto& [name, value] : pairs) {
    const Option& option = question_option(name);
    const bool given = option.kind() == Option::Kind::given;
    const bool absent =
        given ? value == "false" || (takes_away && value.empty()) : takes_away && value.empty();
    if (given && !absent && !value.empty() && value != "true")
      refuse_option(option.name, fmt::format("\"{}\" is neither true nor false", printable(value)));
    if (begun.insert(option.name).second)
      values.set(option.name, {});
    else if (!option.repeatable)
      throw UsageError(fmt::format("--{} is given twice", option.name));
    values.stands_at(option.name, {});
    if (!absent) values.add(option.name, given ? "" : value);
  }
}

}  // namespace

Question Question::of(const std::vector<std::pair<std::string, std::string>>& options, const Hooks& hooks) {
  Values values;
  set_all(values, options, false);
  return read(values, hooks);
}

Question Question::with(const std::vector<std::pair<std::string, std::string>>& changes,
                        const Hooks& hooks) const {
  Values values = given;
  set_all(values, changes, true);
  return question_of(values, hooks, this);
}

Loading read_loading(const Values& values, int64_t workers) {
  Loading out;
  out.prefetch = values.integer("prefetch", out.prefetch, 0, 1024);
  // A script that does one thing after the other reads and decodes in its own thread.
  out.workers = values.integer("decode-workers", out.prefetch == 0 ? 1 : workers, 1, 4096);
  return out;
}

std::string Question::system_label() const {
  const std::string text = given.text("system", "");
  const bool nameless = system.name() == "imported" && text.ends_with(".json");
  const std::string name = nameless ? std::filesystem::path(text).stem().string() : system.name();
  return changed_system(name, sets);
}

Request Question::request(int64_t device_count) const {
  Request p;
  p.job = {&graph, &scheme, batch, precision, optimizer, input, recompute, offload, loading};
  p.job.sync_batch_norm = sync_batch_norm;
  p.system = &system;
  p.programs = programs;
  p.devices = device_count;
  p.split = split;
  if (device_count > 1) p.job.batches = batches;
  p.memory = memory;
  p.iterations = iterations;
  p.seed = seed;
  p.timeline = timeline;
  p.profile = profile;
  p.measured = measured;
  p.anchor = anchor;
  p.disturbance = disturbance;
  p.stragglers = stragglers;
  p.pauses = pauses;
  for (const Then& network : then) p.then.push_back({&network.graph, network.passes, network.batch});
  for (const Beside& other : beside) {
    Job job = p.job;  // of the same precision, optimiser and input
    job.graph = &other.graph;
    job.scheme = &other.scheme;
    job.batch = other.batch;
    job.offload = {};
    job.batches.clear();
    job.sync_batch_norm = false;
    p.beside.push_back({job, other.devices});
  }
  return p;
}

}  // namespace tandem::answers
