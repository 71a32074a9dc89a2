// SPDX-License-Identifier: Apache-2.0
// Models that are split, simulated: pipelines take the time that their schedules do on integers, evaluators
// agree, and devices hold what the schedule has in flight.
#include <gtest/gtest.h>

#include "schemes/schedules/pipeline_schedule.h"
#include "sim/evaluate/evaluate.h"
#include "sim/evaluate/events.h"
#include "sim/evaluate/fold.h"
#include "sim/evaluate/sweep.h"
#include "sim/memory/memory.h"
#include "tests/sim/prediction.h"
#include "topologies/system.h"

namespace tandem::tests {
namespace {

constexpr EvaluateOptions kOptions{.iterations = 3, .kept_iterations = 2, .kept_instances = 4};

const Graph& gpt(int64_t layers) {
  static std::map<int64_t, Graph> known;
  const auto at = known.find(layers);
  if (at != known.end()) return at->second;
  return known
      .emplace(layers, Graph::load(fmt::format("gpt2:layers={},hidden=64,heads=8,sequence=32,vocabulary=256",
                                               layers)))
      .first->second;
}

std::shared_ptr<const Program> compiled(const std::string& text, const Graph& graph, int64_t devices) {
  const ResolvedScheme scheme = resolve_scheme(text, {});
  const Workload work = make_workload(graph, 4, Precision::fp32, optimizer("momentum"), false);
  return std::make_shared<const Program>(scheme.scheme->compile(work, {devices, 1, devices}, scheme.options));
}

/// All passes of a kind take the same time, whatever the layers; all else takes none.
BoundProgram unit_plan(const std::shared_ptr<const Program>& program, const SlotTimes& times) {
  BoundProgram plan;
  plan.program = program;
  plan.transfers = {Transfer{}};
  for (const Role& role : program->roles) {
    RoleCosts costs;
    std::vector<Time> duration;
    std::vector<int32_t> transfer;
    for (const Op& op : role.ops) {
      int64_t units = 0;
      if (op.kind == OpKind::compute) {
        const Task& task = program->tasks[op.what];
        units = task.pass == Pass::forward         ? times.forward
                : task.pass == Pass::update        ? 0
                : !task.parts                      ? times.data + times.weights
                : task.pass == Pass::backward_data ? times.data
                                                   : times.weights;
      }
      duration.push_back(Time{units});
      transfer.push_back(has_transfer(op) ? 0 : -1);
    }
    costs.duration = {std::move(duration)};
    costs.transfer = {std::move(transfer)};
    plan.roles.push_back(std::move(costs));
  }
  return plan;
}

// The bubble of each schedule is that of its paper: schedules_test.cpp holds run_pipeline() against closed
// forms.
TEST(Pipeline, TakesTheTimeOfItsSchedule) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zero-bubble"}) {
    for (const int32_t p : {2, 4, 8}) {
      for (const int32_t m : {8, 16}) {
        const SlotTimes times{2, 3, 2};
        const bool interleaved = std::string(schedule) == "interleaved";
        const auto program =
            compiled(fmt::format("pipeline:schedule={},microbatches={}", schedule, m), gpt(16), p);
        const PipelineRun want =
            run_pipeline(schedules_registry().at(schedule), {p, m, interleaved ? 2 : 1}, times);
        const BoundProgram plan = unit_plan(program, times);
        ASSERT_EQ(what_differs(plan), "");
        const Trace trace = evaluate(plan, kOptions);
        SCOPED_TRACE(fmt::format("{} p={} m={}", schedule, p, m));
        EXPECT_EQ(trace.evaluator, "folded");
        EXPECT_EQ(trace.iteration_end[0].ps, want.length);
        EXPECT_EQ(trace.iteration_end[2].ps, 3 * want.length);
        double total = trace.busy[static_cast<int>(Lane::compute)].seconds();
        for (const Time& t : trace.exposed) total += t.seconds();
        const double idle = (trace.exposed_to(Wait::bubble) + trace.exposed_to(Wait::idle)).seconds();
        // Stages that end before the first one idle there in the last iteration, which no message follows.
        EXPECT_NEAR(idle / total, want.bubble, 0.12 * want.bubble + 1e-12);
      }
    }
  }
}

