// SPDX-License-Identifier: Apache-2.0
#include "app/analysis/question.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "app/console/labels.h"
#include "app/console/output.h"
#include "base/text.h"
#include "calibration/fit/collective_profile.h"
#include "exec/data/data.h"
#include "exec/data/stored_images.h"
#include "exec/data/token_files.h"
#include "models/adapter.h"
#include "models/hf_config.h"
#include "schemes/memory_habits.h"

namespace tandem::app {

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
  memory_habits(settings, "--memory", place);
  return settings;
}

std::shared_ptr<const MeasuredCollectives> read_measured(const std::string& file) {
  auto out = std::make_shared<MeasuredCollectives>();
  for (const CollectiveProfile& profile : read_collective_profiles(Json::load(file))) {
    out->all.push_back(profile.measured);
    if (out->source.find(profile.source) == std::string::npos)
      out->source += (out->source.empty() ? "" : ", ") + profile.source;
  }
  return out;
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
      {"slow", Type::real, "1", "how many times as long they compute, such as 1.5", "", 0.01, 1000}};
  const Options options = read_keys("stragglers", specs, text, place);
  return {options.real("share"), options.real("slow")};
}

Pauses read_pauses(const std::string& text, const Place& place) {
  using Type = OptionSpec::Type;
  static const std::vector<OptionSpec> specs = {
      {"every", Type::time, "1s", "the mean time of work between two pauses of a device, such as 60s"},
      {"for", Type::time, "0s", "how long one is in the mean, such as 0.5s"}};
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
  Question::Beside out{.graph = Graph::load(words[1]),
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
  Question::Then out{Graph::load(words[1]), parse_real(words[0], 1e-6, 1e6, place), batch};
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

std::vector<Flag> fine_tuning_flags() {
  return {
      {"adapter", "NAME[:key=value,...]",
       "fine-tuning: lora:rank=16 learns small matrices beside weights that stay, which are kept in 2 bytes "
       "with bf16 and fp16 (--memory weights=fp32: in 4); qlora stores them in 4 bits "
       "(store=nf4|nf4-dq|int8|half); on=default (query+value, as PEFT has it), all-linear (PEFT's), "
       "attention, mlp, head, or names of layers, joined by +; dropout=0.05"},
      {"freeze", "LAYER[,LAYER...]", "layers whose weights stay as they are: embedding,decoder.0"},
  };
}

Flag batch_split_flag() {
  return {"batch-split", "even|speed|N,N,...",
          "how samples are divided where devices differ: the same batch for all (default), in proportion to "
          "the rate that each has alone, as many in all, or so many for each in turn; gradients are averaged "
          "over samples"};
}

AskedBatches read_batch_split(const Arguments& arguments) {
  const std::string text = arguments.text("batch-split", "even");
  if (text == "even") return {};
  if (text == "speed") return {BatchSplit::speed};
  if (text.find_first_not_of("0123456789,") != std::string::npos)
    refuse_option("batch-split", fmt::format("\"{}\" is neither even nor speed nor a batch for each device, "
                                             "for example 48,16",
                                             printable(text)));
  AskedBatches out;
  for (const std::string& part : split(text, ','))
    out.batches.push_back(parse_integer(part, 1, 1'000'000, option_place("batch-split")));
  if (out.batches.size() > kMostDevices) refuse_option("batch-split", "more batches than devices can be");
  return out;
}

void check_counts(const AskedBatches& asked, const std::vector<int64_t>& counts) {
  for (const int64_t n : counts) {
    const auto given = static_cast<int64_t>(asked.batches.size());
    if (given > 0 && n != given && n != 1)
      refuse_option("batch-split", fmt::format("{} batches for {} devices, which need one each", given, n));
  }
}

int64_t read_batch(const Arguments& arguments, const AskedBatches& asked, int64_t most) {
  const int64_t batch = arguments.integer("batch", 32, 1, most);
  if (asked.batches.empty()) return batch;
  const auto count = static_cast<int64_t>(asked.batches.size());
  const int64_t sum = std::accumulate(asked.batches.begin(), asked.batches.end(), int64_t{0});
  if (sum % count != 0 || (arguments.has("batch") && batch != sum / count))
    refuse_option("batch-split", fmt::format("{} samples for {} devices; their mean must be {}", sum, count,
                                             arguments.has("batch") ? fmt::format("the batch, {}", batch)
                                                                    : std::string("a whole number")));
  return sum / count;
}

Flag offload_flag() {
  return {"offload", "off|WHAT[+WHAT...]",
          "what lies in the host's memory: optimizer (its state; the host makes the update), gradients, "
          "parameters (zero:stage=3), activations (kept by --recompute blocks); default off"};
}

Flag recompute_flag() {
  return {"recompute", "off|blocks|...",
          "what backward makes again instead of keeping it: all that is inside repeated blocks; "
          "\"products\", all "
          "of that but attention and every second matrix product (torchtitan); or some of norms, activations "
          "and attention joined by +; default off, or the preset's"};
}

Flag batch_norm_flag() {
  return {
      "batch-norm", "local|sync",
      "whose samples batch normalisation takes its statistics over: each device's own (default), or those "
      "of all devices (SyncBatchNorm), which sum them in both passes of every such layer"};
}

bool read_batch_norm(const Arguments& arguments) {
  return arguments.choice("batch-norm", "local", {"local", "sync"}) == "sync";
}

std::vector<Flag> board_flags() {
  return {
      {"without", "KIND", "the system without its links of that kind: nvlink", true},
      {"with-bridges", "A-B[,A-B...]",
       "NVLink bridges between cards that have a connector for one, by number: 0-1,2-3"},
      {"swap", "device=NAME", "other accelerators on the same board (tandem list devices)"},
      {"place", "N[,N...]", "which devices of a node are used, by number: 0,1,4,5; default the first"},
  };
}

namespace {

/// What predictions ask of input, beside what runs do.
std::vector<Flag> input_flags() {
  std::vector<Flag> out{
      {"input", "real|synthetic",
       "real (default): storage, decoding and copies count; synthetic: data on the device"},
      {"data", "NAME|FILE|FOLDER",
       "as of run: pictures in storage, a folder or a .rec file, whose number, size and format count instead "
       "of the model file's sample; digits, .csv files, tokens:FILE.bin and synthetic lie in the host's "
       "memory, so that nothing is read or decoded"},
      {"decode", "host|device", "who decodes: the host's cores (default) or the device, as DALI does"},
      {"epoch", "later|first",
       "later (default): the page cache holds what it has room for; first: nothing was read before"},
      {"staged", "", "data was copied to the nodes' own disks, although storage is shared"}};
  const std::vector<Flag> loading = loading_flags();
  out.insert(out.end(), loading.begin(), loading.end());
  return out;
}

}  // namespace

std::vector<Flag> question_flags() {
  std::vector<Flag> out{
      {"model", "NAME|FILE", "what to train (tandem list models); NAME:key=value overrides its parameters"},
      {"system", "NAME|FILE", "the machine (tandem list systems)"},
      {"devices", "N[,N...]", "device counts; default 1, 2, 4 ... and all that the system has, at most 64"},
      {"scheme", "NAME[:key=value,...]", "synchronisation scheme or framework preset; default allreduce"},
      {"batch", "N", "samples per device and iteration; default 32"},
      batch_split_flag(),
      {"precision", "FORMAT", "fp32 (default), tf32, fp16, bf16 or fp8"},
      {"optimizer", "NAME",
       "sgd, momentum (default), adam, adamw, rmsprop, adamw-8bit, adamw-paged, adafactor, lamb "
       "(tandem list optimizers), or none: no update"},
      {"recipe", "NAME|FILE",
       "what the framework makes of the kernels (layout, fusion, host's time): default the preset's, else "
       "pytorch; all: tandem list recipes"},
      recompute_flag(),
      offload_flag(),
      batch_norm_flag(),
      {"memory", "KEY=VALUE,...",
       "what the framework keeps in device memory, over the preset's: weights=fp32|master|half, "
       "update=foreach|each|fused|backward, gradients=freed|zeroed|whole, buckets=none|copies|views, "
       "modules=lazy|eager, kernels=eager|fused, loss=eager|fused|sum, logits=kept|fp32|dropped, "
       "sums=parameters|fp32, "
       "operators=pytorch|cudnn, gathered=again|kept, decay=on|off"},
      {"anchor", "RATE[@N]",
       "samples/s measured on N devices (default 1): scales the compute costs to meet it"},
      {"set", "PATH=VALUE",
       "change one thing of the system: nodes=16, links.pcie.bandwidth=32GB/s, host.memory=64GiB; or break "
       "it: "
       "faults.cpu0:cpu1=0.5 (half the bandwidth), faults.node1/nic0=down, faults.gpu3=0.8 (speed)",
       true},
      {"with", "JOB",
       "another job on the next free devices, sharing links: \"DEVICES MODEL [SCHEME [BATCH]]\"", true},
      {"then", "NETWORK",
       "another network that is trained in turn on the same devices, as the discriminator of a generator: "
       "\"PASSES MODEL [BATCH]\", how often each sample of --model passes through it",
       true},
      {"iterations", "N",
       "iterations of each worker to simulate, their mean where workers do not wait for each other; default: "
       "as many as steady figures need"},
      {"jitter", "SIGMA",
       "lognormal spread of a device's step time, 0 for none; default: the jitter of the system's host"},
      {"stragglers", "share=S,slow=F",
       "devices that are slow for good: each with probability S, drawn once from the seed, computes F times "
       "as long; share=0.01,slow=1.5"},
      {"pauses", "every=T,for=T",
       "pauses at random in a device's work, every so often in the mean and exponentially long; "
       "every=60s,for=0.5s"},
      {"profile", "NAME|FILE", "kernel costs; default stock, the curves fitted to published measurements"},
      {"collective-profile", "FILE",
       "measured collectives (tandem import nccl-tests) that correct those of the same devices; one of "
       "all-reduce, all-gather and reduce-scatter corrects the others"},
      {"seed", "N", "of the random numbers; default 1"},
  };
  const std::vector<Flag> tuning = fine_tuning_flags();
  out.insert(out.begin() + 1, tuning.begin(), tuning.end());
  for (const std::vector<Flag>& more : {board_flags(), input_flags()})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

std::pair<std::string, std::string> read_set(const std::string& text, std::string_view option) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse_option(option, fmt::format("\"{}\" is not path=value, for example nodes=16", printable(text)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> read_sets(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& text : arguments.all("set")) out.push_back(read_set(text, "set"));
  return out;
}

std::vector<std::string> split_names(const std::vector<std::string>& given) {
  std::vector<std::string> out;
  for (const std::string& list : given) {
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

std::vector<std::pair<std::string, std::string>> read_board_changes(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const char* option : {"without", "swap", "with-bridges", "place"}) {
    for (const std::string& text : arguments.all(option)) out.push_back(board_change(option, text));
  }
  return out;
}

System::Sets asked_sets(const Arguments& arguments) {
  System::Sets out = read_sets(arguments);
  for (auto& change : read_board_changes(arguments)) out.push_back(std::move(change));
  return out;
}

Graph read_model(const Arguments& arguments, const std::string& model, const Place& place) {
  Graph graph = Graph::load(model, place);
  if (const std::string part = left_out_of_hf_config(graph.summary()); !part.empty()) note(arguments, part);
  if (arguments.has("adapter"))
    graph = with_adapter(graph, arguments.value("adapter", "", parse_adapter), option_place("adapter"));
  if (arguments.has("freeze"))
    graph = with_frozen(graph, split(arguments.text("freeze", ""), ','), option_place("freeze"));
  return graph;
}

Question read_question(const Arguments& arguments) {
  const std::string model = arguments.required("model", "resnet50");
  if (!arguments.has("system"))
    read_model(arguments, model);  // a wrong name is worth more than a missing option
  return read_question(arguments, model, arguments.required("system", "dgx1-v100"), asked_sets(arguments));
}

namespace {

/// What run's --data would train on.
void read_stored(const std::string& data, const Graph& graph, Loading& loading) {
  if (is_stored(data)) {
    loading.data = StoredImages::open(data).describe();
    return;
  }
  loading.decoded = true;
  if (is_tokens(data)) {
    TokenFiles::open(data, token_sequence(graph));
  } else if (data != "synthetic") {
    load_dataset(data, false);
  }
}

/// 1, 2, 4 ... and all that the system has; of a split model those that whole replicas take.
std::vector<int64_t> usual_counts(const Question& q) {
  const Scheme& scheme = *q.scheme.scheme;
  const int64_t replica = scheme.replica_devices == nullptr ? 1 : scheme.replica_devices(q.scheme.options);
  std::vector<int64_t> counts = doublings(q.system.accelerator_count());
  std::erase_if(counts, [&](int64_t n) { return n % replica != 0; });
  return counts.empty() ? std::vector{replica} : counts;
}

/// Weights that stay beside an adapter are loaded in the format that is computed with, as every recipe of
/// PEFT, LitGPT and torchtune does it; those of qlora that are not stored in fewer bits in fp32
/// (prepare_model_for_kbit_training). Unless the preset or --memory says what weights are kept in.
void keep_frozen_half(const Arguments& arguments, Question& q) {
  if (!arguments.has("adapter") || element_bytes(q.precision) != 2) return;
  if (!arguments.value("adapter", "", parse_adapter).store.empty()) return;
  for (const auto* settings : {&q.scheme.memory, &q.memory}) {
    for (const auto& [key, value] : *settings) {
      if (key == "weights") return;
    }
  }
  q.memory.emplace_back("weights", "half");
}

}  // namespace

Question read_question(const Arguments& arguments, const std::string& model, const std::string& system,
                       const std::vector<std::pair<std::string, std::string>>& sets) {
  Graph graph = read_model(arguments, model);
  Question q{.graph = std::move(graph),
             .system = System::load(system, sets),
             .scheme = resolve_scheme(arguments.text("scheme", "allreduce"), Place{}),
             .system_text = system,
             .model_text = model,
             .sets = sets,
             .devices = {},
             .anchor = {},
             .disturbance = {},
             .beside = {}};
  if (arguments.has("adapter")) q.adapter = arguments.value("adapter", "", parse_adapter);
  if (arguments.has("freeze")) q.frozen = split(arguments.text("freeze", ""), ',');
  if (arguments.has("recipe"))
    q.scheme.recipe = load_recipe(arguments.text("recipe", ""), option_place("recipe"));
  const AskedBatches asked = read_batch_split(arguments);
  const auto listed = static_cast<int64_t>(asked.batches.size());
  q.devices =
      arguments.integers("devices", listed > 0 ? std::vector{listed} : usual_counts(q), 1, kMostDevices);
  check_counts(asked, q.devices);
  q.batch = read_batch(arguments, asked, 1 << 24);
  q.split = asked.split;
  q.batches = asked.batches;
  q.precision = arguments.value("precision", "fp32", parse_precision);
  q.optimizer = &arguments.value("optimizer", "momentum", optimizer);
  q.recompute = arguments.value("recompute", q.scheme.recompute.text(), parse_recompute);
  q.offload = arguments.value("offload", "off", parse_offload);
  q.sync_batch_norm = read_batch_norm(arguments);
  if (arguments.has("memory")) q.memory = arguments.value("memory", "", read_memory);
  keep_frozen_half(arguments, q);
  q.input = arguments.choice("input", "real", {"real", "synthetic"}) == "real";
  q.loading = read_loading(arguments, 0);
  q.loading.on_device = arguments.choice("decode", "host", {"host", "device"}) == "device";
  q.loading.first_epoch = arguments.choice("epoch", "later", {"later", "first"}) == "first";
  q.loading.staged = arguments.has("staged");
  if (arguments.has("data")) read_stored(arguments.text("data", ""), q.graph, q.loading);
  q.iterations = static_cast<int32_t>(arguments.integer("iterations", 0, 2, 1'000'000));
  q.seed = static_cast<uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX));
  q.profile = arguments.text("profile", "stock");
  if (arguments.has("collective-profile"))
    q.measured = read_measured(arguments.text("collective-profile", ""));
  if (arguments.has("anchor")) q.anchor = arguments.value("anchor", "", read_anchor);
  for (const std::string& job : arguments.all("with")) q.beside.push_back(read_beside(job, q.batch));
  for (const std::string& network : arguments.all("then")) q.then.push_back(read_then(network, q.batch));
  if (arguments.has("jitter")) {
    q.disturbance.emplace();
    q.disturbance->iteration_sigma = arguments.real("jitter", 0, 0, 10);
  }
  if (arguments.has("stragglers")) q.stragglers = arguments.value("stragglers", "", read_stragglers);
  if (arguments.has("pauses")) q.pauses = arguments.value("pauses", "", read_pauses);
  return q;
}

Loading read_loading(const Arguments& arguments, int64_t workers) {
  Loading out;
  out.prefetch = arguments.integer("prefetch", out.prefetch, 0, 1024);
  // A script that does one thing after the other reads and decodes in its own thread.
  out.workers = arguments.integer("decode-workers", out.prefetch == 0 ? 1 : workers, 1, 4096);
  return out;
}

std::vector<Flag> loading_flags() {
  return {
      {"decode-workers", "N",
       "threads of each device that read samples, and as many that decode them; default 1, in predictions "
       "an even share of the host's cores"},
      {"prefetch", "N",
       "batches of each device that are read, decoded or copied at once, 0: the next is read when a step "
       "has ended, by one thread unless --decode-workers says more; default 4"}};
}

std::string Question::system_label() const {
  const bool nameless = system.name() == "imported" && system_text.ends_with(".json");
  const std::string name = nameless ? std::filesystem::path(system_text).stem().string() : system.name();
  return changed_system(name, sets);
}

Prediction Question::prediction(int64_t device_count) const {
  Prediction p;
  p.job = {&graph, &scheme, batch, precision, optimizer, input, recompute, offload, loading};
  p.job.sync_batch_norm = sync_batch_norm;
  p.system = &system;
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

}  // namespace tandem::app
