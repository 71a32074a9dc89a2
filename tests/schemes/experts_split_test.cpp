// SPDX-License-Identifier: Apache-2.0
// Experts dealt over devices and sequences divided over them: what travels, against the closed forms of the
// papers, and whose gradients are summed over whom.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

constexpr int64_t kLayers = 2, kHidden = 64, kKeys = 32, kSequence = 32, kBatch = 32, kActive = 2,
                  kExperts = 8;
constexpr int64_t kTokens = kBatch * kSequence;
constexpr int64_t kExpertElements = kLayers * kExperts * 3 * 64 * 32;

Program dealt(const std::string& text, int64_t devices) {
  return compile(text, small_moe(), {devices, 1, devices});
}

/// Bytes of the buffers of one kind of collective on a lane of role 0, in one iteration.
int64_t bytes_of(const Program& p, CollKind kind, Lane lane, uint32_t axes = 0) {
  int64_t sum = 0;
  for (const Op& op : p.roles[0].ops) {
    if (op.kind != OpKind::collective || op.lane != lane) continue;
    const Collective& c = p.collectives[op.what];
    if (c.kind == kind && (axes == 0 || c.axes == axes)) sum += op.bytes.n;
  }
  return sum;
}

/// Mask of axes of role 0's mesh.
uint32_t axes_of(const Program& p, std::initializer_list<const char*> names) {
  uint32_t out = 0;
  const auto& axes = p.roles[0].mesh.axes;
  for (const char* name : names) {
    for (std::size_t a = 0; a < axes.size(); ++a) out |= axes[a].name == name ? 1U << a : 0;
  }
  return out;
}

// Each of dispatch and combine, forward and backward, has every token's `active` copies in its buffer; of an
// all-to-all's buffer (e-1)/e leaves a device (Lepikhin et al. 2021, GShard; Rajbhandari et al. 2022,
// DeepSpeed-MoE, section 5).
TEST(ExpertAxis, SendsEveryTokenToItsExpertsAndBack) {
  for (const int64_t e : {2, 4, 8}) {
    const Program p = dealt(fmt::format("hybrid:expert={},microbatches=3", e), e);
    EXPECT_EQ(bytes_of(p, CollKind::all_to_all, Lane::comm),
              3 * kLayers * 4 * kActive * kTokens * kHidden * 4);
    EXPECT_EQ(bytes_of(p, CollKind::all_to_all, Lane::comm),
              bytes_of(p, CollKind::all_to_all, Lane::comm, axes_of(p, {"expert"})));
    EXPECT_EQ(replicas(p), e) << "devices of the axis train on samples of their own";
  }
  EXPECT_EQ(bytes_of(dealt("hybrid", 4), CollKind::all_to_all, Lane::comm), 0);
}

/// Which algorithm carries the all-to-alls of role 0.
std::string exchanged_by(const Program& p) {
  for (const Op& op : p.roles[0].ops) {
    if (op.kind == OpKind::collective && p.collectives[op.what].kind == CollKind::all_to_all)
      return p.collectives[op.what].algorithm;
  }
  return "";
}

TEST(ExpertAxis, DispatchersChooseTheWayOfTokens) {
  EXPECT_EQ(exchanged_by(dealt("hybrid:expert=4", 4)), "auto");
  const Program p = dealt("hybrid:expert=4,dispatcher=deepep", 4);
  EXPECT_EQ(exchanged_by(p), "deepep/2/8");
  EXPECT_EQ(print(parse_program(print(p))), print(p));
}

/// Ops of role 0 by what they do, in any order.
std::map<std::string, int> counted(const Program& p) {
  std::map<std::string, int> out;
  for (const Op& op : p.roles[0].ops)
    ++out[fmt::format("{} {} {} {}", name(op.kind), p.labels[op.label], op.micro, op.bytes.n)];
  return out;
}

/// Exchanges directly behind which a compute op of another micro-batch stands.
int covered(const Program& p) {
  const auto& ops = p.roles[0].ops;
  int out = 0;
  for (std::size_t i = 0; i + 1 < ops.size(); ++i) {
    const bool exchange = ops[i].kind == OpKind::collective && ops[i].payload == Payload::exchanged;
    out += exchange && ops[i + 1].kind == OpKind::compute && ops[i + 1].micro != ops[i].micro;
  }
  return out;
}

// With m micro-batches on one stage, all but the first forward and the last backward are in pairs; each of
// the two passes over 2 layers exchanges 4 times, and all but the last exchange of a pair is under the other.
TEST(ExpertAxis, OverlapPutsExchangesUnderAnotherMicroBatch) {
  const Program plain = dealt("hybrid:expert=4,microbatches=5", 4),
                paired = dealt("hybrid:expert=4,microbatches=5,overlap=on", 4);
  EXPECT_EQ(counted(plain), counted(paired));
  EXPECT_EQ(covered(plain), 0);
  EXPECT_GE(covered(paired), 4 * (8 - 1));
  const Program stages = compile(
      "hybrid:pipeline=2,expert=2,schedule=interleaved,microbatches=4,chunks=2,overlap=on",
      Graph::load("mixtral-8x7b:layers=4,sequence=32,hidden=64,heads=8,head_dim=8,feed=32"), {4, 1, 4});
  EXPECT_NO_THROW(check(stages));
  EXPECT_GT(covered(stages), 0);
}

