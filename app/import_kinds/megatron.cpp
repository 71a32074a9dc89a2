// SPDX-License-Identifier: Apache-2.0
// Arguments of Megatron-LM's pretrain_*.py, as they stand in a shell script -> a question
// (megatron/training/arguments.py).
#include <fmt/format.h>

#include <memory>

#include <algorithm>
#include <sstream>

#include "answers/values.h"
#include "app/analysis/training_config.h"
#include "app/import_kind.h"

namespace tandem::app {

namespace {

bool like_megatron(std::string_view text) {
  const std::string_view head = text.substr(0, 1 << 16);
  return head.find("--num-layers") != std::string_view::npos &&
         head.find("--hidden-size") != std::string_view::npos;
}

/// "NAME=8" of a script; the value of a variable where it was set before.
class Script {
 public:
  explicit Script(const ImportFile& file) : file_(file) {
    std::istringstream lines(file.text);
    for (std::string line; std::getline(lines, line); ++line_) {
      if (const auto comment = line.find('#');
          comment != std::string::npos && (comment == 0 || line[comment - 1] == ' '))
        line.resize(comment);
      std::replace_if(
          line.begin(), line.end(),
          [](char c) { return c == '"' || c == '\'' || c == '\\' || c == '(' || c == ')' || c == ','; }, ' ');
      std::istringstream words(line);
      for (std::string word; words >> word;) take(word);
    }
  }

  bool has(const std::string& key) const { return arguments_.count(key) != 0; }
  std::string text(const std::string& key) const { return has(key) ? arguments_.at(key) : ""; }
  int64_t integer(const std::string& key, int64_t fallback, int64_t least = 1) const {
    if (!has(key) || arguments_.at(key).empty()) return fallback;
    const std::string& value = arguments_.at(key);
    if (value.find('$') != std::string::npos)
      throw InputError(fmt::format("{}: --{} is {}, which the script does not set: put a number there",
                                   printable(file_.name), key, printable(value)));
    return answers::parse_integer(value, least, int64_t{1} << 40,
                                  Place{std::make_shared<const std::string>(file_.name), places_.at(key), 1});
  }

 private:
  void take(const std::string& word) {
    const auto equals = word.find('=');
    const bool name =
        !word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_');
    if (name && equals != std::string::npos) {
      variables_[word.substr(0, equals)] = resolved(word.substr(equals + 1));
      key_.clear();
    } else if (word.rfind("--", 0) == 0) {
      key_ = word.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
      std::replace(key_.begin(), key_.end(), '_', '-');
      arguments_[key_] = equals == std::string::npos ? "" : resolved(word.substr(equals + 1));
      places_[key_] = line_;
    } else if (!key_.empty()) {
      if (arguments_[key_].empty()) arguments_[key_] = resolved(word);
      key_.clear();
    }
  }

  /// "$TP", "${TP}" and "${TP:-8}".
  std::string resolved(const std::string& word) const {
    if (word.empty() || word[0] != '$') return word;
    std::string name = word.substr(1), otherwise;
    if (name.size() > 1 && name.front() == '{' && name.back() == '}') name = name.substr(1, name.size() - 2);
    if (const auto at = name.find(":-"); at != std::string::npos) {
      otherwise = name.substr(at + 2);
      name.resize(at);
    }
    const auto found = variables_.find(name);
    return found != variables_.end() ? found->second : otherwise.empty() ? word : otherwise;
  }

