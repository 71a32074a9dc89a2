// SPDX-License-Identifier: Apache-2.0
// Workers explore by themselves, tied to a common centre by an elastic force (Zhang, Choromanska and LeCun
// 2015, "Deep learning with Elastic Averaging SGD"): by all-reduce (equations 5 and 6), or each by itself
// with a server that holds the centre (algorithm 1).
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// Every worker has a copy of the centre; the mean of the parameters is separate.
Program synchronous(const Workload& work, const Cluster& cluster, const Options& o, double alpha) {
  Builder b;
  const Mesh mesh = worker_mesh(cluster);
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  t.forward();
  t.backward();
  for (const GradientBucket& bucket : t.buckets()) {
    const OpId updated = t.update(bucket);
    const OpId mean =
        w.collective(CollKind::all_reduce, all_axes(mesh), bucket.bytes, "auto", "mean of parameters")
            .of(Payload::mean, bucket.key)
            .after(updated)
            .every(o.count("every"));
    t.average(bucket, {Averaging::Rule::elastic, o.real("rate"), alpha}, mean).every(o.count("every"));
  }
  return b.finish();
}

/// The server moves the centre c by alpha (x - c) and answers with what it is then, c'. Since x - c' is
/// (1 - alpha) (x - c), the worker moves by alpha / (1 - alpha) of that, which is what the server moved.
Program asynchronous(const Workload& work, const Cluster& cluster, const Options& o, double alpha) {
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  const bool apart = o.text("server") == "nodes";
  RoleBuilder s = b.role("server", {{{"shard", static_cast<int32_t>(cluster.nodes)}}},
                         apart ? Site::extra_nodes : Site::hosts);
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  if (t.buckets().empty()) throw InputError("the model has no parameters to average");
  const GradientBucket& bucket = t.buckets().front();
  const uint32_t push = b.channel(w, s, Address::shards, {bucket.bytes}),
                 pull = b.channel(s, w, Address::reply, {bucket.bytes});
  Store rules;
  rules.averaging = {Averaging::Rule::elastic, alpha, 0};
  const uint32_t store = b.store(s, rules);
  t.forward();
  t.backward();
  const OpId updated = t.update(bucket);
  w.send(push, 0, bucket.bytes, "push parameters")
      .of(Payload::parameters, bucket.key)
      .after(updated)
      .every(o.count("every"));
  const OpId centre = w.recv(pull, 0, "pull the centre").on(Lane::host).every(o.count("every"));
  t.average(bucket, {Averaging::Rule::elastic, 0, alpha / (1 - alpha)}, centre).every(o.count("every"));
  s.on(push);
  const OpId moved = s.apply(store);
  s.reply(pull).after(moved);
  return b.finish();
}

Program compile_elastic_averaging(const Workload& work, const Cluster& cluster, const Options& o) {
  if (cluster.devices == 1) return train_alone(work, cluster, {BucketRule::kEndless, BucketRule::kEndless});
  const double alpha = o.real("rate") / static_cast<double>(cluster.devices);
  return o.text("mode") == "async" ? asynchronous(work, cluster, o, alpha)
                                   : synchronous(work, cluster, o, alpha);
}

}  // namespace

void register_elastic_averaging(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add(
      {"elastic-averaging",
       "workers train alone, drawn to a common centre that is drawn to them (EASGD)",
       {{"mode", Type::choice, "sync", "all at once by all-reduce, or each by itself with a server",
         "sync|async"},
        {"every", Type::count, "10", "iterations between two exchanges", "", 1, 65535},
        {"rate", Type::real, "0.9", "the centre's moving rate beta; a worker's is beta / workers", "", 0, 1},
        {"server", Type::choice, "cpu", "async: where the centre is: CPUs of the workers' nodes, extra nodes",
         "cpu|nodes"}},
       compile_elastic_averaging});
}

}  // namespace tandem::schemes
