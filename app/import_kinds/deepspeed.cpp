// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's ds_config.json -> a question (docs of DeepSpeed 0.19: "DeepSpeed Configuration JSON").
#include <fmt/format.h>

#include "app/analysis/training_config.h"
#include "app/import_kind.h"

namespace tandem::app {

namespace {

bool like_deepspeed(std::string_view text) {
  const std::string_view head = text.substr(0, 1 << 16);
  if (head.find('{') == std::string_view::npos) return false;
  for (const char* key :
       {"\"zero_optimization\"", "\"train_micro_batch_size_per_gpu\"", "\"train_batch_size\""}) {
    if (head.find(key) != std::string_view::npos) return true;
  }
  return false;
}

void set_precision(const Json& document, TrainingConfig& out) {
  const bool bf16 = truth_at(document, {"bf16", "enabled"}) || truth_at(document, {"bfloat16", "enabled"});
  const bool fp16 = truth_at(document, {"fp16", "enabled"});
  if (bf16 || fp16) out.options["precision"] = bf16 ? "bf16" : "fp16";
  for (const char* key : {"bf16", "fp16"}) {
    const Json* section = document.find(key);
    const Json* enabled = section != nullptr && section->is_object() ? section->find("enabled") : nullptr;
    if (enabled != nullptr && enabled->is_text() && !bf16 && !fp16)
      out.notes.push_back(
          fmt::format("{}.enabled is auto, as the trainer says: taken as fp32; predict --precision {} "
                      "says otherwise",
                      key, key));
  }
}

void set_optimizer(const Json& document, TrainingConfig& out) {
  const std::string type = word_at(document, {"optimizer", "type"});
  static const std::map<std::string, std::string> known = {{"adam", "adamw"},      {"adamw", "adamw"},
                                                           {"fusedadam", "adamw"}, {"lamb", "lamb"},
                                                           {"sgd", "momentum"},    {"muon", "muon"}};
  const auto found = known.find(type);
  out.options["optimizer"] = found == known.end() ? "adamw" : found->second;
  if (found == known.end())
    out.notes.push_back(type.empty() ? "the optimiser is not in this file: taken as adamw"
                                     : fmt::format("optimizer {} is taken as adamw", printable(type)));
}

void set_offload(const Json& document, TrainingConfig& out) {
  std::string what;
  for (const auto& [key, name] :
       {std::pair{"offload_optimizer", "optimizer"}, std::pair{"offload_param", "parameters"}}) {
    const std::string device = word_at(document, {"zero_optimization", key, "device"});
    if (device == "nvme")
      throw InputError(
          fmt::format("zero_optimization.{}.device is nvme: offloading to disks is not predicted", key));
    if (device == "cpu") what += (what.empty() ? "" : "+") + std::string(name);
  }
  if (!what.empty()) out.options["offload"] = what;
}

TrainingConfig read_deepspeed(const Json& document) {
  TrainingConfig out;
  out.framework = "DeepSpeed";
  out.passes_setting = "accumulate";
  const int64_t stage = integer_at(document, {"zero_optimization", "stage"}, 0);
  out.scheme = zero_preset(stage, document.place());
  set_precision(document, out);
  const int64_t bucket = integer_at(document, {"zero_optimization", "reduce_bucket_size"}, 0);
  if (bucket > 0 && stage > 0)
    out.set("bucket",
            fmt::format("{}B", checked_mul(bucket, out.options.count("precision") ? 2 : 4, "a bucket")));
  set_optimizer(document, out);
  set_offload(document, out);
  const int64_t batch = integer_at(document, {"train_micro_batch_size_per_gpu"}, 0);
  const int64_t passes = integer_at(document, {"gradient_accumulation_steps"}, 0);
  const int64_t samples = integer_at(document, {"train_batch_size"}, 0);
  if (batch > 0) out.batch = batch;
  if (passes > 0) out.passes = passes;
  if (samples > 0) out.samples = samples;
  if (batch > 0 && passes > 0 && samples > 0) out.devices = samples / (batch * passes);
  for (const char* key : {"pipeline", "tensor_parallel", "sequence_parallel_size", "moe",
                          "compression_training", "sparse_attention", "hybrid_engine"}) {
    if (document.find(key) != nullptr)
      out.notes.push_back(fmt::format("\"{}\" is left out: say it with predict --scheme", key));
  }
  if (document.find("activation_checkpointing") != nullptr)
    out.notes.push_back(
        "activation_checkpointing takes effect only where the model calls it: predict --recompute blocks");
  return out;
}

int import_deepspeed(const Arguments& arguments, const std::vector<ImportFile>& files) {
  const ImportFile& file = only_file(files);
  return put_question(arguments, read_deepspeed(Json::parse(file.text, file.name)));
}

}  // namespace

void register_deepspeed(Registry<ImportKind>& registry) {
  registry.add({.name = "deepspeed",
                .summary = "ds_config.json of DeepSpeed: a question for predict --question",
                .recognises = like_deepspeed,
                .run = import_deepspeed,
                .flags = training_flags()});
}

}  // namespace tandem::app
