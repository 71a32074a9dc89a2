// SPDX-License-Identifier: Apache-2.0
// Random programs: check() accepts or refuses with ProgramError, and what it accepts runs to its end.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>

#include "base/random.h"
#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Program run() {
    workers_.emplace(b_.role("a", {{{"node", size()}, {"local", size()}}}));
    others_.emplace(b_.role("b", b_.program().roles[0].mesh, Site::hosts));
    server_.emplace(b_.role("server", {{{"shard", size()}}}, Site::hosts));
    push_ = b_.channel(*workers_, *server_, Address::shards, {{8}, {16}});
    pull_ = b_.channel(*server_, *workers_, Address::reply, {{8}, {16}});
    there_ = b_.channel(*workers_, *others_, Address::same_index, {{8}});
    back_ = b_.channel(*others_, *workers_, Address::same_index, {{8}});
    const uint32_t store = b_.store(*server_, {0, size(), 1 + pick(2), pick(3), false});
    server_->on(push_);
    const OpId merged = server_->apply(store);
    const OpId open = server_->gate(store).after(merged);
    server_->reply(pull_).after(open);
    const int ops = 1 + pick(12);
    for (int i = 0; i < ops; ++i) add(pick(2) == 0 ? *workers_ : *others_);
    // Half of the time the messages are completed, so that many programs are sound.
    if (pick(2) == 0) complete();
    return b_.program();
  }

 private:
  int pick(int n) { return static_cast<int>(random_.next() % static_cast<uint64_t>(n)); }
  int32_t size() { return 1 + pick(3); }

  void add(RoleBuilder& role) {
    const bool worker = role.index() == 0;
    OpHandle op = one(role, worker);
    const uint32_t index = op.id().index;
    for (int d = pick(3); d > 0; --d) {
      const int reach = static_cast<int>(index);
      if (pick(3) == 0) {
        op.after_last(OpId{static_cast<uint32_t>(pick(reach + 3))}, static_cast<uint16_t>(1 + pick(2)));
      } else if (reach > 0 || pick(8) == 0) {
        op.after(OpId{static_cast<uint32_t>(pick(reach + (reach == 0 || pick(8) == 0 ? 2 : 0)))});
      }
    }
    if (pick(6) == 0) op.every(1 + pick(3));
  }

  OpHandle one(RoleBuilder& role, bool worker) {
    const auto key = static_cast<uint32_t>(pick(2));
    switch (pick(7)) {
      case 0:
        return role.collective(CollKind::all_reduce, static_cast<uint32_t>(1 + pick(4)), {64}, "ring", "sum");
      case 1:
        return worker ? role.send(push_, key, {key == 0 ? 8 : 16}, "push") : role.send(back_, 0, {8}, "back");
      case 2:
        return worker ? role.recv(pull_, key, "pull").on(Lane::host) : role.recv(there_, 0, "there");
      case 3:
        return worker ? role.send(there_, 0, {8}, "there") : role.recv(there_, 0, "there");
      case 4:
        return role.input(CopyKind::input, 1 + pick(4), {32}, "input");
      default:
        return role.compute({}, "work");
    }
  }

  /// Adds what is missing on either side of every port.
  void complete() {
    std::map<std::pair<uint32_t, uint32_t>, int> open;
    for (const Role& r : b_.program().roles) {
      for (const Op& op : r.ops) {
        if (op.kind == OpKind::send) ++open[{op.what, op.key}];
        if (op.kind == OpKind::recv) --open[{op.what == pull_ ? push_ : op.what, op.key}];
      }
    }
    open[{pull_, 0}] = 0;  // the server's own reply
    for (auto& [port, n] : open) {
      const auto [channel, key] = port;
      for (; n > 0; --n) {
        if (channel == push_)
          workers_->recv(pull_, key, "pull").on(Lane::host);
        else
          (channel == there_ ? *others_ : *workers_).recv(channel, key, "late");
      }
      for (; n < 0; ++n) {
        if (channel == push_)
          workers_->send(push_, key, {key == 0 ? 8 : 16}, "push");
        else
          (channel == there_ ? *workers_ : *others_).send(channel, key, {8}, "late");
      }
    }
  }

  SplitMix64 random_;
  Builder b_;
  std::optional<RoleBuilder> workers_, others_, server_;
  uint32_t push_ = 0, pull_ = 0, there_ = 0, back_ = 0;
};

/// Executes `iterations` of all repeating roles by rules 1.2-1.4 and 3.4, one instance each and in any legal
/// order. True when every op ran.
bool runs_to_its_end(const Program& p, uint32_t iterations) {
  struct Cursor {
    uint32_t iteration = 0;
    std::size_t op = 0;
  };
  std::vector<std::vector<std::vector<bool>>> done(p.roles.size());  // [role][iteration][op]
  std::vector<std::array<Cursor, kLanes>> at(p.roles.size());
  std::map<std::pair<uint32_t, uint32_t>, int> arrived;
  for (std::size_t r = 0; r < p.roles.size(); ++r) {
    done[r].assign(iterations, std::vector<bool>(p.roles[r].ops.size(), false));
  }
  const auto satisfied = [&](std::size_t r, uint32_t i, const Dep& d) {
    if (d.lag > i) return true;
    const Op& on = p.roles[r].ops[d.op];
    return (i - d.lag + 1) % on.every != 0 || done[r][i - d.lag][d.op];
  };
  const auto step = [&](std::size_t r, int lane) {
    Cursor& c = at[r][static_cast<std::size_t>(lane)];
    const auto& ops = p.roles[r].ops;
    while (c.iteration < iterations) {
      if (c.op == ops.size()) {
        c = {c.iteration + 1, 0};
      } else if (static_cast<int>(ops[c.op].lane) != lane || (c.iteration + 1) % ops[c.op].every != 0) {
        ++c.op;
      } else {
        break;
      }
    }
    if (c.iteration == iterations) return false;
    const Op& op = ops[c.op];
    for (const Dep& d : op.deps) {
      if (!satisfied(r, c.iteration, d)) return false;
    }
    if (op.kind == OpKind::recv && arrived[{op.what, op.key}]-- <= 0) {
      ++arrived[{op.what, op.key}];
      return false;
    }
    if (op.kind == OpKind::send) {
      const uint32_t to = p.channels[op.what].to_role;
      if (p.roles[to].on_channel < 0) ++arrived[{op.what, op.key}];
      for (const Op& answer : p.roles[to].ops) {
        if (p.roles[to].on_channel >= 0 && answer.kind == OpKind::send) ++arrived[{answer.what, op.key}];
      }
    }
    done[r][c.iteration][c.op++] = true;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < p.roles.size(); ++r) {
      for (int lane = 0; lane < kLanes && p.roles[r].on_channel < 0; ++lane) moved |= step(r, lane);
    }
  }
  for (std::size_t r = 0; r < p.roles.size(); ++r) {
    if (p.roles[r].on_channel >= 0) continue;
    for (const Cursor& c : at[r]) {
      if (c.iteration != iterations) return false;
    }
  }
  return true;
}

TEST(RandomProgram, IsAcceptedOrRefusedAndNeverHangs) {
  int accepted = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program p = Generator(seed).run();
    ASSERT_EQ(print(parse_program(print(p))), print(p));
    try {
      check(p);
    } catch (const ProgramError&) {
      ++refused;
      continue;
    }
    ++accepted;
    ASSERT_TRUE(runs_to_its_end(p, 7)) << print(p);
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace tandem::tests
