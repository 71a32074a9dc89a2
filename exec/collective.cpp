#include "exec/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/cpu/kernel.h"

namespace tandem {

namespace {

/// Begin of chunk `c` of `chunks` in a buffer of `elements`: chunks differ by at most one element.
int64_t chunk_begin(int64_t elements, uint32_t chunks, uint32_t c) {
  const int64_t each = elements / chunks, rest = elements % chunks;
  return each * c + std::min<int64_t>(rest, c);
}

const CollectiveAlgorithm& choose(CollKind kind, const std::string& name, const GroupShape& group) {
  if (name != "auto") {
    const CollectiveAlgorithm& a = collectives_registry().at(name);
    if (a.supports(kind, group)) return a;
    throw InputError(fmt::format("{} cannot {} among {} members, {} on a node", name, tandem::name(kind),
                                 group.ranks, group.local));
  }
  for (const char* candidate : {"direct", "ring", "tree", "central"}) {
    const CollectiveAlgorithm* a = collectives_registry().find(candidate);
    if (a != nullptr && a->supports(kind, group)) return *a;
  }
  throw InputError(fmt::format("no algorithm can {} among {} members", tandem::name(kind), group.ranks));
}

}  // namespace

GroupCollective::GroupCollective(CollKind kind, const std::string& algorithm, uint32_t ranks, uint32_t local,
                                 Abort& abort, int spins)
    : abort_(abort), spins_(spins) {
  for (uint32_t r = 0; r < ranks; ++r) {
    members_.push_back(std::make_unique<Member>());
    abort_.watch(&members_.back()->done);
  }
  const GroupShape group{ranks, std::max(1U, local), false};
  plan(choose(kind, algorithm, group).schedule(kind, group));
}

void GroupCollective::plan(const Schedule& schedule) {
  chunks_ = schedule.chunks;
  // readers[r]: who takes from r in the step before; r must not write over it until they are done.
  std::vector<std::vector<uint32_t>> readers(members_.size());
  const auto overlap = [](const Move& a, const Move& b) {
    return a.offset < b.offset + b.count && b.offset < a.offset + a.count;
  };
  const auto close = [&](std::vector<std::vector<uint32_t>> next) {
    for (uint32_t r = 0; r < members_.size(); ++r) {
      auto& waits = members_[r]->steps.back().waits;
      waits.insert(waits.end(), readers[r].begin(), readers[r].end());
      std::sort(waits.begin(), waits.end());
      waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    }
    readers = std::move(next);
  };
  for (const Step& step : schedule.steps) {
    for (uint32_t repeat = 0; repeat < step.repeat; ++repeat) {
      std::vector<std::vector<uint32_t>> now(members_.size());
      bool staged = false;
      for (auto& m : members_) m->steps.emplace_back();
      for (const Move& move : step.moves) {
        RankStep& to = members_[move.to]->steps.back();
        to.pulls.push_back({move.from, move.offset, move.count, move.reduce});
        to.waits.push_back(move.from);
        now[move.from].push_back(move.to);
        to.staged = to.staged || std::any_of(step.moves.begin(), step.moves.end(), [&](const Move& other) {
                      return other.from == move.to && overlap(other, move);
                    });
        staged = staged || to.staged;
      }
      close(std::move(now));
      if (!staged) continue;
      for (auto& m : members_) m->steps.emplace_back();  // puts in place what was staged
      close(std::vector<std::vector<uint32_t>>(members_.size()));
    }
  }
}

int64_t GroupCollective::run(uint32_t rank, float* buffer, int64_t elements) {
  Member& me = *members_[rank];
  const uint32_t steps = static_cast<uint32_t>(me.steps.size()), turn = me.runs % 2;
  const uint32_t base = me.runs * (steps + 2);
  ++me.runs;
  me.buffer = buffer;
  me.arrived[turn] = now_ns();
  me.done.set(base + 1);  // here, with the buffer as it was given
  for (uint32_t s = 0; s < steps; ++s) {
    const RankStep& step = me.steps[s];
    for (const uint32_t other : step.waits) members_[other]->done.wait(base + 1 + s, abort_, spins_);
    if (s > 0 && me.steps[s - 1].staged) place(me, me.steps[s - 1], elements);
    pull(me, step, elements);
    me.done.set(base + 2 + s);
  }
  // Nobody leaves before all have arrived (semantics.md 2.3), nor while its buffer is still read.
  me.done.set(base + steps + 2);
  int64_t latest = 0;
  for (const auto& m : members_) {
    m->done.wait(base + steps + 2, abort_, spins_);
    latest = std::max(latest, m->arrived[turn]);
  }
  return latest;
}

void GroupCollective::pull(Member& me, const RankStep& step, int64_t elements) {
  if (step.staged && static_cast<int64_t>(me.stage.size()) < elements)
    me.stage.resize(static_cast<std::size_t>(elements));
  for (const Pull& p : step.pulls) {
    const int64_t begin = chunk_begin(elements, chunks_, p.offset);
    const int64_t count = chunk_begin(elements, chunks_, p.offset + p.count) - begin;
    const float* from = members_[p.from]->buffer + begin;
    float* to = (step.staged ? me.stage.data() : me.buffer) + begin;
    if (count == 0) continue;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (step.staged && p.reduce) std::memcpy(to, me.buffer + begin, bytes);
    if (p.reduce)
      cpu::accumulate(to, from, count);
    else
      std::memcpy(to, from, bytes);
  }
}

void GroupCollective::place(Member& me, const RankStep& step, int64_t elements) {
  for (const Pull& p : step.pulls) {
    const int64_t begin = chunk_begin(elements, chunks_, p.offset);
    const int64_t count = chunk_begin(elements, chunks_, p.offset + p.count) - begin;
    if (count > 0)
      std::memcpy(me.buffer + begin, me.stage.data() + begin,
                  static_cast<std::size_t>(count) * sizeof(float));
  }
}

}  // namespace tandem
