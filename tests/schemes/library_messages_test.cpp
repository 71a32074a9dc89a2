// SPDX-License-Identifier: Apache-2.0
// Messages and bytes of a step as the real libraries send them, counted in torch 2.15.0, torchtitan 0.3.0 and
// Megatron-Core 0.19.2.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Collectives of a kind on a lane of a role: how many, and bytes.
struct Messages {
  int64_t count = 0, bytes = 0;
};
Messages messages(const Program& p, CollKind kind, Lane lane, std::size_t role = 0) {
  Messages out;
  for (const Op& op : p.roles[role].ops) {
    if (op.kind != OpKind::collective || op.lane != lane || p.collectives[op.what].kind != kind) continue;
    ++out.count;
    out.bytes += op.bytes.n;
  }
  return out;
}

std::string refusal(const std::string& scheme) {
  try {
    resolve_scheme(scheme, {});
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

const Graph& gpt2() {
  static const Graph graph = Graph::load("gpt2");
  return graph;
}

// fully_shard() on every block and on the model: the root (embeddings, last norm, the tied head) is gathered
// once and stays, every block twice, the last one too; 25 gathers and 13 scatters. The last norm's 1,536
// elements travel with the last block here.
TEST(LibraryMessages, Fsdp2KeepsItsRoot) {
  constexpr int64_t kRoot = 50257 * 768 + 1024 * 768, kAll = 124'439'808;
  for (const char* scheme : {"fsdp", "pytorch-fsdp:gradients=fp32"}) {
    const Program p = compile(scheme, gpt2(), {8, 1, 8});
    const Messages gathers = messages(p, CollKind::all_gather, Lane::comm),
                   scatters = messages(p, CollKind::reduce_scatter, Lane::comm);
    EXPECT_EQ(gathers.count, 25);
    EXPECT_EQ(gathers.bytes, 4 * (kRoot + 2 * (kAll - kRoot)));
    EXPECT_EQ(scatters.count, 13);
    EXPECT_EQ(scatters.bytes, 4 * kAll);
  }
  // reshard_after_forward=False gathers nothing in backward, and a model without blocks has no root.
  EXPECT_EQ(
      messages(compile("zero:stage=3,keeps=all", gpt2(), {8, 1, 8}), CollKind::all_gather, Lane::comm).bytes,
      4 * kAll);
  EXPECT_EQ(print(compile("zero:stage=3,keeps=root", small_mlp(), {4, 1, 4})),
            print(compile("zero:stage=3", small_mlp(), {4, 1, 4})));
}

/// Blocks of width 64 between an embedding and an output layer that are not tied.
Graph small_llama(int layers) {
  return Graph::load(
      fmt::format("llama3-8b:layers={},hidden=64,heads=8,kv_heads=4,head_dim=8,feed=96,vocabulary=256,"
                  "sequence=32",
                  layers));
}

// apply_fsdp_to_decoder(): [norm, lm_head], with the embedding where that is tied, is not resharded.
TEST(LibraryMessages, TorchtitanKeepsNormAndHead) {
  const Graph untied = small_llama(2);
  const Program p = compile("torchtitan", untied, {4, 1, 4});
  EXPECT_EQ(messages(p, CollKind::all_gather, Lane::reduce).count, 2 + 2 * 2 + 1);
  EXPECT_EQ(messages(p, CollKind::reduce_scatter, Lane::reduce).count, 4);
  const Program tied = compile("torchtitan", small_gpt(), {4, 1, 4});
  EXPECT_EQ(messages(tied, CollKind::all_gather, Lane::reduce).count, 1 + 2 * 4 + 1);
}

// get_fsdp_reshard_after_forward_policy() and _PipelineStageBase.perform_reduce_grad(): with a pipeline a
// stage of three groups gathers thrice and scatters thrice a step, whatever the micro-batches, and scatters
// when all its passes are done.
TEST(LibraryMessages, TorchtitansStagesGatherAndScatterOnce) {
  const Graph llama = small_llama(4);
  for (const char* more : {"", ",schedule=gpipe", ",schedule=zero-bubble"}) {
    const Program p = compile(std::string("torchtitan:pipeline=2,microbatches=8") + more, llama, {4, 1, 4});
    EXPECT_EQ(messages(p, CollKind::all_gather, Lane::reduce).count, 3) << more;
    EXPECT_EQ(messages(p, CollKind::reduce_scatter, Lane::reduce).count, 3) << more;
    EXPECT_TRUE(p.sharding.stays);
    EXPECT_EQ(p.sharding.parameters, 2);
    EXPECT_EQ(p.sharding.gradients, 1);
    uint32_t last_pass = 0;
    const auto& ops = p.roles[0].ops;
    for (uint32_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind == OpKind::compute && ops[i].payload == Payload::none) last_pass = i;
    }
    for (const Op& op : ops) {
      if (op.kind != OpKind::collective || p.collectives[op.what].kind != CollKind::reduce_scatter) continue;
      ASSERT_FALSE(op.deps.empty());
      EXPECT_EQ(op.deps.begin()->op, last_pass) << more;
    }
  }
  // fsdp_reshard_after_forward="always" gathers in each pass, and the groups scatter once all the same ...
  const Program each = compile("torchtitan:pipeline=2,microbatches=8,keeps=none", llama, {4, 1, 4});
  EXPECT_EQ(messages(each, CollKind::all_gather, Lane::reduce).count, 2 * 8 * 3);
  EXPECT_FALSE(each.sharding.stays);
  // ... and several chunks are groups of their own.
  const Program chunks =
      compile("torchtitan:pipeline=2,microbatches=4,schedule=interleaved", llama, {4, 1, 4});
  EXPECT_EQ(messages(chunks, CollKind::reduce_scatter, Lane::reduce).count, 3);
}

// parallelize_module() with SequenceParallel and PrepareModuleInput, CommDebugMode: 2 gathers and 2 scatters
// a block each way. Megatron-LM gathers the inputs of both halves once more.
TEST(LibraryMessages, DTensorGathersNoInputAgain) {
  const auto gathers = [](const char* scheme) {
    return messages(compile(scheme, small_gpt(), {4, 1, 4}), CollKind::all_gather, Lane::comm).count;
  };
  const int64_t judged = 1, ends = 2;  // of the head's input, and of the embedding's gradient
  EXPECT_EQ(gathers("torchtitan:tensor=4"), 4 * (2 + 2) + ends + judged);
  EXPECT_EQ(gathers("megatron:tensor=4"), 4 * (2 + 4) + ends + 1 + judged);
  const Program p = compile("torchtitan:tensor=4", small_gpt(), {4, 1, 4});
  EXPECT_TRUE(p.roles[0].slice.keeps_inputs);
  EXPECT_EQ(print(parse_program(print(p))), print(p));
}

std::vector<int64_t> bucket_elements(const Program& p, uint32_t role) {
  std::vector<int64_t> out;
  for (const Bucket& b : p.buckets) {
    if (b.role == role) out.push_back(b.elements);
  }
  return out;
}

// DistributedDataParallelConfig.bucket_size: max(40 million, a million for each rank) parameters; no buckets
// on stages but the first (DistributedDataParallel.__init__), on further model chunks, or without
// overlap_grad_reduce.
TEST(LibraryMessages, MegatronsBucketsAreCountedInParameters) {
  for (const auto& [devices, least] : {std::pair<int64_t, int64_t>{8, 40'000'000}, {64, 64'000'000}}) {
    const std::vector<int64_t> all =
        bucket_elements(compile("megatron", gpt2(), {devices, devices / 8, 8}), 0);
    ASSERT_EQ(all.size(), devices == 8 ? 3U : 2U);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      EXPECT_GE(all[i], least);
      EXPECT_LT(all[i], least + 7'100'000) << "a block more at most";
    }
  }
  const Program stages = compile("megatron:pipeline=2,microbatches=2", gpt2(), {16, 2, 8});
  EXPECT_EQ(bucket_elements(stages, 1).size(), 2U) << "and the copy of the tied weight";
  EXPECT_GT(bucket_elements(stages, 0).size(), 2U);
  EXPECT_EQ(bucket_elements(compile("megatron:overlap-reduce=off", gpt2(), {8, 1, 8}), 0).size(), 1U);
  EXPECT_EQ(bucket_elements(compile("megatron:bucket=40MiB", gpt2(), {8, 1, 8}), 0).size(), 8U);
  EXPECT_THROW(compile("megatron:bucket=40", gpt2(), {8, 1, 8}), InputError);
}

