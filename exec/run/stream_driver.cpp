// SPDX-License-Identifier: Apache-2.0
#include "exec/run/stream_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/statistics.h"

namespace tandem::exec {

namespace {

constexpr std::size_t kNoStep = SIZE_MAX;
/// Steps whose ops are timed one by one, after the warm-up: events cost device time, and such steps are not
/// replayed. The rate comes from the others.
constexpr int32_t kTimed = 4;
/// Of the later steps that could be replayed at most this many, or a quarter, are issued op by op.
constexpr int32_t kEager = 16;
constexpr int32_t kTimeline = 2;  ///< the last ones, timed for the picture
constexpr int32_t kRebase = 256;  ///< iterations after which times are relative to a new event
/// Before the first capture everything ran at least once, so libraries have done their lazy initialisation.
constexpr int32_t kCaptureAfter = 1;

}  // namespace

bool replayable(const Run& run, uint32_t instance) {
  const RunPlan& plan = run.plan();
  if (!plan.program().stores.empty() || plan.stages().split() || plan.execution().loads() ||
      plan.execution().integer_gradients || plan.program().delay > 0)
    return false;
  const auto& ops = plan.role(instance).ops;
  for (const Op& op : ops) {
    if (!op.always() || op.kind == OpKind::send || op.kind == OpKind::recv) return false;
    if (op.kind == OpKind::collective && !run.communicators().library_made(op.what)) return false;
    for (const Dep& d : op.deps) {
      if (d.lag > 0 && ops[d.op].lane != op.lane) return false;
    }
  }
  return true;
}

StreamDriver::StreamDriver(const Setup& setup)
    : LaneDriver(setup),
      clock_(device_),
      history_(device_, static_cast<int64_t>(plan_.stages().lowered(instance_).losses().size()),
               plan_.stages().micros(), run_.iterations().most()) {
  plan_steps();
  replays_ = !plan_.keep().spans && replayable(run_, instance_);
  StreamDriver::needs_state(0);
}

StreamDriver::~StreamDriver() = default;

void StreamDriver::plan_steps() {
  const auto& ops = role().ops;
  step_of_.assign(ops.size(), kNoStep);
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (!mine(ops[i].lane)) continue;
    step_of_[i] = steps_.size();
    Step& s = steps_.emplace_back();
    s.op = i;
    s.lane = ops[i].lane;
  }
  int32_t lag = 0;
  for (int l = 0; l < kLanes; ++l) {
    const auto& bound = lanes_[static_cast<Lane>(l)].ops;
    for (std::size_t b = 0; b < bound.size(); ++b) {
      if (step_of_[bound[b].op] != kNoStep) steps_[step_of_[bound[b].op]].bound = b;
      for (const LaneDependency& d : bound[b].deps) {
        lag = std::max<int32_t>(lag, d.lag);
        if (step_of_[d.op] != kNoStep) steps_[step_of_[d.op]].awaited = true;
      }
    }
  }
  make_events(lag);
}

void StreamDriver::make_events(int32_t longest_lag) {
  // An event is recorded again only when nobody can still ask for its last record.
  ring_ = kAhead + longest_lag + 1;
  for (Step& s : steps_) {
    for (int32_t i = 0; s.awaited && i < ring_; ++i) s.done.push_back(device_.make_event(false));
  }
  slots_.resize(kAhead + 1);
  for (Slot& slot : slots_) {
    for (auto& end : slot.ends) end = device_.make_event(true);
  }
  fork_ = device_.make_event(false);
  for (auto& j : joins_) j = device_.make_event(false);
}

// ---- while ops are bound ----

void StreamDriver::needs_state(int32_t lag) {
  if (lag >= static_cast<int32_t>(kStateSlots))
    throw InputError(fmt::format("updates {} iterations late: at most {} on an asynchronous device", lag,
                                 kStateSlots - 1));
  if (std::find(lags_.begin(), lags_.end(), lag) == lags_.end()) lags_.push_back(lag);
}

