// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/collective.h"
#include "exec/comm/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "exec/device/cpu/kernel.h"

namespace tandem::tests {
namespace {

constexpr CollKind kKinds[] = {CollKind::all_reduce, CollKind::reduce_scatter, CollKind::all_gather,
                               CollKind::broadcast, CollKind::reduce};

/// Small integers: sums of many are exact in single precision.
float value(uint32_t rank, int64_t element, uint32_t round) {
  return static_cast<float>(
             mix64((uint64_t{rank} << 48) + (uint64_t{round} << 32) + static_cast<uint64_t>(element)) % 17) -
         8;
}

/// Does rank r hold element e's result afterwards, and what is it?
bool holds(CollKind kind, uint32_t ranks, uint32_t rank, int64_t elements, int64_t e) {
  if (kind == CollKind::reduce) return rank == 0;
  if (kind != CollKind::reduce_scatter) return true;
  const int64_t each = elements / ranks, rest = elements % ranks;
  const auto begin = [&](int64_t r) { return each * r + std::min(rest, r); };
  return e >= begin(rank) && e < begin(rank + 1);
}
uint32_t owner(uint32_t ranks, int64_t elements, int64_t e) {
  for (uint32_t r = 0; r < ranks; ++r) {
    if (holds(CollKind::reduce_scatter, ranks, r, elements, e)) return r;
  }
  return ranks;
}
float expected(CollKind kind, uint32_t ranks, int64_t elements, int64_t e, uint32_t round) {
  if (kind == CollKind::broadcast) return value(0, e, round);
  if (kind == CollKind::all_gather) return value(owner(ranks, elements, e), e, round);
  float sum = 0;
  for (uint32_t r = 0; r < ranks; ++r) sum += value(r, e, round);
  return sum;
}

/// Of every element, of each round.
std::vector<std::vector<float>> all_expected(CollKind kind, uint32_t ranks, int64_t elements,
                                             uint32_t rounds) {
  std::vector<std::vector<float>> out(rounds, std::vector<float>(static_cast<std::size_t>(elements)));
  for (uint32_t round = 0; round < rounds; ++round)
    for (int64_t e = 0; e < elements; ++e)
      out[round][static_cast<std::size_t>(e)] = expected(kind, ranks, elements, e, round);
  return out;
}

/// Every rank in a thread of its own runs `rounds` collectives and checks each; returns what was wrong.
std::vector<std::string> run(GroupCollective& group, CollKind kind, int64_t elements, uint32_t rounds,
                             Abort& abort) {
  const uint32_t ranks = group.ranks();
  const std::vector<std::vector<float>> want = all_expected(kind, ranks, elements, rounds);
  std::vector<std::string> wrong(ranks);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      std::vector<float> buffer(static_cast<std::size_t>(elements));
      try {
        for (uint32_t round = 0; round < rounds; ++round) {
          for (int64_t e = 0; e < elements; ++e) buffer[static_cast<std::size_t>(e)] = value(r, e, round);
          for (uint64_t n = draw_bits(3, r, round) % 4; n > 0; --n) std::this_thread::yield();
          group.run(r, buffer.data(), elements);
          for (int64_t e = 0; e < elements; ++e) {
            const float got = buffer[static_cast<std::size_t>(e)];
            if (holds(kind, ranks, r, elements, e) && got != want[round][static_cast<std::size_t>(e)])
              wrong[r] = "element " + std::to_string(e) + " in round " + std::to_string(round);
          }
        }
      } catch (const Stopped&) {
        wrong[r] = "stopped";
      } catch (...) {
        abort.fail(std::current_exception());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return wrong;
}

void check(CollKind kind, const std::string& algorithm, uint32_t ranks, uint32_t local, int64_t elements,
           uint32_t rounds, bool wired) {
  SCOPED_TRACE(testing::Message() << name(kind) << " " << algorithm << " p=" << ranks << " local=" << local
                                  << " n=" << elements);
  Abort abort;
  GroupNodes nodes;
  std::unique_ptr<TcpTransport> transport;
  if (wired) {
    transport = std::make_unique<TcpTransport>((ranks + local - 1) / local, std::nullopt, abort);
    nodes.transport = transport.get();
    nodes.channel = 3;
    for (uint32_t r = 0; r < ranks; ++r) nodes.of_ranks.push_back(r / local);
  }
  GroupCollective group(kind, algorithm, ranks, local, abort, 20, nodes);
  EXPECT_THAT(run(group, kind, elements, rounds, abort), testing::Each(""));
  EXPECT_EQ(abort.why(), nullptr);
}

void check_all(bool wired, const std::vector<uint32_t>& sizes, const std::vector<int64_t>& elements,
               uint32_t local) {
  for (const uint32_t p : sizes) {
    for (const CollectiveAlgorithm& a : collectives_registry().all()) {
      for (const CollKind kind : kKinds) {
        if (!a.supports(kind, {p, local, false})) continue;
        for (const int64_t n : elements) check(kind, std::string(a.name), p, local, n, 2, wired);
      }
    }
  }
}

TEST(GroupCollective, SumsExactlyForEveryAlgorithmKindAndSize) {
  std::vector<uint32_t> sizes;
  for (uint32_t p = 1; p <= 17; ++p) sizes.push_back(p);
  check_all(false, sizes, {1, 37, 1001}, 1);
}

TEST(GroupCollective, SumsExactlyInPiecesThatFitTheCache) {
  check_all(false, {3, 4}, {3 * 16384 * 3 + 5}, 1);
}

TEST(GroupCollective, SumsExactlyBetweenNodes) {
  check_all(true, {2, 3, 4, 5}, {1, 37, 5003}, 1);
  check_all(true, {4, 6}, {2, 5003}, 2);
  check_all(true, {2}, {300'001}, 1);
}

TEST(GroupCollective, StaysExactOverManyRuns) {
  for (const char* algorithm : {"direct", "ring", "halving-doubling", "double-tree", "tree", "central"})
    check(CollKind::all_reduce, algorithm, 5, 1, 203, 100, false);
  check(CollKind::all_reduce, "hierarchical", 4, 2, 203, 100, true);
  check(CollKind::all_reduce, "direct", 4, 2, 203, 100, true);
}

TEST(GroupCollective, AutoDoesEveryKind) {
  for (const CollKind kind : kKinds) {
    check(kind, "auto", 4, 1, 101, 3, false);
    check(kind, "auto", 4, 2, 101, 3, true);
  }
}

TEST(GroupCollective, RoundsTheSameWayEveryTime) {
  const auto sums = [](bool wired) {
    Abort abort;
    TcpTransport transport(3, std::nullopt, abort);
    GroupNodes nodes;
    if (wired) nodes = {&transport, 0, {0, 1, 2}};
    GroupCollective group(CollKind::all_reduce, "direct", 3, 1, abort, 20, nodes);
    std::vector<std::vector<float>> buffers(3, std::vector<float>(997));
    for (uint32_t r = 0; r < 3; ++r) {
      for (uint32_t e = 0; e < 997; ++e)
        buffers[r][e] = static_cast<float>(to_unit(draw_bits(1, r, e))) * (r == 1 ? 1e-3F : 1.0F);
    }
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < 3; ++r) threads.emplace_back([&, r] { group.run(r, buffers[r].data(), 997); });
    for (std::thread& t : threads) t.join();
    return buffers;
  };
  const auto first = sums(false);
  EXPECT_EQ(first[0], first[1]);
  EXPECT_EQ(first[0], first[2]);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(sums(false), first);
    EXPECT_EQ(sums(true), first);
  }
}

TEST(GroupCollective, AFailedMemberLetsTheOthersGo) {
  Abort abort;
  GroupCollective group(CollKind::all_reduce, "ring", 4, 1, abort, 20);
  std::atomic<int> stopped = 0;
  std::vector<std::vector<float>> buffers(3, std::vector<float>(100));
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      try {
        group.run(r, buffers[r].data(), 100);
      } catch (const Stopped&) {
        ++stopped;
      }
    });
  }
  abort.fail(std::make_exception_ptr(DeviceError("the fourth")));
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(stopped, 3);
}

