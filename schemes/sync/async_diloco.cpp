// SPDX-License-Identifier: Apache-2.0
// DiLoCo without rounds: a server takes what a worker moved as soon as that worker has trained `every`
// iterations, and answers with the parameters as they are then (Liu et al. 2024, "Asynchronous Local-SGD
// Training for Language Modeling", algorithm 3 with c = 0: momentum is applied once per round of all workers'
// movements, since applied to each stale one it slows learning down). A worker is a device, or a node whose
// devices sum their gradients.
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

constexpr uint32_t kWithinNode = 2;  // bit of the mesh's second axis

/// Devices that train as one.
int64_t devices_of_worker(const Cluster& cluster, const Options& o) {
  if (o.text("worker") == "device") return 1;
  if (worker_mesh(cluster).axes.size() < 2)
    throw InputError("async-diloco: worker=node needs the same number of devices on every node");
  return cluster.per_node;
}

/// The share of the bucket that a device of a worker pushes and pulls.
Bytes share_of(const GradientBucket& bucket, int64_t local) { return {(bucket.bytes.n + local - 1) / local}; }

/// The worker's ops on one bucket after its update, every `every` iterations: the parameters become what they
/// have moved since the last pull, and then what the server answers.
void meet_server(RoleBuilder& w, Training& t, const GradientBucket& bucket, uint32_t push, uint32_t pull,
                 int64_t local, int64_t every, OpId updated) {
  const OpId moved = t.average(bucket, {Averaging::Rule::movement, 0, 0}, updated).every(every);
  w.send(push, bucket.key, share_of(bucket, local), "push the movement of " + bucket.name)
      .of(Payload::parameters, bucket.key)
      .after(moved)
      .every(every);
  const OpId pulled = w.recv(pull, bucket.key, "pull " + bucket.name).on(Lane::host).every(every);
  OpId there = t.average(bucket, {Averaging::Rule::elastic, 0, 1}, pulled).every(every);
  if (local == 1) return;
  there = w.collective(CollKind::all_gather, kWithinNode, bucket.bytes, "auto", "all-gather " + bucket.name)
              .of(Payload::parameters, bucket.key)
              .after(there)
              .every(every);
  t.next_forward_after(bucket, there);
}

Program compile_async_diloco(const Workload& work, const Cluster& cluster, const Options& o) {
  const int64_t local = cluster.devices > 1 ? devices_of_worker(cluster, o) : 1, every = o.count("every");
  const Bytes limit = local > 1 ? o.bytes("bucket") : BucketRule::kEndless;
  if (cluster.devices == 1) return train_alone(work, cluster, {limit, limit});
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  RoleBuilder s = b.role("server", {{{"shard", static_cast<int32_t>(cluster.nodes)}}},
                         o.text("server") == "nodes" ? Site::extra_nodes : Site::hosts);
  Training t(w, work, {limit, limit});
  if (t.buckets().empty()) throw InputError("the model has no parameters to average");
  std::vector<Bytes> keys;
  for (const GradientBucket& bucket : t.buckets()) keys.push_back(share_of(bucket, local));
  const uint32_t push = b.channel(w, s, Address::shards, keys), pull = b.channel(s, w, Address::reply, keys);
  Store rules;
  rules.shares = static_cast<int32_t>(local);
  rules.averaging = {Averaging::Rule::delayed, o.real("outer-rate"),
                     o.text("outer") == "sgd" ? 0 : o.real("outer-momentum")};
  const uint32_t store = b.store(s, rules);
  t.forward();
  std::vector<OpId> sums(t.buckets().size());
  t.backward([&](const GradientBucket& bucket, OpId gradient) {
    if (local > 1)
      sums[bucket.key] =
          w.collective(CollKind::all_reduce, kWithinNode, bucket.bytes, "auto", "all-reduce " + bucket.name)
              .of(Payload::gradients, bucket.key)
              .after(gradient);
  });
  std::vector<OpId> updated;
  for (const GradientBucket& bucket : t.buckets()) updated.push_back(t.update(bucket, sums[bucket.key]));
  for (const GradientBucket& bucket : t.buckets())
    meet_server(w, t, bucket, push, pull, local, every, updated[bucket.key]);
  s.on(push);
  const OpId merged = s.apply(store);
  s.reply(pull).after(merged);
  return b.finish();
}

}  // namespace

void register_async_diloco(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add(
      {"async-diloco",
       "workers train alone; a server makes an outer step of each worker's movement as it arrives",
       {{"every", Type::count, "100", "iterations of local training between two exchanges", "", 1, 65535},
        {"worker", Type::choice, "device",
         "what trains by itself: a device, or all of a node, which sum their gradients", "device|node"},
        {"bucket", Type::bytes, "25MiB", "worker=node: gradients that the devices of a node reduce together"},
        {"outer", Type::choice, "nesterov",
         "the outer optimiser; nesterov applies its momentum once per round of all workers", "sgd|nesterov"},
        {"outer-rate", Type::real, "0.7", "its learning rate, for the movements of all workers", "", 0, 100},
        {"outer-momentum", Type::real, "0.9", "its momentum", "", 0, 1},
        {"server", Type::choice, "cpu", "where the server is: CPUs of the workers' nodes, extra nodes",
         "cpu|nodes"}},
       compile_async_diloco});
}

}  // namespace tandem::schemes
