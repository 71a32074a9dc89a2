// SPDX-License-Identifier: Apache-2.0
#include "sim/bind/bound_messages.h"

namespace tandem::sim {

namespace {

class BoundMessages : public Plan::Messages {
 public:
  BoundMessages(std::shared_ptr<const Program> program, std::shared_ptr<Costs> costs,
                std::vector<std::vector<VertexId>> where)
      : program_(std::move(program)), costs_(std::move(costs)), where_(std::move(where)) {}

  const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) override {
    const Channel& c = program_->channels[channel];
    return costs_->message(c, where_[c.from_role][sender], where_[c.to_role][receiver], payload(c, key));
  }

  Time apply(uint32_t store, uint32_t key, uint32_t shard) override {
    const Store& s = program_->stores[store];
    return costs_->merge(s, where_[s.role][shard], merged_bytes(s, key));
  }

 private:
  /// A channel's payload is split over the shards on the side that has several.
  Bytes payload(const Channel& c, uint32_t key) const {
    int64_t shards = 1;
    if (c.address == Address::shards) shards = static_cast<int64_t>(where_[c.to_role].size());
    if (c.address == Address::reply) {
      const auto asked = static_cast<std::size_t>(program_->roles[c.from_role].on_channel);
      if (program_->channels[asked].address == Address::shards)
        shards = static_cast<int64_t>(where_[c.from_role].size());
    }
    return {(c.key_bytes[key].n + shards - 1) / shards};
  }

  /// A push may be compressed; its answer is as long as what is merged.
  Bytes merged_bytes(const Store& s, uint32_t key) const {
    for (const Channel& c : program_->channels) {
      if (c.from_role == s.role && key < c.key_bytes.size()) return payload(c, key);
    }
    return {};
  }

  std::shared_ptr<const Program> program_;
  std::shared_ptr<Costs> costs_;
  std::vector<std::vector<VertexId>> where_;
};

}  // namespace

std::shared_ptr<Plan::Messages> bound_messages(std::shared_ptr<const Program> program,
                                               std::shared_ptr<Costs> costs,
                                               std::vector<std::vector<VertexId>> where) {
  return std::make_shared<BoundMessages>(std::move(program), std::move(costs), std::move(where));
}

}  // namespace tandem::sim
