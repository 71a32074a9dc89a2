// SPDX-License-Identifier: Apache-2.0
#include "schemes/program/program.h"

#include <gtest/gtest.h>

#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

/// A worker that trains and a server that answers.
Program small() {
  Builder b;
  RoleBuilder w = b.role("worker", {{{"node", 2}, {"local", 2}}}),
              s = b.role("server", {{{"shard", 3}}}, Site::hosts);
  const uint32_t push = b.channel(w, s, Address::shards, {{100}, {200}});
  const uint32_t pull = b.channel(s, w, Address::reply, {{100}, {200}});
  const uint32_t store = b.store(s, {0, 4, 4, 0, false});
  OpHandle in = w.input(CopyKind::input, 32, {4096}, "input");
  Kernel k;
  k.flops = {1000};
  k.read = {10};
  k.written = {20};
  k.repeat = 3;
  const OpId f = w.compute({1, 2, Pass::forward, {k}}, "forward \"a\\b\"").after(in);
  in.after_last(f, 2);
  const OpId sum = w.collective(CollKind::reduce_scatter, 2, {400}, "ring", "sum").after(f).every(2);
  w.send(push, 0, {100}, "push 0").after(sum);
  w.send(push, 1, {200}, "push 1").on(Lane::host);
  w.recv(pull, 0, "pull 0").on(Lane::host);
  w.recv(pull, 1, "pull 1").on(Lane::host);
  s.on(push);
  const OpId merged = s.apply(store);
  const OpId open = s.gate(store).after(merged);
  s.reply(pull).after(open);
  b.samples_per_iteration(32);
  b.micro_batches(2);
  return b.finish();
}

TEST(Program, MeshSizeIsTheCheckedProduct) {
  EXPECT_EQ(Mesh{}.size(), 1);
  EXPECT_EQ((Mesh{{{"a", 3}, {"b", 5}}}).size(), 15);
  const Mesh huge{{{"a", INT32_MAX}, {"b", INT32_MAX}, {"c", INT32_MAX}}};
  EXPECT_THROW(huge.size(), InputError);
}

TEST(Program, OnlyProgramsWithoutMessagesAreStatic) {
  EXPECT_FALSE(is_static(small()));
  EXPECT_TRUE(is_static(compile("allreduce", small_mlp(), {4, 1, 4})));
  EXPECT_FALSE(is_static(compile("parameter-server", small_mlp(), {4, 1, 4})));
  Builder gossip;  // nobody serves, and yet the order of arrivals matters
  RoleBuilder w = gossip.role("worker", {{{"data", 4}}});
  const uint32_t push = gossip.channel(w, w, Address::sampled_peer, {Bytes{8}});
  w.send(push, 0, Bytes{8}, "push");
  w.recv(push, 0, "pull");
  EXPECT_FALSE(is_static(gossip.program()));
}

TEST(Program, PrintParsePrintIsTheIdentity) {
  const std::string text = print(small());
  const Program again = parse_program(text);
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(fingerprint(again), fingerprint(small()));
  EXPECT_EQ(samples_per_step(again), 64);
  EXPECT_NO_THROW(check(again));
}

TEST(Program, AveragingAndItsTurnsArePrinted) {
  for (const char* text :
       {"diloco:outer-rate=0.123456789", "elastic-averaging:mode=async", "async-diloco", "gossip",
        "post-local-sgd:after=7", "delayed-allreduce:delay=2",
        "parameter-server:mode=async,rate=delay-adaptive",
        "parameter-server:server=gpu,placement=largest-first,bucket=0B,pull=separate",
        "allreduce:compression=topk,density=0.125", "allreduce:compression=powersgd,error-feedback=off"}) {
    const Program p = compile(text, small_mlp(), {4, 2, 2});
    const Program again = parse_program(print(p));
    EXPECT_EQ(print(again), print(p)) << text;
    EXPECT_NO_THROW(check(again)) << text;
    EXPECT_EQ(again.compression, p.compression) << text;
    ASSERT_EQ(again.tasks.size(), p.tasks.size());
    for (std::size_t i = 0; i < p.tasks.size(); ++i)
      EXPECT_EQ(again.tasks[i].averaging, p.tasks[i].averaging);
  }
}

TEST(Program, OpsRunInTheirTurns) {
  Op op;
  for (const uint16_t every : {1, 3, 4}) {
    for (const uint32_t from : {0U, 3U, 5U}) {
      for (const uint32_t until : {6U, 9U, Op::kEver}) {
        op.every = every;
        op.from = from;
        op.until = until;
        int64_t times = 0;
        for (uint32_t i = 0; i < 20; ++i) {
          EXPECT_EQ(op.times(i), times) << every << " " << from << " " << until << " " << i;
          times += op.runs(i) ? 1 : 0;
        }
      }
    }
  }
}

TEST(Program, PeersAreOthers) {
  std::vector<int> met(5);
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint32_t peer = peer_of(Address::sampled_peer, 3, 5, 1, i);
    ASSERT_LT(peer, 5U);
    ++met[peer];
  }
  EXPECT_EQ(met[3], 0);
  for (const int p : {0, 1, 2, 4}) EXPECT_NEAR(met[static_cast<std::size_t>(p)], 500, 80);
  EXPECT_EQ(peer_of(Address::next_peer, 4, 5, 1, 9), 0U);
}

TEST(Program, FingerprintSeesEveryChange) {
  Program p = small();
  const uint64_t before = fingerprint(p);
  p.roles[0].ops[1].deps.pop_back();
  EXPECT_NE(fingerprint(p), before);
}

TEST(Program, ParseNamesTheLineOfWhatIsWrong) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_program(text, "p.txt");
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message("").substr(0, 5), "p.txt");
  EXPECT_NE(message("tandem-program-1\nrole hosts mesh=a:2 on=- \"w\"\n 0 compile compute\n").find("p.txt:3"),
            std::string::npos);
  EXPECT_NE(message("tandem-program-1\ncollective 0 all_reduse axes=1 algorithm=auto root=0\n")
                .find("Did you mean all_reduce"),
            std::string::npos);
  EXPECT_NE(message("tandem-program-1\nsamples -4\n").find("p.txt:2"), std::string::npos);
}

/// Cutting or changing any byte gives a program or an InputError, never anything else.
TEST(Program, ParserSurvivesDamagedText) {
  const std::string text = print(small());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string cut = text.substr(0, i), changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 5);
    for (const std::string& damaged : {cut, changed}) {
      try {
        check(parse_program(damaged));
      } catch (const InputError&) {
      } catch (const ProgramError&) {
      }
    }
  }
}

}  // namespace
}  // namespace tandem::tests