// A stage in the middle sends one message each way for a micro-batch. Where it waits for them both are beside
// its work. Else the longest way round decides: of four micro-batches that the first of four stages has under
// way, each makes three messages there and three back.
TEST(Pipeline, AMicroBatchMoreTakesTwoMessagesMoreWhereStagesWait) {
  const SlotTimes times{2, 3, 2};
  const int64_t c = 5;
  const auto length = [&](const char* more, int64_t m) {
    BoundProgram plan =
        unit_plan(compiled(fmt::format("pipeline:microbatches={}{}", m, more), gpt(16), 4), times);
    plan.transfers.front().bytes = static_cast<double>(c);
    plan.transfers.front().cap = 1e12;  // a byte in a picosecond
    EXPECT_EQ(what_differs(plan), "");
    return evaluate(plan, kOptions).iteration_end[0].ps;
  };
  EXPECT_EQ(length("", 24) - length("", 16), 8 * (2 + 3 + 2 + 2 * c));
  EXPECT_EQ(length(",overlap-p2p=on", 24) - length(",overlap-p2p=on", 16), 8 * (2 + 3 + 2) + 8 * 6 * c / 4);
}

TEST(Pipeline, SweepEqualsEvents) {
  const System box = System::load("dgx-a100"), halves = System::load("p3.8xlarge", {{"nodes", "2"}});
  for (const char* text : {"pipeline:microbatches=8", "hybrid:tensor=2,pipeline=2,microbatches=4",
                           "hybrid:pipeline=4,schedule=interleaved,microbatches=4,sharding=1",
                           "hybrid:tensor=2,pipeline=2,schedule=zero-bubble,sequence=on,sharding=3",
                           "hybrid:pipeline=2,context=4,microbatches=4,sharding=1",
                           "hybrid:microbatches=2,sharding=3,sharding-group=node",
                           "hybrid:context=2,microbatches=2,sharding=3,sharding-group=node,"
                           "order=context/pipeline/data/tensor"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const System& system = std::string(text).find("node") == std::string::npos ? box : halves;
    Request p = prediction_of(gpt(8), system, scheme, 8, 4);
    for (const double sigma : {0.0, 0.3}) {
      SCOPED_TRACE(fmt::format("{} sigma {}", text, sigma));
      p.disturbance = Disturbance{};
      p.disturbance->compute_sigma = sigma;
      BoundProgram plan = make_plan(p);
      for (Transfer& t : plan.transfers) {  // as if each had links of its own
        t.cap = t.bytes > 0 ? t.rate_alone(plan.capacity) : 0;
        t.uses.clear();
      }
      class Own : public BoundProgram::Messages {
       public:
        explicit Own(const BoundProgram& plan) : plan_(plan) {}
        const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t) override {
          const Channel& c = plan_.program->channels[channel];
          const auto& ops = plan_.program->roles[c.from_role].ops;
          const auto& costs = plan_.roles[c.from_role];
          for (std::size_t o = 0; o < ops.size(); ++o) {
            if (ops[o].kind == OpKind::send && ops[o].what == channel && ops[o].key == key)
              return plan_.transfers[static_cast<std::size_t>(costs.transfer[costs.class_at(sender)][o])];
          }
          throw std::logic_error("nobody sends");
        }
        Time apply(uint32_t, uint32_t, uint32_t) override { return {}; }

       private:
        const BoundProgram& plan_;
      };
      plan.messages = std::make_shared<Own>(plan);
      const Trace a = run_sweep(plan, kOptions), b = run_events(plan, kOptions);
      EXPECT_EQ(a.iteration_end, b.iteration_end);
      EXPECT_EQ(a.fingerprint, b.fingerprint);
      EXPECT_EQ(a.spans, b.spans);
      for (int wait = 0; wait < kWaits; ++wait) EXPECT_EQ(a.exposed[wait], b.exposed[wait]) << wait;
      for (int move = 0; move < kMoves; ++move) EXPECT_EQ(a.moved[move], b.moved[move]) << move;
      plan.messages = nullptr;
    }
  }
}

// GPipe keeps the activations of all micro-batches, 1F1B of at most as many as there are stages behind
// (Narayanan et al. 2021, section 2.2.1).
TEST(Pipeline, DevicesHoldWhatIsInFlight) {
  const auto activations = [](const std::string& text, uint32_t stage) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const Workload work = make_workload(gpt(16), 4, Precision::fp32, optimizer("momentum"), false);
    const auto roles = memory_by_role(work, Device::load("h100-sxm"),
                                      scheme.scheme->compile(work, {4, 1, 4}, scheme.options));
    return roles.at(stage).memory.activations.n;
  };
  EXPECT_EQ(activations("pipeline:microbatches=8", 1), activations("pipeline:microbatches=16", 1));
  const int64_t four = activations("pipeline:microbatches=4,schedule=gpipe", 1),
                eight = activations("pipeline:microbatches=8,schedule=gpipe", 1),
                sixteen = activations("pipeline:microbatches=16,schedule=gpipe", 1);
  EXPECT_EQ(sixteen - eight, 2 * (eight - four));
  const int64_t each = (eight - four) / 4;  // of one micro-batch
  EXPECT_GT(each, 0);
  EXPECT_EQ(activations("pipeline:microbatches=8", 1) - activations("pipeline:microbatches=8", 2), each);
}

