// SPDX-License-Identifier: Apache-2.0
#pragma once
// An asynchronous device for tests: a CPU or null session behind queues. Lanes are threads that work off what
// they were given; addresses are the device's own, so that a host that reaches into them crashes.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "exec/device/backend.h"
#include "exec/device/cpu/onednn.h"

namespace tandem::tests {

class DeferredDevice : public DeviceSession {
 public:
  explicit DeferredDevice(std::unique_ptr<DeviceSession> inner) : inner_(std::move(inner)) {
    for (Queue& q : queues_) q.thread = std::thread([&q] { q.serve(); });
  }
  ~DeferredDevice() override {
    for (Queue& q : queues_) q.end();
  }

  float* allocate(int64_t elements) override { return far(inner_->allocate(elements)); }
  uint32_t prepare(const Call& call) override { return inner_->prepare(call); }
  std::vector<LibraryChoice> choices() const override { return inner_->choices(); }
  void launch(uint32_t prepared, std::span<float* const> operands, const IterationState& step,
              Lane lane) override {
    std::vector<float*> near_operands;
    for (float* o : operands) near_operands.push_back(o == nullptr || pinned(o) ? o : near(o));
    give(lane, [this, prepared, near_operands, slot = step.slot, micro = step.micro, lane] {
      IterationState state = states_[slot];
      state.micro = micro;
      state.iteration += micro;
      inner_->launch(prepared, near_operands, state, lane);
    });
  }
  void copy(float* to, const float* from, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->copy(near(to), near(from), n, lane); });
  }
  void accumulate(float* to, const float* from, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->accumulate(near(to), near(from), n, lane); });
  }
  void scale(float* values, float factor, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->scale(near(values), factor, n, lane); });
  }
  void narrow(float* to, const float* from, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->narrow(near(to), near(from), n, lane); });
  }
  void renew(const CopiedRange& range, const float* vector, Lane lane) override {
    CopiedRange at = range;
    at.copies = near(range.copies);
    at.pieces = near(range.pieces);
    at.matrices = near(range.matrices);
    give(lane, [=, this] { inner_->renew(at, near(vector), lane); });
  }
  void upcast(float* to, const float* from, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->upcast(near(to), near(from), n, lane); });
  }
  void narrow_gradients(float* to, const float* from, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->narrow_gradients(near(to), near(from), n, lane); });
  }
  void upcast_gradients(float* to, const float* from, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->upcast_gradients(near(to), near(from), n, lane); });
  }
  void accumulate_half(float* to, const float* from, int64_t words, Lane lane) override {
    give(lane, [=, this] { inner_->accumulate_half(near(to), near(from), words, lane); });
  }
  void unscale(float* gradients, int64_t n, bool alone, Lane lane) override {
    give(lane, [=, this] { inner_->unscale(near(gradients), n, alone, lane); });
  }
  void judge(const float* gradients, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->judge(near(gradients), n, lane); });
  }
  void upload(float* to, const float* host, int64_t n) override {
    not_capturing("upload");
    inner_->upload(near(to), host, n);
  }
  void download(float* host, const float* from, int64_t n) override {
    not_capturing("download");
    inner_->download(host, near(from), n);
  }
  void synchronize(Lane lane) override {
    not_capturing("synchronize");
    auto done = std::make_shared<Event>();
    record(*done, lane);
    done->wait(done->recorded);
    if (!failure_.empty()) throw DeviceError(failure_);
  }

  float* allocate_host(int64_t elements) override {
    host_.emplace_back(static_cast<std::size_t>(elements));
    return host_.back().data();
  }
  void load(float* to, const float* host, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->upload(near(to), host, n); });
  }
  void save(float* host, const float* from, int64_t n, Lane lane) override {
    give(lane, [=, this] { inner_->download(host, near(from), n); });
  }
  void set_state(const IterationState& state, Lane lane) override {
    not_capturing("set_state");
    give(lane, [this, state, lane] {
      states_[state.slot] = state;
      inner_->set_state(state, lane);
    });
  }
  std::unique_ptr<DeviceEvent> make_event(bool timed) override { return std::make_unique<Event>(timed); }
  void record(DeviceEvent& event, Lane lane) override {
    auto& e = static_cast<Event&>(event);
    if (capturing_ && !e.timed) {
      e.captured = captures_;
      return;  // replays are one queue: order is all that is left of it
    }
    if (capturing_)
      capturing_->recorded.push_back(&e);  // at each replay
    else
      ++e.recorded;
    give(lane, [&e] { e.reach(); });
  }
  void wait(Lane lane, DeviceEvent& event) override {
    auto& e = static_cast<Event&>(event);
    if (capturing_) {
      if (e.captured != captures_) throw std::logic_error("a captured lane waits for what is not captured");
      joined_[static_cast<std::size_t>(lane)] = true;
      return;
    }
    give(lane, [&e, number = e.recorded.load()] { e.wait(number); });
  }
  void synchronize(DeviceEvent& event) override {
    not_capturing("synchronize");
    auto& e = static_cast<Event&>(event);
    e.wait(e.recorded);
    if (!failure_.empty()) throw DeviceError(failure_);
  }
  double seconds_between(DeviceEvent& first, DeviceEvent& second) override {
    return std::chrono::duration<double>(static_cast<Event&>(second).time() -
                                         static_cast<Event&>(first).time())
        .count();
  }
  void begin_capture() override {
    capturing_ = std::make_unique<Graph>();
    ++captures_;
    for (bool& j : joined_) j = false;
    joined_[static_cast<std::size_t>(Lane::compute)] = true;
  }
  std::unique_ptr<DeviceGraph> end_capture() override { return std::move(capturing_); }
  void replay(DeviceGraph& graph) override {
    ++replays;
    for (Event* e : static_cast<Graph&>(graph).recorded) ++e->recorded;
    for (const auto& work : static_cast<Graph&>(graph).work) give(Lane::compute, work);
  }

  static inline std::atomic<int64_t> replays{0};  ///< of all devices

 private:
  using Clock = std::chrono::steady_clock;
  struct Event : DeviceEvent {
    explicit Event(bool t = false) : timed(t) {}
    const bool timed;
    std::atomic<uint64_t> recorded{0}, captured{0};
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t reached = 0;
    Clock::time_point at;
    void reach() {
      const std::lock_guard guard(mutex);
      ++reached;
      at = Clock::now();
      changed.notify_all();
    }
    void wait(uint64_t number) {
      std::unique_lock guard(mutex);
      changed.wait(guard, [&] { return reached >= number; });
    }
    Clock::time_point time() {
      const std::lock_guard guard(mutex);
      return at;
    }
  };
  struct Graph : DeviceGraph {
    std::vector<std::function<void()>> work;
    std::vector<Event*> recorded;
  };
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool ended = false;
    std::thread thread;
    void serve() {
      exec::cpu::set_threads(1);  // as the session's own thread: results depend on how many share a product
      for (;;) {
        std::function<void()> next;
        {
          std::unique_lock guard(mutex);
          changed.wait(guard, [&] { return !work.empty() || ended; });
          if (work.empty()) return;
          next = std::move(work.front());
          work.pop_front();
        }
        next();
      }
    }
    void end() {
      {
        const std::lock_guard guard(mutex);
        ended = true;
      }
      changed.notify_all();
      thread.join();
    }
  };

  /// Addresses that no process has on 64-bit machines.
  static constexpr uintptr_t kFar = uintptr_t{1} << 60;
  static float* far(float* p) { return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(p) + kFar); }
  /// In host memory that kernels may reach, too.
  bool pinned(const float* p) const {
    return std::any_of(host_.begin(), host_.end(),
                       [p](const auto& h) { return h.data() <= p && p < h.data() + h.size(); });
  }
  static float* near(const float* p) {
    if (reinterpret_cast<uintptr_t>(p) < kFar) throw std::logic_error("a host address given to the device");
    return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(p) - kFar);
  }
  void not_capturing(const char* what) const {
    if (capturing_) throw std::logic_error(std::string(what) + " while capturing");
  }
  void give(Lane lane, std::function<void()> work) {
    const auto l = static_cast<std::size_t>(lane);
    const auto guarded = [this, work = std::move(work)] {
      try {
        work();
      } catch (const std::exception& error) {
        const std::lock_guard guard(failing_);
        if (failure_.empty()) failure_ = error.what();
      }
    };
    if (capturing_) {
      if (!joined_[l]) throw std::logic_error("a lane that the capture has not reached");
      capturing_->work.emplace_back(guarded);
      return;
    }
    {
      const std::lock_guard guard(queues_[l].mutex);
      queues_[l].work.emplace_back(guarded);
    }
    queues_[l].changed.notify_all();
  }

  std::unique_ptr<DeviceSession> inner_;
  IterationState states_[kStateSlots];
  std::deque<std::vector<float>> host_;
  std::unique_ptr<Graph> capturing_;
  uint64_t captures_ = 0;
  bool joined_[kLanes] = {};
  std::mutex failing_;
  std::string failure_;
  Queue queues_[kLanes];
};

/// As backend `inner`, but asynchronous.
template <const char* Inner>
Backend deferred() {
  Backend b = backends_registry().at(Inner);
  b.asynchronous = true;
  b.open = [](const DeviceOptions& options) -> std::unique_ptr<DeviceSession> {
    return std::make_unique<DeferredDevice>(backends_registry().at(Inner).open(options));
  };
  return b;
}

}  // namespace tandem::tests
