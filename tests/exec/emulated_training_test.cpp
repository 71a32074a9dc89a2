// SPDX-License-Identifier: Apache-2.0
// Whole executions on the CUDA kernels behind queues: states reach the kernels through device memory, lanes
// cross, steps are captured and replayed, and the result is the CPU's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "exec/execute.h"
#include "exec/lower/execution_graph.h"
#include "tests/exec/deferred.h"
#include "tests/exec/emulated_backend.h"

namespace tandem::tests {
namespace {

/// [instance % 2]: what multiplies the loss in fp16, at first.
float first_scale[2] = {1024, 1024};
std::atomic<int> opened;

const Backend& device() {
  static const Backend backend = [] {
    Backend b = emulated_backend();
    b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
      ++opened;
      DeviceOptions scaled = options;
      scaled.loss_scale = first_scale[options.index % 2];
      return std::make_unique<DeferredDevice>(emulated_backend().open(scaled));
    };
    return b;
  }();
  return backend;
}

ExecutionResult train(const Backend& backend, const Graph& graph, const char* scheme, int64_t workers,
                      int32_t iterations, Precision precision, int64_t nodes, const char* recompute = "off",
                      const char* offload = "off", const char* rule = "momentum") {
  const ResolvedScheme resolved = resolve_scheme(scheme, {});
  Execution e;
  e.job.graph = &graph;
  e.job.scheme = &resolved;
  e.backend = &backend;
  e.cluster = {workers, nodes, workers / nodes};
  e.job.batch = 4;
  e.job.precision = precision;
  e.job.recompute = parse_recompute(recompute, {});
  e.job.offload = parse_offload(offload, {});
  e.job.optimizer = &optimizer(rule);
  e.iterations = iterations;
  e.warmup = 1;
  e.rate.base = 0.02;
  e.rate.warmup = 4;  // a state that every iteration has anew
  e.rate.scale = true;
  return execute(e, {false, false, true});
}
ExecutionResult train(const Backend& backend, const char* model, const char* scheme, int64_t workers,
                      int32_t iterations, Precision precision = Precision::fp32, int64_t nodes = 1,
                      const char* recompute = "off", const char* offload = "off") {
  return train(backend, Graph::load(model), scheme, workers, iterations, precision, nodes, recompute,
               offload);
}

/// Of the norm.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double w = static_cast<double>(want[i]), error = static_cast<double>(got[i]) - w;
    difference += error * error;
    all += w * w;
  }
  return std::sqrt(difference / all);
}

void expect_same(const char* model, const char* scheme, int64_t workers, int32_t iterations = 8) {
  const ExecutionResult cpu = train(backends_registry().at("cpu"), model, scheme, workers, iterations);
  const ExecutionResult gpu = train(device(), model, scheme, workers, iterations);
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i)
    EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 1e-4 * cpu.losses.front()) << model << " iteration " << i;
  EXPECT_NE(cpu.losses.front(), cpu.losses.back());
  double largest = 0;
  for (const float p : cpu.parameters) largest = std::max(largest, std::abs(static_cast<double>(p)));
  for (std::size_t i = 0; i < cpu.parameters.size(); ++i)
    ASSERT_NEAR(gpu.parameters[i], cpu.parameters[i], 1e-4 * largest) << model << " parameter " << i;
}

