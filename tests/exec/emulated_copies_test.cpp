// SPDX-License-Identifier: Apache-2.0
// Copies of parameters that products read in 2 bytes: whatever changes parameters, training is to the bit
// what it is where each product makes its own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "exec/device/cuda/kernel.h"
#include "models/optimizer.h"
#include "tests/cross/settings.h"
#include "tests/exec/emulated_backend.h"

namespace tandem::tests {
namespace {

/// Behind queues; `copies`: or products make their own.
Backend device(bool copies) {
  Backend b = emulated_backend();
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    return std::make_unique<DeferredDevice>(emulated_backend().open(options));
  };
  if (!copies) b.copies = nullptr;
  return b;
}

struct Asked {
  Setting setting;
  Precision precision = Precision::bf16;
  const Graph* graph = nullptr;
  const char* rule = "momentum";
  int32_t iterations = 6;
  const Checkpoint* start = nullptr;
};

ExecutionResult train(const Asked& a, bool copies) {
  const Backend backend = device(copies);
  const ResolvedScheme resolved = resolve_scheme(a.setting.scheme, {});
  Execution e = execution(a.setting, resolved, "cpu", a.iterations);
  e.backend = &backend;
  if (a.graph != nullptr) e.job.graph = a.graph;
  e.job.optimizer = &optimizer(a.rule);
  e.job.precision = a.precision;
  e.rate.base = 0.02;
  e.start = a.start;
  return execute(e, {false, false, true});
}

void expect_same_bits(const Asked& a) {
  SCOPED_TRACE(fmt::format("{} on {}, offload {}, {}, {}", a.setting.scheme, a.setting.cluster.devices,
                           a.setting.offload, name(a.precision), a.rule));
  const ExecutionResult with = train(a, true), without = train(a, false);
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.parameters, without.parameters);
  ASSERT_EQ(with.state.size(), without.state.size());  // some of which are bytes and no numbers
  EXPECT_EQ(std::memcmp(with.state.data(), without.state.data(), with.state.size() * sizeof(float)), 0);
  EXPECT_NE(with.losses.front(), with.losses.back());
}

/// Updates late and early, of shares, by servers and by the host, in micro-batches; means; gathered and
/// pulled parameters. Where the order of arrival decides, every copy that is read is still what its parameter
/// is.
TEST(Copies, AreRightWhateverChangesParameters) {
  for (const Setting& s : settings()) {
    const auto asks = [&](const char* what) { return s.scheme.find(what) != std::string::npos; };
    if (asks("cycle")) continue;  // processors alone do that
    if (s.facts.reads == Reads::stale || s.facts.reads == Reads::bounded) {
      SCOPED_TRACE(s.scheme);
      EXPECT_FALSE(train({s}, true).losses.empty());
      continue;
    }
    Asked asked{s};
    // Servers add in the order of arrival, which makes no difference for two.
    const int64_t nodes = s.cluster.nodes;
    if (asks("server") || asks("through=cpu")) asked.setting.cluster = {2, nodes, 2 / nodes};
    expect_same_bits(asked);
  }
}

/// Whole runs against such as go on from a checkpoint, whose copies are made of what it holds.
TEST(Copies, AreOfACheckpoint) {
  const Graph graph = Graph::load("digits-cnn");
  const Asked whole{{"allreduce:bucket=8KiB", {2, 1, 2}}, Precision::bf16, &graph};
  Asked half = whole;
  half.iterations = 3;
  const ExecutionResult first = train(half, true);
  const Checkpoint saved{3, first.parameters, first.state, first.buffers};
  half.start = &saved;
  const ExecutionResult second = train(half, true), all = train(whole, false);
  EXPECT_EQ(second.parameters, all.parameters);
  EXPECT_TRUE(std::equal(second.losses.begin(), second.losses.end(), all.losses.begin() + 3));
}

