// SPDX-License-Identifier: Apache-2.0
// What lies in the memory of a node's host has to fit there.
#include "sim/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/capacity.h"
#include "tests/sim/prediction.h"

namespace tandem::tests {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

class HostMemoryOf : public testing::Test {
 protected:
  Request ask(const Graph& graph, const System& system, const ResolvedScheme& scheme, int64_t devices) {
    Request p = prediction_of(graph, system, scheme, devices, 1);
    p.job.precision = Precision::bf16;
    p.job.optimizer = &optimizer("adamw");
    p.job.recompute = {.blocks = true};
    p.job.offload = {.optimizer = true, .gradients = true, .parameters = true};
    return p;
  }
  ResolvedScheme zero_ = resolve_scheme("deepspeed-zero3", Place{});
  ResolvedScheme whole_ = resolve_scheme("allreduce", Place{});
};

/// 16 bytes of each parameter (Ren et al. 2021, ZeRO-Offload) and 4 GiB; two devices of the node share them.
TEST_F(HostMemoryOf, ANodeSumsWhatItsDevicesOffload) {
  const Graph graph = Graph::load("llama3-70b:sequence=1024");
  const System system = System::load("workstation-2x", {{"device", "rtx-4090"}});
  const Request p = ask(graph, system, zero_, 2);
  const MemoryUse m = sim::memory_on(p, 2);
  EXPECT_NEAR(static_cast<double>(m.node.needed.n), 16.0 * 70553706496 + 4.0 * kGiB, 1e7);
  EXPECT_EQ(m.node.capacity.n, 128 * kGiB);
  EXPECT_LE(m.needed(), m.capacity) << "the devices hold it";
  EXPECT_FALSE(m.fits());
  const Report r = simulate(p);
  EXPECT_FALSE(r.fits);
  EXPECT_EQ(r.rate.samples_per_second, 0);
  const std::string json = reports_to_json({r}, true);
  EXPECT_THAT(json, HasSubstr("\"host_memory_bytes\""));
  const Report back = reports_from_json(Json::parse(json, "report.json")).front();
  EXPECT_EQ(back.memory.node.needed, r.memory.node.needed);
  EXPECT_EQ(back.memory.node.capacity, r.memory.node.capacity);
}

/// The person of that report ran out with 1,024 GB: not what the model takes alone fills the host.
TEST_F(HostMemoryOf, ExactlyFullIsTooFull) {
  const Graph graph = Graph::load("llama2-70b:sequence=1024");
  const System system = System::load("dgx-a100-80gb");
  const MemoryUse m = sim::memory_on(ask(graph, system, zero_, 8), 8);
  EXPECT_EQ(m.node.capacity.n, 1024 * kGiB);
  EXPECT_FALSE(m.node.fits());
}

TEST_F(HostMemoryOf, SettableAndPerNode) {
  const Graph graph = Graph::load("gpt2-xl");
  const auto on = [&](const char* memory, const char* nodes, int64_t devices) {
    const System system = System::load("dgx-a100", {{"host.memory", memory}, {"nodes", nodes}});
    return sim::memory_on(ask(graph, system, zero_, devices), devices);
  };
  const MemoryUse one = on("64GiB", "1", 8), small = on("16GiB", "1", 8), two = on("16GiB", "2", 16);
  EXPECT_EQ(one.node.capacity.n, 64 * kGiB);
  EXPECT_TRUE(one.fits());
  EXPECT_FALSE(small.fits());
  EXPECT_TRUE(two.fits()) << "each node has half";
  EXPECT_NEAR(static_cast<double>(two.node.needed.n - kGiB),
              0.5 * static_cast<double>(small.node.needed.n - kGiB), 1e7);
}

/// No figure, no silent one either.
TEST_F(HostMemoryOf, UnknownIsSaid) {
  const Graph graph = Graph::load("gpt2");
  const System system =
      System::from_json(Json::parse(R"({"name": "plain", "summary": "", "sources": ["none"], "nodes": 1,
  "devices": {"gpu0": {"model": "a10"}, "cpu0": {"model": "generic-cpu"}},
  "vertices": {"mem0": {"kind": "memory"}},
  "links": {"pcie": {"bandwidth": "15GB/s", "latency": "1us", "between": [["gpu0", "cpu0"]], "source": "none"},
            "memory": {"bandwidth": "80GB/s", "latency": "0.1us", "duplex": "half", "between": [["cpu0", "mem0"]],
                       "source": "none"}},
  "peer_access": {"reach": "none", "staged_cap": "8GB/s", "staged_latency": "1us", "source": "none"},
  "communication": {"library": "nccl"}})",
                                    "plain.json"));
  const Request p = ask(graph, system, zero_, 1);
  const Report r = simulate(p);
  EXPECT_TRUE(r.fits);
  EXPECT_EQ(r.memory.node.capacity.n, 0);
  EXPECT_THAT(r.notes, Contains(HasSubstr("is unknown")));
  EXPECT_THAT(reports_to_json({r}, true), HasSubstr("\"capacity\": null"));
  Request nothing = p;
  nothing.job.offload = {};
  EXPECT_THAT(simulate(nothing).notes, Not(Contains(HasSubstr("is unknown"))));
}