TEST(EmulatedTraining, ReplaysWhatItCaptured) {
  const int64_t before = DeferredDevice::replays;
  expect_same("digits-mlp", "allreduce", 1, 36);  // enough that not every iteration is timed
  EXPECT_GT(DeferredDevice::replays, before);
}
/// The rate is of replayed steps, whatever share of all they are.
TEST(EmulatedTraining, CountsReplayedStepsAlone) {
  const ExecutionResult r = train(device(), "digits-mlp", "allreduce", 1, 31);
  // 1 to warm up, 4 timed, 6 (a quarter of the other 24) issued op by op, 1 captured, 2 timed at the end.
  EXPECT_EQ(r.iteration_seconds.size(), 17U);
  EXPECT_EQ(r.report.iteration.replayed, r.report.iteration.median);
  EXPECT_GT(r.report.iteration.eager, 0);
  const ExecutionResult few = train(device(), "digits-mlp", "allreduce", 1, 6);
  EXPECT_EQ(few.iteration_seconds.size(), 5U) << "all timed";
  EXPECT_EQ(few.report.iteration.eager, 0);
  EXPECT_EQ(few.report.iteration.replayed, 0);
}
TEST(EmulatedTraining, SaysWhatLibrariesRefused) {
  const ExecutionResult r = train(device(), "digits-mlp", "allreduce", 1, 6);
  int64_t calls = 0;
  double share = 0;
  for (const LibraryUse& u : r.report.libraries) {
    EXPECT_EQ(u.refused, "emulated");
    calls += u.calls;
    share += u.share;
  }
  EXPECT_GT(calls, 3);
  EXPECT_NEAR(share, 1, 1e-12);
  ASSERT_EQ(r.report.notes.size(), r.report.libraries.size());
  EXPECT_EQ(r.report.notes[0].substr(0, 9), "warning: ");
  const auto again = reports_from_json(Json::parse(reports_to_json({r.report}, true), "report"));
  ASSERT_EQ(again[0].libraries.size(), r.report.libraries.size());
  EXPECT_EQ(again[0].libraries[0].calls, r.report.libraries[0].calls);
}
TEST(EmulatedTraining, TwoWorkersAddTheirGradients) {
  expect_same("digits-cnn", "allreduce:bucket=8KiB", 2);
  expect_same("digits-mlp", "allreduce:partition=2KiB,priority=on", 2);
}
/// Losses over a divided vocabulary, whose last part ends in padding, and a weight of which two stages have
/// copies.
TEST(EmulatedTraining, PartnersAndStagesShareAVocabulary) {
  const char* const model = "transformer-tiny:layers=2,hidden=16,heads=2,vocabulary=41,sequence=6";
  expect_same(model, "tensor-parallel", 2);
  expect_same(model, "pipeline:microbatches=1", 2);
}
/// Tokens that travel to experts elsewhere, keys that go round, parameters and the optimiser's state sharded.
TEST(EmulatedTraining, DevicesShareExpertsSequencesAndStates) {
  expect_same(
      "mixtral-8x7b:layers=1,hidden=16,heads=2,kv_heads=1,head_dim=8,feed=32,vocabulary=40,sequence=6,"
      "experts=4",
      "hybrid:expert=2", 2);
  const std::string mixture = std::string(TANDEM_ROOT) + "/tests/cross/mixture.json:layers=1,bias=1";
  expect_same(mixture.c_str(), "hybrid:expert=2,tensor=2,sequence=on", 4);
  const char* const model = "transformer-tiny:layers=2,hidden=16,heads=2,vocabulary=40,sequence=8";
  expect_same(model, "hybrid:context=2", 2);
  for (const char* scheme :
       {"zero:stage=1,bucket=1KiB", "zero:stage=2,bucket=1KiB", "fsdp", "hybrid:sharding=3"})
    expect_same(model, scheme, 2);
}
/// To the bit, also in 2 bytes.
TEST(EmulatedTraining, MakesAgainWhatItLetGoOf) {
  const std::string images = std::string(TANDEM_ROOT) + "/tests/cross/again.json:layers=1,channels=4",
                    text = "transformer-tiny:layers=2,hidden=16,heads=2,vocabulary=40,sequence=8";
  const auto expect_same_bits = [](const std::string& model, const char* scheme, Precision precision) {
    const ExecutionResult kept = train(device(), model.c_str(), scheme, 2, 6, precision);
    for (const char* recompute : {"blocks", "norms+activations+attention"}) {
      const ExecutionResult again = train(device(), model.c_str(), scheme, 2, 6, precision, 1, recompute);
      EXPECT_EQ(again.losses, kept.losses) << model << ", " << recompute;
      EXPECT_EQ(again.parameters, kept.parameters) << model << ", " << recompute;
      EXPECT_EQ(again.buffers, kept.buffers) << model << ", " << recompute;
    }
  };
  expect_same_bits(images, "allreduce", Precision::fp32);
  expect_same_bits(text, "allreduce", Precision::bf16);
  expect_same_bits(text, "pipeline:microbatches=2", Precision::fp32);
}
TEST(EmulatedTraining, ServersOnDevicesMergeThere) {
  opened = 0;
  expect_same("digits-mlp", "parameter-server:server=gpu,shards=1", 2);
  EXPECT_EQ(opened, 3) << "two workers and a shard";
  expect_same("digits-cnn", "parameter-server:server=gpu,mode=async", 1);
  for (const char* whole : {"largest-first", "in-order", "round-robin"}) {
    const std::string scheme = fmt::format("parameter-server:server=gpu,bucket=0B,placement={}", whole);
    opened = 0;
    expect_same("digits-mlp", scheme.c_str(), 2);
    EXPECT_EQ(opened, 4) << "two workers and a shard on the device of each";
    // Two gradients have the same sum in either order: where it is made changes nothing.
    const auto spread = train(device(), "digits-mlp", "parameter-server:server=gpu,bucket=0B,shards=1", 2, 8);
    EXPECT_EQ(train(device(), "digits-mlp", scheme.c_str(), 2, 8).losses, spread.losses) << whole;
  }
  opened = 0;
  expect_same("digits-mlp", "parameter-server:server=cpu", 2);
  EXPECT_EQ(opened, 2);
}
/// Staleness comes out of arrival there as well.
TEST(EmulatedTraining, ServersOnDevicesCountVersions) {
  opened = 0;
  const ExecutionResult r = train(device(), "digits-mlp", "parameter-server:server=gpu,mode=async", 3, 40);
  EXPECT_EQ(opened, 6) << "three workers and a shard on the device of each";
  const int64_t gradients = r.updates;
  EXPECT_EQ(gradients % (3 * 40), 0) << "each worker's of each iteration, part by part";
  EXPECT_EQ(r.versions, gradients);
  EXPECT_EQ(r.report.staleness.all.count() * 40, gradients * (40 - 1)) << "after warm-up";
  // Stale gradients may raise a single loss: the order in which they come is not ours to say.
  EXPECT_LT(*std::min_element(r.losses.begin(), r.losses.end()), r.losses.front());
}
TEST(EmulatedTraining, DropsWhatTheCpuDrops) {
  expect_same("transformer-tiny:layers=1,hidden=16,heads=2,vocabulary=40,sequence=6", "allreduce", 1);
}

