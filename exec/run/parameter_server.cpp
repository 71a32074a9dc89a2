// SPDX-License-Identifier: Apache-2.0
#include "exec/run/parameter_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "exec/device/averaging.h"
#include "exec/device/compression.h"
#include "exec/layout/memory.h"
#include "exec/run/executable.h"
#include "exec/run/learning_rate.h"

namespace tandem::exec {

namespace {

const Role& serving_role(const Program& program) { return program.roles[program.stores[0].role]; }

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

ParameterServer::ParameterServer(const RunPlan& plan, StartValues& start, Network& network, Abort& abort,
                                 int spins)
    : plan_(plan),
      rules_(plan.program().stores[0]),
      start_(start),
      on_devices_(plan.execution().backend->asynchronous &&
                  serving_role(plan.program()).site == Site::accelerators && network.transport() == nullptr &&
                  !plan.shards().hold_models()) {
  if (plan.shards().exchanged_vectors() > 1) {
    exchanged_ = start.parameters;
    exchanged_.insert(exchanged_.end(), start.optimizer_state.begin(), start.optimizer_state.end());
  }
  open_servers();
  plan.shards().each_slice([&](const Slice& slice) {
    const Optimizer& rule = *plan.execution().job.optimizer;
    if (rule.by_tensor() && !plan.shards().exchange_parameters() && plan.optimizer_state().cut_by(slice))
      refuse(plan,
             fmt::format("the optimizer \"{}\" works on whole tensors, and each server has parts of them",
                         rule.name));
  });
  store_ = std::make_unique<ParameterStore>(setup(), abort, spins);
  if (network.transport() != nullptr) make_links(network, abort);
}

ParameterStore::Setup ParameterServer::setup() {
  const StoreShards& shards = plan_.shards();
  const auto& ops = serving_role(plan_.program()).ops;
  ParameterStore::Setup out;
  out.rules = rules_;
  out.workers = plan_.workers();
  out.shards = shards.count();
  out.keys = static_cast<uint32_t>(plan_.program().buckets.size());
  out.start = exchanged_.empty() ? start_.parameters.data() : exchanged_.data();
  out.elements = plan_.execution_graph().parameters() * shards.exchanged_vectors();
  out.gated = std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::gate; });
  out.merge = shards.exchange_parameters() ? averaging_merge() : updating_merge();
  if (plan_.compresses()) out.unpack = unpacking();
  if (!rules_.locked) out.step = step_of_workers();
  out.run_in = pushes_of_warmup();
  const Store::Rate rate = rate_rule();
  if (rules_.batch > 1 && rate != Store::Rate::fixed)
    out.weight = [rate, pushing = pushing()](int64_t staleness) {
      return stale_rate(rate, 1, staleness, pushing);
    };
  for (const auto& server : servers_) {
    if (on_devices_) out.devices.push_back(server.get());
  }
  return out;
}

Store::Rate ParameterServer::rate_rule() const {
  return plan_.execution().rate.by_staleness ? Store::Rate::staleness : rules_.rate;
}

int64_t ParameterServer::pushes_of_warmup() const {
  for (const Op& op : plan_.program().roles[0].ops) {
    if (op.kind == OpKind::send && plan_.program().channels[op.what].to_role == rules_.role)
      return op.times(plan_.warmup_of(plan_.expected()));
  }
  return 0;
}

int64_t ParameterServer::pushing() const { return plan_.workers() / int64_t{rules_.shares}; }

std::size_t ParameterServer::add_state(float* state, const Slice& slice, float** operands) const {
  const Optimizer& rule = *plan_.execution().job.optimizer;
  if (!rule.flat()) operands[2] = state;
  for (int64_t k = 0; k < rule.state && rule.flat(); ++k)
    operands[2 + k] = state + k * plan_.execution_graph().parameters() + slice.first;
  return static_cast<std::size_t>(rule.flat() ? 2 + rule.state : 3);
}

