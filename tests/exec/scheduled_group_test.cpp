// SPDX-License-Identifier: Apache-2.0
// Schedules made of a library's messages give what the same schedules give in shared memory.
#include "exec/comm/scheduled_group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "base/random.h"
#include "exec/comm/collective.h"
#include "exec/device/cpu/kernel.h"
#include "exec/execute.h"
#include "tests/exec/deferred.h"

namespace tandem::tests {
namespace {

/// A library whose messages pass through the host. Where something arrives is spoilt before anything is sent,
/// so that memory which is used for both shows.
class Mailing : public DeviceGroup {
 public:
  void join(uint32_t, DeviceSession&) override {}
  void run(uint32_t, DeviceSession&, float*, int64_t, Lane, Precision) override {
    throw std::logic_error("not asked of those who exchange");
  }
  void exchange(uint32_t rank, DeviceSession& session, std::span<const DeviceMessage> sends,
                std::span<const DeviceMessage> receives, Lane lane) override {
    if (fails && rank == 1 && exchanges > 8) throw DeviceError("the cable is out");
    ++exchanges;
    session.synchronize(lane);
    for (const DeviceMessage& m : receives) {
      const std::vector<float> nothing(static_cast<std::size_t>(m.elements), NAN);
      session.upload(m.at, nothing.data(), m.elements);
    }
    for (const DeviceMessage& m : sends) {
      std::vector<float> values(static_cast<std::size_t>(m.elements));
      session.download(values.data(), m.at, m.elements);
      const std::lock_guard guard(mutex_);
      on_their_way_[{rank, m.peer}].push_back(std::move(values));
    }
    changed_.notify_all();
    for (const DeviceMessage& m : receives) {
      std::unique_lock guard(mutex_);
      auto& from = on_their_way_[{m.peer, rank}];
      changed_.wait(guard, [&] { return stopped_ || !from.empty(); });
      if (from.empty()) throw DeviceError("stopped");
      if (from.front().size() != static_cast<std::size_t>(m.elements))
        throw DeviceError("what arrives is not what is received");
      session.upload(m.at, from.front().data(), m.elements);
      from.pop_front();
    }
  }
  void stop() noexcept override {
    {
      const std::lock_guard guard(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

  static inline std::atomic<int> exchanges{0};
  static inline bool fails = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::vector<float>>> on_their_way_;
};

constexpr char kCpu[] = "cpu";
const Backend kDeferred = deferred<kCpu>();

/// Of two runs one after the other, the second on what the first has left; thirds, so that order shows.
using Buffers = std::vector<std::vector<float>>;
Buffers start(uint32_t ranks, int64_t elements) {
  Buffers out(ranks, std::vector<float>(static_cast<std::size_t>(elements)));
  for (uint32_t r = 0; r < ranks; ++r) {
    for (std::size_t e = 0; e < out[r].size(); ++e)
      out[r][e] = static_cast<float>(draw_bits(5, r, e, 0) % 1000) / 3 - 150;
  }
  return out;
}

/// With numbers of 2 bytes two in each element.
Buffers start(uint32_t ranks, int64_t elements, Precision format) {
  if (element_bytes(format) == 4) return start(ranks, elements);
  Buffers out(ranks, std::vector<float>(static_cast<std::size_t>(elements)));
  const Buffers from = start(ranks, 2 * elements);
  for (uint32_t r = 0; r < ranks; ++r)
    cpu::narrow(out[r].data(), from[r].data(), format == Precision::fp16, 2 * elements);
  return out;
}
/// To the bit.
bool same(const Buffers& a, const Buffers& b) {
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (std::memcmp(a[r].data(), b.at(r).data(), a[r].size() * sizeof(float)) != 0) return false;
  }
  return a.size() == b.size();
}

template <typename Work>
void each_rank(uint32_t ranks, const Work& work) {
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r) threads.emplace_back([&, r] { work(r); });
  for (std::thread& t : threads) t.join();
}

Buffers in_shared_memory(CollKind kind, const std::string& algorithm, GroupShape shape, int64_t elements,
                         Precision format) {
  Abort abort;
  GroupCollective group(kind, algorithm, shape.ranks, shape.local, abort, 20);
  Buffers b = start(shape.ranks, elements, format);
  each_rank(shape.ranks, [&](uint32_t r) {
    for (int i = 0; i < 2; ++i) group.run(r, b[r].data(), elements, nullptr, Lane::comm, format);
  });
  return b;
}

Buffers by_messages(const Schedule& schedule, int64_t elements, int runs,
                    Precision format = Precision::fp32) {
  const auto group = scheduled_group(std::make_unique<Mailing>(), schedule);
  Buffers b = start(schedule.ranks, elements, format);
  each_rank(schedule.ranks, [&](uint32_t r) {
    const auto device = kDeferred.open({r, format, 1});
    float* memory = device->allocate(elements);
    group->join(r, *device);
    device->upload(memory, b[r].data(), elements);
    for (int i = 0; i < runs; ++i) group->run(r, *device, memory, elements, Lane::comm, format);
    device->synchronize(Lane::comm);
    device->download(b[r].data(), memory, elements);
  });
  return b;
}

/// What is sent is what the buffer held before the step, and what arrives comes in the schedule's order.
TEST(ScheduledGroup, WhatIsSentIsNotOverwritten) {
  const Schedule swap{2, 1, {schemes::Step{{{0, 1, 0, 1, false}, {1, 0, 0, 1, false}}, 3}}, 1};
  Buffers expected = start(2, 10);
  std::swap(expected[0], expected[1]);
  EXPECT_EQ(by_messages(swap, 10, 1), expected);

  const Schedule onto{3, 2, {schemes::Step{{{1, 0, 0, 2, false}, {2, 0, 1, 1, true}}, 1}}, 1};
  expected = start(3, 10);
  expected[0] = expected[1];
  for (std::size_t e = 5; e < 10; ++e) expected[0][e] += expected[2][e];
  EXPECT_EQ(by_messages(onto, 10, 1), expected);
}

TEST(ScheduledGroup, EveryAlgorithmGivesWhatSharedMemoryGives) {
  constexpr CollKind kKinds[] = {CollKind::all_reduce, CollKind::reduce_scatter, CollKind::all_gather,
                                 CollKind::broadcast, CollKind::reduce};
  int checked = 0;
  for (const GroupShape shape : {GroupShape{2, 1}, {3, 1}, {4, 1}, {4, 2}, {6, 2}}) {
    for (const CollectiveAlgorithm& a : collectives_registry().all()) {
      const std::string algorithm(a.name);
      for (const CollKind kind : kKinds) {
        if (!a.supports(kind, shape)) continue;
        for (const int64_t n : {1, 7, 1003}) {
          const Precision format = n == 7 ? Precision::bf16 : Precision::fp32;
          const Buffers messages =
                            by_messages(collective_schedule(kind, algorithm, shape, false), n, 2, format),
                        memory = in_shared_memory(kind, algorithm, shape, n, format);
          EXPECT_TRUE(same(messages, memory)) << name(kind) << " " << algorithm << " p=" << shape.ranks
                                              << " local=" << shape.local << " n=" << n;
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 200);
}

class ByMessages : public testing::Test {
 protected:
  ByMessages() : graph_(Graph::load("digits-mlp")), backend_(kDeferred) {
    backend_.unit = [](uint32_t index) { return "unit " + std::to_string(index); };
    backend_.group = [](const GroupSetup&) -> std::unique_ptr<DeviceGroup> {
      return std::make_unique<Mailing>();
    };
    e_.job.graph = &graph_;
    e_.job.batch = 4;
    e_.job.optimizer = &optimizer("sgd");
    e_.iterations = 5;
    e_.integer_gradients = true;
    Mailing::exchanges = 0;
    Mailing::fails = false;
  }
  ExecutionResult on(const Backend& backend, const std::string& scheme, int64_t workers) {
    const ResolvedScheme resolved = resolve_scheme(scheme, {});
    e_.job.scheme = &resolved;
    e_.backend = &backend;
    e_.cluster = {workers, 1, workers};
    return execute(e_, {false, false, true});
  }
  Graph graph_;
  Backend backend_;
  Execution e_;
};

TEST_F(ByMessages, SumsExactlyByEveryAlgorithm) {
  for (const int64_t workers : {2, 3, 4}) {
    for (const CollectiveAlgorithm& a : collectives_registry().all()) {
      if (!a.supports(CollKind::all_reduce, {static_cast<uint32_t>(workers), 1, false})) continue;
      const std::string scheme = "allreduce:bucket=16KiB,algorithm=" + std::string(a.name);
      Mailing::exchanges = 0;
      const ExecutionResult far = on(backend_, scheme, workers);
      EXPECT_GE(Mailing::exchanges, 5 * workers) << scheme;
      const ExecutionResult near = on(backends_registry().at("cpu"), scheme, workers);
      EXPECT_EQ(far.parameters, near.parameters) << scheme << " " << workers;
    }
  }
}

TEST_F(ByMessages, ANamedRouteTakesCopies) {
  backend_.reaches = [](uint32_t, uint32_t) { return true; };
  for (const PeerRoute route : {PeerRoute::peer, PeerRoute::staged}) {
    e_.route = route;
    on(backend_, "allreduce:algorithm=ring", 2);
    EXPECT_EQ(Mailing::exchanges, 0);
  }
  e_.route = PeerRoute::automatic;
  on(backend_, "allreduce:algorithm=ring", 2);
  EXPECT_GT(Mailing::exchanges, 0);
}

TEST_F(ByMessages, AFailureEndsAllWhoWaitForMessages) {
  Mailing::fails = true;
  try {
    on(backend_, "allreduce:algorithm=ring", 3);
    ADD_FAILURE();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("the cable is out"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tandem::tests