TEST(ExpertAxis, OverlapNeedsWorkOfTwoMicroBatches) {
  try {
    dealt("hybrid:pipeline=2,expert=2,overlap=on", 4);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("schedule=interleaved"), std::string::npos) << e.what();
  }
}

// GShard, section 2.2: every expert takes `capacity` times its even share of a device's tokens.
TEST(ExpertAxis, CapacityPadsWhatTravels) {
  const int64_t even = bytes_of(dealt("hybrid:expert=4", 4), CollKind::all_to_all, Lane::comm);
  EXPECT_EQ(bytes_of(dealt("hybrid:expert=4,capacity=1", 4), CollKind::all_to_all, Lane::comm), even);
  EXPECT_EQ(bytes_of(dealt("hybrid:expert=4,capacity=1.25", 4), CollKind::all_to_all, Lane::comm),
            even * 5 / 4);
}

TEST(ExpertAxis, SumsGradientsOfExpertsOverTheirReplicasAlone) {
  const Program p = dealt("hybrid:data=2,expert=4", 8);
  const int64_t all = small_moe().parameter_elements(), rest = all - kExpertElements;
  const CollKind sum = CollKind::all_reduce;
  EXPECT_EQ(bytes_of(p, sum, Lane::reduce, axes_of(p, {"data", "expert"})), 4 * rest);
  EXPECT_EQ(bytes_of(p, sum, Lane::reduce, axes_of(p, {"data"})),
            kExpertElements);  // 4 bytes, a quarter each
  // Nobody else holds them: nothing to sum.
  const Program alone = dealt("hybrid:expert=4", 4);
  EXPECT_EQ(bytes_of(alone, sum, Lane::reduce), 4 * rest);
}

TEST(ExpertAxis, ShardsOverTheReplicasOfEach) {
  const Program p = dealt("hybrid:data=2,expert=4,sharding=1", 8);
  EXPECT_EQ(p.sharding.of(p.sharding.state, false), 8);
  EXPECT_EQ(p.sharding.of(p.sharding.state, true), 2);
  const int64_t rest = small_moe().parameter_elements() - kExpertElements;
  EXPECT_EQ(bytes_of(p, CollKind::reduce_scatter, Lane::reduce), 4 * rest + kExpertElements);
  EXPECT_EQ(bytes_of(p, CollKind::all_gather, Lane::reduce), 4 * rest + kExpertElements);
  const Program three = dealt("hybrid:data=2,expert=4,sharding=3,keeps=none", 8);
  EXPECT_EQ(bytes_of(three, CollKind::all_gather, Lane::reduce), 2 * (4 * rest + kExpertElements));
}

// Megatron-Core's dispatcher: with the sequence divided, partners send their own tokens, bring the arrived
// ones together for their parts of the experts, and scatter the sums.
TEST(ExpertAxis, PartnersHoldPartsOrWholeExperts) {
  const int64_t routed = kActive * kTokens * kHidden * 4;
  const Program parts = dealt("hybrid:expert=2,tensor=2,sequence=on", 4);
  EXPECT_EQ(bytes_of(parts, CollKind::all_to_all, Lane::comm), kLayers * 4 * routed / 2);
  int64_t gathered = 0, scattered = 0;
  for (const Op& op : parts.roles[0].ops) {
    const bool loss = op.key + 1 == small_moe().layers().size();  // partners judge a vocabulary together
    if (op.payload != Payload::exchanged || loss) continue;
    const CollKind kind = parts.collectives[op.what].kind;
    gathered += kind == CollKind::all_gather ? op.bytes.n : 0;
    scattered += kind == CollKind::reduce_scatter ? op.bytes.n : 0;
  }
  EXPECT_EQ(gathered, kLayers * 2 * routed);
  EXPECT_EQ(scattered, kLayers * 2 * routed);
  const Program whole = dealt("hybrid:expert=2,tensor=2,sequence=on,experts=whole", 4);
  EXPECT_EQ(bytes_of(whole, CollKind::all_to_all, Lane::comm, axes_of(whole, {"expert", "tensor"})),
            kLayers * 4 * routed / 2);
  // Without a divided sequence partners send the same tokens, and sum what their parts make.
  const Program same = dealt("hybrid:expert=2,tensor=2", 4);
  EXPECT_EQ(bytes_of(same, CollKind::all_to_all, Lane::comm), kLayers * 4 * routed);
}

