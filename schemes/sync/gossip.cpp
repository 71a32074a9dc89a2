// SPDX-License-Identifier: Apache-2.0
// Workers average their parameters with one other at a time, whatever that one is at (Lian et al. 2018,
// "Asynchronous Decentralized Parallel Stochastic Gradient Descent", algorithm 1: AD-PSGD).
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

/// A worker's model is a store of its own that others reach. A worker sends it to a partner's store, which
/// makes the mean of both and answers with that, while it computes a gradient on a copy.
Program compile_gossip(const Workload& work, const Cluster& cluster, const Options& o) {
  if (cluster.devices == 1) return train_alone(work, cluster, {BucketRule::kEndless, BucketRule::kEndless});
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster));
  RoleBuilder m = b.role("model", {{{"worker", static_cast<int32_t>(cluster.devices)}}});
  Training t(w, work, {BucketRule::kEndless, BucketRule::kEndless});
  if (t.buckets().empty()) throw InputError("the model has no parameters to average");
  const GradientBucket& bucket = t.buckets().front();
  const Address partner = o.text("partner") == "ring" ? Address::next_peer : Address::sampled_peer;
  const uint32_t ask = b.channel(w, m, partner, {bucket.bytes}),
                 answer = b.channel(m, w, Address::reply, {bucket.bytes});
  Store rules;
  rules.averaging = {Averaging::Rule::elastic, 0.5, 0};
  rules.own_models = true;
  const uint32_t store = b.store(m, rules);
  OpId sent;
  const auto send = [&](OpId after) {
    sent = w.send(ask, 0, bucket.bytes, "send model").of(Payload::parameters, bucket.key).after(after);
  };
  const bool overlap = o.flag("overlap");
  if (overlap) send({});
  t.forward();
  t.backward();
  if (!overlap) send(t.last_backward());
  const OpId averaged = w.recv(answer, 0, "average with partner").on(Lane::host);
  const OpId updated = t.update(bucket, averaged);
  w.op(sent).after_last(updated);
  m.on(ask);
  const OpId mean = m.apply(store, "average");
  m.reply(answer).after(mean);
  return b.finish();
}

}  // namespace

void register_gossip(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add({"gossip",
                "workers average their parameters with one other at a time, asynchronously (AD-PSGD)",
                {{"partner", Type::choice, "random",
                  "whom a worker averages with in an iteration: any other, or the "
                  "next one of a ring",
                  "random|ring"},
                 {"overlap", Type::flag, "on", "average while the gradient is computed, or after it"}},
                compile_gossip});
}

}  // namespace tandem::schemes
