// SPDX-License-Identifier: Apache-2.0
// Gradients cut into partitions and summed by need: against the closed form for two layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/bind/gather.h"
#include "sim/evaluate/events.h"
#include "tests/cross/settings.h"

namespace tandem::tests {
namespace {

/// The second of its layers has most parameters.
const Graph& top_heavy() {
  static const Graph graph = Graph::from_json(Json::parse(R"({
    "name": "top-heavy", "summary": "two linear layers", "source": "test",
    "sample": {"unit": "samples", "stored": "4KiB", "decoded": "4KiB", "decode": "0s"},
    "inputs": {"features": [1024]},
    "layers": [
      {"name": "fc1", "type": "linear", "features": 512, "bias": false},
      {"name": "fc2", "type": "linear", "features": 65536, "bias": false},
      {"name": "loss", "type": "cross-entropy"}
    ]})",
                                                          "top-heavy.json"));
  return graph;
}

Request question(const ResolvedScheme& scheme, const System& system) {
  Request p = prediction({scheme.name, {2, 2, 1}}, scheme, 40);
  p.job.graph = &top_heavy();
  p.system = &system;
  p.job.batch = 512;
  return p;
}

/// Seconds of ops whose label begins so, of worker 0.
double seconds(const BoundProgram& plan, std::string_view label) {
  double sum = 0;
  const Role& role = plan.program->roles[0];
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (!plan.program->labels[op.label].starts_with(label)) continue;
    const int32_t transfer = plan.roles[0].transfer[0][i];
    sum += op.kind == OpKind::collective
               ? plan.transfers[static_cast<std::size_t>(transfer)].alone(plan.capacity).seconds()
               : plan.roles[0].duration[0][i].seconds();
  }
  return sum;
}

int64_t sums(const BoundProgram& plan, std::string_view label) {
  int64_t count = 0;
  for (const Op& op : plan.program->roles[0].ops)
    count += plan.program->labels[op.label].starts_with(label) ? 1 : 0;
  return count;
}

double iteration(const BoundProgram& plan) {
  EvaluateOptions options;
  options.iterations = 40;
  const Trace trace = run_events(plan, options);
  return trace.iteration_end.at(39).seconds() - trace.iteration_end.at(38).seconds();
}

TEST(Priority, TwoLayersTakeTheClosedForm) {
  const System system = System::load("5090-2x", {{"nodes", "2"}, {"network.bandwidth", "10Gbit/s"}});
  for (const char* text :
       {"allreduce:priority=on,bucket=0B,partition=8MiB", "allreduce:priority=on,bucket=0B,partition=1MiB",
        "allreduce:priority=on,bucket=0B"}) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const BoundProgram plan = make_plan(question(scheme, system));
    const double f1 = seconds(plan, "forward fc1"), f2 = seconds(plan, "forward fc2"),
                 b1 = seconds(plan, "backward fc1"), b2 = seconds(plan, "backward fc2"),
                 u1 = seconds(plan, "update fc1"), u2 = seconds(plan, "update fc2"),
                 c1 = seconds(plan, "all-reduce fc1"), c2 = seconds(plan, "all-reduce fc2");
    const auto parts = static_cast<double>(sums(plan, "all-reduce fc2"));
    const double part = c2 / parts;
    ASSERT_GT(c2, b1) << "the first layer's gradient is ready while the second's are summed";
    ASSERT_GT(part, u2 / parts) << "updates keep up with sums";
    // Behind the second layer's backward: the part under way ends, then the first layer's is summed. The
    // second layer's parts are updated as they come.
    const double begins = std::min(std::ceil(b1 / part) * part, c2);
    const double second = std::max(begins + c1 + u1 + f1 + u2, c1 + c2 + u2 / parts);
    EXPECT_NEAR(iteration(plan), second + f2 + b2, 1e-3 * second) << text;
  }
}

