// SPDX-License-Identifier: Apache-2.0
#pragma once
// Published workloads and small plans that the simulator's tests and benchmarks share.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "schemes/program/builder.h"
#include "sim/bound/bound_program.h"
#include "sim/evaluate/evaluate.h"
#include "tests/sim/flow_workloads.h"

namespace tandem::tests::workloads {

// ---- ring all-reduce over links of 50 GB/s and 500 ns

inline constexpr double kRingBandwidth = 50e9;
inline constexpr int64_t kRingLatency = 500'000;  // ps
inline constexpr double kRingBytes = 104'857'600;

/// The whole all-reduce as one transfer: 2(N-1) steps of latency + bytes / N / bandwidth.
inline Transfer ring_transfer(int64_t ranks, double bytes) {
  Transfer t;
  const int64_t steps = 2 * (ranks - 1);
  t.latency = Time{steps * kRingLatency};
  t.bytes = ranks > 1 ? bytes : 0;
  t.cap = ranks > 1 ? kRingBandwidth * static_cast<double>(ranks) / static_cast<double>(steps) : 0;
  return t;
}

/// All messages of a kind take the same time; applying takes `apply_time`, copying an answer `snapshot`.
class UniformMessages : public BoundProgram::Messages {
 public:
  UniformMessages(Transfer message, Time apply_time, Time snapshot = {})
      : message_(std::move(message)), apply_(apply_time), snapshot_(snapshot) {}
  const Transfer& message(uint32_t, uint32_t, uint32_t, uint32_t) override { return message_; }
  Time apply(uint32_t, uint32_t, uint32_t) override { return apply_; }
  Time snapshot(uint32_t, uint32_t, uint32_t) override { return snapshot_; }

