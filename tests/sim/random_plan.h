// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random static plans with everything a static program may hold.
#include "tests/sim/workloads.h"

namespace tandem::tests::workloads {

struct RandomPlanOptions {
  bool uniform = false;    ///< one class of instances
  bool noisy = false;      ///< with a disturbance
  bool irregular = false;  ///< with stragglers and pauses
  bool links = false;      ///< transfers use links, each its own, so that none can slow another
  int64_t scale = 1;       ///< multiplies every duration
};

class RandomPlan {
 public:
  RandomPlan(uint64_t seed, RandomPlanOptions options) : random_(seed), options_(options) {}

  BoundProgram make() {
    auto program = std::make_shared<Program>();
    program->labels = {"op"};
    program->tasks.emplace_back();
    program->copies = {{CopyKind::input, 1}, {CopyKind::device_to_host, 0}};
    const auto roles = 1 + pick(2);
    for (uint64_t r = 0; r < roles; ++r) add_role(*program);
    check(*program);
    for (const Role& role : program->roles) add_costs(role);
    if (options_.noisy) {
      plan_.disturbance = {0.2, 0.1, 0.3, 0.2, 2.5, {{0, 1.5}}, {{1.1, 0.8, 1}, {0.9, 1.4, 0.7}}};
      plan_.seed = random_.next();
    }
    if (options_.irregular) {
      plan_.disturbance.stragglers = {0.3, 1.4};
      plan_.disturbance.pauses = {4e-8, 2e-8};
      plan_.seed = random_.next();
    }
    plan_.program = std::move(program);
    return std::move(plan_);
  }

 private:
  uint64_t pick(uint64_t n) { return random_.next() % n; }

  void add_role(Program& program) {
    Role role;
    role.name = "role" + std::to_string(program.roles.size());
    if (!program.roles.empty()) role.site = Site::hosts;  // one role works on the accelerators
    const auto axes = 1 + pick(3);
    for (uint64_t a = 0; a < axes; ++a)
      role.mesh.axes.push_back({"axis" + std::to_string(a), static_cast<int32_t>(1 + pick(4))});
    const auto ops = static_cast<uint32_t>(1 + pick(14));
    for (uint32_t o = 0; o < ops; ++o) {
      Op op;
      const auto kind = pick(4);
      if (kind == 2) {
        op.kind = OpKind::copy;
        op.lane = Lane::copy;
        op.what = static_cast<uint32_t>(pick(2));
      } else if (kind == 3) {
        op.kind = OpKind::collective;
        op.lane = Lane::comm;
        op.what = static_cast<uint32_t>(program.collectives.size());
        program.collectives.push_back(
            {CollKind::all_reduce, static_cast<uint32_t>(1 + pick((1U << axes) - 1)), "auto", 0});
      }
      if (pick(4) == 0) op.every = static_cast<uint16_t>(1 + pick(4));
      for (auto deps = pick(4); deps > 0; --deps) {
        const auto lag = static_cast<uint16_t>(o == 0 ? 1 + pick(3) : pick(3));
        op.deps.push_back({static_cast<uint32_t>(pick(lag == 0 ? o : ops)), lag});
      }
      role.ops.push_back(op);
    }
    program.roles.push_back(std::move(role));
  }

  int32_t add_transfer() {
    Transfer t;
    t.latency = Time{static_cast<int64_t>(pick(5)) * 1000 * options_.scale};
    // Multiples of 1000 ps at 1e9 bytes/s, so that scaling is exact.
    t.bytes = static_cast<double>(static_cast<int64_t>(pick(20)) * options_.scale);
    t.cap = 1e9;
    if (options_.links) {
      t.cap = pick(2) == 0 ? 0 : 1e9;
      t.uses.push_back({static_cast<uint32_t>(plan_.capacity.size()), 0.5F});
      plan_.capacity.push_back(3e9 + static_cast<double>(pick(1'000'000)));
    }
    plan_.transfers.push_back(std::move(t));
    return static_cast<int32_t>(plan_.transfers.size() - 1);
  }

  void add_costs(const Role& role) {
    RoleCosts costs;
    const auto instances = static_cast<uint64_t>(role.mesh.size());
    // Links of a class are the links of its instances: private ones need a class each.
    const uint64_t classes = options_.uniform ? 1 : options_.links ? instances : 1 + pick(3);
    for (uint64_t c = 0; c < classes; ++c) {
      costs.duration.emplace_back();
      costs.transfer.emplace_back();
      for (const Op& op : role.ops) {
        const bool computes = op.kind == OpKind::compute;
        costs.duration.back().push_back(
            Time{computes ? static_cast<int64_t>(1 + pick(30)) * 1000 * options_.scale : 0});
        costs.transfer.back().push_back(computes ? -1 : add_transfer());
      }
    }
    if (pick(2) == 0) add_issue(role, costs);
    for (uint64_t i = 0; i < instances && !options_.uniform; ++i) {
      costs.class_of.push_back(static_cast<uint32_t>(options_.links ? i : pick(classes)));
    }
    plan_.roles.push_back(std::move(costs));
  }

  /// A host that takes about as long as the device.
  void add_issue(const Role& role, RoleCosts& costs) {
    costs.runs_ahead = pick(2) == 0;
    for (std::size_t c = 0; c < costs.duration.size(); ++c) {
      Time sum;
      costs.issued.emplace_back();
      for (const Op& op : role.ops) {
        if (op.kind == OpKind::compute) sum.ps += static_cast<int64_t>(pick(30)) * 1000 * options_.scale;
        costs.issued.back().push_back(sum);
      }
      costs.issue.push_back(sum);
    }
    for (const Op& op : role.ops)
      costs.awaited.push_back(op.kind == OpKind::compute && pick(4) == 0);  // read before the host goes on
  }

  SplitMix64 random_;
  RandomPlanOptions options_;
  BoundProgram plan_;
};

}  // namespace tandem::tests::workloads
