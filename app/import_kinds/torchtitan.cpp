// SPDX-License-Identifier: Apache-2.0
// torchtitan's configuration -> a question: a TOML file of versions up to 0.2
// (torchtitan/config/job_config.py), or what --debug.save_config_file writes since 0.3 (JSON;
// torchtitan/config/configs.py).
#include <fmt/format.h>

#include <memory>

#include <sstream>

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include "app/analysis/training_config.h"
#include "app/import_kind.h"
#include "base/json_writer.h"

namespace tandem::app {

namespace {

bool like_torchtitan(std::string_view text) {
  const std::string_view head = text.substr(0, 1 << 16);
  const bool toml = head.find("[parallelism]") != std::string_view::npos ||
                    head.find("[training]") != std::string_view::npos;
  return (toml && head.find("[model]") != std::string_view::npos) ||
         (head.find("\"parallelism\"") != std::string_view::npos &&
          head.find("\"model_spec\"") != std::string_view::npos);
}

Json read_config(const ImportFile& file) {
  if (file.text.find_first_not_of(" \t\r\n") != std::string::npos &&
      file.text[file.text.find_first_not_of(" \t\r\n")] == '{')
    return Json::parse(file.text, file.name);
  try {
    std::ostringstream out;
    out << toml::json_formatter{toml::parse(file.text)};
    return Json::parse(out.str(), file.name);
  } catch (const toml::parse_error& error) {
    throw InputError(
        Place{std::make_shared<const std::string>(file.name), static_cast<int>(error.source().begin.line),
              static_cast<int>(error.source().begin.column)},
        fmt::format("no TOML: {}", error.description()));
  }
}

std::string model_of(const Json& document) {
  static const std::map<std::string, std::string> known = {
      {"llama3 8b", "llama3-8b"},         {"llama3 70b", "llama3-70b"},
      {"llama3 405b", "llama3-405b"},     {"llama3 1b", "llama3.2-1b"},
      {"llama3 3b", "llama3.2-3b"},       {"deepseek_v3 671b", "deepseek-v3"},
      {"qwen3 30b-a3b", "qwen3-30b-a3b"}, {"qwen3 235b-a22b", "qwen3-235b-a22b"},
      {"gpt_oss 20b", "gpt-oss-20b"},     {"gpt_oss 120b", "gpt-oss-120b"}};
  const char* section = document.find("model_spec") != nullptr ? "model_spec" : "model";
  const auto found =
      known.find(word_at(document, {section, "name"}) + " " + word_at(document, {section, "flavor"}));
  if (found == known.end()) return "";
  const int64_t length = integer_at(document, {"training", "seq_len"}, 2048);
  return fmt::format("{}:sequence={}", found->second, length);
}

void set_schedule(const Json& document, TrainingConfig& out) {
  static const std::map<std::string, std::string> known = {{"1f1b", "1f1b"},
                                                           {"gpipe", "gpipe"},
                                                           {"interleaved1f1b", "interleaved"},
                                                           {"interleavedzerobubble", "zero-bubble"},
                                                           {"zbvzerobubble", "zbv"},
                                                           {"dualpipev", "dualpipev"}};
  const std::string schedule = word_at(document, {"parallelism", "pipeline_parallel_schedule"});
  const auto found = known.find(schedule.empty() ? "1f1b" : schedule);
  if (found == known.end())
    throw InputError(fmt::format("pipeline_parallel_schedule {} is not predicted", printable(schedule)));
  if (found->second != "1f1b") out.set("schedule", found->second);
}

void set_recompute(const Json& document, TrainingConfig& out) {
  std::string mode = word_at(document, {"activation_checkpoint", "mode"});
  const std::string every = word_at(document, {"activation_checkpoint", "selective_ac_option"});
  if (mode == "none") {
    out.options["recompute"] = "off";
  } else if (mode == "full") {
    out.options["recompute"] = "blocks";
  } else if (mode == "selective" && !every.empty() && every != "op") {
    out.options["recompute"] = every == "1" ? "blocks" : "products";
    if (every != "1")
      out.notes.push_back(fmt::format(
          "recomputing every layer of {} whole is taken as recomputing by operators", printable(every)));
  } else if (!mode.empty() && mode != "selective") {
    out.notes.push_back(fmt::format("activation_checkpoint.mode {} is taken as selective", printable(mode)));
  }
}

TrainingConfig read_torchtitan(const Json& document) {
  TrainingConfig out;
  out.framework = "torchtitan";
  out.model = model_of(document);
  out.scheme = "torchtitan";
  const auto degree = [&](std::string_view key, int64_t fallback = 1) {
    return integer_at(document, {"parallelism", key}, fallback);
  };
  const int64_t tensor = degree("tensor_parallel_degree"), pipeline = degree("pipeline_parallel_degree"),
                context = degree("context_parallel_degree"),
                replicas = degree("data_parallel_replicate_degree"),
                shards = degree("data_parallel_shard_degree", -1);
  out.set_degree("tensor", tensor);
  out.set_degree("pipeline", pipeline);
  out.set_degree("context", context);
  out.set_degree("expert", degree("expert_parallel_degree"));
  if (pipeline > 1) set_schedule(document, out);
  out.devices_of_replica = checked_mul(checked_mul(tensor, pipeline, "the devices of a replica"), context,
                                       "the devices of a replica");
  if (shards == 1) out.set("sharding", "none");
  if (shards > 1 && replicas > 1) out.set("sharding-group", "node");
  if (shards > 1 && replicas > 1)
    out.notes.push_back(fmt::format("copies of {} shards each are taken as one copy on each node", shards));
  if (shards > 0)
    out.devices =
        checked_mul(checked_mul(shards, replicas, "the devices"), out.devices_of_replica, "the devices");
  set_recompute(document, out);

  const int64_t local = integer_at(document, {"training", "local_batch_size"},
                                   integer_at(document, {"training", "batch_size"}, 8));
  const int64_t pass = pipeline > 1 ? std::min(local, degree("pipeline_parallel_microbatch_size")) : local;
  out.batch = pass;
  const int64_t all = integer_at(document, {"training", "global_batch_size"}, -1);
  if (all > 0)
    out.samples = all;
  else
    out.passes = local / std::max<int64_t>(1, pass);
  const Json* converters = value_at(document, {"model", "converters"});
  const bool fp8 =
      converters != nullptr && JsonWriter(*converters).dump().find("float8") != std::string::npos;
  out.options["precision"] = fp8 ? "fp8" : "bf16";
  out.options["optimizer"] = word_at(document, {"optimizer", "name"}) == "adam" ? "adam" : "adamw";
  if (truth_at(document, {"compile", "enable"}) || truth_at(document, {"training", "compile"}))
    out.options["recipe"] = "pytorch-compiled";
  if (truth_at(document, {"parallelism", "enable_async_tensor_parallel"}))
    out.notes.push_back("asynchronous tensor parallelism is left out: products wait for what they need");
  return out;
}

int import_torchtitan(const Arguments& arguments, const std::vector<ImportFile>& files) {
  return put_question(arguments, read_torchtitan(read_config(only_file(files))));
}

}  // namespace

void register_torchtitan(Registry<ImportKind>& registry) {
  registry.add(
      {.name = "torchtitan",
       .summary = "a configuration of torchtitan (TOML, or the JSON that 0.3 saves): a question for predict "
                  "--question",
       .recognises = like_torchtitan,
       .run = import_torchtitan,
       .flags = training_flags()});
}

}  // namespace tandem::app