float* StreamDriver::host_memory(float*, int64_t elements) { return device_.allocate_host(elements); }

void StreamDriver::reserve_collective(Lane lane, int64_t elements) {
  HostMemory& memory = collective_[static_cast<std::size_t>(lane)];
  if (memory.elements < elements) memory = {device_.allocate_host(elements), elements};
}

void StreamDriver::reserve_staging(Staging kind, int64_t elements) {
  auto& list = staging_[static_cast<std::size_t>(kind)];
  while (list.size() < slots_.size()) list.push_back(device_.allocate_host(elements));
}

// ---- by ops as they run ----

float* StreamDriver::staging(Staging kind, int32_t iteration, float*) {
  const auto& list = staging_[static_cast<std::size_t>(kind)];
  return list[static_cast<std::size_t>(iteration) % list.size()];
}

float* StreamDriver::collective_memory(Lane lane, float*) {
  return collective_[static_cast<std::size_t>(lane)].at;
}

void StreamDriver::launch(const std::vector<Launch>& list, std::size_t variant, const IterationState& state) {
  const bool timed = plan_.keep().calls && (now_->observed || (now_->sampled && !replays_));
  Spans& calls = now_->observed ? observed_ : now_->calls;
  for (const Launch& l : list) {
    Span* span = timed ? &open_span(calls, l.time, Lane::compute) : nullptr;
    device_.launch(l.prepared, l.of(variant), state, Lane::compute);
    if (span != nullptr) device_.record(*span->end, Lane::compute);
  }
}

void StreamDriver::take_losses(const std::vector<float*>& at) { history_.take(at); }

/// In the thread of a lane that is not issued here: the host itself waits for the op's dependencies.
void StreamDriver::wait(const LaneOp& op, int32_t iteration) {
  for (const LaneDependency& d : op.deps) {
    const std::optional<int32_t> of = d.of(iteration);
    if (!of) continue;
    lanes_[d.lane].passed.wait(d.passed_by(*of), run_.abort(), run_.spins());
    if (step_of_[d.op] != kNoStep) device_.synchronize(done(d.op, *of));
  }
}

// ---- the compute lane's thread ----

DeviceEvent& StreamDriver::done(uint32_t op, int32_t iteration) {
  return *steps_[step_of_[op]].done[static_cast<std::size_t>(iteration % ring_)];
}

Issued StreamDriver::way(int32_t iteration) const {
  const int32_t micros = plan_.micro_batches(), steady = (iteration - plan_.warmup()) / micros;
  const int32_t steps = (plan_.expected() - plan_.warmup()) / micros;
  const bool calls = plan_.keep().calls;
  const int32_t timed = calls && !replays_ ? std::max(kTimed, steps / 2) : kTimed;
  if (plan_.keep().spans) return Issued::timed;
  if (iteration >= plan_.warmup() && (steady < timed || steady >= steps - kTimeline)) return Issued::timed;
  if (!replays_ || iteration <= kCaptureAfter) return Issued::eager;
  const int32_t eager = calls ? 0 : std::clamp((steps - timed - kTimeline) / 4, 0, kEager);
  if (iteration >= plan_.warmup() && steady < timed + eager) return Issued::eager;
  if (calls && iteration % kObserved == 0) return Issued::observed;
  return graph_ ? Issued::replayed : Issued::captured;
}

/// An idle device lowers its clocks, and takes a while to raise them.
void StreamDriver::warm_up() {
  const double seconds = plan_.execution().backend->warm_seconds;
  const int64_t until = now_ns() + static_cast<int64_t>(seconds * 1e9);
  while (now_ns() < until) {
    run_.abort().check();
    for (int i = 0; i < 100; ++i) device_.scale(history_.scratch(), 1, 1, Lane::compute);
    device_.synchronize(Lane::compute);
  }
}