/// The way that training takes is the CPU's but for rounding.
void expect_same(const char* model, int64_t workers, int32_t iterations) {
  const ExecutionResult cpu = train(backends_registry().at("cpu"), model, "allreduce", workers, iterations);
  for (const Precision p : {Precision::fp16, Precision::bf16}) {
    const ExecutionResult gpu = train(device(), model, "allreduce", workers, iterations, p);
    ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
    for (std::size_t i = 0; i < cpu.losses.size(); ++i)
      EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 0.02 * cpu.losses.front()) << name(p) << " iteration " << i;
    EXPECT_NE(gpu.losses.front(), cpu.losses.front()) << name(p);
    const double apart = distance(gpu.parameters, cpu.parameters);
    EXPECT_LT(apart, p == Precision::fp16 ? 0.01 : 0.05) << name(p);
  }
}

/// A residual network of three blocks, one with a projection.
Graph residual_network() {
  const auto block = [](const char* in, const char* out) {
    return fmt::format(
        R"({{"type":"conv","filters":8,"kernel":3,"pad":1,"bias":false,"from":"{0}"}},{{"type":"batch-norm"}},{{"type":"relu"}},
           {{"type":"conv","filters":8,"kernel":3,"pad":1,"bias":false}},{{"type":"batch-norm","name":"{1}_n"}},
           {{"type":"add","from":["{1}_n","{0}"]}},{{"type":"relu","name":"{1}"}},)",
        in, out);
  };
  return Graph::from_json(Json::parse(
      R"({"name":"residual","inputs":{"image":[2,4,4]},"layers":[
        {"type":"conv","filters":4,"kernel":1,"bias":false},{"type":"batch-norm"},{"type":"relu","name":"stem"},
        {"type":"conv","filters":8,"kernel":3,"pad":1,"bias":false},{"type":"batch-norm","name":"n"},
        {"type":"conv","filters":8,"kernel":1,"bias":false,"from":"stem"},{"type":"batch-norm","name":"m"},
        {"type":"add","from":["n","m"]},{"type":"relu","name":"a"},)" +
          block("a", "b") + block("b", "c") +
          R"({"type":"global-pool"},{"type":"linear","features":4},{"type":"cross-entropy"}]})",
      "residual"));
}