/// Servers on the processors hold model, gradients and state; workers exchange through buffers of their own.
TEST_F(HostMemoryOf, ServersCount) {
  const Graph graph = Graph::load("vgg16");
  const System system = System::load("dgx1-v100");
  const ResolvedScheme servers = resolve_scheme("parameter-server:server=cpu", Place{});
  const auto needed = [&](const ResolvedScheme& scheme) {
    return sim::memory_on(prediction_of(graph, system, scheme, 8), 8).node.needed.n;
  };
  const int64_t parameters = 4 * graph.parameter_elements();
  EXPECT_NEAR(static_cast<double>(needed(servers) - needed(whole_)),
              static_cast<double>((3 + 8 * 2) * parameters), 64);
}

/// On processors the devices' own memory is the host's.
TEST_F(HostMemoryOf, ProcessorsShareOne) {
  const Graph graph = Graph::load("resnet50");
  const System system = System::load("local", {{"host.memory", "8GiB"}});
  const auto fits = [&](int64_t devices) {
    return sim::memory_on(prediction_of(graph, system, whole_, devices, 16), devices).fits();
  };
  EXPECT_TRUE(fits(1));
  EXPECT_FALSE(fits(16));
}

/// A few per cent too much is said, not refused; more is.
TEST(MayFit, WithinTheErrorOfPredictions) {
  MemoryUse m;
  m.capacity = {1000};
  const auto at = [&](int64_t needed) {
    m.activations = {needed};
    return m;
  };
  EXPECT_TRUE(at(1000).fits());
  EXPECT_FALSE(at(1000).within_error());
  EXPECT_TRUE(at(1000).barely_fits());
  EXPECT_FALSE(at(1004).fits());
  EXPECT_TRUE(at(1004).within_error());
  EXPECT_TRUE(at(1004).may_fit());
  EXPECT_FALSE(at(1004).barely_fits());
  EXPECT_FALSE(at(1031).may_fit());
  m.node = {{11}, {10}};
  EXPECT_FALSE(at(1004).may_fit()) << "and the host's memory is full";
}

/// 23.8 of 23.7 GiB, as somebody trained it.
TEST(MayFit, ARowIsPredicted) {
  const Graph graph = Graph::load("gpt2");
  const System system = System::load("workstation-2x", {{"device", "rtx-4090"}});
  const ResolvedScheme scheme = resolve_scheme("pytorch-ddp", Place{});
  Request p = prediction_of(graph, system, scheme, 1, 8);
  p.job.optimizer = &optimizer("adamw");
  while (sim::memory_on(p, 1).fits()) ++p.job.batch;
  const MemoryUse m = sim::memory_on(p, 1);
  const Report r = simulate(p);
  EXPECT_EQ(r.fits, m.within_error());
  ASSERT_TRUE(r.fits) << "one sample more is beyond the error";
  EXPECT_GT(r.rate.samples_per_second, 0);
  EXPECT_THAT(reports_to_json({r}, true), HasSubstr("\"within_error\": true"));
}

TEST(MemoryHabitsOfRecipes, UnknownOnesAreSaid) {
  const Graph graph = Graph::load("lenet5");
  const System system = System::load("dgx1-v100");
  ResolvedScheme scheme = resolve_scheme("allreduce", Place{});
  for (const auto& [recipe, known] : {std::pair{"tensorflow", false}, {"layers", false}, {"pytorch", true}}) {
    scheme.recipe = load_recipe(recipe);
    const Report r = simulate(prediction_of(graph, system, scheme, 1));
    const auto said = Contains(HasSubstr("nothing is known of what the"));
    if (known)
      EXPECT_THAT(r.notes, Not(said)) << recipe;
    else
      EXPECT_THAT(r.notes, said) << recipe;
  }
}

}  // namespace
}  // namespace tandem::tests
