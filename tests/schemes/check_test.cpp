// SPDX-License-Identifier: Apache-2.0
// check() must refuse each kind of bad program and say which rule it breaks.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

/// Sound, with something of every kind: workers 2 x 2, server of 2 shards.
Program sound() {
  return compile("parameter-server:mode=ssp,slack=1,push=node,bucket=64KiB,shards=2", small_mlp(), {4, 2, 2});
}

std::string refusal(const std::function<void(Program&)>& damage) {
  Program p = sound();
  damage(p);
  try {
    check(p);
  } catch (const ProgramError& e) {
    return e.what();
  }
  return "accepted";
}

Op& worker_op(Program& p, OpKind kind, int which = 0) {
  for (Op& op : p.roles[0].ops) {
    if (op.kind == kind && which-- == 0) return op;
  }
  throw std::runtime_error("no such op");
}

#define EXPECT_REFUSED(words, damage) \
  EXPECT_NE(refusal([](Program & p) damage).find(words), std::string::npos) << refusal([](Program & p) damage)

TEST(Check, AcceptsTheSoundProgram) { EXPECT_NO_THROW(check(sound())); }

TEST(Check, RefusesBadTables) {
  EXPECT_REFUSED("needs a role", { p.roles.clear(); });
  EXPECT_REFUSED("no instances", { p.roles[0].mesh.axes[0].size = 0; });
  EXPECT_REFUSED("at least one iteration", { p.micro_batches = 0; });
  EXPECT_REFUSED("a negative delay", { p.delay = -1; });
  EXPECT_REFUSED("a negative number of cores", { p.comm_cores = -1; });
  EXPECT_REFUSED("a negative number of replicas", { p.replicas = -1; });
  EXPECT_REFUSED("negative samples per iteration", { p.samples_per_iteration = -1; });
  EXPECT_REFUSED("a name without spaces", { p.roles[0].mesh.axes[0].name = "a b"; });
  EXPECT_REFUSED("must be numbers", { p.tasks[0].averaging.rate = std::numeric_limits<float>::quiet_NaN(); });
  EXPECT_REFUSED("more than 2^31", { p.roles[0].mesh.axes[0].size = INT32_MAX; });
  EXPECT_REFUSED("must repeat every iteration", { p.roles[0].on_channel = 0; });
  EXPECT_REFUSED("channel that does not exist", { p.roles[1].on_channel = 9; });
  EXPECT_REFUSED("leads elsewhere", {
    p.channels[0].to_role = 0;
    p.channels[0].address = Address::same_index;
  });
  EXPECT_REFUSED("role that does not exist", { p.channels[0].to_role = 7; });
  EXPECT_REFUSED("only shards own keys", { p.channels[0].owners = {0}; });
  EXPECT_REFUSED("only shards own keys", { p.channels[1].owners.assign(p.channels[1].key_bytes.size(), 0); });
  EXPECT_REFUSED("owner does not exist", { p.channels[0].owners.assign(p.channels[0].key_bytes.size(), 2); });
  EXPECT_REFUSED("parts of no layer", { p.channels[0].parts = 0; });
  EXPECT_REFUSED("parts of no layer", { p.channels[0].parts = 2; });
  EXPECT_REFUSED("has no keys", { p.channels[0].key_bytes.clear(); });
  EXPECT_REFUSED("other keys", { p.channels[1].key_bytes.push_back({1}); });
  EXPECT_REFUSED("different size", { p.channels[0].address = Address::same_index; });
  EXPECT_REFUSED("sampled_peer", { p.channels[0].address = Address::sampled_peer; });
  EXPECT_REFUSED("batch", { p.stores[0].batch = 0; });
  EXPECT_REFUSED("slack", { p.stores[0].slack = -1; });
  EXPECT_REFUSED("never opens", { p.stores[0].quorum = 5; });
  EXPECT_REFUSED("does not run per message", { p.stores[0].role = 0; });
}

uint32_t behind(std::size_t size) { return static_cast<uint32_t>(size); }