/// Of micro-batches the weights in 1 byte are made once, so that what they are scaled by is of other
/// launches.
TEST(Copies, InOneByteAreMadeOnceAnUpdate) {
  const Graph text = Graph::load("transformer-tiny:layers=1,hidden=16,heads=2,vocabulary=48,sequence=8");
  const Cluster one{1, 1, 1}, two{2, 1, 2};
  for (const char* scheme :
       {"allreduce", "allreduce:update=all,overlap=off", "zero:stage=1", "delayed-allreduce"})
    expect_same_bits({{scheme, two}, Precision::fp8, &text, "adamw", 20});
  expect_same_bits({{"allreduce", one}, Precision::fp8, &text, "momentum", 36});  // replayed
  const int64_t before = emulated_copies();
  const Asked micro{{"allreduce:accumulate=3", two}, Precision::fp8, &text, "adamw", 8};
  const ExecutionResult with = train(micro, true), without = train(micro, false);
  EXPECT_GT(emulated_copies(), before);
  for (std::size_t i = 0; i < with.losses.size(); ++i)
    EXPECT_NEAR(with.losses[i], without.losses[i], 0.02 * without.losses[0]) << i;
}

TEST(Copies, AreReadOfLayersThatMultiply) {
  const Graph cnn = Graph::load("digits-cnn"),
              text = Graph::load("transformer-tiny:layers=2,hidden=16,heads=2,vocabulary=41,sequence=6"),
              mixture = Graph::load(std::string(TANDEM_ROOT) + "/tests/cross/mixture.json");
  const Cluster one{1, 1, 1}, two{2, 1, 2};
  for (const Precision p : {Precision::bf16, Precision::fp16, Precision::fp8}) {
    for (const Graph* g : {&cnn, &text, &mixture}) {
      const int64_t before = emulated_copies();
      expect_same_bits({{"allreduce", one}, p, g, "adamw"});
      EXPECT_GT(emulated_copies(), before) << g->name();
    }
    expect_same_bits({{"pipeline:microbatches=2", two}, p, &text});
    expect_same_bits({{"hybrid:sharding=2,microbatches=2", two}, p, &text});
  }
  const Graph mlp = Graph::load("digits-mlp");  // emulated updates of whole tensors are slow
  for (const Optimizer& o : optimizers()) {
    if (!o.executed()) continue;
    const bool slow = o.by_tensor() || o.paged;
    expect_same_bits({{"allreduce", one}, Precision::bf16, slow ? &mlp : &cnn, o.name.data(), slow ? 3 : 6});
  }
}

/// A vector of parameters with pieces that begin and end anywhere, of which an update, or a renewal, has a
/// part.
struct Vector {
  static constexpr int64_t kAll = 1501, kBegin = 102, kEnd = 1290;
  const std::vector<CopyPiece> pieces = {{3, 50, 0},      {53, 60, 64},    {113, 1, 128},    {120, 64, 192},
                                         {184, 501, 256}, {686, 128, 576}, {1001, 300, 704}, {1400, 9, 896}};
  static constexpr int64_t kWords = 960;
  Precision half;
  std::unique_ptr<DeviceSession> device;
  float *values, *gradients, *state, *copies, *list;