// Liu et al. 2023, Ring Attention, section 3; Megatron-Core: a device's keys and values go c - 1 places on,
// in backward once more, and their gradients as far.
TEST(ContextAxis, KeysAndValuesGoAroundTheRing) {
  for (const int64_t c : {2, 4, 8}) {
    const Program p = dealt(fmt::format("hybrid:context={},microbatches=3", c), c);
    EXPECT_EQ(bytes_of(p, CollKind::shift, Lane::comm, axes_of(p, {"context"})),
              3 * kLayers * 3 * (c - 1) * 2 * kKeys * kTokens / c * 4);
    EXPECT_EQ(replicas(p), 1) << "devices of the axis share samples";
    EXPECT_EQ(bytes_of(p, CollKind::all_reduce, Lane::reduce, axes_of(p, {"data", "context"})),
              4 * small_moe().parameter_elements());
  }
}

// The first shift runs beside the first block of scores; the second block waits for it.
TEST(ContextAxis, ShiftsRunUnderTheBlockBefore) {
  const Program p = dealt("hybrid:context=2", 2);
  const auto& ops = p.roles[0].ops;
  const auto shift = static_cast<uint32_t>(
      std::find_if(ops.begin(), ops.end(), [](const Op& o) { return o.payload == Payload::exchanged; }) -
      ops.begin());
  ASSERT_LT(shift + 2, ops.size());
  EXPECT_EQ(ops[shift + 1].kind, OpKind::compute);
  EXPECT_FALSE(depends(p, shift + 1, shift, 0));
  EXPECT_TRUE(depends(p, shift + 2, shift, 0));
  EXPECT_EQ(p.tasks[ops[shift + 1].what].kernels[0].kind, KernelKind::attention);
  EXPECT_EQ(p.tasks[ops[shift + 2].what].kernels[0].kind, KernelKind::attention);
}

TEST(ContextAxis, AllDevicesTogetherDoTheWorkOfOne) {
  const auto flops = [](const Program& p, Pass pass) {
    int64_t sum = 0;
    for (const Op& op : p.roles[0].ops) {
      if (op.kind != OpKind::compute || p.tasks[op.what].pass != pass) continue;
      for (const Kernel& k : p.tasks[op.what].kernels)
        sum += k.kind == KernelKind::gemm || k.kind == KernelKind::attention ? (k.flops * k.repeat).n : 0;
    }
    return sum;
  };
  for (const Pass pass : {Pass::forward, Pass::backward_weights}) {
    const int64_t one = flops(dealt("hybrid", 1), pass);
    EXPECT_EQ(2 * flops(dealt("hybrid:context=2", 2), pass), one);
    EXPECT_EQ(flops(dealt("hybrid:expert=4", 4), pass),
              one);  // samples of its own, as many tokens come as go
  }
}

TEST(DividedPrograms, AreCheckedAndSurviveTheirText) {
  for (const char* text :
       {"hybrid:expert=2,context=2,tensor=2,sequence=on,experts=whole,sharding=1,capacity=1.5",
        "hybrid:pipeline=2,expert=4,microbatches=4", "hybrid:data=2,context=4,sharding=3",
        "hybrid:pipeline=2,context=2,expert=2,schedule=zero-bubble,order=expert/pipeline/data/context/"
        "tensor"}) {
    const Program p = dealt(text, 8);
    EXPECT_EQ(print(parse_program(print(p))), print(p)) << text;
    EXPECT_NO_THROW(check(parse_program(print(p)))) << text;
    const int64_t all = std::accumulate(p.buckets.begin(), p.buckets.end(), int64_t{0},
                                        [](int64_t sum, const Bucket& b) { return sum + b.elements; });
    EXPECT_GE(all, small_moe().parameter_elements() / 8) << text;
  }
}

std::string refusal_of(const std::string& text, const Graph& graph, int64_t devices) {
  try {
    compile(text, graph, {devices, 1, devices});
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(DividedPrograms, SayWhatDoesNotDivide) {
  const auto says = [](const std::string& text, const Graph& graph, int64_t devices, const char* why) {
    const std::string what = refusal_of(text, graph, devices);
    EXPECT_NE(what.find(why), std::string::npos) << text << ": " << what;
  };
  says("hybrid:expert=3", small_moe(), 3, "8 experts do not divide over 3 devices");
  says("hybrid:expert=2", small_gpt(), 2, "no layer has experts");
  says("hybrid:expert=2,tensor=2,experts=whole", small_moe(), 4, "sequence=on");
  says("hybrid:expert=8,tensor=2,experts=whole,sequence=on", small_moe(), 16,
       "8 experts do not divide over 16 devices: 8 that experts are dealt over times 2 that share layers");
  says("hybrid:context=3", small_moe(), 3, "does not divide into 6 chunks");
  says("hybrid:context=2", small_mlp(), 2, "no sequences");
  says("hybrid:expert=2,context=2", small_moe(), 6,
       "1 tensor x 1 pipeline x 2 expert x 2 context x 1 data are 4 devices, not 6");
  says("hybrid:order=data/pipeline/tensor/data", small_moe(), 1, "also expert and context");
}

}  // namespace
}  // namespace tandem::tests