/// Fused and not: the same but for rounding.
TEST(EmulatedTraining, NormsTakeOnWhatFollowsThem) {
  static const Backend apart = [] {
    Backend b = device();
    b.fuses_norms = false;
    return b;
  }();
  const Graph graph = residual_network();
  const ExecutionGraph fused_calls(graph, 4, true, Precision::fp32, {.fuses = true});
  int64_t fused_norms = 0, others = 0;
  for (uint32_t i = 0; i < graph.layers().size(); ++i) {
    for (const Call& c : fused_calls.forward(i)) {
      fused_norms += c.function == Function::batch_norm_relu ? 1 : 0;
      others += c.function == Function::unary || c.function == Function::sum ? 1 : 0;
    }
  }
  EXPECT_EQ(fused_norms, 6) << "all but the first of the projection's two";
  EXPECT_EQ(others, 0);
  for (const Precision p : {Precision::fp32, Precision::bf16}) {
    const auto fused = train(device(), graph, "allreduce:bucket=1KiB", 2, 8, p, 1),
               plain = train(apart, graph, "allreduce:bucket=1KiB", 2, 8, p, 1);
    const double tolerance = p == Precision::fp32 ? 1e-4 : 0.05;
    for (std::size_t i = 0; i < plain.losses.size(); ++i)
      EXPECT_NEAR(fused.losses[i], plain.losses[i], tolerance * plain.losses[0]) << name(p) << " " << i;
    EXPECT_LT(plain.losses.back(), plain.losses.front());
    const double apart = distance(fused.parameters, plain.parameters);
    EXPECT_LT(apart, tolerance) << name(p);
  }
}

/// Optimisers of whole tensors, and states that lie in host memory: of stages, where buckets cut
/// tensors, and of servers on devices. One whose state is in bytes may round to another one.
TEST(EmulatedTraining, EveryOptimiserEndsAtTheProcessors) {
  const Graph graph = Graph::load("digits-mlp");
  const Backend& cpu = backends_registry().at("cpu");
  for (const char* rule : {"lamb", "adafactor", "adamw-8bit", "adamw-paged", "adamw-8bit-paged"}) {
    for (const char* scheme : {"allreduce", "allreduce:partition=1KiB,bucket=0B", "pipeline:microbatches=2",
                               "parameter-server:server=gpu,shards=1"}) {
      const auto run = [&](const Backend& backend) {
        return train(backend, graph, scheme, 2, 8, Precision::fp32, 1, "off", "off", rule);
      };
      const ExecutionResult got = run(device()), want = run(cpu);
      const double apart = optimizer(rule).state_bytes == 1 ? 3e-2 : 1e-4;
      EXPECT_LT(distance(got.parameters, want.parameters), apart) << rule << " " << scheme;
      EXPECT_NEAR(got.losses.back(), want.losses.back(), apart * want.losses.front())
          << rule << " " << scheme;
      EXPECT_LT(got.losses.back(), got.losses.front()) << rule << " " << scheme;
      EXPECT_EQ(got.state.size(), want.state.size());
      EXPECT_EQ(got.report.memory.optimizer.n, want.report.memory.optimizer.n) << rule;
    }
    first_scale[0] = first_scale[1] = 0x1p26F;
    const ExecutionResult half =
        train(device(), graph, "allreduce:bucket=8KiB", 2, 24, Precision::fp16, 1, "off", "off", rule);
    first_scale[0] = first_scale[1] = 1024;
    for (const float p : half.parameters) ASSERT_TRUE(std::isfinite(p)) << rule;
    EXPECT_LT(half.losses.back(), 0.95 * half.losses.front()) << rule;
  }
}

/// Scales far too large: whichever worker's gradients overflow, nobody's update is made, and all halve
/// theirs.
void expect_skips(float first, float second, std::size_t least) {
  first_scale[0] = first;
  first_scale[1] = second;
  const ExecutionResult r = train(device(), "digits-mlp", "allreduce:bucket=8KiB", 2, 40, Precision::fp16);
  const std::vector<float> a = emulated_loss_scales(0), b = emulated_loss_scales(1);
  first_scale[0] = first_scale[1] = 1024;
  ASSERT_EQ(a.size(), 40U);
  ASSERT_EQ(b.size(), 40U);
  std::size_t skipped = 0;
  while (skipped + 1 < a.size() && a[skipped + 1] < a[skipped]) ++skipped;
  EXPECT_GE(skipped, least);
  EXPECT_LT(skipped, 30U);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(a[i] / first, b[i] / second) << "iteration " << i;  // alike in both
  // What is far above the range leaves no gradient whole: the parameters stay as they are.
  for (std::size_t i = 1; i < least; ++i) EXPECT_EQ(r.losses[i], r.losses[0]) << "iteration " << i;
  EXPECT_LT(r.losses.back(), 0.9 * r.losses.front());
  for (const float p : r.parameters) ASSERT_TRUE(std::isfinite(p));
}

