// SPDX-License-Identifier: Apache-2.0
// Runs every schedule on integers: the result must be exact on every rank, the bytes the textbook's.
#include "schemes/collectives/collectives.h"
#include "exec/execute.h"

#include <gtest/gtest.h>

#include <bit>

namespace tandem::tests {
namespace {

using Buffers = std::vector<std::vector<int64_t>>;  // [rank][chunk]

/// A value that no other (rank, chunk) or small sum of them has by accident.
int64_t value(uint32_t rank, uint32_t chunk) {
  return (int64_t{rank} + 1) * 1'000'003 + int64_t{chunk} * 7'919;
}

Buffers initial(CollKind kind, const Schedule& s) {
  const uint32_t block = s.chunks / s.ranks;
  Buffers b(s.ranks, std::vector<int64_t>(s.chunks));
  for (uint32_t r = 0; r < s.ranks; ++r) {
    for (uint32_t c = 0; c < s.chunks; ++c) {
      const bool has = (kind == CollKind::broadcast && r == 0) ||
                       (kind == CollKind::all_gather && c / block == r) ||
                       (kind != CollKind::broadcast && kind != CollKind::all_gather);
      b[r][c] = has ? value(r, c) : -1;
    }
  }
  return b;
}

/// All moves of a step read what was there before it.
Buffers execute(CollKind kind, const Schedule& s) {
  Buffers now = initial(kind, s);
  for (const Step& step : s.steps) {
    EXPECT_EQ(step.repeat, 1U);
    const Buffers before = now;
    for (const Move& m : step.moves) {
      EXPECT_NE(m.from, m.to);
      EXPECT_LE(m.offset + m.count, s.chunks);
      for (uint32_t c = m.offset; c < m.offset + m.count; ++c) {
        int64_t& at = now[m.to][kind == CollKind::all_to_all ? m.from : c];
        at = m.reduce ? at + before[m.from][c] : before[m.from][c];
      }
    }
  }
  return now;
}

int64_t sum(uint32_t ranks, uint32_t chunk) {
  int64_t total = 0;
  for (uint32_t r = 0; r < ranks; ++r) total += value(r, chunk);
  return total;
}

/// What rank r must hold in chunk c; -2 where anything may stand.
int64_t wanted(CollKind kind, const Schedule& s, uint32_t r, uint32_t c) {
  const uint32_t owner = s.chunks >= s.ranks ? c / (s.chunks / s.ranks) : 0;
  switch (kind) {
    case CollKind::all_reduce:
      return sum(s.ranks, c);
    case CollKind::reduce_scatter:
      return owner == r ? sum(s.ranks, c) : -2;
    case CollKind::all_gather:
      return value(owner, c);
    case CollKind::broadcast:
      return value(0, c);
    case CollKind::reduce:
      return r == 0 ? sum(s.ranks, c) : -2;
    case CollKind::all_to_all:
      return value(c, r);
    case CollKind::shift:
      break;  // no algorithm makes it
  }
  return 0;
}

void expect_right(const CollectiveAlgorithm& a, CollKind kind, const GroupShape& group) {
  SCOPED_TRACE(std::string(a.name) + " " + std::string(name(kind)) + " ranks=" + std::to_string(group.ranks) +
               " local=" + std::to_string(group.local));
  const Schedule s = a.schedule(kind, group);
  ASSERT_EQ(s.ranks, group.ranks);
  const Buffers end = execute(kind, s);
  for (uint32_t r = 0; r < s.ranks; ++r) {
    for (uint32_t c = 0; c < s.chunks; ++c) {
      const int64_t want = wanted(kind, s, r, c);
      if (want != -2) {
        ASSERT_EQ(end[r][c], want) << "rank " << r << " chunk " << c;
      }
    }
  }
}

TEST(Collectives, EveryScheduleIsExact) {
  int runs = 0;
  for (const CollectiveAlgorithm& a : collectives_registry().all()) {
    for (int k = 0; k < kCollKinds; ++k) {
      for (uint32_t p = 1; p <= 17; ++p) {
        for (const uint32_t local : {1U, 2U, 4U, 8U}) {
          const GroupShape group{p * local, local};
          if (!a.supports(static_cast<CollKind>(k), group) || group.ranks > 72) continue;
          expect_right(a, static_cast<CollKind>(k), group);
          ++runs;
        }
      }
    }
  }
  EXPECT_GT(runs, 500);
}

TEST(Collectives, SomethingServesEveryKindAtEveryCount) {
  for (int k = 0; k < kCollKinds; ++k) {
    for (uint32_t p = 1; p <= 17; ++p) {
      bool served = false;
      for (const auto& a : collectives_registry().all())
        served |= a.supports(static_cast<CollKind>(k), {p, 1});
      EXPECT_TRUE(served) << name(static_cast<CollKind>(k)) << " of " << p;
    }
  }
}

double share(std::string_view algorithm, CollKind kind, GroupShape group) {
  return sent_share(collectives_registry().at(algorithm).schedule(kind, group));
}

TEST(Collectives, WireBytesMeetTheLowerBound) {
  for (uint32_t p = 2; p <= 17; ++p) {
    const double part = (p - 1.0) / p;
    EXPECT_DOUBLE_EQ(share("ring", CollKind::all_reduce, {p, 1}), 2 * part);
    EXPECT_DOUBLE_EQ(share("direct", CollKind::all_reduce, {p, 1}), 2 * part);
    EXPECT_DOUBLE_EQ(share("ring", CollKind::reduce_scatter, {p, 1}), part);
    EXPECT_DOUBLE_EQ(share("ring", CollKind::all_gather, {p, 1}), part);
    EXPECT_DOUBLE_EQ(share("direct", CollKind::all_to_all, {p, 1}), part);
    EXPECT_DOUBLE_EQ(share("ring", CollKind::broadcast, {p, 1}), 1);
    EXPECT_DOUBLE_EQ(share("central", CollKind::all_reduce, {p, 1}), p - 1.0);
    if (std::has_single_bit(p)) {
      EXPECT_DOUBLE_EQ(share("halving-doubling", CollKind::all_reduce, {p, 1}), 2 * part);
    }
    // An inner node of one tree passes two halves down and one up, and as a leaf of the other one half up.
    EXPECT_LE(share("double-tree", CollKind::all_reduce, {p, 1}), 2);
  }
  EXPECT_DOUBLE_EQ(share("hierarchical", CollKind::all_reduce, {32, 8}), 2 * 7.0 / 8 + 2 * 3.0 / 4 / 8);
}

TEST(Collectives, LatencyStepsAreTheTextbooks) {
  const auto steps = [](std::string_view algorithm, CollKind kind, GroupShape group) {
    return collectives_registry().at(algorithm).schedule(kind, group).steps.size();
  };
  EXPECT_EQ(steps("ring", CollKind::all_reduce, {16, 1}), 30U);
  EXPECT_EQ(steps("halving-doubling", CollKind::all_reduce, {16, 1}), 8U);
  EXPECT_EQ(steps("halving-doubling", CollKind::all_reduce, {17, 1}), 10U);
  EXPECT_EQ(steps("tree", CollKind::all_reduce, {17, 1}), 10U);
  EXPECT_EQ(steps("central", CollKind::all_reduce, {17, 1}), 2U);
  EXPECT_EQ(steps("hierarchical", CollKind::all_reduce, {32, 8}), 7U + 3 + 3 + 7);
  EXPECT_LE(steps("double-tree", CollKind::all_reduce, {64, 1}), 14U);
}

TEST(Collectives, CompactSchedulesCarryTheSameLoad) {
  for (const CollectiveAlgorithm& a : collectives_registry().all()) {
    for (int k = 0; k < kCollKinds; ++k) {
      for (const uint32_t p : {2U, 6U, 16U}) {
        const auto kind = static_cast<CollKind>(k);
        if (!a.supports(kind, {p, 2})) continue;
        const auto count = [](const Schedule& s) {
          uint64_t n = 0;
          for (const Step& step : s.steps) n += step.repeat;
          return n;
        };
        const Schedule full = a.schedule(kind, {p, 2}), compact = a.schedule(kind, {p, 2, true});
        EXPECT_DOUBLE_EQ(sent_share(compact), sent_share(full)) << a.name;
        EXPECT_EQ(count(compact), count(full)) << a.name;
        for (std::size_t s = 0; s < compact.steps.size() && a.name == "ring"; ++s) {
          Step once = compact.steps[s];
          once.repeat = 1;
          EXPECT_DOUBLE_EQ(memory_passes(compact, compact.steps[s]),
                           compact.steps[s].repeat * memory_passes(compact, once));
        }
      }
    }
  }
}

TEST(Collectives, ACompactRingOfManyRanksIsSmall) {
  const Schedule s = collectives_registry().at("ring").schedule(CollKind::all_reduce, {100'000, 1, true});
  EXPECT_EQ(s.steps.size(), 2U);
  EXPECT_NEAR(sent_share(s), 2, 1e-4);
}

/// Among n in one memory: an all-reduce takes n pieces of 1/n and gives as many; sums take n and write one,
/// which is fetched with them; copies fetch what they write.
TEST(Collectives, CountWhatGoesThroughOneMemory) {
  for (const uint32_t n : {2U, 3U, 8U}) {
    const GroupShape group{n, n, false};
    const auto passes = [&](CollKind kind) {
      return memory_passes(executed_algorithm(kind, "auto", group, false).schedule(kind, group));
    };
    EXPECT_DOUBLE_EQ(passes(CollKind::all_reduce), 2);
    EXPECT_DOUBLE_EQ(passes(CollKind::reduce_scatter), 1 + 1.0 / n);
    EXPECT_DOUBLE_EQ(passes(CollKind::all_gather), 3 - 3.0 / n);
  }
}

}  // namespace
}  // namespace tandem::tests
