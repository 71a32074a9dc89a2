// SPDX-License-Identifier: Apache-2.0
#include "exec/comm/store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "exec/device/cpu/kernel.h"

namespace tandem::exec {

/// One version counter: a (shard, key, share). Workers are counted within the share: place().
struct ParameterStore::Entry {
  TicketLock lock;
  int64_t version = 0, merged = 0, dropped = 0, kept = 0;
  std::vector<int64_t> read;         ///< [worker]: version of the parameters it computes on
  std::vector<int64_t> clock;        ///< [worker]
  std::vector<int64_t> pushed;       ///< [worker]: gradients that were not dropped
  std::vector<Histogram> staleness;  ///< [worker]: of those after the run-in
  struct Asked {
    uint32_t worker;
    Slice slice;
    float* reply;
    std::function<void()> ready;
  };
  std::vector<Asked> asked;  ///< at the gate, in the order they came
  std::vector<float> unpacked;
};

/// A shard on a device. Its entries share one lane: one of them at a time.
struct ParameterStore::Home {
  DeviceSession* device = nullptr;
  float *parameters = nullptr, *sums = nullptr;
  std::mutex mutex;
};

ParameterStore::ParameterStore(Setup setup, Abort& abort, int spins)
    : setup_(std::move(setup)),
      abort_(abort),
      spins_(spins),
      parameters_(setup_.start, setup_.start + setup_.elements) {
  for (uint32_t s = 1; s < setup_.shards && setup_.rules.own_models; ++s)
    parameters_.insert(parameters_.end(), setup_.start, setup_.start + setup_.elements);
  if (setup_.rules.batch > 1 && setup_.devices.empty()) sums_.resize(parameters_.size());
  if (!setup_.rules.locked)
    read_.assign(static_cast<std::size_t>(setup_.workers), parameters_), moved_ = read_;
  for (DeviceSession* device : setup_.devices) {
    homes_.push_back(std::make_unique<Home>());
    Home& h = *homes_.back();
    h.device = device;
    h.parameters = device->allocate(setup_.elements);
    h.sums = device->allocate(setup_.elements);
    device->upload(h.parameters, setup_.start, setup_.elements);
  }
  const auto shares = static_cast<uint32_t>(setup_.rules.shares);
  for (uint32_t i = 0; i < setup_.shards * setup_.keys * shares; ++i) {
    entries_.push_back(std::make_unique<Entry>());
    Entry& e = *entries_.back();
    const auto workers = static_cast<std::size_t>(setup_.workers) / shares;
    e.read.resize(workers);
    e.clock.resize(workers);
    e.pushed.resize(workers);
    e.staleness.resize(workers);
    abort_.watch(&e.lock.counter());
  }
}
ParameterStore::~ParameterStore() = default;

ParameterStore::Entry& ParameterStore::entry(uint32_t shard, uint32_t key, uint32_t worker) {
  const auto shares = static_cast<uint32_t>(setup_.rules.shares);
  return *entries_[(shard * setup_.keys + key) * shares + worker % shares];
}

void ParameterStore::push(uint32_t shard, uint32_t key, uint32_t worker, const Slice& slice,
                          const float* gradient, float* reply, std::function<void()> ready) {
  Entry& e = entry(shard, key, worker);
  if (!setup_.rules.locked) {
    add_beside(e, worker, slice, gradient, reply);
    return ready();
  }
  e.lock.lock(abort_, spins_);
  if (setup_.unpack) {
    e.unpacked.resize(static_cast<std::size_t>(slice.elements));
    setup_.unpack(slice, gradient, e.unpacked.data());
    gradient = e.unpacked.data();
  }
  accept(e, worker, slice, gradient);
  e.asked.push_back({worker, slice, reply, std::move(ready)});
  unlock(e);
}

void ParameterStore::pull(uint32_t shard, uint32_t key, uint32_t worker, const Slice& slice, float* reply) {
  Entry& e = entry(shard, key, worker);
  e.lock.lock(abort_, spins_);
  snapshot(e, worker, slice, reply);
  e.lock.unlock();
}

/// After a clock may have moved: those at the gate look again.
void ParameterStore::unlock(Entry& e) {
  for (auto at = e.asked.begin(); at != e.asked.end();) {
    if (setup_.gated && !open(e, at->worker)) {
      ++at;
      continue;
    }
    if (at->reply != nullptr) snapshot(e, at->worker, at->slice, at->reply);
    at->ready();
    at = e.asked.erase(at);
  }
  e.lock.unlock();
}

float* ParameterStore::at(const Slice& slice) {
  if (!homes_.empty()) return homes_[slice.shard]->parameters + slice.first;
  return parameters_.data() + (setup_.rules.own_models ? slice.shard * setup_.elements : 0) + slice.first;
}
float* ParameterStore::sum_at(const Slice& slice) {
  return (homes_.empty() ? sums_.data() : homes_[slice.shard]->sums) + slice.first;
}

void ParameterStore::fetch(const Slice& slice) {
  if (!homes_.empty())
    homes_[slice.shard]->device->download(parameters_.data() + slice.first, at(slice), slice.elements);
}

void ParameterStore::scale_sum(const Slice& slice, float factor) {
  if (!homes_.empty())
    return homes_[slice.shard]->device->scale(sum_at(slice), factor, slice.elements, Lane::compute);
  float* sum = sum_at(slice);
  for (int64_t i = 0; i < slice.elements; ++i) sum[i] *= factor;
}

/// To the sums, times `weight`.
void ParameterStore::take(const Slice& slice, const float* gradient, bool adds, float weight) {
  if (adds && weight != 1) scale_sum(slice, 1 / weight);
  DeviceSession* device = homes_.empty() ? nullptr : homes_[slice.shard]->device;
  if (device != nullptr && adds)
    device->accumulate(sum_at(slice), gradient, slice.elements, Lane::compute);
  else if (device != nullptr)
    device->copy(sum_at(slice), gradient, slice.elements, Lane::compute);
  else if (adds)
    cpu::accumulate(sum_at(slice), gradient, slice.elements);
  else
    std::memcpy(sum_at(slice), gradient, static_cast<std::size_t>(slice.elements) * sizeof(float));
  if (weight != 1) scale_sum(slice, weight);
}

void ParameterStore::accept(Entry& e, uint32_t worker, const Slice& slice, const float* gradient) {
  if (homes_.empty()) return apply(e, worker, slice, gradient);
  Home& h = *homes_[slice.shard];
  const std::lock_guard guard(h.mutex);
  apply(e, worker, slice, gradient);
  h.device->synchronize(Lane::compute);  // then the gradient may be overwritten
}

void ParameterStore::count(Entry& e, std::size_t worker, int64_t staleness) const {
  if (++e.pushed[worker] > setup_.run_in) e.staleness[worker].add(staleness);
}

void ParameterStore::apply(Entry& e, uint32_t worker, const Slice& slice, const float* gradient) {
  const std::size_t at = place(worker);
  const int64_t read = e.read[at];
  if (setup_.rules.own_models) return setup_.merge(slice, gradient, ++e.version, 0);
  if (setup_.rules.drop_late && read < e.version) {
    ++e.dropped;
    e.clock[at] = read + 1;
    return;
  }
  const int64_t staleness = e.version - read;
  count(e, at, staleness);
  ++e.kept;
  ++e.merged;
  const int64_t batch = setup_.rules.batch;
  if (batch == 1) {
    ++e.version;
    if (!homes_.empty()) take(slice, gradient, false, 1);  // next to the parameters
    setup_.merge(slice, homes_.empty() ? gradient : sum_at(slice), e.version, staleness);
  } else {
    take(slice, gradient, e.merged > 1, setup_.weight ? setup_.weight(staleness) : 1);
    if (e.merged == batch) {
      ++e.version;
      setup_.merge(slice, sum_at(slice), e.version, staleness);
    }
  }
  if (e.merged == batch) e.merged = 0;
  // Where late gradients are dropped a clock is the round that was answered (rule 4.5), else a count.
  e.clock[at] = setup_.rules.drop_late ? read + 1 : e.clock[at] + 1;
}

/// Others add to the same parameters meanwhile. All that several threads reach is atomic.
void ParameterStore::add_beside(Entry& e, uint32_t worker, const Slice& slice, const float* gradient,
                                float* reply) {
  const std::atomic_ref<int64_t> version(e.version), kept(e.kept);
  const std::size_t own = place(worker);
  float *const shared = at(slice), *const read = read_[worker].data() + slice.first,
               *const moved = moved_[worker].data() + slice.first;
  std::copy_n(read, slice.elements, moved);
  setup_.step(worker, slice, gradient, moved, e.pushed[own] + 1,
              version.load(std::memory_order_relaxed) - e.read[own]);
  for (int64_t i = 0; i < slice.elements; ++i)
    std::atomic_ref(shared[i]).fetch_add(moved[i] - read[i], std::memory_order_relaxed);
  const int64_t before = version.fetch_add(1, std::memory_order_acq_rel);
  kept.fetch_add(1, std::memory_order_relaxed);
  count(e, own, before - e.read[own]);
  e.read[own] = before + 1;  // what follows has at least that
  for (int64_t i = 0; i < slice.elements; ++i)
    read[i] = std::atomic_ref(shared[i]).load(std::memory_order_relaxed);
  std::copy_n(read, slice.elements, reply);
}

bool ParameterStore::open(const Entry& e, uint32_t worker) const {
  const int64_t own = e.clock[place(worker)];
  if (own == INT64_MAX) return true;
  const int64_t least = own - setup_.rules.slack;
  return std::count_if(e.clock.begin(), e.clock.end(), [&](int64_t c) { return c >= least; }) >=
         setup_.rules.quorum;
}

void ParameterStore::snapshot(Entry& e, uint32_t worker, const Slice& slice, float* reply) {
  if (!setup_.rules.own_models) e.read[place(worker)] = e.version;
  if (!homes_.empty()) {
    Home& h = *homes_[slice.shard];
    const std::lock_guard guard(h.mutex);
    h.device->copy(reply, at(slice), slice.elements, Lane::compute);
    return h.device->synchronize(Lane::compute);
  }
  std::memcpy(reply, at(slice), static_cast<std::size_t>(slice.elements) * sizeof(float));
}

void ParameterStore::change(uint32_t worker, uint32_t key, const Slice& slice,
                            const std::function<void(float*)>& act) {
  Entry& e = entry(worker, key, worker);
  e.lock.lock(abort_, spins_);
  act(at(slice));
  e.lock.unlock();
}

void ParameterStore::read(uint32_t worker, uint32_t key, const Slice& slice, float* to) {
  change(worker, key, slice, [&](const float* model) { std::copy_n(model, slice.elements, to); });
}

void ParameterStore::join(uint32_t worker, uint32_t key, const Slice& slice, const float* read,
                          const float* mean) {
  Entry& e = entry(worker, key, worker);
  change(worker, key, slice, [&](float* model) {
    for (int64_t i = 0; i < slice.elements; ++i) model[i] += mean[i] - read[i];
    count(e, worker, ++e.version - e.read[worker]);
    e.read[worker] = e.version;
    ++e.kept;
  });
}

void ParameterStore::leave(uint32_t worker, uint32_t shard) {
  for (uint32_t key = 0; key < setup_.keys; ++key) {
    Entry& e = entry(shard, key, worker);
    e.lock.lock(abort_, spins_);
    e.clock[place(worker)] = INT64_MAX;
    unlock(e);
  }
}

int64_t ParameterStore::versions() const {
  int64_t sum = 0;
  for (const auto& e : entries_) sum += e->version;
  return sum;
}
int64_t ParameterStore::dropped() const {
  int64_t sum = 0;
  for (const auto& e : entries_) sum += e->dropped;
  return sum;
}
int64_t ParameterStore::merged() const {
  int64_t sum = 0;
  for (const auto& e : entries_) sum += e->kept;
  return sum;
}
Histogram ParameterStore::staleness() const {
  Histogram out;
  for (uint32_t w = 0; w < setup_.workers; ++w) out.merge(staleness_of(w));
  return out;
}
Histogram ParameterStore::staleness_of(uint32_t worker) const {
  Histogram out;
  const auto shares = static_cast<std::size_t>(setup_.rules.shares);
  for (std::size_t i = worker % shares; i < entries_.size(); i += shares)
    out.merge(entries_[i]->staleness[place(worker)]);
  return out;
}

}  // namespace tandem::exec
