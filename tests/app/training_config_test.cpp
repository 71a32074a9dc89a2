// SPDX-License-Identifier: Apache-2.0
// Configurations of frameworks become questions that predict answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/app/tool.h"

namespace tandem::tests {
namespace {

using ::testing::HasSubstr;

Json question_of(const std::string& text, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"import", "-", "--system", "h100-superpod"};
  words.insert(words.end(), more.begin(), more.end());
  const ChildResult result = tool(words, text);
  EXPECT_EQ(result.status, 0) << result.err;
  return Json::parse(result.status == 0 ? result.out : "{}", "question");
}

std::string refusal(const std::string& text, int status, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"import", "-", "--system", "dgx-h100"};
  words.insert(words.end(), more.begin(), more.end());
  const ChildResult result = tool(words, text);
  EXPECT_EQ(result.status, status) << result.err;
  return result.err;
}

constexpr const char* kTitan = R"([model]
name = "llama3"
flavor = "70B"
[training]
local_batch_size = 8
seq_len = 4096
global_batch_size = 256
[parallelism]
data_parallel_shard_degree = 8
tensor_parallel_degree = 8
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "full"
[compile]
enable = true
)";

TEST(TrainingConfig, OfTorchtitan) {
  const Json q = question_of(kTitan);
  EXPECT_EQ(q.at("model").as_text(), "llama3-70b:sequence=4096");
  // 256 samples are 32 passes of one for each of 8 replicas.
  EXPECT_EQ(q.at("scheme").as_text(), "torchtitan:tensor=8,pipeline=2,schedule=interleaved,microbatches=32");
  EXPECT_EQ(q.at("devices").items().at(0).as_int(), 128);
  EXPECT_EQ(q.at("batch").as_int(), 1);
  EXPECT_EQ(q.at("precision").as_text(), "bf16");
  EXPECT_EQ(q.at("recompute").as_text(), "blocks");
  EXPECT_EQ(q.at("recipe").as_text(), "pytorch-compiled");
}

TEST(TrainingConfig, AnswersAsTheSameOptionsDo) {
  const Scratch scratch;
  const std::string script = scratch.write("pretrain.sh", R"(TP=2
torchrun --nproc_per_node 8 --nnodes ${NNODES:-1} pretrain_gpt.py --num-layers 12 --hidden-size 768 \
  --num-attention-heads 12 --seq-length 1024 --vocab-size 50304 --micro-batch-size 4 --global-batch-size 64 --bf16 \
  --tensor-model-parallel-size $TP --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce
)");
  const std::string file = scratch.file("q.json");
  ASSERT_EQ(tool({"import", "megatron", script, "--system", "dgx-h100", "--out", file}).status, 0);
  const ChildResult asked = tool({"predict", "--question", file, "--format", "json"});
  ASSERT_EQ(asked.status, 0) << asked.err;
  const ChildResult by_hand =
      tool({"predict", "--model", "gpt2:layers=12,hidden=768,heads=12,sequence=1024,vocabulary=50304",
            "--system", "dgx-h100", "--devices", "8", "--scheme",
            "megatron:tensor=2,overlap-reduce=on,microbatches=4", "--batch", "4", "--precision", "bf16",
            "--optimizer", "adamw", "--recompute", "off", "--format", "json"});
  EXPECT_EQ(last_report(asked.out).at("samples_per_second").as_real(),
            last_report(by_hand.out).at("samples_per_second").as_real());
}

TEST(TrainingConfig, OfMegatronSaysTheModel) {
  const Json q =
      question_of(R"(--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention
    --num-query-groups 8 --ffn-hidden-size 14336 --seq-length 8192 --swiglu --vocab-size 128256 --num-experts 8
    --moe-router-topk 2 --expert-model-parallel-size 8 --micro-batch-size 1 --bf16 --recompute-granularity full)",
                  {"--devices", "64"});
  EXPECT_EQ(
      q.at("model").as_text(),
      "mixtral-8x7b:layers=32,hidden=4096,heads=32,sequence=8192,vocabulary=128256,kv_heads=8,head_dim=128,"
      "feed=14336,experts=8,active=2,qk_norm=0");
  EXPECT_THAT(q.at("scheme").as_text(), HasSubstr("expert=8,sequence=off,sharding=none,overlap-reduce=off"));
}

TEST(TrainingConfig, OfDeepSpeedAndAccelerate) {
  const Json zero = question_of(R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8,
    "train_batch_size": 256, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8,
    "offload_optimizer": {"device": "cpu"}}, "optimizer": {"type": "AdamW"}})",
                                {"--model", "llama3-8b"});
  EXPECT_EQ(zero.at("scheme").as_text(), "deepspeed-zero2:bucket=1000000000B,accumulate=8");
  EXPECT_EQ(zero.at("devices").items().at(0).as_int(), 8);
  EXPECT_EQ(zero.at("offload").as_text(), "optimizer");

  const Json fsdp = question_of(R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_activation_checkpointing: true
  fsdp_sharding_strategy: HYBRID_SHARD
mixed_precision: bf16
num_processes: 16
)",
                                {"--model", "llama3-8b", "--batch", "2"});
  EXPECT_EQ(fsdp.at("scheme").as_text(), "pytorch-fsdp:sharding-group=node");
  EXPECT_EQ(fsdp.at("devices").items().at(0).as_int(), 16);
  EXPECT_EQ(fsdp.at("recompute").as_text(), "blocks");
}

TEST(TrainingConfig, SaysWhatIsMissingOrWrong) {
  EXPECT_THAT(refusal(R"({"zero_optimization": {"stage": 2}})", 2), HasSubstr("say --model"));
  EXPECT_THAT(refusal(R"({"zero_optimization": {"stage": 2}})", 2, {"--model", "gpt2"}),
              HasSubstr("say --batch"));
  EXPECT_THAT(refusal(R"({"zero_optimization": {"stage": 5}})", 3, {"--model", "gpt2"}),
              HasSubstr("a stage of ZeRO is 0, 1, 2 or 3"));
  EXPECT_THAT(refusal(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})", 3,
                      {"--model", "gpt2"}),
              HasSubstr("offloading to disks is not predicted"));
  EXPECT_THAT(refusal("[model]\nname = \"llama3\"\n[training]\nsteps = \n", 3),
              HasSubstr("stdin:4:9: no TOML"));
  EXPECT_THAT(refusal("distributed_type: TPU\nnum_processes: 8\n", 3, {"--model", "gpt2", "--batch", "1"}),
              HasSubstr("distributed_type tpu is not predicted"));
  EXPECT_THAT(refusal("distributed_type: [\nnum_processes: 8\n", 3), HasSubstr("no YAML"));
  EXPECT_THAT(refusal("--num-layers $L --hidden-size 8 --num-attention-heads 2 --seq-length 8", 3),
              HasSubstr("--num-layers is $L, which the script does not set"));
  EXPECT_THAT(
      refusal("--num-layers 2 --hidden-size 64 --num-attention-heads 2 --seq-length 8 --micro-batch-size 3 "
              "--global-batch-size 16",
              3),
      HasSubstr("16 samples of a step are no multiple of the 24"));
}

}  // namespace
}  // namespace tandem::tests
