// SPDX-License-Identifier: Apache-2.0
#include "exec/run/queues.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::exec {

namespace {

constexpr std::size_t kNoStep = SIZE_MAX;
/// Iterations whose ops are timed one by one: events cost device time.
constexpr int32_t kSamples = 16;
constexpr int32_t kTimeline = 2;  ///< the last ones, for the picture
/// Before the first capture everything ran at least once, so libraries have made what they make lazily.
constexpr int32_t kCaptureAfter = 1;

}  // namespace

bool replayable(const Run& run) {
  if (!run.program.stores.empty() || run.execution.data != nullptr || run.execution.integer_gradients)
    return false;
  const auto& ops = run.program.roles[0].ops;
  for (const Op& op : ops) {
    if (op.every != 1 || op.kind == OpKind::send || op.kind == OpKind::recv) return false;
    if (op.kind == OpKind::collective && !run.library_made(op.what)) return false;
    for (const Dep& d : op.deps) {
      if (d.lag > 0 && ops[d.op].lane != op.lane) return false;
    }
  }
  return true;
}

Queues::Queues(Worker& worker) : w_(worker), run_(worker.run_), device_(*worker.device_) {
  const auto& ops = w_.role().ops;
  step_of_.assign(ops.size(), kNoStep);
  int32_t lag = 0;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (!mine(ops[i].lane)) continue;
    step_of_[i] = steps_.size();
    Step& s = steps_.emplace_back();
    s.op = i;
    s.lane = ops[i].lane;
  }
  for (int l = 0; l < kLanes; ++l) {
    auto& bound = w_.lanes_[static_cast<std::size_t>(l)].ops;
    for (std::size_t b = 0; b < bound.size(); ++b) {
      if (step_of_[bound[b].op] != kNoStep) steps_[step_of_[bound[b].op]].bound = b;
      for (const auto& d : bound[b].deps) {
        lag = std::max<int32_t>(lag, d.lag);
        if (step_of_[d.op] != kNoStep) steps_[step_of_[d.op]].awaited = true;
      }
    }
  }
  // An event is recorded anew when nobody can still ask for its last record.
  ring_ = kAhead + lag + 1;
  for (Step& s : steps_) {
    for (int32_t i = 0; s.awaited && i < ring_; ++i) s.done.push_back(device_.make_event(false));
  }
  slots_.resize(kAhead + 1);
  for (Slot& slot : slots_) {
    for (auto& end : slot.ends) end = device_.make_event(true);
  }
  fork_ = device_.make_event(false);
  for (auto& j : joins_) j = device_.make_event(false);
  const int32_t iterations = run_.expected;
  const bool all = run_.keep.calls || run_.keep.spans;
  stride_ = all ? 1 : std::max(1, (iterations - run_.warmup) / kSamples);
  const auto losses = static_cast<int64_t>(run_.network.losses().size());
  history_ = device_.allocate(losses * run_.iterations->most());
  w_.losses_now_ = device_.allocate(losses);
  replays_ = !all && replayable(run_);
  needs_state(0);
}

Queues::~Queues() = default;

bool Queues::mine(Lane lane) const { return !w_.lane(lane).exchanges; }

void Queues::needs_state(int32_t lag) {
  if (lag >= static_cast<int32_t>(kStateSlots))
    throw InputError(fmt::format("updates {} iterations late: at most {} on an asynchronous device", lag,
                                 kStateSlots - 1));
  if (std::find(lags_.begin(), lags_.end(), lag) == lags_.end()) lags_.push_back(lag);
}

float* Queues::staging(Staging kind, int32_t iteration, int64_t elements) {
  staging_.resize(2);
  auto& list = staging_[static_cast<std::size_t>(kind)];
  while (list.size() < slots_.size()) list.push_back(device_.allocate_host(elements));
  return list[static_cast<std::size_t>(iteration) % list.size()];
}

bool Queues::sampled(int32_t iteration) const {
  const int32_t steady = iteration - run_.warmup;
  const bool last = iteration >= run_.expected - kTimeline;
  return run_.keep.spans || (steady >= 0 && (steady % stride_ == 0 || last));
}