/// The optimiser's step.
Merge ParameterServer::updating_merge() {
  // One prepared update per server and slice length: slices come in few sizes.
  const bool by_tensor = plan_.execution().job.optimizer->by_tensor();
  const auto key_of = [this, by_tensor](const Slice& slice) {
    return std::pair{server_of(slice), by_tensor ? slice.first : slice.elements};
  };
  auto prepared = std::make_shared<std::map<std::pair<std::size_t, int64_t>, uint32_t>>();
  plan_.shards().each_slice([&](const Slice& slice) {
    const auto key = key_of(slice);
    if (prepared->count(key) != 0) return;
    prepared->emplace(key, servers_[key.first]->prepare(plan_.update_call(plan_.optimizer_state(), slice)));
  });
  // A node's devices push their sum as one.
  const float scale =
      plan_.execution().integer_gradients
          ? 1.0F
          : 1 / (static_cast<float>(rules_.batch) * static_cast<float>(plan_.shards().local()));
  // Each of several gradients is weighted already.
  const Store::Rate rate = rules_.batch > 1 ? Store::Rate::fixed : rate_rule();
  return [this, prepared, scale, pushing = pushing(), key_of, rate](const Slice& slice, const float* gradient,
                                                                    int64_t version, int64_t staleness) {
    const auto key = key_of(slice);
    const std::size_t server = key.first;
    float* operands[4] = {store_->at(slice), const_cast<float*>(gradient), nullptr, nullptr};
    const std::size_t count = add_state(server_states_[server], slice, operands);
    IterationState s = plan_.state(0, static_cast<int32_t>(version - 1));
    s.gradient_scale = scale;
    s.updates = plan_.first_iteration() + version;
    s.learning_rate = stale_rate(rate, s.learning_rate, staleness, pushing);
    if (on_devices_) servers_[server]->set_state(s, Lane::compute);
    servers_[server]->launch(prepared->at(key), {operands, count}, s, Lane::compute);
  };
}

/// What workers push, as it arrives in host memory.
std::function<void(const Slice&, const float*, float*)> ParameterServer::unpacking() const {
  auto forms = std::make_shared<std::map<int64_t, std::function<void(std::span<float* const>)>>>();
  plan_.shards().each_slice([&](const Slice& slice) {
    if (slice.elements == 0 || forms->count(slice.elements) != 0) return;
    const CompressedBucket form(plan_.program().compression, slice.elements);
    forms->emplace(slice.elements, host_compression(compression_call(Function::decompress, form)));
  });
  return [forms](const Slice& slice, const float* message, float* gradient) {
    if (slice.elements == 0) return;
    float* const operands[] = {gradient, const_cast<float*>(message), nullptr};
    forms->at(slice.elements)(operands);
  };
}

/// If workers merge concurrently, each has its own state for the step.
Step ParameterServer::step_of_workers() {
  auto states = std::make_shared<std::vector<std::vector<float>>>(static_cast<std::size_t>(plan_.workers()),
                                                                  start_.optimizer_state);
  auto prepared = std::make_shared<std::map<int64_t, uint32_t>>();
  const bool by_tensor = plan_.execution().job.optimizer->by_tensor();
  const auto key_of = [by_tensor](const Slice& s) { return by_tensor ? s.first : s.elements; };
  plan_.shards().each_slice([&](const Slice& slice) {
    if (prepared->count(key_of(slice)) != 0) return;
    prepared->emplace(key_of(slice), servers_[0]->prepare(plan_.update_call(plan_.optimizer_state(), slice)));
  });
  return [this, states, prepared, key_of, rate = rate_rule(), pushing = pushing()](
             uint32_t worker, const Slice& slice, const float* gradient, float* moved, int64_t number,
             int64_t staleness) {
    float* operands[4] = {moved, const_cast<float*>(gradient), nullptr, nullptr};
    const std::size_t count = add_state((*states)[worker].data(), slice, operands);
    IterationState s = plan_.state(worker, static_cast<int32_t>(number - 1));
    s.gradient_scale = 1;
    s.updates = plan_.first_iteration() + number;
    s.learning_rate = stale_rate(rate, s.learning_rate, staleness, pushing);
    servers_[0]->launch(prepared->at(key_of(slice)), {operands, count}, s, Lane::compute);
  };
}