/// The first layer's sum passes those of the second's parts, once what is under way has ended; credit lets
/// more be under way.
TEST(Priority, CreditDelaysWhatIsNeededFirst) {
  const System system = System::load("5090-2x", {{"nodes", "2"}, {"network.bandwidth", "10Gbit/s"}});
  const auto place = [&](const char* text) {
    const ResolvedScheme scheme = resolve_scheme(text, {});
    const BoundProgram plan = make_plan(question(scheme, system));
    std::vector<uint32_t> keys;
    for (const Op& op : plan.program->roles[0].ops) {
      if (op.kind == OpKind::collective) keys.push_back(op.key);
    }
    EXPECT_EQ(keys.size(), plan.program->buckets.size());
    const auto first = std::max_element(keys.begin(), keys.end());  // nearest to the input
    return first - keys.begin();
  };
  const auto one = place("allreduce:priority=on,bucket=0B,partition=1MiB"),
             more = place("allreduce:priority=on,bucket=0B,partition=1MiB,credit=8MiB"),
             all = place("allreduce:priority=on,bucket=0B,partition=1MiB,credit=1GiB");
  EXPECT_LT(one, more);
  EXPECT_LT(more, all);
}

/// A grid of one stage makes the same sums in the same order, in the same time.
TEST(Priority, OfAGridOfOneStageIsThatOfAllreduce) {
  const System system = System::load("5090-2x", {{"nodes", "2"}, {"network.bandwidth", "10Gbit/s"}});
  for (const char* more :
       {"priority=on,bucket=0B", "priority=on,bucket=0B,partition=1MiB",
        "priority=on,bucket=64MiB,partition=8MiB,credit=16MiB", "partition=2MiB", "cycle=2ms,bucket=64MiB",
        "cycle=100us,bucket=0B", "cycle=2ms,bucket=8MiB,priority=on"}) {
    SCOPED_TRACE(more);
    const ResolvedScheme plain = resolve_scheme(std::string("allreduce:") + more, {}),
                         grid = resolve_scheme(std::string("hybrid:microbatches=1,") + more, {});
    const BoundProgram a = make_plan(question(plain, system)), b = make_plan(question(grid, system));
    const auto sums = [](const BoundProgram& plan) {
      std::vector<std::pair<int64_t, int64_t>> out;
      for (const Op& op : plan.program->roles[0].ops) {
        if (op.kind == OpKind::collective) out.emplace_back(op.key, op.bytes.n);
      }
      return out;
    };
    EXPECT_EQ(sums(a), sums(b));
    EXPECT_NEAR(iteration(a), iteration(b), 1e-6 * iteration(a));
  }
}

/// Each stage has its own order, by when its gradients are there.
TEST(Priority, OfStagesIsEachOnesOwn) {
  const System system = System::load("5090-2x", {{"nodes", "4"}, {"network.bandwidth", "10Gbit/s"}});
  const Graph vgg = Graph::load("vgg16");
  const auto plan = [&](const std::string& more) {
    const ResolvedScheme scheme = resolve_scheme("hybrid:pipeline=2,microbatches=4,bucket=1MiB" + more, {});
    Request p = question(scheme, system);
    p.job.graph = &vgg;
    p.job.batch = 8;
    p.devices = 8;
    return make_plan(p);
  };
  const BoundProgram plain = plan(",partition=2MiB"), need = plan(",partition=2MiB,priority=on");
  for (const Role& role : need.program->roles) {
    std::vector<uint32_t> keys;
    for (const Op& op : role.ops) {
      if (op.payload == Payload::gradients && op.kind == OpKind::collective) keys.push_back(op.key);
    }
    ASSERT_GT(keys.size(), 3U);
    EXPECT_FALSE(std::is_sorted(keys.begin(), keys.end()));
    std::sort(keys.begin(), keys.end());
    for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], keys[0] + i) << "all of them";
  }
  EXPECT_LT(iteration(need), iteration(plain));
}

