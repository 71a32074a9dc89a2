// SPDX-License-Identifier: Apache-2.0
// The parameter server of a run: where its shards are kept, who merges, and the links to remote ones.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "exec/device/averaging.h"
#include "exec/device/compression.h"
#include "exec/layout/memory.h"
#include "exec/run/learning_rate.h"
#include "exec/run/run.h"

namespace tandem::exec {

namespace {

/// Receives movements of `workers`; `elements`: of the model, whose velocity it keeps, and the sum of a
/// round.
Merge delayed_merge(const Averaging& rule, int64_t workers, int64_t elements,
                    const std::unique_ptr<ParameterStore>& store) {
  const bool momentum = rule.weight != 0;
  auto kept = std::make_shared<std::vector<float>>(momentum ? 2 * static_cast<std::size_t>(elements) : 0);
  return [=, &store](const Slice& slice, const float* movement, int64_t version, int64_t) {
    const Averaging step{rule.rule, rule.rate / static_cast<double>(workers),
                         version % workers == 0 ? rule.weight : 0};
    float* const velocity = momentum ? kept->data() + slice.first : nullptr;
    float* const operands[] = {nullptr, const_cast<float*>(movement), store->at(slice), velocity,
                               momentum ? velocity + elements : nullptr};
    host_average(average_call(step, slice.elements))(operands);
  };
}

}  // namespace

void Run::make_store() {
  if (program_.stores.empty()) return;
  const Store& rules = program_.stores[0];
  const Role& role = program_.roles[rules.role];
  shards_ = static_cast<uint32_t>(role.mesh.size());
  const bool gated =
      std::any_of(role.ops.begin(), role.ops.end(), [](const Op& op) { return op.kind == OpKind::gate; });
  local_ = static_cast<uint32_t>(rules.shares);
  exchanged_vectors_ = vectors_of_stores(program_, *execution_.job.optimizer);
  if (exchanged_vectors_ > 1) {
    store_start_ = start_;
    store_start_.insert(store_start_.end(), start_state_.begin(), start_state_.end());
  }
  // Else a server merges in host memory, where links begin as well.
  const bool on_devices = execution_.backend->asynchronous && role.site == Site::accelerators &&
                          transport_ == nullptr && !own_models();
  make_servers(on_devices);
  for_each_slice([&](const Slice& slice) {
    if (execution_.job.optimizer->by_tensor() && !exchanges_parameters() && optimizer_state_.cut_by(slice))
      refuse(fmt::format("the optimizer \"{}\" works on whole tensors, and each server has parts of them",
                         execution_.job.optimizer->name));
  });
  const auto server_of = [on_devices](const Slice& slice) {
    return on_devices ? std::size_t{slice.shard} : 0;
  };
  Merge merge = exchanges_parameters() ? averaging_merge(server_of) : updating_merge(server_of, on_devices);
  ParameterStore::Setup setup{rules,
                              workers_,
                              shards_,
                              static_cast<uint32_t>(program_.buckets.size()),
                              exchanged_vectors_ > 1 ? store_start_.data() : start_.data(),
                              execution_graph().parameters() * exchanged_vectors_,
                              gated,
                              std::move(merge),
                              {},
                              {},
                              {},
                              {}};
  if (compresses()) setup.unpack = unpacking();
  if (!rules.locked) setup.step = step_of_workers();
  setup.run_in = pushes_of_warmup();
  const Store::Rate rate = rate_rule();
  if (rules.batch > 1 && rate != Store::Rate::fixed)
    setup.weight = [rate, pushing = pushing()](int64_t staleness) {
      return stale_rate(rate, 1, staleness, pushing);
    };
  for (const auto& server : servers_) {
    if (on_devices) setup.devices.push_back(server.get());
  }
  store_ = std::make_unique<ParameterStore>(std::move(setup), abort_, spins_);
  if (transport_) make_links();
}

Store::Rate Run::rate_rule() const {
  return execution_.rate.by_staleness ? Store::Rate::staleness : program_.stores[0].rate;
}

int64_t Run::pushes_of_warmup() const {
  for (const Op& op : program_.roles[0].ops) {
    if (op.kind == OpKind::send && program_.channels[op.what].to_role == program_.stores[0].role)
      return op.times(warmup_of(expected_));
  }
  return 0;
}

int64_t Run::pushing() const { return workers_ / int64_t{program_.stores[0].shares}; }

Call Run::update_call(const OptimizerState& state, const Slice& part) const {
  Call out;
  out.function = Function::update;
  out.pass = Pass::update;
  const Optimizer& rule = *execution_.job.optimizer;
  out.shape = {part.elements, execution_.integer_gradients ? 0 : &rule - optimizers().data()};
  if (rule.by_tensor() && !execution_.integer_gradients) out.tensors = state.in(part);
  return out;
}

std::size_t Run::add_state(float* state, const Slice& slice, float** operands) const {
  const Optimizer& rule = *execution_.job.optimizer;
  if (!rule.flat()) operands[2] = state;
  for (int64_t k = 0; k < rule.state && rule.flat(); ++k)
    operands[2 + k] = state + k * execution_graph().parameters() + slice.first;
  return static_cast<std::size_t>(rule.flat() ? 2 + rule.state : 3);
}

/// The optimiser's step.
Merge Run::updating_merge(const std::function<std::size_t(const Slice&)>& server_of, bool on_devices) {
  const Store& rules = program_.stores[0];
  // One prepared update per server and slice length: slices come in few sizes.
  const bool by_tensor = execution_.job.optimizer->by_tensor();
  const auto key_of = [server_of, by_tensor](const Slice& slice) {
    return std::pair{server_of(slice), by_tensor ? slice.first : slice.elements};
  };
  auto prepared = std::make_shared<std::map<std::pair<std::size_t, int64_t>, uint32_t>>();
  for_each_slice([&](const Slice& slice) {
    const auto key = key_of(slice);
    if (prepared->count(key) != 0) return;
    prepared->emplace(key, servers_[key.first]->prepare(update_call(optimizer_state_, slice)));
  });
  // A node's devices push their sum as one.
  const float scale = execution_.integer_gradients
                          ? 1.0F
                          : 1 / (static_cast<float>(rules.batch) * static_cast<float>(local_));
  // Each of several gradients is weighted already.
  const Store::Rate rate = rules.batch > 1 ? Store::Rate::fixed : rate_rule();
  return [this, prepared, scale, pushing = pushing(), key_of, on_devices, rate](
             const Slice& slice, const float* gradient, int64_t version, int64_t staleness) {
    const auto key = key_of(slice);
    const std::size_t server = key.first;
    float* operands[4] = {store_->at(slice), const_cast<float*>(gradient), nullptr, nullptr};
    const std::size_t count = add_state(server_states_[server], slice, operands);
    IterationState s = state(0, static_cast<int32_t>(version - 1));
    s.gradient_scale = scale;
    s.updates = first_iteration_ + version;
    s.learning_rate = stale_rate(rate, s.learning_rate, staleness, pushing);
    if (on_devices) servers_[server]->set_state(s, Lane::compute);
    servers_[server]->launch(prepared->at(key), {operands, count}, s, Lane::compute);
  };
}

/// What workers push, as it arrives in host memory.
std::function<void(const Slice&, const float*, float*)> Run::unpacking() const {
  auto forms = std::make_shared<std::map<int64_t, std::function<void(std::span<float* const>)>>>();
  for_each_slice([&](const Slice& slice) {
    if (slice.elements == 0 || forms->count(slice.elements) != 0) return;
    const CompressedBucket form(program_.compression, slice.elements);
    forms->emplace(slice.elements, host_compression(compression_call(Function::decompress, form)));
  });
  return [forms](const Slice& slice, const float* message, float* gradient) {
    if (slice.elements == 0) return;
    float* const operands[] = {gradient, const_cast<float*>(message), nullptr};
    forms->at(slice.elements)(operands);
  };
}

/// If workers merge concurrently, each has its own state for the step.
Step Run::step_of_workers() {
  auto states =
      std::make_shared<std::vector<std::vector<float>>>(static_cast<std::size_t>(workers_), start_state_);
  auto prepared = std::make_shared<std::map<int64_t, uint32_t>>();
  const bool by_tensor = execution_.job.optimizer->by_tensor();
  const auto key_of = [by_tensor](const Slice& s) { return by_tensor ? s.first : s.elements; };
  for_each_slice([&](const Slice& slice) {
    if (prepared->count(key_of(slice)) != 0) return;
    prepared->emplace(key_of(slice), servers_[0]->prepare(update_call(optimizer_state_, slice)));
  });
  return [this, states, prepared, key_of, rate = rate_rule(), pushing = pushing()](
             uint32_t worker, const Slice& slice, const float* gradient, float* moved, int64_t number,
             int64_t staleness) {
    float* operands[4] = {moved, const_cast<float*>(gradient), nullptr, nullptr};
    const std::size_t count = add_state((*states)[worker].data(), slice, operands);
    IterationState s = state(worker, static_cast<int32_t>(number - 1));
    s.gradient_scale = 1;
    s.updates = first_iteration_ + number;
    s.learning_rate = stale_rate(rate, s.learning_rate, staleness, pushing);
    servers_[0]->launch(prepared->at(key_of(slice)), {operands, count}, s, Lane::compute);
  };
}

/// Receives parameters, or the sum of `batch` workers', towards whose mean the anchor in the store moves.
Merge Run::averaging_merge(const std::function<std::size_t(const Slice&)>& server_of) {
  const Averaging& rule = program_.stores[0].averaging;
  if (rule.rule == Averaging::Rule::delayed)
    return delayed_merge(rule, pushing(), execution_graph().parameters(), store_);
  auto prepared = std::make_shared<std::map<std::pair<std::size_t, int64_t>, uint32_t>>();
  for_each_slice([&](const Slice& slice) {
    const std::pair key{server_of(slice), slice.elements};
    if (prepared->count(key) == 0)
      prepared->emplace(key, servers_[key.first]->prepare(average_call(rule, slice.elements)));
  });
  const int32_t batch = program_.stores[0].batch;
  return [this, prepared, server_of, batch](const Slice& slice, const float* parameters, int64_t, int64_t) {
    const std::size_t server = server_of(slice);
    float* const own = const_cast<float*>(parameters);  // these stay unchanged; a sum belongs to the store
    if (batch > 1) servers_[server]->scale(own, 1 / static_cast<float>(batch), slice.elements, Lane::compute);
    float* const operands[] = {own, own, store_->at(slice)};
    servers_[server]->launch(prepared->at({server, slice.elements}), operands, {}, Lane::compute);
  };
}

void Run::make_servers(bool on_devices) {
  if (!on_devices) {
    const Backend& host =
        execution_.backend->asynchronous ? backends_registry().at("cpu") : *execution_.backend;
    servers_.push_back(host.open({0, Precision::fp32, 1, false}));
    server_states_.push_back(start_state_.data());
    return;
  }
  for (uint32_t s = 0; s < shards_; ++s) {
    servers_.push_back(execution_.backend->open(
        {device_index(first_here_ + s % here_), Precision::fp32, 1, false, execution_.route}));
    const auto words = static_cast<int64_t>(start_state_.size());
    if (execution_.job.optimizer->paged) {
      server_states_.push_back(servers_.back()->allocate_host(words));
      std::copy(start_state_.begin(), start_state_.end(), server_states_.back());
      continue;
    }
    server_states_.push_back(servers_.back()->allocate(words));
    servers_.back()->upload(server_states_.back(), start_state_.data(), words);
  }
}

void Run::for_each_slice(const std::function<void(const Slice&)>& visit) const {
  for (uint32_t key = 0; key < program_.buckets.size(); ++key) {
    for (uint32_t i = 0; i < local_; ++i) {
      for (const uint32_t s : shards_of(key)) visit(slice(key, i, s));
    }
  }
}

void Run::fetch_store() {
  if (!store_ || !store_->on_devices()) return;
  const Optimizer& rule = *execution_.job.optimizer;
  const auto fetch = [&](uint32_t shard, int64_t at, int64_t words) {
    servers_[shard]->synchronize(Lane::compute);
    if (rule.paged)
      std::copy_n(server_states_[shard] + at, words, start_state_.data() + at);
    else
      servers_[shard]->download(start_state_.data() + at, server_states_[shard] + at, words);
  };
  for_each_slice([&](const Slice& slice) {
    store_->fetch(slice);
    for (int64_t k = 0; k < rule.state && rule.flat(); ++k)
      fetch(slice.shard, k * execution_graph().parameters() + slice.first, slice.elements);
    if (rule.flat()) return;
    for (const UpdatedTensor& t : optimizer_state_.in(slice))
      fetch(slice.shard, t.state, rule.state_words(t.elements, t.rows));
  });
}

void Run::make_links() {
  const Role& role = program_.roles[program_.stores[0].role];
  const auto nodes = static_cast<uint32_t>(execution_.cluster.nodes),
             per_node = static_cast<uint32_t>(execution_.cluster.per_node);
  StoreLinks::Setup setup;
  for (uint32_t w = 0; w < workers_; ++w) setup.worker_node.push_back(w / per_node);
  for (uint32_t s = 0; s < shards_; ++s) {
    setup.shard_node.push_back(role.site == Site::hosts          ? s % nodes
                               : role.site == Site::accelerators ? s / per_node % nodes
                                                                 : nodes + s);
  }
  setup.keys = static_cast<uint32_t>(program_.buckets.size());
  setup.asked = program_.stores[0].reader >= 0;
  setup.channel = channels_;
  setup.slice = [this](uint32_t key, uint32_t worker, uint32_t shard) { return slice(key, worker, shard); };
  if (compresses()) {
    setup.words = [this](uint32_t key) {
      return pushed_words(program_.compression, program_.buckets[key].elements, shards_of(key).size());
    };
  }
  links_ = std::make_unique<StoreLinks>(std::move(setup), *transport_, *store_, abort_);
}

}  // namespace tandem::exec
