// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes Programs as straight-line code.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemes/program/program.h"

namespace tandem::schemes {

class Builder;
class RoleBuilder;

/// Index of an op within its role.
struct OpId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
};

/// Fluent handle on the op just added: `.after(x)` adds deps, `.every(k)` thins, `.on(lane)` moves.
/// For one thread at a time.
class OpHandle {
 public:
  OpHandle& after(OpId op);  ///< same iteration; ignored when invalid
  OpHandle& after(const std::vector<OpId>& ops);
  OpHandle& after_last(OpId op, uint16_t lag = 1);  ///< `lag` iterations ago
  OpHandle& every(int64_t k);
  OpHandle& from(int64_t iteration);   ///< not before it
  OpHandle& until(int64_t iteration);  ///< before it alone
  OpHandle& on(Lane lane);
  OpHandle& of(Payload payload, uint32_t key = 0);  ///< what it works on or moves
  OpHandle& micro(int32_t batch);                   ///< the micro-batch that it works for
  operator OpId() const { return id_; }             // NOLINT: reads as the op it is
  OpId id() const { return id_; }

 private:
  friend class RoleBuilder;
  OpHandle(Builder& builder, uint32_t role, OpId id) : builder_(&builder), role_(role), id_(id) {}
  Op& op();
  OpList& list();
  Builder* builder_;
  uint32_t role_;
  OpId id_;
};

/// For one thread at a time.
class Builder {
 public:
  /// Handles on roles and ops hold indices: they may be copied, and live as long as the Builder.
  RoleBuilder role(std::string name, Mesh mesh, Site site = Site::accelerators);
  uint32_t channel(const RoleBuilder& from, const RoleBuilder& to, Address address,
                   std::vector<Bytes> key_bytes, std::vector<std::vector<uint32_t>> key_layers = {});
  /// The next bucket of the flat parameter vector of `role`; returns its key.
  uint32_t bucket(int64_t elements, uint32_t role = 0);
  /// `store.role` is set to the holder.
  uint32_t store(const RoleBuilder& holder, Store store);
  void samples_per_iteration(int64_t samples) { program_.samples_per_iteration = samples; }
  void delay(int64_t iterations) { program_.delay = static_cast<int32_t>(iterations); }
  void micro_batches(int64_t count) { program_.micro_batches = static_cast<int32_t>(count); }
  void shard(Sharding sharding) { program_.sharding = sharding; }
  Program& program() { return program_; }
  const Program& program() const { return program_; }
  /// Index of a new task, for as many ops as do the same.
  uint32_t task(Task task);
  /// `op` waits until the compute lane of its role has done the iteration before, whatever ops that gets.
  void after_iteration(const RoleBuilder& role, OpId op);
  /// Runs check() and gives the Program away.
  Program finish();

 private:
  friend class RoleBuilder;
  friend class OpHandle;
  uint32_t label(std::string_view text);
  Program program_;
  std::map<std::string, uint32_t, std::less<>> labels_;
  uint32_t recent_[2] = {};                        ///< labels asked for last
  std::vector<std::pair<uint32_t, OpId>> serial_;  ///< (role, op): after_iteration()
};

/// Appends ops to one role, in issue order.
/// For one thread at a time.
class RoleBuilder {
 public:
  OpHandle compute(Task task, std::string_view label);    // lane compute
  OpHandle again(uint32_t task, std::string_view label);  // one added before
  /// A stage of input for that many samples, on its own lane; `bytes` is what it leaves.
  OpHandle input(CopyKind stage, int64_t samples, Bytes bytes, std::string_view label);
  OpHandle copy(CopyKind kind, Bytes bytes, std::string_view label);       // lane copy
  OpHandle offload(uint32_t bucket, Bytes bytes, std::string_view label);  // its gradients
  OpHandle reload(uint32_t bucket, Bytes bytes, std::string_view label);   // its parameters
  OpHandle collective(CollKind kind, uint32_t axes, Bytes bytes, std::string algorithm,
                      std::string_view label);                                         // lane comm
  OpHandle send(uint32_t channel, uint32_t key, Bytes bytes, std::string_view label);  // lane comm
  OpHandle recv(uint32_t channel, uint32_t key, std::string_view label);               // lane comm
  OpHandle apply(uint32_t store, std::string_view label = "apply");                    // lane compute
  OpHandle gate(uint32_t store, std::string_view label = "gate");                      // lane host
  OpHandle reply(uint32_t channel,
                 std::string_view label = "reply");  // lane comm; bytes of the message's key
  /// The ops from `first` on become a routine, called once so far (OpList::fold); returns its index.
  uint32_t fold(OpId first);
  /// Its ops once more, for another micro-batch; returns the first. What they wait for outside of the routine
  /// is to be said again.
  OpId call(uint32_t routine, int32_t micro);
  /// This role now runs once per message of `channel`.
  void on(uint32_t channel);
  /// Room for that many ops.
  void reserve(std::size_t ops);
  uint32_t index() const { return index_; }
  Builder& builder() { return *builder_; }
  /// Handle on an op added earlier.
  OpHandle op(OpId id) { return OpHandle(*builder_, index_, id); }

 private:
  friend class Builder;
  friend class OpHandle;
  RoleBuilder(Builder& builder, uint32_t index) : builder_(&builder), index_(index) {}
  OpHandle add(Op op, std::string_view label);
  Builder* builder_;
  uint32_t index_;
};

}  // namespace tandem::schemes