  explicit Vector(Precision p) : half(p), device(emulated_backend().open({0, p, 1})) {
    values = device->allocate(kAll);
    gradients = device->allocate(kAll);
    state = device->allocate(2 * (kAll + 3));
    copies = device->allocate(kWords);
    std::vector<float> words(pieces.size() * sizeof(CopyPiece) / sizeof(float));
    std::memcpy(words.data(), pieces.data(), words.size() * sizeof(float));
    list = device->allocate(static_cast<int64_t>(words.size()));
    device->upload(list, words.data(), static_cast<int64_t>(words.size()));
    SplitMix64 random(5);
    for (float* to : {values, gradients}) {
      std::vector<float> drawn(kAll);
      for (float& v : drawn) v = static_cast<float>(2 * to_unit(random.next()) - 1);
      device->upload(to, drawn.data(), kAll);
    }
  }
  /// Pieces 1 to 6 have part in it.
  CopiedRange range() const {
    return {kBegin, kEnd - kBegin, copies, list + sizeof(CopyPiece) / sizeof(float), nullptr, 6, 0};
  }
  std::vector<float> read(const float* from, int64_t n) const {
    std::vector<float> out(static_cast<std::size_t>(n));
    device->download(out.data(), from, n);
    return out;
  }
  /// Of the copies' memory, if what the range has of each piece is made of the values as they are now.
  std::vector<uint16_t> wanted() const {
    std::vector<uint16_t> out(2 * kWords), all(kAll);
    const std::vector<float> now = read(values, kAll);
    cuda::narrow(all.data(), now.data(), half, kAll, nullptr);
    for (const CopyPiece& p : pieces) {
      for (int64_t i = std::max(p.first, kBegin); i < std::min(p.first + p.elements, kEnd); ++i)
        out[static_cast<std::size_t>(2 * p.place + i - p.first)] = all[static_cast<std::size_t>(i)];
    }
    return out;
  }
  std::vector<uint16_t> got() const {
    const std::vector<float> words = read(copies, kWords);
    std::vector<uint16_t> out(2 * words.size());
    std::memcpy(out.data(), words.data(), 4 * words.size());
    return out;
  }
};

TEST(Copies, HaveOfARangeWhatLiesInIt) {
  for (const Precision p : {Precision::bf16, Precision::fp16}) {
    const Vector v(p);
    v.device->renew(v.range(), v.values, Lane::compute);
    EXPECT_EQ(v.got(), v.wanted()) << name(p);
  }
}

/// Also where the vectors' packs begin elsewhere than the pieces', and where the vectors do not begin alike.
TEST(Copies, AreWrittenByEveryUpdate) {
  const auto& all = optimizers();
  for (std::size_t rule = 0; rule < all.size(); ++rule) {
    if (!all[rule].executed()) continue;
    for (const int64_t shift : {0, 2, 3}) {
      const Vector with(Precision::bf16), without(Precision::bf16);
      const auto update = [&](const Vector& v, bool copies) {
        Call call;
        call.function = Function::update;
        call.shape = {Vector::kEnd - Vector::kBegin, static_cast<int64_t>(rule)};
        std::vector<float*> operands{v.values + Vector::kBegin, v.gradients + Vector::kBegin};
        for (int64_t k = 0; k < (all[rule].flat() ? all[rule].state : 1); ++k)
          operands.push_back(v.state + k * (Vector::kAll + 3) + (Vector::kBegin + shift) % Vector::kAll);
        if (all[rule].by_tensor())
          call.tensors = {{0, 600, 20, 0}, {600, call.shape[0] - 600, 0, all[rule].flat() ? 0 : 1200}};
        if (copies) {
          call.shape.insert(call.shape.end(), {v.range().piece_count, 0, Vector::kBegin});
          call.half_operands.assign(operands.size(), 0);
          call.half_operands.push_back(call.shape[0]);
          operands.insert(operands.end(), {v.range().copies, v.range().pieces, nullptr});
        }
        IterationState state;
        state.learning_rate = 0.1F;
        v.device->set_state(state, Lane::compute);
        v.device->launch(v.device->prepare(call), operands, state, Lane::compute);
      };
      const std::vector<float> before = with.read(with.values, Vector::kAll);
      update(with, true);
      update(without, false);
      EXPECT_NE(with.read(with.values, Vector::kAll), before);
      EXPECT_EQ(with.read(with.values, Vector::kAll), without.read(without.values, Vector::kAll));
      EXPECT_EQ(with.got(), with.wanted()) << all[rule].name << " " << shift;
    }
  }
}

}  // namespace
}  // namespace tandem::tests