/// The part of a call's time that is due to the events around it and its launch.
void StreamDriver::measure_empty_launch() {
  auto begin = device_.make_event(true), end = device_.make_event(true);
  std::vector<double> seconds;
  const auto work = [&] {
    // after others, as calls are
    for (int k = 0; k < 8; ++k) device_.scale(history_.scratch(), 1, 1, Lane::compute);
    device_.record(*begin, Lane::compute);
    device_.scale(history_.scratch(), 1, 1, Lane::compute);
    device_.record(*end, Lane::compute);
  };
  std::unique_ptr<DeviceGraph> graph;
  if (replays_ && !history_.empty()) {
    device_.begin_capture();
    work();
    graph = device_.end_capture();
  }
  for (int i = 0; i < 21 && !history_.empty(); ++i) {
    graph ? device_.replay(*graph) : work();
    device_.synchronize(*end);
    seconds.push_back(device_.seconds_between(*begin, *end));
  }
  if (!seconds.empty()) empty_launch_ = median(seconds);
}

void StreamDriver::run(Lane lane) {
  if (lane == Lane::compute)
    issue_all();
  else
    walk(lane);
}

void StreamDriver::issue_all() {
  warm_up();
  if (plan_.keep().calls) measure_empty_launch();
  clock_.set();
  int32_t i = 0;
  for (; run_.iterations().enter(instance_, i); ++i) {
    if (i > kAhead) harvest(i - kAhead - 1);
    run_.abort().check();
    issue(i);
  }
  for (int32_t rest = std::max(0, i - kAhead - 1); rest < i; ++rest) harvest(rest);
  for (int l = 0; l < kLanes; ++l) {
    if (mine(static_cast<Lane>(l))) device_.synchronize(static_cast<Lane>(l));
  }
  losses_ = history_.sums(i);
}

/// The compute lane waits for what was issued to the others.
void StreamDriver::join() {
  for (int l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (!beside(lane)) continue;
    device_.record(*joins_[l], lane);
    device_.wait(Lane::compute, *joins_[l]);
  }
}

/// The others wait for what was issued to the compute lane.
void StreamDriver::fork() {
  device_.record(*fork_, Lane::compute);
  for (int l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (beside(lane)) device_.wait(lane, *fork_);
  }
}

void StreamDriver::issue(int32_t iteration) {
  now_ = &slot(iteration);
  const Issued how = way(iteration);
  issued_.push_back(how);
  now_->sampled = how == Issued::timed;
  now_->observed = how == Issued::observed;
  now_->ops.used = now_->calls.used = 0;
  give_states(iteration);
  const bool replays = how != Issued::timed && how != Issued::eager;
  if (replays) {
    replay(iteration, now_->observed ? observed_graph_ : graph_);
  } else {
    if (forks_) fork();
    forks_ = false;
    walk_steps(iteration, false);
  }
  history_.keep(iteration);
  for (int l = 0; l < kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    now_->ended[l] = lane == Lane::compute || (beside(lane) && !replays);
    if (now_->ended[l]) device_.record(*now_->ends[l], lane);
  }
  if (iteration % kRebase == kRebase - 1) clock_.mark();
}

void StreamDriver::give_states(int32_t iteration) {
  for (const int32_t lag : lags_) {
    if (iteration < lag) continue;
    IterationState s = plan_.state(instance_, iteration - lag);
    s.slot = static_cast<uint32_t>(lag);
    device_.set_state(s, Lane::compute);
  }
}

/// All lanes after the compute lane, which begins when the others have caught up.
void StreamDriver::replay(int32_t iteration, std::unique_ptr<DeviceGraph>& graph) {
  if (!graph) {
    join();
    device_.begin_capture();
    fork();
    walk_steps(iteration, true);
    join();
    graph = device_.end_capture();
    run_.communicators().meet_captured(++captures_);
  }
  if (!forks_) join();
  device_.replay(*graph);
  forks_ = true;
}