  const ImportFile& file_;
  int line_ = 1;
  std::string key_;
  std::map<std::string, std::string> arguments_, variables_;
  std::map<std::string, int> places_;
};

/// A model of the zoo with the script's sizes.
std::string megatron_model(const Script& s, std::vector<std::string>& notes) {
  const int64_t layers = s.integer("num-layers", 0), hidden = s.integer("hidden-size", 0),
                heads = s.integer("num-attention-heads", 0), length = s.integer("seq-length", 0);
  if (layers == 0 || hidden == 0 || heads == 0 || length == 0)
    throw InputError("--num-layers, --hidden-size, --num-attention-heads and --seq-length say the model");
  const int64_t experts = s.integer("num-experts", 0),
                words = s.integer("padded-vocab-size", s.integer("vocab-size", 0));
  const bool gated = s.has("swiglu") || s.text("normalization") == "RMSNorm";
  std::string out = fmt::format("{}:layers={},hidden={},heads={},sequence={}",
                                experts > 0 ? "mixtral-8x7b"
                                : gated     ? "llama2-7b"
                                            : "gpt2",
                                layers, hidden, heads, length);
  if (words > 0)
    out += fmt::format(",vocabulary={}", words);
  else
    notes.push_back("the script does not say the vocabulary: that of the model is kept (--vocab-size)");
  if (!gated && experts == 0) return out;
  const int64_t feed = experts > 0
                           ? s.integer("moe-ffn-hidden-size", s.integer("ffn-hidden-size", 4 * hidden))
                           : s.integer("ffn-hidden-size", 4 * hidden);
  out += fmt::format(",kv_heads={},head_dim={},feed={}",
                     s.has("group-query-attention") ? s.integer("num-query-groups", 1) : heads,
                     s.integer("kv-channels", hidden / heads), feed);
  if (experts > 0)
    out += fmt::format(",experts={},active={},qk_norm={}", experts, s.integer("moe-router-topk", 2),
                       s.has("qk-layernorm") ? 1 : 0);
  return out;
}

TrainingConfig read_megatron(const ImportFile& file) {
  const Script s(file);
  TrainingConfig out;
  out.framework = "Megatron-LM";
  out.model = megatron_model(s, out.notes);
  out.scheme = "megatron";
  const int64_t tensor = s.integer("tensor-model-parallel-size", 1),
                pipeline = s.integer("pipeline-model-parallel-size", 1),
                context = s.integer("context-parallel-size", 1);
  out.set_degree("tensor", tensor);
  out.set_degree("pipeline", pipeline);
  out.set_degree("context", context);
  out.set_degree("expert", s.integer("expert-model-parallel-size", 1));
  if (s.integer("expert-tensor-parallel-size", tensor) != tensor) out.set("experts", "whole");
  out.devices_of_replica = checked_mul(checked_mul(tensor, pipeline, "the devices of a replica"), context,
                                       "the devices of a replica");
  int64_t chunks = s.integer("num-virtual-stages-per-pipeline-rank", 1);
  if (const int64_t each = s.integer("num-layers-per-virtual-pipeline-stage", 0); each > 0)
    chunks = s.integer("num-layers", 1) / pipeline / each;
  if (pipeline > 1 && chunks > 1) {
    out.set("schedule", "interleaved");
    out.set("chunks", std::to_string(chunks));
  }
  if (!s.has("sequence-parallel")) out.set("sequence", "off");
  if (!s.has("use-distributed-optimizer")) out.set("sharding", "none");
  out.set("overlap-reduce", s.has("overlap-grad-reduce") ? "on" : "off");
  if (s.text("moe-token-dispatcher-type") == "flex") out.set("dispatcher", "deepep");

  out.options["precision"] = s.has("fp8-format") || s.has("fp8") ? "fp8"
                             : s.has("bf16")                     ? "bf16"
                             : s.has("fp16")                     ? "fp16"
                                                                 : "fp32";
  out.options["optimizer"] = s.text("optimizer") == "sgd" ? "momentum" : "adamw";
  const std::string granularity =
      s.has("recompute-activations") ? "selective" : s.text("recompute-granularity");
  out.options["recompute"] = granularity == "full"        ? "blocks"
                             : granularity == "selective" ? "attention"
                                                          : "off";
  if (s.has("recompute-num-layers") && s.text("recompute-method") == "block")
    out.notes.push_back("recomputing some layers of a stage is taken as recomputing all");
  if (s.has("optimizer-cpu-offload")) out.options["offload"] = "optimizer";
  if (s.has("enable-cuda-graph") || s.has("external-cuda-graph") || s.has("cuda-graph-impl"))
    out.options["recipe"] = "megatron-graphs";
  out.batch = s.integer("micro-batch-size", 1);
  const int64_t samples = s.integer("global-batch-size", 0);
  if (samples > 0) out.samples = samples;
  const int64_t each = s.integer("nproc-per-node", 0), nodes = s.integer("nnodes", 1);
  if (each > 0) out.devices = checked_mul(each, nodes, "the devices");
  return out;
}

int import_megatron(const Arguments& arguments, const std::vector<ImportFile>& files) {
  return put_question(arguments, read_megatron(only_file(files)));
}

}  // namespace

void register_megatron(Registry<ImportKind>& registry) {
  registry.add(
      {.name = "megatron",
       .summary = "a shell script with the arguments of Megatron-LM: a question for predict --question",
       .recognises = like_megatron,
       .run = import_megatron,
       .flags = training_flags()});
}

}  // namespace tandem::app