/// The Program with the order that was predicted, executed: sums are those of any other order.
void expect_executed(const char* text, int64_t nodes, uint32_t applied, uint32_t stages = 1) {
  SCOPED_TRACE(text);
  const ResolvedScheme scheme = resolve_scheme(text, {});
  const Setting s{scheme.name, {2 * nodes, nodes, 2}};
  Execution e = execution(s, scheme, "cpu", 9);
  const std::size_t count = make_program(e).buckets.size();
  ASSERT_GE(count, 6U);
  for (uint32_t k = 0; k < count; ++k) e.job.order.push_back(k);
  std::swap(e.job.order.front(), e.job.order.back());
  Request p = prediction(s, scheme, 9);
  p.job.order = e.job.order;
  EXPECT_EQ(fingerprint(make_program(e)), fingerprint(compile(p.job, e.cluster)));
  for (const Backend& backend : backends()) {
    e.backend = &backend;
    e.integer_gradients = e.poison = true;
    const ExecutionResult r = execute(e, {false, true, true});
    for (std::size_t i = 0; i < r.parameters.size(); ++i) {
      int64_t sum = 0;
      for (uint32_t w = 0; w < 2 * nodes / stages; ++w) {
        for (uint32_t t = 0; t < applied; ++t) sum += integer_gradient(w, t, static_cast<int64_t>(i));
      }
      ASSERT_EQ(static_cast<double>(r.parameters[i]), static_cast<double>(-sum)) << backend.name;
    }
  }
}

TEST(Priority, IsExecutedInThePredictedOrder) {
  expect_executed("allreduce:priority=on,bucket=0B,partition=256B", 1, 8);
  expect_executed("hybrid:microbatches=1,priority=on,bucket=0B,partition=256B", 1, 8);
  expect_executed("hybrid:pipeline=2,microbatches=1,priority=on,bucket=0B,partition=256B", 2, 8, 2);
  expect_executed("parameter-server:priority=on,bucket=0B,partition=256B", 1, 9);
  expect_executed("parameter-server:priority=on,bucket=0B,partition=256B,push=node", 2, 9);
  expect_executed("parameter-server:priority=on,bucket=0B,partition=256B,server=gpu", 1, 8);
}

/// Pushes are overtaken as sums are. With one server on a node of its own its link is what takes time: all
/// that both workers push passes it, and what the first layer pushes late goes before the rest of the second.
TEST(Priority, OfPushesLetsTheFirstLayerPass) {
  const System system = System::load("5090-2x", {{"nodes", "3"}, {"network.bandwidth", "10Gbit/s"}});
  const auto keys = [&](const ResolvedScheme& scheme) {
    std::vector<uint32_t> out;
    const BoundProgram plan = make_plan(question(scheme, system));
    for (const Op& op : plan.program->roles[0].ops) {
      if (op.kind == OpKind::send) out.push_back(op.key);
    }
    return out;
  };
  const auto place = [&](const char* text) {  // of the first layer's
    const std::vector<uint32_t> order = keys(resolve_scheme(text, {}));
    return std::max_element(order.begin(), order.end()) - order.begin();
  };
  const char* const kPlain = "parameter-server:server=nodes,shards=1,bucket=0B,partition=1MiB";
  const auto with = [&](const char* more) { return place((std::string(kPlain) + more).c_str()); };
  EXPECT_EQ(with(""), static_cast<std::ptrdiff_t>(keys(resolve_scheme(kPlain, {})).size()) - 1);
  const auto one = with(",priority=on"), more = with(",priority=on,credit=8MiB"),
             all = with(",priority=on,credit=1GiB");
  EXPECT_LT(one, more);
  EXPECT_LT(more, all);
}

/// VGG-16's first layers take most of the time and have few parameters: their forward hides behind the pushes
/// of the others, and no more than that is to be gained.
TEST(Priority, OfPushesHidesTheNextForward) {
  const System system = System::load("5090-2x", {{"nodes", "3"}, {"network.bandwidth", "10Gbit/s"}});
  const Graph vgg = Graph::load("vgg16");
  const auto plan = [&](const std::string& more) {
    const ResolvedScheme scheme =
        resolve_scheme("parameter-server:server=nodes,shards=1,bucket=0B,partition=1MiB" + more, {});
    Request p = question(scheme, system);
    p.job.graph = &vgg;
    p.job.batch = 32;
    return make_plan(p);
  };
  const BoundProgram first = plan("");
  const double plain = iteration(first), need = iteration(plan(",priority=on")),
               whole = iteration(plan(",priority=on,pull=all"));
  const double forward = seconds(first, "forward");
  EXPECT_LT(need, plain - 0.5 * forward);
  EXPECT_GT(need, plain - forward);
  EXPECT_NEAR(whole, plain, 0.1 * forward) << "who waits for every pull gains nothing by order";
}

}  // namespace
}  // namespace tandem::tests