/// The first index behind each table, which is the nearest of the wrong ones.
TEST(Check, RefusesIndicesThatDoNotExist) {
  EXPECT_REFUSED("task does not exist", { worker_op(p, OpKind::compute).what = behind(p.tasks.size()); });
  EXPECT_REFUSED("copy does not exist", { worker_op(p, OpKind::copy).what = behind(p.copies.size()); });
  EXPECT_REFUSED("collective does not exist",
                 { worker_op(p, OpKind::collective).what = behind(p.collectives.size()); });
  EXPECT_REFUSED("channel does not exist", { worker_op(p, OpKind::send).what = behind(p.channels.size()); });
  EXPECT_REFUSED("channel does not exist", { worker_op(p, OpKind::recv).what = behind(p.channels.size()); });
  EXPECT_REFUSED("key does not exist",
                 { worker_op(p, OpKind::send).key = behind(p.channels[0].key_bytes.size()); });
  EXPECT_REFUSED("key does not exist",
                 { worker_op(p, OpKind::recv).key = behind(p.channels[1].key_bytes.size()); });
  EXPECT_REFUSED("store does not exist", { p.roles[1].ops[0].what = behind(p.stores.size()); });
  EXPECT_REFUSED("(compute \"\"): its label does not exist",
                 { worker_op(p, OpKind::compute).label = behind(p.labels.size()); });
  EXPECT_REFUSED("which does not exist", {
    worker_op(p, OpKind::compute).deps.push_back({behind(p.roles[0].ops.size()), 1});
  });
  EXPECT_REFUSED("bucket that does not exist",
                 { worker_op(p, OpKind::collective).key = behind(p.buckets.size()); });
  EXPECT_REFUSED("is of a role that does not exist", { p.buckets.back().role = behind(p.roles.size()); });
  EXPECT_REFUSED("role that does not exist", { p.channels[0].to_role = behind(p.roles.size()); });
  EXPECT_REFUSED("role that does not exist", { p.channels[1].from_role = behind(p.roles.size()); });
  EXPECT_REFUSED("channel that does not exist",
                 { p.roles[1].on_channel = static_cast<int32_t>(p.channels.size()); });
  EXPECT_REFUSED("held by a role that does not exist", { p.stores[0].role = behind(p.roles.size()); });
  EXPECT_REFUSED("no other role that runs per message",
                 { p.stores[0].reader = static_cast<int32_t>(p.roles.size()); });
  EXPECT_REFUSED("no other role that runs per message", { p.stores[0].reader = 0; });
  EXPECT_REFUSED("no other role that runs per message", { p.stores[0].reader = 1; });
}

/// What just holds, and what just does not.
TEST(Check, DrawsLinesWhereTheRulesDo) {
  EXPECT_EQ(refusal([](Program& p) { p.samples_per_iteration = 0; }), "accepted");
  EXPECT_REFUSED("negative samples", { p.samples_per_iteration = -1; });
  EXPECT_REFUSED("no instances", { p.roles[0].mesh.axes[1].size = 0; });
  EXPECT_REFUSED("without spaces", { p.roles[0].mesh.axes[0].name = "a:b"; });
  EXPECT_REFUSED("does not follow", { p.buckets[0].first = 1; });
  EXPECT_REFUSED("comes after those of a later role", { p.buckets[0].role = 1; });
  EXPECT_REFUSED("does not follow", { p.buckets[0].elements = -1; });
  EXPECT_REFUSED("does not follow", { p.buckets.back().elements = INT64_MAX - p.buckets.back().first + 1; });
  EXPECT_REFUSED("negative bytes", { p.channels[0].key_bytes[0].n = -1; });
  EXPECT_REFUSED("negative bytes", { worker_op(p, OpKind::copy).bytes.n = -1; });
  EXPECT_EQ(refusal([](Program& p) { worker_op(p, OpKind::copy).bytes.n = 0; }), "accepted");
  EXPECT_EQ(refusal([](Program& p) { p.stores[0].quorum = 2; }), "accepted");
  EXPECT_REFUSED("never opens", { p.stores[0].quorum = 3; });
  EXPECT_REFUSED("never opens", { p.stores[0].quorum = 0; });
  EXPECT_REFUSED("do not divide over 4 workers", { p.stores[0].shares = 3; });
  EXPECT_REFUSED("do not divide", { p.stores[0].shares = 0; });
  EXPECT_EQ(refusal([](Program& p) { p.stores[0].slack = 0; }), "accepted");
  EXPECT_REFUSED("every must be", { worker_op(p, OpKind::copy).every = 0; });
  EXPECT_REFUSED("not a member", { p.collectives[0].root = 2; });
  EXPECT_EQ(refusal([](Program& p) { p.collectives[0].root = 1; }), "accepted");
  EXPECT_REFUSED("spans an axis that the mesh lacks", { p.collectives[0].axes = 1U << 31; });
  EXPECT_REFUSED("spans an axis that the mesh lacks", { p.collectives[0].axes = 1U << 2; });
  EXPECT_REFUSED("can only reply", { p.channels[1].address = Address::shards; });
  EXPECT_REFUSED("only a role that runs per message replies", { p.channels[0].address = Address::reply; });
  EXPECT_REFUSED("works on its shard", { worker_op(p, OpKind::copy).payload = Payload::shard; });
}