/// Receives parameters, or the sum of `batch` workers', towards whose mean the anchor in the store moves.
Merge ParameterServer::averaging_merge() {
  if (rules_.averaging.rule == Averaging::Rule::delayed)
    return delayed_merge(rules_.averaging, pushing(), plan_.execution_graph().parameters(), store_);
  const Averaging& rule = rules_.averaging;
  auto prepared = std::make_shared<std::map<std::pair<std::size_t, int64_t>, uint32_t>>();
  plan_.shards().each_slice([&](const Slice& slice) {
    const std::pair key{server_of(slice), slice.elements};
    if (prepared->count(key) == 0)
      prepared->emplace(key, servers_[key.first]->prepare(average_call(rule, slice.elements)));
  });
  const int32_t batch = rules_.batch;
  return [this, prepared, batch](const Slice& slice, const float* parameters, int64_t, int64_t) {
    const std::size_t server = server_of(slice);
    float* const own = const_cast<float*>(parameters);  // these stay unchanged; a sum belongs to the store
    if (batch > 1) servers_[server]->scale(own, 1 / static_cast<float>(batch), slice.elements, Lane::compute);
    float* const operands[] = {own, own, store_->at(slice)};
    servers_[server]->launch(prepared->at({server, slice.elements}), operands, {}, Lane::compute);
  };
}

void ParameterServer::open_servers() {
  if (!on_devices_) {
    const Backend& host =
        plan_.execution().backend->asynchronous ? backends_registry().at("cpu") : *plan_.execution().backend;
    servers_.push_back(host.open({0, Precision::fp32, 1, false}));
    server_states_.push_back(start_.optimizer_state.data());
    return;
  }
  for (uint32_t s = 0; s < plan_.shards().count(); ++s) {
    servers_.push_back(
        plan_.execution().backend->open({plan_.device_index(plan_.first_here() + s % plan_.here()),
                                         Precision::fp32, 1, false, plan_.execution().route}));
    const auto words = static_cast<int64_t>(start_.optimizer_state.size());
    if (plan_.execution().job.optimizer->paged) {
      server_states_.push_back(servers_.back()->allocate_host(words));
      std::copy(start_.optimizer_state.begin(), start_.optimizer_state.end(), server_states_.back());
      continue;
    }
    server_states_.push_back(servers_.back()->allocate(words));
    servers_.back()->upload(server_states_.back(), start_.optimizer_state.data(), words);
  }
}

void ParameterServer::fetch() {
  if (!store_->on_devices()) return;
  const Optimizer& rule = *plan_.execution().job.optimizer;
  const auto fetch = [&](uint32_t shard, int64_t at, int64_t words) {
    servers_[shard]->synchronize(Lane::compute);
    if (rule.paged)
      std::copy_n(server_states_[shard] + at, words, start_.optimizer_state.data() + at);
    else
      servers_[shard]->download(start_.optimizer_state.data() + at, server_states_[shard] + at, words);
  };
  plan_.shards().each_slice([&](const Slice& slice) {
    store_->fetch(slice);
    for (int64_t k = 0; k < rule.state && rule.flat(); ++k)
      fetch(slice.shard, k * plan_.execution_graph().parameters() + slice.first, slice.elements);
    if (rule.flat()) return;
    for (const UpdatedTensor& t : plan_.optimizer_state().in(slice))
      fetch(slice.shard, t.state, rule.state_words(t.elements, t.rows));
  });
}

void ParameterServer::make_links(Network& network, Abort& abort) {
  const Site site = serving_role(plan_.program()).site;
  const auto nodes = static_cast<uint32_t>(plan_.execution().cluster.nodes);
  StoreLinks::Setup setup;
  for (uint32_t w = 0; w < plan_.workers(); ++w) setup.worker_node.push_back(network.node_of(w));
  for (uint32_t s = 0; s < plan_.shards().count(); ++s) {
    setup.shard_node.push_back(site == Site::hosts          ? s % nodes
                               : site == Site::accelerators ? network.node_of(s) % nodes
                                                            : nodes + s);
  }
  setup.keys = static_cast<uint32_t>(plan_.program().buckets.size());
  setup.asked = rules_.reader >= 0;
  setup.channel = network.take_channels(1 + setup.keys);
  setup.slice = [this](uint32_t key, uint32_t worker, uint32_t shard) {
    return plan_.shards().slice(key, worker, shard);
  };
  if (plan_.compresses()) {
    setup.words = [this](uint32_t key) {
      return pushed_words(plan_.program().compression, plan_.program().buckets[key].elements,
                          plan_.shards().with(key).size());
    };
  }
  links_ = std::make_unique<StoreLinks>(std::move(setup), *network.transport(), *store_, abort);
}

}  // namespace tandem::exec