 private:
  Transfer message_;
  Time apply_, snapshot_;
};

/// Costs of the roles of a ring, whose ops are sends and receipts by turns, each send a `message`.
inline BoundProgram ring_plan(Program program, const Transfer& message) {
  BoundProgram plan;
  plan.program = std::make_shared<Program>(std::move(program));
  plan.transfers.push_back(message);
  for (const Role& role : plan.program->roles) {
    RoleCosts costs;
    costs.duration.assign(1, std::vector<Time>(role.ops.size()));
    costs.transfer.assign(1, std::vector<int32_t>(role.ops.size(), -1));
    for (std::size_t o = 0; o < role.ops.size(); o += 2) costs.transfer[0][o] = 0;
    plan.roles.push_back(std::move(costs));
  }
  plan.messages = std::make_shared<UniformMessages>(message, Time{});
  return plan;
}

inline Transfer ring_message(int32_t ranks, double bytes) {
  Transfer message;
  message.bytes = static_cast<double>(static_cast<int64_t>(bytes) / ranks);
  message.latency = Time{kRingLatency};
  message.cap = kRingBandwidth;
  return message;
}

/// A rank's part: it sends on when it has what came in the step before.
inline void ring_steps(RoleBuilder& role, int32_t ranks, uint32_t to, uint32_t from, Bytes chunk) {
  OpId before;
  role.reserve(std::size_t{4} * static_cast<std::size_t>(ranks - 1));
  for (int32_t step = 0; step < 2 * (ranks - 1); ++step) {
    role.send(to, 0, chunk, "send").on(Lane::send).after(before);
    before = role.recv(from, 0, "recv").on(Lane::recv);
  }
}

/// The same with every message an op of its sender and one of its receiver. All ranks run one list, in which
/// each sends to the next.
inline BoundProgram ring_program(int32_t ranks, double bytes) {
  const Transfer message = ring_message(ranks, bytes);
  const Bytes chunk{static_cast<int64_t>(message.bytes)};
  Builder b;
  RoleBuilder rank = b.role("rank", {{{"rank", ranks}}});
  const uint32_t next = b.channel(rank, rank, Address::next_peer, {chunk});
  ring_steps(rank, ranks, next, next, chunk);
  return ring_plan(b.finish(), message);
}

/// The same with a list for each rank, as ranks that are not alike have: a role of its own on one device of a
/// grid.
inline BoundProgram ring_of_roles(int32_t ranks, double bytes) {
  const Transfer message = ring_message(ranks, bytes);
  const Bytes chunk{static_cast<int64_t>(message.bytes)};
  Builder b;
  b.program().grid.axes = {{"rank", ranks}};
  std::vector<RoleBuilder> roles;
  for (int32_t r = 0; r < ranks; ++r) {
    roles.push_back(b.role("rank" + std::to_string(r), {}));
    b.program().roles.back().at = {r};
  }
  std::vector<uint32_t> to;
  for (std::size_t r = 0; r < roles.size(); ++r)
    to.push_back(b.channel(roles[r], roles[(r + 1) % roles.size()], Address::same_index, {chunk}));
  for (std::size_t r = 0; r < roles.size(); ++r)
    ring_steps(roles[r], ranks, to[r], to[(r + roles.size() - 1) % roles.size()], chunk);
  return ring_plan(b.finish(), message);
}

// ---- W2: one data-parallel iteration of ResNet-50

struct Layer {
  int64_t bytes, forward_us;
};
inline std::vector<Layer> resnet50_layers() {
  std::vector<Layer> out{{37632, 76}};
  const auto add = [&](std::initializer_list<Layer> layers, int times = 1) {
    for (int i = 0; i < times; ++i) out.insert(out.end(), layers);
  };
  add({{16384, 8}, {147456, 74}, {65536, 33}, {65536, 33}});
  add({{65536, 33}, {147456, 74}, {65536, 33}}, 2);
  add({{131072, 66}, {589824, 74}, {262144, 33}, {524288, 66}});
  add({{262144, 33}, {589824, 74}, {262144, 33}}, 3);
  add({{524288, 66}, {2359296, 74}, {1048576, 33}, {2097152, 66}});
  add({{1048576, 33}, {2359296, 74}, {1048576, 33}}, 5);
  add({{2097152, 66}, {9437184, 74}, {4194304, 33}, {8388608, 66}});
  add({{4194304, 33}, {9437184, 74}, {4194304, 33}}, 2);
  add({{8192000, 1}});
  return out;
}

/// W2 on `ranks`; with `skew` > 0 rank r adds (7919 r mod skew) us to every compute op (W2j: 97, W2k: 997).
inline BoundProgram resnet50_iteration(int32_t ranks, uint32_t skew = 0) {
  const auto layers = resnet50_layers();
  Builder b;
  RoleBuilder worker = b.role("worker", Mesh{{{"data", ranks}}});
  BoundProgram plan;
  RoleCosts costs;
  std::vector<int64_t> us;
  std::vector<int32_t> transfer;
  const auto compute = [&](int64_t t) {
    us.push_back(t);
    transfer.push_back(-1);
    return worker.compute({}, "compute").id();
  };
  for (const Layer& l : layers) compute(l.forward_us);
  for (std::size_t i = layers.size(); i-- > 0;) {
    const OpId backward = compute(2 * layers[i].forward_us);
    worker.collective(CollKind::all_reduce, 1, Bytes{layers[i].bytes}, "ring", "reduce").after(backward);
    us.push_back(0);
    transfer.push_back(static_cast<int32_t>(plan.transfers.size()));
    plan.transfers.push_back(ring_transfer(ranks, static_cast<double>(layers[i].bytes)));
  }
  const uint32_t classes = skew == 0 ? 1 : skew;
  for (uint32_t c = 0; c < classes; ++c) {
    std::vector<Time> times;
    for (std::size_t o = 0; o < us.size(); ++o) {
      times.push_back(Time{transfer[o] < 0 ? (us[o] + static_cast<int64_t>(c)) * 1'000'000 : 0});
    }
    costs.duration.push_back(std::move(times));
    costs.transfer.push_back(transfer);
  }
  for (uint64_t r = 0; skew > 0 && r < static_cast<uint64_t>(ranks); ++r) {
    costs.class_of.push_back(static_cast<uint32_t>(7919 * r % skew));
  }
  plan.roles.push_back(std::move(costs));
  plan.program = std::make_shared<Program>(b.finish());
  return plan;
}

/// One collective per rank and nothing else: W1 and W3 with the collective as one op.
inline BoundProgram single_collective(std::vector<Axis> axes, Transfer transfer) {
  Builder b;
  Mesh mesh{std::move(axes)};
  const uint32_t all = (1U << mesh.axes.size()) - 1;
  RoleBuilder worker = b.role("worker", mesh);
  worker.collective(CollKind::all_reduce, all, Bytes{static_cast<int64_t>(transfer.bytes)}, "ring", "reduce");
  BoundProgram plan;
  plan.transfers.push_back(std::move(transfer));
  plan.roles.push_back({{}, {{Time{}}}, {{0}}});
  plan.program = std::make_shared<Program>(b.finish());
  return plan;
}

// ---- parameter servers

struct ServerSetting {
  int32_t workers = 4, shards = 1, keys = 1;
  Store store{};  ///< role is set here
  bool gate = false;
  Time compute{1'000'000}, apply{}, snapshot{};
  Transfer message{};  ///< every push and reply
};

/// Workers compute once, push all keys and pull them; the next iteration computes on what came back.
inline BoundProgram parameter_server(const ServerSetting& s) {
  Builder b;
  RoleBuilder worker = b.role("worker", Mesh{{{"data", s.workers}}});
  RoleBuilder server = b.role("server", Mesh{{{"shard", s.shards}}}, Site::extra_nodes);
  const std::vector<Bytes> keys(static_cast<std::size_t>(s.keys), Bytes{1000});
  const uint32_t push = b.channel(worker, server, Address::shards, keys);
  const uint32_t pull = b.channel(server, worker, Address::reply, keys);
  Store store = s.store;
  store.role = server.index();
  const uint32_t parameters = b.store(server, store);
  OpHandle compute = worker.compute({}, "step");
  for (uint32_t k = 0; k < keys.size(); ++k) worker.send(push, k, keys[k], "push").after(compute);
  for (uint32_t k = 0; k < keys.size(); ++k) compute.after_last(worker.recv(pull, k, "pull").on(Lane::host));
  server.on(push);
  server.apply(parameters);
  if (s.gate) server.gate(parameters);
  server.reply(pull);
  BoundProgram plan;
  plan.program = std::make_shared<Program>(b.finish());
  for (const Role& role : plan.program->roles) {
    RoleCosts costs;
    costs.duration.assign(1, std::vector<Time>(role.ops.size()));
    costs.transfer.assign(1, std::vector<int32_t>(role.ops.size(), -1));
    plan.roles.push_back(std::move(costs));
  }
  plan.roles[0].duration[0][0] = s.compute;
  plan.messages = std::make_shared<UniformMessages>(s.message, s.apply, s.snapshot);
  return plan;
}

}  // namespace tandem::tests::workloads