/// Ties the device's clock to the host's: an event lies between the two readings around it, and of several
/// tries the closest pair counts.
void Queues::set_clock() {
  int64_t closest = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    auto event = device_.make_event(true);
    const int64_t before = now_ns();
    device_.record(*event, Lane::compute);
    device_.synchronize(*event);
    const int64_t between = now_ns() - before;
    if (between >= closest) continue;
    closest = between;
    base_ns_ = before + between / 2;
    base_ = std::move(event);
  }
}

void Queues::run() {
  set_clock();
  int32_t i = 0;
  for (; run_.iterations->enter(run_.counted_in(w_.instance_), i); ++i) {
    if (i > kAhead) harvest(i - kAhead - 1);
    run_.abort.check();
    issue(i);
  }
  for (int32_t rest = std::max(0, i - kAhead - 1); rest < i; ++rest) harvest(rest);
  for (int l = 0; l < kLanes; ++l) {
    if (mine(static_cast<Lane>(l))) device_.synchronize(static_cast<Lane>(l));
  }
  const auto losses = static_cast<int64_t>(run_.network.losses().size());
  std::vector<float> values(static_cast<std::size_t>(losses * i));
  device_.download(values.data(), history_, losses * i);
  for (int32_t k = 0; k < i; ++k) {
    double sum = 0;
    for (int64_t l = 0; l < losses; ++l)
      sum += static_cast<double>(values[static_cast<std::size_t>(k * losses + l)]);
    w_.losses_.push_back(sum);
  }
}

/// The compute lane waits for what the others were given.
void Queues::join() {
  for (int l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (lane == Lane::compute || !mine(lane) || w_.lane(lane).ops.empty()) continue;
    device_.record(*joins_[l], lane);
    device_.wait(Lane::compute, *joins_[l]);
  }
}

/// The others wait for what the compute lane was given.
void Queues::fork() {
  device_.record(*fork_, Lane::compute);
  for (int l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (lane != Lane::compute && mine(lane) && !w_.lane(lane).ops.empty()) device_.wait(lane, *fork_);
  }
}

void Queues::issue(int32_t iteration) {
  now_ = &slot(iteration);
  now_->sampled = sampled(iteration);
  now_->ops.used = now_->calls.used = 0;
  for (const int32_t lag : lags_) {
    if (iteration < lag) continue;
    IterationState s = run_.state(w_.instance_, iteration - lag);
    s.slot = static_cast<uint32_t>(lag);
    device_.set_state(s, Lane::compute);
  }
  const bool replay = replays_ && iteration > kCaptureAfter && !now_->sampled;
  if (replay && !graph_) {
    join();
    device_.begin_capture();
    fork();
    walk(iteration, true);
    join();
    graph_ = device_.end_capture();
  }
  if (replay) {
    if (!forks_) join();
    device_.replay(*graph_);
    forks_ = true;
  } else {
    if (forks_) fork();
    forks_ = false;
    walk(iteration, false);
  }
  const auto losses = static_cast<int64_t>(run_.network.losses().size());
  device_.copy(history_ + iteration * losses, w_.losses_now_, losses, Lane::compute);
  for (int l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    now_->ended[l] = lane == Lane::compute || (mine(lane) && !w_.lane(lane).ops.empty() && !replay);
    if (now_->ended[l]) device_.record(*now_->ends[l], lane);
  }
}

void Queues::walk(int32_t iteration, bool capturing) {
  uint32_t passed[kLanes];
  for (int l = 0; l < kLanes; ++l)
    passed[l] = static_cast<uint32_t>(iteration) * static_cast<uint32_t>(w_.lanes_[l].ops.size());
  for (Step& step : steps_) {
    if ((iteration + 1) % w_.role().ops[step.op].every == 0) {
      device_wait(step, iteration);
      issue_op(step, iteration);
    }
    if (!capturing) w_.lane(step.lane).passed.set(++passed[static_cast<std::size_t>(step.lane)]);
  }
}

void Queues::issue_op(Step& step, int32_t iteration) {
  const auto& bound = w_.lane(step.lane).ops[step.bound];
  Span* span = now_->sampled ? &open_span(now_->ops, step.op, step.lane) : nullptr;
  w_.act(bound, iteration);
  if (span != nullptr) {
    span = &now_->ops.list[static_cast<std::size_t>(now_->ops.used) - 1];
    device_.record(*span->end, step.lane);
  }
  if (step.awaited) device_.record(*step.done[static_cast<std::size_t>(iteration % ring_)], step.lane);
}