void StreamDriver::walk_steps(int32_t iteration, bool capturing) {
  std::array<uint32_t, kLanes> passed{};
  for (int l = 0; l < kLanes; ++l) passed[l] = lanes_[static_cast<Lane>(l)].passed_before(iteration);
  for (const Step& step : steps_) {
    LaneState& lane = lanes_[step.lane];
    if (lane.ops[step.bound].runs(iteration)) {
      device_wait(step, iteration);
      issue_op(step, iteration);
    }
    if (!capturing) lane.passed.set(++passed[static_cast<std::size_t>(step.lane)]);
  }
}

void StreamDriver::issue_op(const Step& step, int32_t iteration) {
  const bool timed = now_->sampled;
  const std::size_t span = now_->ops.used;
  if (timed) open_span(now_->ops, step.op, step.lane);
  act(lanes_[step.lane].ops[step.bound], iteration);
  if (timed) device_.record(*now_->ops.list[span].end, step.lane);
  if (step.awaited) device_.record(done(step.op, iteration), step.lane);
}

StreamDriver::Span& StreamDriver::open_span(Spans& spans, std::size_t what, Lane lane) {
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

/// The lane waits on the device for what this thread issued; the host waits for other threads' ops.
void StreamDriver::device_wait(const Step& step, int32_t iteration) {
  for (const LaneDependency& d : lanes_[step.lane].ops[step.bound].deps) {
    const std::optional<int32_t> of = d.of(iteration);
    if (!of) continue;
    if (step_of_[d.op] == kNoStep)
      lanes_[d.lane].passed.wait(d.passed_by(*of), run_.abort(), run_.spins());
    else
      device_.wait(step.lane, done(d.op, *of));
  }
}

/// The host waits for the event, but not for a collective that will never end: other workers, or the library,
/// may have failed.
void StreamDriver::follow(DeviceEvent& event) {
  while (run_.communicators().has_library() && !device_.finished(event)) {
    run_.abort().check();
    if (const std::string why = run_.communicators().library_failure(); !why.empty())
      throw DeviceError(fmt::format("a collective failed: {}", why));
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  device_.synchronize(event);
}

/// Follows the device to the end of an iteration, so that the host is never far ahead, and reads its times.
void StreamDriver::harvest(int32_t iteration) {
  Slot& s = slot(iteration);
  for (int l = 0; l < kLanes; ++l) {
    LaneState& lane = lanes_[static_cast<Lane>(l)];
    if (lane.exchanges) lane.passed.wait(lane.passed_before(iteration + 1), run_.abort(), run_.spins());
    if (!s.ended[l]) continue;
    follow(*s.ends[l]);
    const int64_t end = clock_.ns(*s.ends[l]);
    lane.executed.push_back({static_cast<uint32_t>(iteration), kNoOp, end, end, end});
  }
  if (s.sampled) collect_ops(s, iteration);
  if (iteration >= plan_.warmup()) collect_calls(s.observed ? observed_ : s.calls);
  if (iteration % kRebase == kRebase - 1) clock_.move();
  ended(iteration);
}

void StreamDriver::collect_ops(const Slot& slot, int32_t iteration) {
  for (std::size_t k = 0; k < slot.ops.used; ++k) {
    const Span& s = slot.ops.list[k];
    const int64_t start = clock_.ns(*s.begin),
                  end = start + static_cast<int64_t>(device_.seconds_between(*s.begin, *s.end) * 1e9);
    lanes_[s.lane].executed.push_back(
        {static_cast<uint32_t>(iteration), static_cast<uint32_t>(s.what), start, end, start});
  }
}

void StreamDriver::collect_calls(const Spans& calls) {
  for (std::size_t k = 0; k < calls.used; ++k) {
    const Span& s = calls.list[k];
    const double seconds = device_.seconds_between(*s.begin, *s.end);
    calls_[s.what].seconds.push_back(std::max(0.0, seconds - empty_launch_));
  }
}

std::unique_ptr<LaneDriver> make_lane_driver(const LaneDriver::Setup& setup) {
  if (setup.run.plan().execution().backend->asynchronous) return std::make_unique<StreamDriver>(setup);
  return std::make_unique<ThreadDriver>(setup);
}

}  // namespace tandem::exec