// powerSGD_hook(): vectors, P and Q, one sum each; min_compression_rate = 2.
TEST(LibraryMessages, PowerSgdSumsThrice) {
  const Program p = compile("allreduce:compression=powersgd,rank=2", small_mlp(), {4, 1, 4});
  std::vector<int64_t> words;
  for (const Op& op : p.roles[0].ops) {
    if (op.kind == OpKind::collective) words.push_back(op.bytes.n / 4);
  }
  // fc2's 2048 x 10 becomes 2 x (2048 + 10), fc1's 1024 x 2048 2 x (1024 + 2048).
  EXPECT_THAT(words, ElementsAre(2048 + 10, 2 * (2048 + 1024), 2 * (10 + 2048)));
}

// What travels is what the option says: gradients in 2 bytes one way, parameters in 4 the other.
TEST(LibraryMessages, ServersAnswerWithWholeParameters) {
  constexpr int64_t kAll = 1024 * 2048 + 2048 + 2048 * 10 + 10;
  const auto keys = [](const char* scheme, std::size_t channel) {
    const Program p = compile(scheme, small_mlp(), {4, 2, 2});
    int64_t sum = 0;
    for (const Bytes b : p.channels.at(channel).key_bytes) sum += b.n;
    return sum;
  };
  EXPECT_EQ(keys("parameter-server", 0), 4 * kAll);
  EXPECT_EQ(keys("parameter-server:gradients=fp16", 0), 2 * kAll);
  EXPECT_EQ(keys("parameter-server:gradients=fp16", 1), 4 * kAll);
  const Program near = compile("parameter-server:server=gpu,gradients=fp16", small_mlp(), {4, 1, 4});
  EXPECT_EQ(messages(near, CollKind::reduce_scatter, Lane::comm).bytes, 2 * kAll);
  EXPECT_EQ(messages(near, CollKind::all_gather, Lane::comm).bytes, 4 * kAll);
  EXPECT_EQ(messages(near, CollKind::all_reduce, Lane::comm).count, 0);
}

TEST(LibraryMessages, MicroBatchesHaveTwoNames) {
  const auto value = [](const char* scheme, const char* option) {
    return resolve_scheme(scheme, {}).options.count(option);
  };
  for (const char* scheme : {"allreduce", "zero", "fsdp", "pytorch-ddp", "deepspeed-zero2"})
    EXPECT_EQ(value((std::string(scheme) + ":microbatches=6").c_str(), "accumulate"), 6) << scheme;
  for (const char* scheme : {"hybrid", "megatron", "torchtitan", "pipeline", "tensor-parallel"})
    EXPECT_EQ(value((std::string(scheme) + ":accumulate=6").c_str(), "microbatches"), 6) << scheme;
  EXPECT_EQ(value("fsdp:accumulate=3,microbatches=3", "accumulate"), 3);
  EXPECT_THAT(refusal("fsdp:accumulate=3,microbatches=4"), HasSubstr("the same thing"));
  EXPECT_THAT(refusal("hybrid:accumulate=3,microbatches=4"), HasSubstr("the same thing"));
  EXPECT_THAT(refusal("gossip:accumulate=3"), HasSubstr("no option"));
}

}  // namespace
}  // namespace tandem::tests
