// SPDX-License-Identifier: Apache-2.0
#include "sim/bind/side_by_side.h"

#include <fmt/format.h>

#include <map>

namespace tandem::sim {

namespace {

/// Where a job's things begin in the lists of all jobs.
struct Offsets {
  uint32_t roles = 0, tasks = 0, copies = 0, collectives = 0, channels = 0, stores = 0, labels = 0;
  int32_t transfers = 0;
  std::vector<uint32_t> resource;  ///< [of the job]: of all
};

class JointMessages : public BoundProgram::Messages {
 public:
  void add(std::shared_ptr<Messages> messages, Offsets offsets) {
    jobs_.push_back({std::move(messages), std::move(offsets)});
  }
  const Transfer& message(uint32_t channel, uint32_t key, uint32_t sender, uint32_t receiver) override {
    const Job& job = job_of(channel, &Offsets::channels);
    message_ = job.messages->message(channel - job.at.channels, key, sender, receiver);
    for (Use& use : message_.uses) use.link = job.at.resource[use.link];
    return message_;
  }
  Time apply(uint32_t store, uint32_t key, uint32_t shard) override {
    const Job& job = job_of(store, &Offsets::stores);
    return job.messages->apply(store - job.at.stores, key, shard);
  }
  Time snapshot(uint32_t store, uint32_t key, uint32_t shard) override {
    const Job& job = job_of(store, &Offsets::stores);
    return job.messages->snapshot(store - job.at.stores, key, shard);
  }

 private:
  struct Job {
    std::shared_ptr<Messages> messages;  ///< of a job that has channels
    Offsets at;
  };
  const Job& job_of(uint32_t index, uint32_t Offsets::*first) const {
    std::size_t j = jobs_.size() - 1;
    while (jobs_[j].at.*first > index) --j;
    return jobs_[j];
  }
  std::vector<Job> jobs_;
  Transfer message_;
};

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

class Joiner {
 public:
  void add(const BoundProgram& plan) {
    const Program& p = *plan.program;
    Offsets at = number(plan);
    append(program_.tasks, p.tasks);
    append(program_.copies, p.copies);
    append(program_.collectives, p.collectives);
    append(program_.labels, p.labels);
    for (Channel c : p.channels) {
      c.from_role += at.roles;
      c.to_role += at.roles;
      program_.channels.push_back(std::move(c));
    }
    for (Store s : p.stores) {
      s.role += at.roles;
      if (s.reader >= 0) s.reader += static_cast<int32_t>(at.roles);
      program_.stores.push_back(s);
    }
    for (const Role& role : p.roles) program_.roles.push_back(moved(role, at));
    for (RoleCosts costs : plan.roles) {
      for (auto& list : costs.transfer) {
        for (int32_t& t : list) t += t < 0 ? 0 : at.transfers;
      }
      plan_.roles.push_back(std::move(costs));
    }
    for (Transfer t : plan.transfers) {
      for (Use& u : t.uses) u.link = at.resource[u.link];
      for (Use& u : t.resolved) u.link = at.resource[u.link];
      plan_.transfers.push_back(std::move(t));
    }
    if (plan.messages) {
      if (!messages_) messages_ = std::make_shared<JointMessages>();
      messages_->add(plan.messages, std::move(at));
    }
    ++jobs_;
  }

  BoundProgram finish(const BoundProgram& main) {
    program_.buckets = main.program->buckets;  // executors alone read them
    program_.samples_per_iteration = main.program->samples_per_iteration;
    program_.micro_batches = main.program->micro_batches;
    plan_.program = std::make_shared<const Program>(std::move(program_));
    plan_.name_link = [names = std::move(names_)](uint32_t l) { return names.at(l); };
    plan_.messages = messages_;
    plan_.disturbance = main.disturbance;
    plan_.seed = main.seed;
    plan_.measured_roles = static_cast<uint32_t>(main.roles.size());
    return std::move(plan_);
  }

 private:
  Offsets number(const BoundProgram& plan) {
    const auto count = [](const auto& list) { return static_cast<uint32_t>(list.size()); };
    Offsets at{count(program_.roles),
               count(program_.tasks),
               count(program_.copies),
               count(program_.collectives),
               count(program_.channels),
               count(program_.stores),
               count(program_.labels),
               0,
               {}};
    at.transfers = static_cast<int32_t>(plan_.transfers.size());
    for (uint32_t l = 0; l < plan.capacity.size(); ++l) {
      const std::string name = plan.link_name(l);
      const auto [known, fresh] = resources_.emplace(name, static_cast<uint32_t>(plan_.capacity.size()));
      if (fresh) {
        plan_.capacity.push_back(plan.capacity[l]);
        names_.push_back(name);
      }
      at.resource.push_back(known->second);
    }
    return at;
  }

  Role moved(Role role, const Offsets& at) const {
    if (jobs_ > 0) role.name = fmt::format("beside{} {}", jobs_, role.name);
    if (role.on_channel >= 0) role.on_channel += static_cast<int32_t>(at.channels);
    for (Op& op : role.ops) {
      op.label += at.labels;
      switch (op.kind) {
        case OpKind::compute:
          op.what += at.tasks;
          break;
        case OpKind::copy:
          op.what += at.copies;
          break;
        case OpKind::collective:
          op.what += at.collectives;
          break;
        case OpKind::send:
        case OpKind::recv:
          op.what += at.channels;
          break;
        case OpKind::apply:
        case OpKind::gate:
          op.what += at.stores;
          break;
      }
    }
    return role;
  }

  Program program_;
  BoundProgram plan_;
  std::shared_ptr<JointMessages> messages_;
  std::map<std::string, uint32_t> resources_;
  std::vector<std::string> names_;
  int jobs_ = 0;
};

}  // namespace

BoundProgram side_by_side(const BoundProgram& main, const std::vector<BoundProgram>& others) {
  Joiner joiner;
  joiner.add(main);
  for (const BoundProgram& other : others) joiner.add(other);
  return joiner.finish(main);
}

}  // namespace tandem::sim