Queues::Span& Queues::open_span(Spans& spans, std::size_t what, Lane lane) {
  if (spans.used == spans.list.size()) {
    spans.list.emplace_back();
    spans.list.back().begin = device_.make_event(true);
    spans.list.back().end = device_.make_event(true);
  }
  Span& s = spans.list[spans.used++];
  s.what = what;
  s.lane = lane;
  device_.record(*s.begin, lane);
  return s;
}

void Queues::launch(std::size_t time, uint32_t prepared, std::span<float* const> operands,
                    const IterationState& state) {
  Span* span = run_.keep.calls && now_->sampled ? &open_span(now_->calls, time, Lane::compute) : nullptr;
  device_.launch(prepared, operands, state, Lane::compute);
  if (span != nullptr) device_.record(*span->end, Lane::compute);
}

void Queues::device_wait(const Step& step, int32_t iteration) {
  for (const auto& d : w_.lane(step.lane).ops[step.bound].deps) {
    const int32_t of = iteration - d.lag;
    if (of < 0 || (of + 1) % d.every != 0) continue;
    if (step_of_[d.op] == kNoStep) {  // the host saw to its end
      w_.lane(d.lane).passed.wait(static_cast<uint32_t>(of) * d.lane_ops + d.position + 1, run_.abort,
                                  run_.spins);
    } else {
      device_.wait(step.lane, *steps_[step_of_[d.op]].done[static_cast<std::size_t>(of % ring_)]);
    }
  }
}

void Queues::wait(uint32_t op, int32_t of) {
  if (step_of_[op] != kNoStep)
    device_.synchronize(*steps_[step_of_[op]].done[static_cast<std::size_t>(of % ring_)]);
}

int64_t Queues::ns(DeviceEvent& event) {
  return base_ns_ + static_cast<int64_t>(device_.seconds_between(*base_, event) * 1e9);
}

/// Follows the device to the end of an iteration, so that the host is never far ahead, and takes its times.
void Queues::harvest(int32_t iteration) {
  Slot& s = slot(iteration);
  for (int l = 0; l < kLanes; ++l) {
    auto& lane = w_.lanes_[l];
    if (lane.exchanges)
      lane.passed.wait(static_cast<uint32_t>(iteration + 1) * static_cast<uint32_t>(lane.ops.size()),
                       run_.abort, run_.spins);
    if (!s.ended[l]) continue;
    device_.synchronize(*s.ends[l]);
    const int64_t end = ns(*s.ends[l]);
    lane.executed.push_back({static_cast<uint32_t>(iteration), Worker::kNoOp, end, end, end});
  }
  if (s.sampled) collect(s, iteration);
  if (w_.instance_ != 0) return;
  if (run_.execution.progress && (iteration + 1) % run_.micro_batches == 0)
    run_.execution.progress(iteration / run_.micro_batches);
  if (run_.execution.stop != nullptr && run_.execution.stop->load()) run_.iterations->stop();
}

void Queues::collect(Slot& slot, int32_t iteration) {
  const bool steady = iteration >= run_.warmup;
  for (std::size_t k = 0; k < slot.ops.used; ++k) {
    const Span& s = slot.ops.list[k];
    const auto l = static_cast<std::size_t>(s.lane);
    // Far from base_ the difference of two readings would be coarse: they are single-precision milliseconds.
    const int64_t start = ns(*s.begin),
                  end = start + static_cast<int64_t>(device_.seconds_between(*s.begin, *s.end) * 1e9);
    w_.lanes_[l].executed.push_back(
        {static_cast<uint32_t>(iteration), static_cast<uint32_t>(s.what), start, end, start});
  }
  for (std::size_t k = 0; steady && k < slot.calls.used; ++k) {
    Span& s = slot.calls.list[k];
    w_.calls_[s.what].seconds.push_back(device_.seconds_between(*s.begin, *s.end));
  }
}

}  // namespace tandem::exec