TEST(EmulatedTraining, AnOverflowSkipsTheUpdateInEveryWorker) {
  expect_skips(0x1p26F, 0x1p26F, 5);
  expect_skips(0x1p12F, 0x1p22F, 1);  // the second one's alone
}

/// Where an update waits for all sums, one gradient that is not finite stops the whole step, whatever the
/// others; where it does not, what is finite is updated.
TEST(EmulatedTraining, AStepWithoutAllItsGradientsIsLeftOut) {
  const auto changes = [](const char* scheme, int64_t workers, int64_t judged) {
    first_scale[0] = first_scale[1] = 0x1p22F;
    const int64_t before = emulated_judged();
    const ExecutionResult r = train(device(), "digits-mlp", scheme, workers, 30, Precision::fp16);
    const std::vector<float> scales = emulated_loss_scales(0);
    first_scale[0] = first_scale[1] = 1024;
    std::size_t halved = 0, moved = 0;
    for (std::size_t i = 0; i + 1 < scales.size() && scales[i + 1] < scales[i]; ++i) {
      ++halved;
      moved += r.losses[i + 1] != r.losses[i] ? 1 : 0;
    }
    EXPECT_GT(halved, 0U) << scheme;
    EXPECT_LT(r.losses.back(), 0.9 * r.losses.front()) << scheme;
    EXPECT_EQ(emulated_judged() - before, judged) << scheme;
    return moved;
  };
  EXPECT_EQ(changes("allreduce:update=all,bucket=8KiB", 2, 60), 0U);
  EXPECT_EQ(changes("allreduce:update=all,bucket=8KiB,gradients=auto", 2, 60), 0U);
  EXPECT_EQ(changes("allreduce", 1, 30), 0U);
  changes("allreduce:bucket=0B", 2, 0);
}

/// Parameters travel in 2 bytes among those with a share each, whether that is all workers or a node's.
TEST(EmulatedTraining, GathersSharesOfANodeInTwoBytes) {
  const char* const model = "digits-mlp";
  const auto all = train(device(), model, "zero:stage=3,bucket=1KiB", 4, 8, Precision::bf16);
  const auto node =
      train(device(), model, "zero:stage=3,bucket=1KiB,sharding-group=node", 4, 8, Precision::bf16, 2);
  EXPECT_LT(all.losses.back(), all.losses.front());
  for (std::size_t i = 0; i < all.losses.size(); ++i)
    EXPECT_NEAR(node.losses[i], all.losses[i], 0.02 * all.losses.front()) << i;
}

/// Sums of gradients in 2 bytes instead of 4 change what is learned by their rounding alone, whoever casts,
/// in every way in which they travel; so do losses scaled far down, whose gradients would vanish there.
TEST(EmulatedTraining, GradientsTravelInTwoBytes) {
  const char* const model = "digits-mlp";
  const auto expect_near = [&](const char* text, Precision p, int64_t workers, int64_t nodes = 1) {
    const auto half = train(device(), model, text, workers, 10, p, nodes),
               whole = train(device(), model, "allreduce:bucket=8KiB", workers, 10, p, nodes);
    const double apart = distance(half.parameters, whole.parameters);
    EXPECT_GT(apart, 0) << text;
    EXPECT_LT(apart, p == Precision::bf16 ? 0.02 : 0.004) << text << " " << name(p);
    EXPECT_LT(half.losses.back(), half.losses.front());
  };
  for (const Precision p : {Precision::bf16, Precision::fp16, Precision::fp32}) {
    expect_near("allreduce:gradients=fp16,bucket=8KiB", p, 2);
    expect_near("allreduce:compression=fp16,bucket=8KiB", p, 2);
  }
  expect_near("allreduce:gradients=auto,algorithm=ring", Precision::bf16, 3);
  expect_near("zero:stage=2,gradients=auto,bucket=1KiB", Precision::bf16, 3);
  expect_near("zero:stage=1,gradients=auto,sharding-group=node", Precision::bf16, 4, 2);
}