TEST(Check, RefusesOpsOutOfPlace) {
  EXPECT_REFUSED("may not use lane", { worker_op(p, OpKind::compute).lane = Lane::comm; });
  EXPECT_REFUSED("may not use lane", { worker_op(p, OpKind::compute).lane = Lane::host; });
  EXPECT_REFUSED("may not use lane", { worker_op(p, OpKind::copy).lane = Lane::reload; });
  EXPECT_REFUSED("may not use lane", { worker_op(p, OpKind::collective).lane = Lane::host; });
  EXPECT_REFUSED("may not use lane", { worker_op(p, OpKind::recv).lane = Lane::compute; });
  EXPECT_REFUSED("may only compute, apply, gate and reply",
                 { p.roles[1].ops.push_back(worker_op(p, OpKind::copy)); });
  EXPECT_REFUSED("cannot look back", { p.roles[1].ops[1].deps.push_back({0, 1}); });
  EXPECT_REFUSED("knows no iterations", { p.roles[1].ops[0].every = 2; });
  EXPECT_REFUSED("held by another role", { p.roles[0].ops.push_back(p.roles[1].ops[0]); });
  EXPECT_REFUSED("another role", { worker_op(p, OpKind::send).what = 1; });
  EXPECT_REFUSED("another role", { worker_op(p, OpKind::recv).what = 0; });
}

TEST(Check, RefusesBadCollectives) {
  EXPECT_REFUSED("spans no axis", { p.collectives[0].axes = 0; });
  EXPECT_REFUSED("mesh lacks", { p.collectives[0].axes = 4; });
  EXPECT_REFUSED("root", { p.collectives[0].root = 2; });
  EXPECT_REFUSED("not a name", { p.collectives[0].algorithm = "a b"; });
}

TEST(Check, RefusesMessagesThatDoNotMatch) {
  EXPECT_REFUSED("bytes where the channel's key", { worker_op(p, OpKind::send).bytes.n += 1; });
  EXPECT_REFUSED("rule 3.4", { worker_op(p, OpKind::send).every = 2; });
  EXPECT_REFUSED("rule 3.4", { p.roles[1].ops.pop_back(); });
  EXPECT_REFUSED("rule 3.4", { worker_op(p, OpKind::recv, 1).key = worker_op(p, OpKind::recv, 0).key; });
}

TEST(Check, RefusesForwardDependenciesAndDeadlocks) {
  EXPECT_REFUSED("not earlier", { p.roles[0].ops[1].deps.push_back({3, 0}); });
  EXPECT_REFUSED("not earlier", { p.roles[0].ops[1].deps.push_back({1, 0}); });
  // The pull in front of its own push, on one lane: each waits for the other.
  EXPECT_REFUSED("deadlock", {
    Op& first = worker_op(p, OpKind::send);
    Op& last = worker_op(p, OpKind::recv);
    first.deps.clear();
    last.deps.clear();
    std::swap(first, last);
  });
}

TEST(Check, RefusesTwoRolesThatWaitForEachOther) {
  const auto program = [](bool crossed) {
    Builder b;
    RoleBuilder x = b.role("x", {{{"i", 2}}}), y = b.role("y", {{{"i", 2}}}, Site::hosts);
    const uint32_t xy = b.channel(x, y, Address::same_index, {{8}}),
                   yx = b.channel(y, x, Address::same_index, {{8}});
    x.send(xy, 0, {8}, "there");
    x.recv(yx, 0, "back");
    if (crossed) std::swap(b.program().roles[0].ops[0], b.program().roles[0].ops[1]);
    y.recv(xy, 0, "there");
    y.send(yx, 0, {8}, "back");
    return b.program();
  };
  EXPECT_NO_THROW(check(program(false)));
  EXPECT_THROW(check(program(true)), ProgramError);
}

}  // namespace
}  // namespace tandem::tests
