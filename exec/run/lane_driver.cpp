// SPDX-License-Identifier: Apache-2.0
#include "exec/run/lane_driver.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace tandem::exec {

namespace {

/// Involuntary context switches of the calling thread so far: a sample with one measures other programs.
int64_t switches() {
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_nivcsw;
}

}  // namespace

bool needs_thread(const Backend& backend, const Lanes& lanes, Lane lane) {
  if (lane == Lane::compute) return true;
  return backend.asynchronous ? lanes[lane].exchanges
                              : !lanes.one_after_another() && !lanes[lane].ops.empty();
}

LaneDriver::LaneDriver(const Setup& setup)
    : run_(setup.run),
      plan_(setup.run.plan()),
      instance_(setup.instance),
      lanes_(setup.lanes),
      device_(setup.device) {
  losses_.reserve(static_cast<std::size_t>(plan_.expected()));
}

std::size_t LaneDriver::timed(const Call& call) {
  if (!plan_.keep().calls) return 0;
  calls_.push_back({call, {}, 0});
  calls_.back().seconds.reserve(static_cast<std::size_t>(plan_.expected()));
  return calls_.size() - 1;
}

void LaneDriver::to_host(float* host, const float* at, int64_t elements, Lane lane) {
  if (host == at) return;
  device_.save(host, at, elements, lane);
  device_.synchronize(lane);
}

void LaneDriver::to_device(float* at, const float* host, int64_t elements, Lane lane) {
  if (host != at) device_.load(at, host, elements, lane);
}

void LaneDriver::walk(Lane which) {
  LaneState& lane = lanes_[which];
  uint32_t passed = 0;
  for (int32_t i = 0; begins(lane, i); ++i) {
    for (const LaneOp& op : lane.ops) {
      if (op.runs(i)) step(lane, op, i);
      lane.passed.set(++passed);
    }
    if (which == Lane::compute) ended(i);
  }
  leave(lane, passed);
  if (lane.pushes) leave_store();
}

void LaneDriver::walk_all() {
  const LaneState& first = lanes_[Lane::compute];
  for (int32_t i = 0; begins(first, i); ++i) {
    for (uint32_t o = 0; o < role().ops.size(); ++o) {
      const LaneOp& op = lanes_.bound(o);
      if (op.runs(i)) make(lanes_[role().ops[o].lane], op, i);
    }
    ended(i);
  }
  for (int l = 0; l < kLanes; ++l) {
    if (lanes_[static_cast<Lane>(l)].pushes) leave_store();
  }
}

/// Lanes that load in advance may have begun an iteration that will not run, and wait for this one.
void LaneDriver::leave(LaneState& lane, uint32_t passed) { lane.passed.set(passed + (uint32_t{1} << 30)); }

void LaneDriver::step(LaneState& lane, const LaneOp& op, int32_t iteration) {
  wait(op, iteration);
  make(lane, op, iteration);
}

void LaneDriver::make(LaneState& lane, const LaneOp& op, int32_t iteration) {
  run_.abort().check();
  const int64_t ready = now_ns();
  const int64_t began = act(op, iteration);
  lane.executed.push_back({static_cast<uint32_t>(iteration), op.op, std::max(ready, began), now_ns(), ready});
}

bool LaneDriver::begins(const LaneState& lane, int32_t iteration) {
  if (lane.ahead == 0) return run_.iterations().enter(instance_, iteration);
  return run_.iterations().prefetch(instance_, iteration, lane.ahead, run_.abort(), run_.spins());
}

/// A failure says which op of which iteration failed.
int64_t LaneDriver::act(const LaneOp& op, int32_t iteration) {
  try {
    return op.act(iteration);
  } catch (const InputError&) {  // of a sample, which it names
    throw;
  } catch (const std::exception& error) {
    throw DeviceError(fmt::format("\"{}\" of iteration {}: {}",
                                  plan_.program().labels[role().ops[op.op].label], iteration, error.what()));
  }
}

void LaneDriver::ended(int32_t iteration) {
  if (instance_ != 0) return;
  const Execution& e = plan_.execution();
  if (e.progress && (iteration + 1) % plan_.micro_batches() == 0)
    e.progress(iteration / plan_.micro_batches());
  if (e.stop != nullptr && e.stop->load()) run_.iterations().stop();
}

/// After the last gradient was sent.
void LaneDriver::leave_store() {
  for (uint32_t s = 0; s < plan_.shards().count(); ++s) {
    if (run_.apart(instance_, s))
      run_.links()->leave(instance_, s);
    else
      run_.store()->leave(instance_, s);
  }
}

// ---- threads ----

void ThreadDriver::run(Lane lane) {
  if (lanes_.one_after_another()) return walk_all();
  if (run_.coordinator().cycle() > 0 && lane == run_.coordinator().lane())
    return walk_in_rounds(lanes_[lane]);
  walk(lane);
}

void ThreadDriver::wait(const LaneOp& op, int32_t iteration) {
  for (const LaneDependency& d : op.deps) {
    const std::optional<int32_t> of = d.of(iteration);
    if (!of) continue;
    const Counter& passed = lanes_[d.lane].passed;
    const uint32_t target = d.passed_by(*of);
    if (static_cast<int32_t>(passed.value() - target) < 0) passed.wait(target, run_.abort(), run_.spins());
  }
}

void ThreadDriver::launch(const std::vector<Launch>& list, std::size_t variant, const IterationState& state) {
  if (plan_.keep().calls) return launch_timed(list, variant, state);
  for (const Launch& l : list) device_.launch(l.prepared, l.of(variant), state, Lane::compute);
}

void ThreadDriver::launch_timed(const std::vector<Launch>& list, std::size_t variant,
                                const IterationState& state) {
  const int64_t before = switches();
  for (const Launch& l : list) {
    const int64_t start = now_ns();
    device_.launch(l.prepared, l.of(variant), state, Lane::compute);
    if (state.iteration - plan_.first_iteration() >= plan_.warmup())
      calls_[l.time].seconds.push_back(static_cast<double>(now_ns() - start) * 1e-9);
  }
  if (switches() == before) return;
  for (const Launch& l : list) {
    if (calls_[l.time].seconds.empty()) continue;
    calls_[l.time].seconds.pop_back();
    ++calls_[l.time].dropped;
  }
}

void ThreadDriver::take_losses(const std::vector<float*>& at) {
  double sum = 0;
  for (const float* loss : at) {
    float value = 0;
    device_.download(&value, loss, 1);
    sum += static_cast<double>(value);
  }
  losses_.push_back(sum);
  if (run_.watch() != nullptr && run_.watch()->add(sum, plan_.stages().lowered(instance_).batch()))
    run_.iterations().stop();
}

}  // namespace tandem::exec
