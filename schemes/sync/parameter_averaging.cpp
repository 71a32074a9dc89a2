// SPDX-License-Identifier: Apache-2.0
// Local training with periodic averaging of the parameters. Two names, one Program: "parameter-averaging" as
// Spark-style systems do it (through a master, each few iterations), "local-sgd" by all-reduce. Either may
// average in the hosts' memory instead.
#include "schemes/step/outer_step.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// A server on each host has a share of the parameters, which it answers with when all workers' have come.
Program on_hosts(const Workload& work, const Cluster& cluster, const Options& o) {
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  RoleBuilder s = b.role("server", {{{"shard", static_cast<int32_t>(cluster.nodes)}}}, Site::hosts);
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  if (t.buckets().empty()) throw InputError("the model has no parameters to average");
  const GradientBucket& bucket = t.buckets().front();
  const bool alone = o.text("state") == "params";
  const Bytes exchanged = bucket.bytes * (alone ? 1 : 1 + work.optimizer->state);
  const uint32_t push = b.channel(w, s, Address::shards, {exchanged}),
                 pull = b.channel(s, w, Address::reply, {exchanged});
  Store rules;
  rules.batch = rules.quorum = static_cast<int32_t>(cluster.devices);
  rules.averaging = {Averaging::Rule::elastic, 1, 0};  // the anchor becomes the mean
  const uint32_t store = b.store(s, rules);
  t.forward();
  t.backward();
  const OpId updated = t.update(bucket);
  w.send(push, 0, exchanged, "push parameters")
      .of(alone ? Payload::parameters : Payload::state, bucket.key)
      .after(updated)
      .every(o.count("every"));
  t.next_forward_after(w.recv(pull, 0, "pull their mean").on(Lane::host).every(o.count("every")));
  s.on(push);
  const OpId merged = s.apply(store);
  const OpId all = s.gate(store).after(merged);
  s.reply(pull).after(all);
  return b.finish();
}

Program compile_parameter_averaging(const Workload& work, const Cluster& cluster, const Options& o) {
  if (several_devices(o, cluster)) {
    if (o.text("through") == "cpu")
      throw InputError(
          "through=cpu averages what single devices hold: workers of several average by all-reduce");
    OuterStep outer{o.count("every")};
    outer.state = o.text("state") != "params";
    outer.algorithm = o.text("through") == "central" ? "central" : "auto";
    return outer_program(work, cluster, o, outer);
  }
  if (cluster.devices > 1 && o.text("through") == "cpu") return on_hosts(work, cluster, o);
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  t.forward();
  t.backward();
  OpId updated;
  for (const GradientBucket& bucket : t.buckets()) updated = t.update(bucket);
  if (cluster.devices > 1) {
    const int64_t tensors = o.text("state") == "params" ? 1 : 1 + work.optimizer->state;
    const std::string algorithm = o.text("through") == "central" ? "central" : "auto";
    const Payload payload = o.text("state") == "params" ? Payload::parameters : Payload::state;
    const OpId averaged = w.collective(CollKind::all_reduce, all_axes(worker_mesh(cluster)),
                                       t.parameter_bytes() * tensors, algorithm, "average parameters")
                              .of(payload)
                              .after(updated)
                              .every(o.count("every"));
    t.next_forward_after(averaged);
  }
  return b.finish();
}

std::vector<OptionSpec> options(std::string_view every, std::string_view through) {
  using Type = OptionSpec::Type;
  return with_workers(
      {{"every", Type::count, every, "iterations of local training between two averages", "", 1, 65535},
       {"state", Type::choice, "params", "what is averaged", "params|params+optimizer"},
       {"through", Type::choice, through,
        "all-reduce among the workers, to one of them and back, or in the hosts' memory",
        "allreduce|central|cpu"}});
}

}  // namespace

void register_parameter_averaging(Registry<Scheme>& registry) {
  registry.add({"parameter-averaging", "workers train alone and average their parameters every k iterations",
                options("1", "central"), compile_parameter_averaging, nullptr, replica_of_hybrid,
                pipeline_of_worker});
  registry.add({"local-sgd", "workers train alone and all-reduce their parameters every k iterations",
                options("8", "allreduce"), compile_parameter_averaging, nullptr, replica_of_hybrid,
                pipeline_of_worker});
}

}  // namespace tandem::schemes