TEST(GroupCollective, RefusesWhatItCannotDo) {
  Abort abort;
  EXPECT_THROW(GroupCollective(CollKind::all_to_all, "auto", 4, 1, abort, 20), InputError);
  EXPECT_THROW(GroupCollective(CollKind::broadcast, "direct", 4, 1, abort, 20), InputError);
  EXPECT_THROW(GroupCollective(CollKind::all_reduce, "hierarchical", 5, 2, abort, 20), InputError);
  EXPECT_THROW(GroupCollective(CollKind::all_reduce, "rings", 4, 1, abort, 20), InputError);
}

/// Numbers of 2 bytes, two in a word, among ranks of one node or of two: what rounding leaves of their sums.
/// Every rank rounds its own once, and each of at most ranks - 1 additions rounds once more (Higham 2002,
/// "Accuracy and Stability of Numerical Algorithms", section 4.2).
void expect_half_sums(Precision format, uint32_t ranks, const std::string& algorithm, bool linked) {
  constexpr int64_t kWords = 307;
  const bool fp16 = format == Precision::fp16;
  const double unit = fp16 ? 0x1p-11 : 0x1p-8, tiny = fp16 ? 0x1p-25 : 0;
  Abort abort;
  TcpTransport transport(2, RateLimit{{1e10}, Time{}}, abort);
  GroupNodes nodes;
  if (linked) {
    nodes = {&transport, 0, {}};
    for (uint32_t r = 0; r < ranks; ++r) nodes.of_ranks.push_back(2 * r / ranks);
  }
  GroupCollective group(CollKind::all_reduce, algorithm, ranks, ranks / 2, abort, 20, nodes);
  std::vector<std::vector<float>> given(ranks), got(ranks);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r) {
    for (int64_t e = 0; e < 2 * kWords; ++e)
      given[r].push_back(static_cast<float>(to_normal(draw_bits(7, r, static_cast<uint64_t>(e)))));
    threads.emplace_back([&, r] {
      std::vector<float> words(kWords);
      cpu::narrow(words.data(), given[r].data(), fp16, 2 * kWords);
      group.run(r, words.data(), kWords, nullptr, Lane::comm, format);
      got[r].resize(2 * kWords);
      cpu::upcast(got[r].data(), words.data(), fp16, 2 * kWords);
    });
  }
  for (std::thread& t : threads) t.join();
  double furthest = 0;
  for (std::size_t e = 0; e < 2 * kWords; ++e) {
    double sum = 0, magnitude = 0;
    for (const auto& g : given) {
      sum += static_cast<double>(g[e]);
      magnitude += std::abs(static_cast<double>(g[e]));
    }
    const double error = std::abs(static_cast<double>(got[0][e]) - sum);
    ASSERT_LE(error, ranks * (unit * magnitude * 1.02 + tiny)) << algorithm << " element " << e;
    furthest = std::max(furthest, error);
    for (const auto& g : got) ASSERT_EQ(g[e], got[0][e]) << "ranks differ";
  }
  EXPECT_GT(furthest, unit / 16) << "nothing was rounded";
}

TEST(Collective, SumsOfTwoBytesAreAsFarOffAsRoundingGoes) {
  for (const Precision format : {Precision::bf16, Precision::fp16}) {
    for (const char* algorithm : {"ring", "tree", "central", "halving-doubling"}) {
      for (const uint32_t ranks : {2U, 4U}) {
        for (const bool linked : {false, true}) expect_half_sums(format, ranks, algorithm, linked);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests
