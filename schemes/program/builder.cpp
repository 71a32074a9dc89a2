// SPDX-License-Identifier: Apache-2.0
#include "schemes/program/builder.h"

#include <algorithm>

namespace tandem::schemes {

namespace {

template <typename T>
uint32_t append(std::vector<T>& list, T value) {
  list.push_back(std::move(value));
  return static_cast<uint32_t>(list.size() - 1);
}

}  // namespace

Op& OpHandle::op() {
  OpList& ops = list();
  return id_.index + 1 == ops.size() ? ops.last() : ops[id_.index];
}

OpList& OpHandle::list() { return builder_->program_.roles[role_].ops; }

OpHandle& OpHandle::after(OpId other) {
  if (other.valid()) list().depend(id_.index, {other.index, 0});
  return *this;
}

OpHandle& OpHandle::after(const std::vector<OpId>& ops) {
  for (const OpId id : ops) after(id);
  return *this;
}

OpHandle& OpHandle::after_last(OpId other, uint16_t lag) {
  if (other.valid()) list().depend(id_.index, {other.index, lag});
  return *this;
}

OpHandle& OpHandle::every(int64_t k) {
  TANDEM_CHECK(k >= 1 && k <= UINT16_MAX);
  op().every = static_cast<uint16_t>(k);
  return *this;
}

OpHandle& OpHandle::from(int64_t iteration) {
  TANDEM_CHECK(iteration >= 0 && iteration < Op::kEver);
  op().from = static_cast<uint32_t>(iteration);
  return *this;
}

OpHandle& OpHandle::until(int64_t iteration) {
  TANDEM_CHECK(iteration >= 0 && iteration < Op::kEver);
  op().until = static_cast<uint32_t>(iteration);
  return *this;
}

OpHandle& OpHandle::on(Lane lane) {
  op().lane = lane;
  return *this;
}

OpHandle& OpHandle::micro(int32_t batch) {
  TANDEM_CHECK(batch >= 0 && batch <= UINT16_MAX);
  op().micro = static_cast<uint16_t>(batch);
  return *this;
}

OpHandle& OpHandle::of(Payload payload, uint32_t key) {
  op().payload = payload;
  op().key = key;
  return *this;
}

uint32_t Builder::bucket(int64_t elements, uint32_t role) {
  const auto& all = program_.buckets;
  const bool first = all.empty() || all.back().role != role;
  return append(program_.buckets, Bucket{first ? 0 : all.back().first + all.back().elements, elements, role});
}

uint32_t Builder::task(Task task) { return append(program_.tasks, std::move(task)); }

RoleBuilder Builder::role(std::string name, Mesh mesh, Site site) {
  Role role;
  role.name = std::move(name);
  role.mesh = std::move(mesh);
  role.site = site;
  return RoleBuilder(*this, append(program_.roles, std::move(role)));
}

uint32_t Builder::channel(const RoleBuilder& from, const RoleBuilder& to, Address address,
                          std::vector<Bytes> key_bytes, std::vector<std::vector<uint32_t>> key_layers) {
  return append(program_.channels,
                Channel{from.index(), to.index(), address, std::move(key_bytes), std::move(key_layers)});
}

uint32_t Builder::store(const RoleBuilder& holder, Store store) {
  store.role = holder.index();
  return append(program_.stores, store);
}

uint32_t Builder::label(std::string_view text) {
  const auto is = [&](uint32_t l) { return l < program_.labels.size() && program_.labels[l] == text; };
  if (is(recent_[0])) return recent_[0];
  std::swap(recent_[0], recent_[1]);
  if (is(recent_[0])) return recent_[0];
  auto known = labels_.find(text);
  if (known == labels_.end()) known = labels_.emplace(text, append(program_.labels, std::string(text))).first;
  return recent_[0] = known->second;
}

void Builder::after_iteration(const RoleBuilder& role, OpId op) { serial_.emplace_back(role.index(), op); }

Program Builder::finish() {
  for (const auto& [role, op] : serial_) {
    // What comes last may not be there in every iteration.
    OpList& list = program_.roles[role].ops;
    int64_t last = -1, always = -1;
    int64_t i = 0;
    for (const Op& o : std::as_const(list)) {
      if (o.lane == Lane::compute) last = i;
      if (o.lane == Lane::compute && o.always()) always = i;
      ++i;
    }
    if (always >= 0) list.depend(op.index, {static_cast<uint32_t>(always), 1});
    if (last > always) list.depend(op.index, {static_cast<uint32_t>(last), 1});
  }
  check(program_);
  return std::move(program_);
}

OpHandle RoleBuilder::add(Op op, std::string_view label) {
  op.label = builder_->label(label);
  OpList& ops = builder_->program_.roles[index_].ops;
  const auto index = static_cast<uint32_t>(ops.size());
  ops.push_back(std::move(op));
  return OpHandle(*builder_, index_, {index});
}

OpHandle RoleBuilder::compute(Task task, std::string_view label) {
  return again(builder_->task(std::move(task)), label);
}

OpHandle RoleBuilder::again(uint32_t task, std::string_view label) {
  Op op;
  op.what = task;
  return add(std::move(op), label);
}

uint32_t RoleBuilder::fold(OpId first) { return builder_->program_.roles[index_].ops.fold(first.index); }

OpId RoleBuilder::call(uint32_t routine, int32_t micro) {
  TANDEM_CHECK(micro >= 0 && micro <= UINT16_MAX);
  return {builder_->program_.roles[index_].ops.call(routine, static_cast<uint16_t>(micro))};
}

OpHandle RoleBuilder::input(CopyKind stage, int64_t samples, Bytes bytes, std::string_view label) {
  TANDEM_CHECK(of_input(stage));
  Op op;
  op.kind = OpKind::copy;
  op.lane = lane_of(stage);
  op.what = append(builder_->program_.copies, Copy{stage, samples});
  op.bytes = bytes;
  return add(std::move(op), label);
}

OpHandle RoleBuilder::copy(CopyKind kind, Bytes bytes, std::string_view label) {
  Op op;
  op.kind = OpKind::copy;
  op.lane = Lane::copy;
  op.what = append(builder_->program_.copies, Copy{kind, 0});
  op.bytes = bytes;
  return add(std::move(op), label);
}

OpHandle RoleBuilder::offload(uint32_t bucket, Bytes bytes, std::string_view label) {
  return copy(CopyKind::device_to_host, bytes, label).on(Lane::offload).of(Payload::gradients, bucket);
}

OpHandle RoleBuilder::reload(uint32_t bucket, Bytes bytes, std::string_view label) {
  return copy(CopyKind::host_to_device, bytes, label).on(Lane::reload).of(Payload::parameters, bucket);
}

OpHandle RoleBuilder::collective(CollKind kind, uint32_t axes, Bytes bytes, std::string algorithm,
                                 std::string_view label) {
  auto& all = builder_->program_.collectives;
  const auto same = std::find_if(all.begin(), all.end(), [&](const Collective& c) {
    return c.kind == kind && c.axes == axes && c.algorithm == algorithm && c.root == 0;
  });
  Op op;
  op.kind = OpKind::collective;
  op.lane = Lane::comm;
  op.what = same != all.end() ? static_cast<uint32_t>(same - all.begin())
                              : append(all, Collective{kind, axes, std::move(algorithm), 0});
  op.bytes = bytes;
  return add(std::move(op), label);
}

OpHandle RoleBuilder::send(uint32_t channel, uint32_t key, Bytes bytes, std::string_view label) {
  Op op;
  op.kind = OpKind::send;
  op.lane = Lane::comm;
  op.what = channel;
  op.key = key;
  op.bytes = bytes;
  return add(std::move(op), label);
}

OpHandle RoleBuilder::recv(uint32_t channel, uint32_t key, std::string_view label) {
  Op op;
  op.kind = OpKind::recv;
  op.lane = Lane::comm;
  op.what = channel;
  op.key = key;
  return add(std::move(op), label);
}

OpHandle RoleBuilder::apply(uint32_t store, std::string_view label) {
  Op op;
  op.kind = OpKind::apply;
  op.what = store;
  return add(std::move(op), label);
}

OpHandle RoleBuilder::gate(uint32_t store, std::string_view label) {
  Op op;
  op.kind = OpKind::gate;
  op.lane = Lane::host;
  op.what = store;
  return add(std::move(op), label);
}

OpHandle RoleBuilder::reply(uint32_t channel, std::string_view label) {
  Op op;
  op.kind = OpKind::send;
  op.lane = Lane::comm;
  op.what = channel;
  return add(std::move(op), label);
}

void RoleBuilder::reserve(std::size_t ops) { builder_->program_.roles[index_].ops.reserve(ops); }

void RoleBuilder::on(uint32_t channel) {
  builder_->program_.roles[index_].on_channel = static_cast<int32_t>(channel);
}

}  // namespace tandem::schemes