// With full recomputation a micro-batch in flight keeps each block's input: 2 s b h bytes a layer
// (Korthikanti et al. 2022, section 5).
TEST(Pipeline, RecomputedStagesHoldTheInputsOfTheirBlocks) {
  const Graph graph = Graph::load("gpt2:layers=16,hidden=512,heads=8,sequence=256");
  const auto activations = [&](const std::string& text) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const Workload work =
        make_workload(graph, 16, Precision::bf16, optimizer("sgd"), false, {.blocks = true});
    const auto roles = memory_by_role(work, Device::load("h100-sxm"),
                                      scheme.scheme->compile(work, {4, 1, 4}, scheme.options));
    return roles.at(1).memory.activations.n;
  };
  const int64_t input = int64_t{2} * 256 * 16 * 512, layers = 16 / 4;
  EXPECT_EQ(activations("pipeline:microbatches=36,schedule=gpipe") -
                activations("pipeline:microbatches=32,schedule=gpipe"),
            4 * layers * input);
}

TEST(Pipeline, SplitModelsHoldTheirPart) {
  const Graph graph = Graph::load("gpt3-13b");
  const auto parameters = [&](const std::string& text, int64_t devices) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const Workload work = make_workload(graph, 1, Precision::bf16, optimizer("adam"), false);
    const auto roles = memory_by_role(work, Device::load("h100-sxm"),
                                      scheme.scheme->compile(work, {devices, 1, devices}, scheme.options));
    int64_t sum = 0;
    for (const RoleMemory& r : roles)
      sum += r.memory.parameters.n * (scheme.name == "hybrid" ? r.devices : 1);
    return static_cast<double>(sum);
  };
  // Half parameters and an fp32 copy of them, as frameworks that split models keep them.
  const double whole = 6.0 * static_cast<double>(graph.parameter_elements());
  EXPECT_NEAR(parameters("hybrid:tensor=8", 8) / whole, 1, 0.01);  // norms and some biases are on all devices
  const double tied = 6.0 * 50257 * 5120;                          // on the last stage too
  EXPECT_NEAR(parameters("hybrid:pipeline=4", 4) / (whole + tied), 1, 1e-3);
}

// A copy of the embedding's weight takes what an output layer's own weight does.
TEST(Pipeline, CopiesOfATiedWeightAreHeldOnce) {
  const auto last = [](const std::string& output) {
    const Graph graph = Graph::from_json(Json::parse(R"({
      "name": "words", "summary": "words", "source": "test", "inputs": {"tokens": [16]},
      "sample": {"unit": "sequences", "stored": "64B", "decoded": "64B", "decode": "0s"},
      "layers": [
        {"type": "embedding", "vocabulary": 50000, "width": 64},
        {"type": "linear", "features": 64}, {"type": "linear", "features": 64},)" +
                                                         output + R"(, {"type": "cross-entropy"}]})",
                                                     "words.json"));
    const ResolvedScheme scheme = resolve_scheme("pipeline:microbatches=2", {});
    const Workload work = make_workload(graph, 1, Precision::fp32, optimizer("momentum"), false);
    return memory_by_role(work, Device::load("h100-sxm"),
                          scheme.scheme->compile(work, {2, 1, 2}, scheme.options))
        .at(1)
        .memory.total()
        .n;
  };
  EXPECT_EQ(last(R"({"type": "tied-linear", "vocabulary": 50000})"),
            last(R"({"type": "linear", "features": 50000, "bias": false})"));
}

