// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/collective.h"

#include <algorithm>
#include <cstring>

#include "exec/device/cpu/kernel.h"

namespace tandem::exec {

namespace {

constexpr int64_t kPiece = 16'384;  // elements: a sum of several stays in the cache while it grows

std::size_t bytes(int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }

}  // namespace

Schedule collective_schedule(CollKind kind, const std::string& algorithm, const GroupShape& group,
                             bool between_nodes) {
  if (kind == CollKind::all_to_all) throw InputError("all-to-all is only simulated");
  if (kind == CollKind::shift) {
    Schedule s{group.ranks, 1, {{}}};
    for (uint32_t r = 0; r < group.ranks; ++r)
      s.steps[0].moves.push_back({r, (r + 1) % group.ranks, 0, 1, false});
    return s;
  }
  return executed_algorithm(kind, algorithm, group, between_nodes).schedule(kind, group);
}

int64_t chunk_begin(int64_t elements, uint32_t chunks, uint32_t c) {
  const int64_t each = elements / chunks, rest = elements % chunks;
  return each * c + std::min<int64_t>(rest, c);
}

GroupCollective::GroupCollective(CollKind kind, const std::string& algorithm, uint32_t ranks, uint32_t local,
                                 Abort& abort, int spins, const GroupNodes& nodes)
    : abort_(abort), spins_(spins), nodes_(nodes) {
  TANDEM_CHECK(nodes_.transport == nullptr || nodes_.of_ranks.size() == ranks);
  bool between = false;
  for (uint32_t r = 0; r < ranks; ++r) {
    members_.push_back(std::make_unique<Member>());
    members_.back()->rank = r;
    abort_.watch(&members_.back()->done);
    between = between || apart(0, r);
  }
  const GroupShape group{ranks, std::max(1U, local), false};
  plan(collective_schedule(kind, algorithm, group, between));
}

GroupCollective::~GroupCollective() {
  if (nodes_.transport != nullptr && abort_.failed()) nodes_.transport->stop();
}

GroupCollective::Range GroupCollective::range(uint32_t offset, uint32_t count, int64_t elements) const {
  const int64_t begin = chunk_begin(elements, chunks_, offset);
  return {begin, chunk_begin(elements, chunks_, offset + count) - begin};
}

bool GroupCollective::apart(uint32_t a, uint32_t b) const {
  return nodes_.transport != nullptr && nodes_.of_ranks[a] != nodes_.of_ranks[b];
}

void GroupCollective::plan(const Schedule& schedule) {
  chunks_ = schedule.chunks;
  // readers[r]: who takes from r's memory in the step before; r must not write over it until they are done.
  std::vector<std::vector<uint32_t>> readers(members_.size());
  bool hands_out = nodes_.transport == nullptr && last_hands_out(schedule);
  for (std::size_t i = 0; i + (hands_out ? 1 : 0) < schedule.steps.size(); ++i) {
    for (uint32_t repeat = 0; repeat < schedule.steps[i].repeat; ++repeat) {
      if (plan_step(schedule.steps[i], readers) && i + 2 == schedule.steps.size()) hands_out = false;
    }
  }
  if (!hands_out) return;
  for (const Move& move : schedule.steps.back().moves)
    members_[move.from]->steps.back().gives.push_back(move.to);
}

/// Was anything staged?
bool GroupCollective::plan_step(const Step& step, std::vector<std::vector<uint32_t>>& readers) {
  const auto close = [&](std::vector<std::vector<uint32_t>> next) {
    for (uint32_t r = 0; r < members_.size(); ++r) {
      auto& waits = members_[r]->steps.back().waits;
      waits.insert(waits.end(), readers[r].begin(), readers[r].end());
      std::sort(waits.begin(), waits.end());
      waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    }
    readers = std::move(next);
  };
  std::vector<std::vector<uint32_t>> now(members_.size());
  std::vector<std::vector<const Move*>> sent(members_.size());
  for (const Move& move : step.moves) sent[move.from].push_back(&move);
  bool staged = false;
  for (auto& m : members_) m->steps.emplace_back();
  for (const Move& move : step.moves) {
    RankStep& to = members_[move.to]->steps.back();
    to.pulls.push_back({move.from, move.offset, move.count, move.reduce});
    if (apart(move.from, move.to)) {
      members_[move.from]->steps.back().pushes.push_back({move.to, move.offset, move.count});
    } else {
      to.waits.push_back(move.from);
      now[move.from].push_back(move.to);
    }
    to.staged = to.staged || std::any_of(sent[move.to].begin(), sent[move.to].end(),
                                         [&](const Move* other) { return overlap(*other, move); });
    staged = staged || to.staged;
  }
  for (auto& m : members_) plan_messages(*m, m->steps.back());
  close(std::move(now));
  if (!staged) return false;
  for (auto& m : members_) m->steps.emplace_back();  // puts in place what was staged
  close(std::vector<std::vector<uint32_t>>(members_.size()));
  return true;
}

/// Sums of several are made in the schedule's order, so only a rank's only sum may be made as it arrives.
void GroupCollective::plan_messages(Member& to, RankStep& step) {
  for (Pull& p : step.pulls) {
    if (!apart(p.from, to.rank)) continue;
    nodes_.transport->connect(nodes_.of_ranks[p.from], nodes_.of_ranks[to.rank]);
    to.receives.push_back(nodes_.transport->make_receive());
    p.remote = to.receives.back().get();
    p.direct = !p.reduce || (step.pulls.size() == 1 && !step.staged);
    if (!p.reduce) continue;
    p.scratch = to.scratch.size();
    to.scratch.emplace_back();
  }
}

/// The member has come to `value`; `step` counts from 0 within the run.
void GroupCollective::reached(Member& me, uint32_t value, uint32_t turn, uint32_t step) {
  if (me.device != nullptr) {
    const std::size_t each = me.steps.size() + 2;
    while (me.events.size() < 2 * each) me.events.push_back(me.device->make_event(false));
    me.device->record(*me.events[turn * each + step], me.lane);
  }
  me.done.set(value);
}

void GroupCollective::wait_for(Member& me, uint32_t other, uint32_t value, uint32_t turn, uint32_t step) {
  Member& from = *members_[other];
  from.done.wait_awake(value, abort_, spins_);
  if (me.device != nullptr && other != me.rank)
    me.device->wait(me.lane, *from.events[turn * (me.steps.size() + 2) + step]);
}

void GroupCollective::put(Member& me, float* to, const float* from, int64_t elements) {
  if (me.device != nullptr)
    me.device->copy(to, from, elements, me.lane);
  else
    std::memcpy(to, from, bytes(elements));
}

void GroupCollective::grow_stage(Member& me, int64_t elements) {
  if (me.stage_elements >= elements) return;
  me.stage_elements = elements;
  if (me.device != nullptr) {
    me.stage = me.device->allocate(elements);
  } else {
    me.stage_memory.resize(static_cast<std::size_t>(elements));
    me.stage = me.stage_memory.data();
  }
}

int64_t GroupCollective::run(uint32_t rank, float* buffer, int64_t elements, DeviceSession* device, Lane lane,
                             Precision format) {
  Member& me = *members_[rank];
  TANDEM_CHECK(device == nullptr || nodes_.transport == nullptr);
  me.device = device;
  me.lane = lane;
  me.format = format;
  const uint32_t steps = static_cast<uint32_t>(me.steps.size()), turn = me.runs % 2;
  const uint32_t base = me.runs * (steps + 2);
  ++me.runs;
  me.buffer = buffer;
  me.arrived[turn] = now_ns();
  reached(me, base + 1, turn, 0);  // here, with the buffer as it was given
  for (uint32_t s = 0; s < steps; ++s) {
    RankStep& step = me.steps[s];
    for (const uint32_t other : step.waits) wait_for(me, other, base + 1 + s, turn, s);
    if (s > 0 && me.steps[s - 1].staged) place(me, me.steps[s - 1], elements);
    post(me, step, elements);
    // What is sent between nodes is not looked for in memory, so nothing else holds it back until the last
    // member has arrived (semantics.md 2.3).
    for (uint32_t r = 0; s == 0 && nodes_.transport != nullptr && r < members_.size(); ++r) {
      if (here(r)) members_[r]->done.wait_awake(base + 1, abort_, spins_);
    }
    push(me, step, elements);
    pull(me, step, elements);
    reached(me, base + 2 + s, turn, s + 1);
  }
  // Nobody leaves before all have arrived (semantics.md 2.3), nor while its buffer is still read.
  reached(me, base + steps + 2, turn, steps + 1);
  int64_t latest = 0;
  for (const auto& m : members_) {
    if (!here(m->rank)) continue;  // other processes' members are seen by what they send alone
    wait_for(me, m->rank, base + steps + 2, turn, steps + 1);
    latest = std::max(latest, m->arrived[turn]);
  }
  return latest;
}

void GroupCollective::post(Member& me, RankStep& step, int64_t elements) {
  if (step.staged) grow_stage(me, elements);
  for (const Pull& p : step.pulls) {
    const Range r = range(p.offset, p.count, elements);
    if (step.staged && p.reduce) put(me, me.stage + r.begin, me.buffer + r.begin, r.count);
  }
  for (const Pull& p : step.pulls) {
    const Range r = range(p.offset, p.count, elements);
    if (p.remote == nullptr || r.count == 0) continue;
    if (direct(me, p)) {
      p.remote->to = (step.staged ? me.stage : me.buffer) + r.begin;
    } else {
      auto& scratch = me.scratch[p.scratch];
      if (static_cast<int64_t>(scratch.size()) < r.count) scratch.resize(static_cast<std::size_t>(r.count));
      p.remote->to = scratch.data();
    }
    p.remote->elements = r.count;
    p.remote->add = direct(me, p) && p.reduce;
    nodes_.transport->post(nodes_.of_ranks[p.from], nodes_.of_ranks[me.rank],
                           {nodes_.channel, 0, p.from, me.rank, 0}, *p.remote);
  }
}

void GroupCollective::push(Member& me, const RankStep& step, int64_t elements) {
  for (const Push& p : step.pushes) {
    const Range r = range(p.offset, p.count, elements);
    if (r.count == 0) continue;
    nodes_.transport->send(nodes_.of_ranks[me.rank], nodes_.of_ranks[p.to],
                           {nodes_.channel, 0, me.rank, p.to, 0}, me.buffer + r.begin, r.count, false);
  }
}

void GroupCollective::pull(Member& me, const RankStep& step, int64_t elements) {
  for (std::size_t i = 0; i < step.pulls.size();) {
    // Those that follow each other into one range are taken piece by piece together.
    const Pull& first = step.pulls[i];
    std::size_t end = i;
    const Range r = range(first.offset, first.count, elements);
    while (end < step.pulls.size() && step.pulls[end].offset == first.offset &&
           step.pulls[end].count == first.count) {
      const Pull& p = step.pulls[end++];
      if (p.remote != nullptr && r.count > 0) nodes_.transport->wait(*p.remote);
    }
    const bool whole = (end - i == 1 && step.gives.empty()) || me.device != nullptr;
    const int64_t piece = whole ? r.count : kPiece;
    for (int64_t at = 0; at < r.count; at += piece) {
      const Range part{r.begin + at, std::min(piece, r.count - at)};
      for (std::size_t k = i; k < end; ++k) {
        const Pull& p = step.pulls[k];
        if (direct(me, p)) continue;
        take(me, step, p,
             p.remote == nullptr ? members_[p.from]->buffer + part.begin : me.scratch[p.scratch].data() + at,
             part);
      }
      for (const uint32_t other : step.gives)
        put(me, members_[other]->buffer + part.begin, me.buffer + part.begin, part.count);
    }
    i = end;
  }
}

void GroupCollective::take(Member& me, const RankStep& step, const Pull& pull, const float* from,
                           Range piece) {
  float* to = (step.staged ? me.stage : me.buffer) + piece.begin;
  if (!pull.reduce)
    put(me, to, from, piece.count);
  else if (me.device != nullptr)
    me.half() ? me.device->accumulate_half(to, from, piece.count, me.lane)
              : me.device->accumulate(to, from, piece.count, me.lane);
  else if (me.half())
    cpu::accumulate_half(to, from, me.format == Precision::fp16, piece.count);
  else
    cpu::accumulate(to, from, piece.count);
}

void GroupCollective::place(Member& me, const RankStep& step, int64_t elements) {
  for (const Pull& p : step.pulls) {
    const Range r = range(p.offset, p.count, elements);
    if (r.count > 0) put(me, me.buffer + r.begin, me.stage + r.begin, r.count);
  }
}

}  // namespace tandem::exec