/// The way is the CPU's. Where a gradient's rounding takes it over a threshold it comes one step later, or
/// differs by as much as its scale.
TEST(EmulatedTraining, CompressesAsTheCpu) {
  const auto expect_near = [](const char* scheme, const char* offload, double apart) {
    SCOPED_TRACE(fmt::format("{} offload {}", scheme, offload));
    const auto cpu = train(backends_registry().at("cpu"), "digits-cnn", scheme, 2, 6, Precision::fp32, 1,
                           "off", offload),
               gpu = train(device(), "digits-cnn", scheme, 2, 6, Precision::fp32, 1, "off", offload);
    ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
    for (std::size_t i = 0; i < cpu.losses.size(); ++i)
      EXPECT_NEAR(gpu.losses[i], cpu.losses[i], 1e-4 * cpu.losses.front()) << "iteration " << i;
    EXPECT_LT(cpu.losses.back(), cpu.losses.front());
    EXPECT_LT(distance(gpu.parameters, cpu.parameters), apart);
  };
  for (const char* scheme :
       {"allreduce:compression=int8", "allreduce:compression=int8,error-feedback=off,bucket=8KiB",
        "allreduce:compression=topk,density=0.1,bucket=8KiB", "allreduce:compression=powersgd",
        "allreduce:compression=powersgd,rank=1,bucket=8KiB,accumulate=2",
        "allreduce:compression=int8,algorithm=ring", "parameter-server:compression=int8",
        "parameter-server:compression=topk,shards=3,bucket=8KiB"})
    expect_near(scheme, "off", 1e-3);
  for (const char* scheme : {"allreduce:compression=int8", "allreduce:compression=powersgd"})
    expect_near(scheme, "optimizer", 1e-3);
}

/// In fp16 the first steps overflow. What they leave out is finite: what is learned afterwards is as without.
TEST(EmulatedTraining, CompressedGradientsOutliveAnOverflow) {
  for (const char* scheme : {"allreduce:compression=int8", "allreduce:compression=topk,density=0.2",
                             "allreduce:compression=powersgd", "allreduce:compression=int8,update=all"}) {
    first_scale[0] = first_scale[1] = 0x1p26F;
    const ExecutionResult r = train(device(), "digits-mlp", scheme, 2, 40, Precision::fp16);
    first_scale[0] = first_scale[1] = 1024;
    EXPECT_LT(emulated_loss_scales(0).back(), 0x1p24F) << scheme;
    for (const float p : r.parameters) ASSERT_TRUE(std::isfinite(p)) << scheme;
    EXPECT_LT(r.losses.back(), 0.9 * r.losses.front()) << scheme;
  }
}

/// In fp16 with the loss's scale: a gradient of 1e-9 is there on the other side, one too large is infinite.
TEST(EmulatedTraining, GradientsTravelWithTheLossScale) {
  const auto session = emulated_backend().open({0, Precision::fp16, 1});
  session->set_state({}, Lane::compute);
  float *from = session->allocate(3), *words = session->allocate(2), *to = session->allocate(3);
  const std::vector<float> given{1e-9F, -3.0F, 1.0F};  // times 65536
  session->upload(from, given.data(), 3);
  session->narrow_gradients(words, from, 3, Lane::comm);
  session->upcast_gradients(to, words, 3, Lane::comm);
  EXPECT_NEAR(to[0], 1e-9F, 1e-9F * 0x1p-10F);
  EXPECT_TRUE(std::isinf(to[1]));
  EXPECT_TRUE(std::isinf(to[2]));
  session->narrow(words, from, 3, Lane::comm);
  session->upcast(to, words, 3, Lane::comm);
  EXPECT_EQ(to[0], 0);
  EXPECT_EQ(to[1], -3);
}

TEST(EmulatedTraining, LearnsWithInputsOfTwoBytes) {
  expect_same("digits-cnn", 2, 10);
  expect_same("digits-mlp", 1, 36);  // captured steps included
}

}  // namespace
}  // namespace tandem::tests