/// Bytes that a device of the only role holds of parameters, and of the optimiser's two tensors a parameter.
std::pair<int64_t, int64_t> held_of(const Graph& graph, const std::string& text, int64_t devices,
                                    int64_t* activations = nullptr, int64_t nodes = 1) {
  const ResolvedScheme scheme = resolve_scheme(text, {});
  const Workload work = make_workload(graph, 1, Precision::bf16, optimizer("adam"), false);
  const auto roles =
      memory_by_role(work, Device::load("h100-sxm"),
                     scheme.scheme->compile(work, {devices, nodes, devices / nodes}, scheme.options));
  if (activations != nullptr) *activations = roles[0].memory.activations.n;
  return {roles[0].memory.parameters.n, roles[0].memory.optimizer.n};
}

// 16 of 128 experts a device; what is sharded is cut over the replicas of each, which an expert has fewer of.
TEST(Pipeline, DealtExpertsAreHeldByTheirDevices) {
  const Graph graph = Graph::load("qwen3-30b-a3b");
  const double all = static_cast<double>(graph.parameter_elements()), experts = 48.0 * 128 * 3 * 2048 * 768,
               rest = all - experts;
  const auto [parameters, state] = held_of(graph, "hybrid:expert=8", 8);
  EXPECT_NEAR(static_cast<double>(parameters), 6 * (rest + experts / 8), 1e4);
  EXPECT_NEAR(static_cast<double>(state), 8 * (rest + experts / 8), 1e4);
  const auto [sharded, cut] = held_of(graph, "hybrid:data=2,expert=8,sharding=1", 16);
  EXPECT_NEAR(static_cast<double>(sharded), 2 * (rest + experts / 8) + 4 * (rest / 16 + experts / 16), 1e4);
  EXPECT_NEAR(static_cast<double>(cut), 8 * (rest / 16 + experts / 16), 1e5);
}

// Each node holds what all devices together hold without sharding-group=node.
TEST(Pipeline, DevicesHoldShardsOfTheirNode) {
  const auto held = [&](const char* text, int64_t devices, int64_t nodes) {
    return held_of(gpt(8), text, devices, nullptr, nodes);
  };
  for (const char* level : {"1", "2", "3"}) {
    const std::string all = fmt::format("hybrid:sharding={}", level), node = all + ",sharding-group=node";
    EXPECT_EQ(held(node.c_str(), 32, 4), held(all.c_str(), 8, 1)) << level;
    EXPECT_LT(held(all.c_str(), 32, 4), held(all.c_str(), 8, 1)) << level;
  }
  const Graph graph = Graph::load("qwen3-30b-a3b");  // of whose experts a node has one copy
  const double experts = 48.0 * 128 * 3 * 2048 * 768,
               rest = static_cast<double>(graph.parameter_elements()) - experts;
  const auto [parameters, state] =
      held_of(graph, "hybrid:data=2,expert=8,sharding=1,sharding-group=node", 16, nullptr, 2);
  EXPECT_NEAR(static_cast<double>(parameters), 2 * (rest + experts / 8) + 4 * (rest / 8 + experts / 8), 1e4);
  EXPECT_NEAR(static_cast<double>(state), 8 * (rest / 8 + experts / 8), 1e5);
}

TEST(Pipeline, DividedSequencesHoldTheirPartOfTheActivations) {
  const Graph graph = Graph::load("llama3-8b:sequence=131072");
  int64_t whole = 0, quarter = 0;
  const auto parameters = held_of(graph, "hybrid", 1, &whole).first;
  EXPECT_EQ(held_of(graph, "hybrid:context=4", 4, &quarter).first, parameters);
  EXPECT_NEAR(static_cast<double>(quarter) / static_cast<double>(whole), 0.25, 0.03);
}

TEST(Pipeline, ReportSaysWhatAStageWaitsFor) {
  const System system = System::load("dgx-a100");
  const ResolvedScheme scheme = resolve_scheme("layer-split", {});
  const Report r = simulate(prediction_of(gpt(8), system, scheme, 4, 4));
  EXPECT_NEAR(r.time.share.bubble, 0.75, 0.15);  // one of four stages works at a time
  EXPECT_EQ(r.setup.samples_per_iteration, 4);
  EXPECT_EQ(r.memory_by_role.size(), 4U);
  const ResolvedScheme grid = resolve_scheme("hybrid:tensor=2,pipeline=2,microbatches=4", {});
  const Report h = simulate(prediction_of(gpt(8), system, grid, 8, 4));
  EXPECT_EQ(h.setup.samples_per_iteration, 4 * 4 * 2);
  bool tensor = false;
  for (const auto& [name, share] : h.time.communication_kinds) tensor = tensor || name == "tensor all_reduce";
  EXPECT_TRUE(tensor);
}

}  // namespace
}  // namespace tandem::tests
