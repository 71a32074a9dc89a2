// SPDX-License-Identifier: Apache-2.0
// What `accelerate config` writes (YAML) -> a question (docs of Accelerate 1.x: "ClusterConfig").
#include <fmt/format.h>

#include <yaml-cpp/yaml.h>
#include <memory>

#include <functional>

#include "app/analysis/training_config.h"
#include "app/import_kind.h"
#include "base/json_writer.h"

namespace tandem::app {

namespace {

bool like_accelerate(std::string_view text) {
  const std::string_view head = text.substr(0, 1 << 16);
  return head.find("distributed_type") != std::string_view::npos &&
         (head.find("num_processes") != std::string_view::npos ||
          head.find("compute_environment") != std::string_view::npos);
}

/// Scalars as texts: YAML's types depend on its version.
JsonWriter json_of_yaml(const YAML::Node& node, int depth = 0) {
  if (depth > 32) throw InputError("values stand in more than 32 others");
  if (node.IsMap()) {
    JsonWriter out = JsonWriter::object();
    for (const auto& entry : node) out[entry.first.Scalar()] = json_of_yaml(entry.second, depth + 1);
    return out;
  }
  if (node.IsSequence()) {
    JsonWriter out = JsonWriter::array();
    for (const auto& item : node) out.push_back(json_of_yaml(item, depth + 1));
    return out;
  }
  return node.IsScalar() ? JsonWriter(node.Scalar()) : JsonWriter{};
}

Json read_yaml(const ImportFile& file) {
  try {
    return Json::parse(json_of_yaml(YAML::Load(file.text)).dump(), file.name);
  } catch (const YAML::Exception& error) {
    throw InputError(
        Place{std::make_shared<const std::string>(file.name), error.mark.line + 1, error.mark.column + 1},
        "no YAML: " + error.msg);
  }
}

void set_fsdp(const Json& document, TrainingConfig& out) {
  const std::string strategy = word_at(document, {"fsdp_config", "fsdp_sharding_strategy"});
  const Json* reshards = value_at(document, {"fsdp_config", "fsdp_reshard_after_forward"});
  const bool keeps =
      reshards != nullptr && word_at(document, {"fsdp_config", "fsdp_reshard_after_forward"}) == "false";
  if (strategy == "no_shard" || strategy == "3") {
    out.scheme = "pytorch-ddp";
    return;
  }
  out.scheme = "pytorch-fsdp";
  if (strategy == "shard_grad_op" || strategy == "2" || keeps) out.set("keeps", "all");
  if (strategy.starts_with("hybrid_shard") || strategy == "4") out.set("sharding-group", "node");
  if (truth_at(document, {"fsdp_config", "fsdp_activation_checkpointing"}))
    out.options["recompute"] = "blocks";
  if (truth_at(document, {"fsdp_config", "fsdp_offload_params"}))
    out.options["offload"] = "optimizer+parameters";
}

void set_deepspeed(const Json& document, TrainingConfig& out) {
  if (value_at(document, {"deepspeed_config", "deepspeed_config_file"}) != nullptr)
    throw InputError(
        fmt::format("its DeepSpeed settings stand in {}: tandem import deepspeed reads that file",
                    document.at("deepspeed_config").at("deepspeed_config_file").as_text()));
  const int64_t stage = integer_at(document, {"deepspeed_config", "zero_stage"}, 2);
  out.scheme = zero_preset(stage, document.place());
  out.passes = integer_at(document, {"deepspeed_config", "gradient_accumulation_steps"}, 1);
  std::string what;
  if (word_at(document, {"deepspeed_config", "offload_optimizer_device"}) == "cpu") what = "optimizer";
  if (word_at(document, {"deepspeed_config", "offload_param_device"}) == "cpu")
    what += what.empty() ? "parameters" : "+parameters";
  if (!what.empty()) out.options["offload"] = what;
}

void set_megatron(const Json& document, TrainingConfig& out) {
  const auto of = [&](std::string_view key, int64_t fallback) {
    return integer_at(document, {"megatron_lm_config", key}, fallback);
  };
  out.scheme = "megatron";
  const int64_t tensor = of("megatron_lm_tp_degree", 1), pipeline = of("megatron_lm_pp_degree", 1);
  out.set_degree("tensor", tensor);
  out.set_degree("pipeline", pipeline);
  out.devices_of_replica = checked_mul(tensor, pipeline, "the devices of a replica");
  if (!truth_at(document, {"megatron_lm_config", "megatron_lm_sequence_parallelism"}))
    out.set("sequence", "off");
  if (!truth_at(document, {"megatron_lm_config", "megatron_lm_use_distributed_optimizer"}))
    out.set("sharding", "none");
  if (truth_at(document, {"megatron_lm_config", "megatron_lm_recompute_activations"}))
    out.options["recompute"] = "attention";
  out.passes = of("megatron_lm_num_micro_batches", 1);
  out.passes_setting = "microbatches";
}

TrainingConfig read_accelerate(const Json& document) {
  TrainingConfig out;
  out.framework = "Accelerate";
  out.passes_setting = "accumulate";
  out.devices = integer_at(document, {"num_processes"}, 1);
  out.options["optimizer"] = "adamw";
  out.notes.push_back("optimiser and batch are the script's: adamw is taken, --batch says the other");
  const std::string precision = word_at(document, {"mixed_precision"});
  if (precision == "bf16" || precision == "fp16" || precision == "fp8") out.options["precision"] = precision;
  const std::string compiler = word_at(document, {"dynamo_config", "dynamo_backend"});
  if (compiler == "inductor") out.options["recipe"] = "pytorch-compiled";
  const std::string type = word_at(document, {"distributed_type"});
  if (type == "multi_gpu" || type == "multi_npu") {
    out.scheme = "pytorch-ddp";
  } else if (type == "fsdp") {
    set_fsdp(document, out);
  } else if (type == "deepspeed") {
    set_deepspeed(document, out);
  } else if (type == "megatron_lm") {
    set_megatron(document, out);
  } else if (type == "no" || type == "false" || type.empty()) {
    out.scheme = "allreduce";
    out.devices = 1;
  } else {
    throw InputError(fmt::format(
        "distributed_type {} is not predicted; NO, MULTI_GPU, FSDP, DEEPSPEED and MEGATRON_LM are",
        printable(type)));
  }
  return out;
}

int import_accelerate(const Arguments& arguments, const std::vector<ImportFile>& files) {
  return put_question(arguments, read_accelerate(read_yaml(only_file(files))));
}

}  // namespace

void register_accelerate(Registry<ImportKind>& registry) {
  registry.add(
      {.name = "accelerate",
       .summary = "default_config.yaml of Hugging Face Accelerate: a question for predict --question",
       .recognises = like_accelerate,
       .run = import_accelerate,
       .flags = training_flags()});
}

}  // namespace tandem::app
