// SPDX-License-Identifier: Apache-2.0
// Workers on one host add to one parameter vector without locks (Niu, Recht, Re and Wright 2011, "Hogwild!: A
// Lock-Free Approach to Parallelizing Stochastic Gradient Descent", algorithm 1).
#include <fmt/format.h>

#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// The vector is a store of one shard in the host's memory, where nobody waits for another's merge.
Program compile_hogwild(const Workload& work, const Cluster& cluster, const Options&) {
  if (cluster.nodes > 1) {
    throw InputError(fmt::format("hogwild: workers share the memory of one host; {} devices need {} nodes",
                                 cluster.devices, cluster.nodes));
  }
  const BucketRule rule{BucketRule::kEndless, BucketRule::kEndless};
  if (cluster.devices == 1) return train_alone(work, cluster, rule);
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster)), s = b.role("shared", {{{"host", 1}}}, Site::hosts);
  Training t(w, work, rule);
  if (t.buckets().empty()) throw InputError("the model has no parameters to share");
  const GradientBucket& bucket = t.buckets().front();
  const uint32_t push = b.channel(w, s, Address::shards, {bucket.bytes}),
                 pull = b.channel(s, w, Address::reply, {bucket.bytes});
  Store rules;
  rules.locked = false;
  const uint32_t store = b.store(s, rules);
  t.forward();
  t.backward();
  w.send(push, bucket.key, bucket.bytes, "add to shared").after(t.last_backward());
  t.next_forward_after(w.recv(pull, bucket.key, "read shared").on(Lane::host));
  s.on(push);
  const OpId added = s.apply(store, "add");
  s.reply(pull).after(added);
  return b.finish();
}

}  // namespace

void register_hogwild(Registry<Scheme>& registry) {
  registry.add({"hogwild",
                "workers on one host add to one parameter vector in its memory, without locks",
                {},
                compile_hogwild});
}

}  // namespace tandem::schemes
