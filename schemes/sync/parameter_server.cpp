// SPDX-License-Identifier: Apache-2.0
// Parameter server: workers push gradients and pull parameters; the server's rules (batch, quorum, slack)
// make it synchronous, asynchronous or anything between (semantics.md 4).
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "schemes/step/bucket_order.h"
#include "schemes/step/compression.h"
#include "schemes/step/training.h"

namespace tandem::schemes {

namespace {

struct Rules {
  Store store;
  bool gated = false;
};

/// `shares`: devices of a node that push a share of each key, 1 where every device pushes all of it.
Rules rules(const Cluster& cluster, const Options& o, int64_t shares) {
  const int64_t workers = cluster.devices / shares;  // devices, or nodes when these push as one
  const std::string& mode = o.text("mode");
  const auto count = [](int64_t n) { return static_cast<int32_t>(n); };
  Rules r;
  r.store.shares = count(shares);
  r.gated = mode == "sync" || mode == "ssp" || mode == "backup";
  r.store.batch = r.store.quorum = count(1);
  r.store.rate = o.text("rate") == "by-staleness"     ? Store::Rate::staleness
                 : o.text("rate") == "delay-adaptive" ? Store::Rate::delay
                                                      : Store::Rate::fixed;
  if (mode == "sync") r.store.batch = r.store.quorum = count(workers);
  if (mode == "softsync") {
    if (o.count("n") > workers) {
      throw InputError(fmt::format("parameter-server: n={} exceeds the {} workers", o.count("n"), workers));
    }
    r.store.batch = count(workers / o.count("n"));
  }
  if (mode == "ssp") {
    r.store.quorum = count(workers);
    r.store.slack = static_cast<int32_t>(o.count("slack"));
  }
  if (mode == "backup") {
    if (o.count("backup") >= workers) {
      throw InputError(fmt::format("parameter-server: backup={} leaves none of the {} workers",
                                   o.count("backup"), workers));
    }
    r.store.batch = r.store.quorum = count(workers - o.count("backup"));
    r.store.drop_late = true;
  }
  return r;
}

/// Pushes are compressed on their way to servers that lie on hosts; what is pulled is not.
Compression pushed_as(const Options& o) {
  const auto refuse = [&](std::string_view why) {
    throw InputError(fmt::format("parameter-server: compression={} {}", o.text("compression"), why));
  };
  if (o.text("compression") == "powersgd")
    refuse("makes sums over all workers in the middle, which only an all-reduce does: allreduce");
  const Compression rule = read_compression(o);
  if (rule.kind == Compression::Kind::none) return rule;
  if (o.text("push") == "node") refuse("is of what a device pushes: push=device");
  if (o.text("server") == "gpu") refuse("is undone by the server's processors: server=cpu or nodes");
  if (o.text("gradients") != "fp32") refuse("is made of fp32: gradients=fp32");
  return rule;
}

/// Of one parameter on its way back. Servers keep them in fp32; where gradients travel as activations are,
/// so do they.
int64_t pulled_bytes(const Options& o, Precision precision) {
  return o.text("gradients") == "auto" ? element_bytes(precision) : 4;
}

RoleBuilder add_server(Builder& b, const Cluster& cluster, const Options& o, const char* name) {
  const std::string& where = o.text("server");
  const int64_t all = where == "gpu" ? cluster.devices : cluster.nodes;
  const int64_t shards = o.count("shards") > 0 ? o.count("shards") : all;
  if (where == "gpu" && shards > cluster.devices) {
    throw InputError(fmt::format("parameter-server: shards={} on {} devices", shards, cluster.devices));
  }
  const Site site = where == "gpu" ? Site::accelerators : where == "cpu" ? Site::hosts : Site::extra_nodes;
  return b.role(name, {{{"shard", static_cast<int32_t>(shards)}}}, site);
}

/// Which of `servers` has which bucket; empty where each has a part of every one, or one has all.
std::vector<uint32_t> owners_of(const std::vector<GradientBucket>& buckets, const std::string& placement,
                                int64_t servers) {
  if (placement == "spread" || servers == 1) return {};
  std::vector<uint32_t> turns(buckets.size());
  for (std::size_t i = 0; i < turns.size(); ++i) turns[i] = static_cast<uint32_t>(turns.size() - 1 - i);
  if (placement == "largest-first") {
    std::stable_sort(turns.begin(), turns.end(),
                     [&](uint32_t a, uint32_t b) { return buckets[a].bytes > buckets[b].bytes; });
  }
  std::vector<int64_t> bytes(static_cast<std::size_t>(servers));
  std::vector<uint32_t> out(buckets.size());
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const auto least = std::min_element(bytes.begin(), bytes.end()) - bytes.begin();
    const auto server = placement == "round-robin" ? i % bytes.size() : static_cast<std::size_t>(least);
    out[turns[i]] = static_cast<uint32_t>(server);
    bytes[server] += buckets[turns[i]].bytes.n;
  }
  return out;
}

/// One worker's ops. With push=node the gradients are first summed within the node by a reduce-scatter: each
/// device then pushes and pulls its own 1/local of the bucket and an all-gather spreads the result. The wire
/// carries each byte once per node, as when one device speaks for the node, and the devices' paths share it.
class Worker {
 public:
  Worker(RoleBuilder& role, Training& training, int64_t local)
      : w_(role), t_(training), local_(local), pulled_(training.buckets().size()) {}

  /// What the bucket's gradients become on the way to that many servers.
  OpId compress(const GradientBucket& bucket, const Compression& rule, OpId gradient) {
    if (rule.kind == Compression::Kind::none) return gradient;
    return w_
        .compute({bucket.layers.first, bucket.layers.layers, Pass::backward_weights,
                  CompressedBucket(rule, bucket.elements).compress()},
                 "compress " + bucket.name)
        .of(Payload::gradients, bucket.key)
        .after(gradient);
  }

  Bytes share(Bytes whole) const { return {(whole.n + local_ - 1) / local_}; }

  void push(uint32_t channel, const GradientBucket& bucket, Bytes bytes, OpId gradient) {
    if (local_ > 1) {
      gradient = w_.collective(CollKind::reduce_scatter, kLocalAxis, bucket.bytes, "auto",
                               "reduce-scatter " + bucket.name)
                     .of(Payload::gradients, bucket.key)
                     .after(gradient);
    }
    // In-node sums keep the comm lane; pushes then use the host lane, so that both proceed at once.
    w_.send(channel, bucket.key, bytes, "push " + bucket.name)
        .after(gradient)
        .on(local_ > 1 ? Lane::host : Lane::comm);
  }

  /// Two requests: who pushed waits until the servers say so, and asks for parameters then.
  void ask(uint32_t acknowledged, uint32_t channel, const std::vector<uint32_t>& order, Bytes bytes) {
    for (const uint32_t key : order)
      w_.recv(acknowledged, key, "pushed " + t_.buckets()[key].name).on(Lane::host);
    for (const uint32_t key : order)
      w_.send(channel, key, bytes, "ask for " + t_.buckets()[key].name).on(Lane::host);
  }

  /// Not on the lane of pushes: these must not wait for a pull that waits for other workers.
  void pull(uint32_t channel, const GradientBucket& bucket, Lane lane) {
    pulled_[bucket.key] = w_.recv(channel, bucket.key, "pull " + bucket.name).on(lane);
  }

  /// How buckets go to servers and come back.
  struct Exchange {
    uint32_t push, pull;          ///< channels
    std::vector<Bytes> bytes;     ///< [bucket], of a push
    std::vector<uint32_t> order;  ///< of buckets; empty: as they get ready
    Compression rule;
    bool overlap, by_need, whole;
    bool owned = false;                   ///< buckets have owners, who answer in any order
    int64_t acknowledged = -1, ask = -1;  ///< channels of two requests
    Bytes asked = {};                     ///< what a request for parameters takes
    Bytes element = {4};                  ///< of what is pulled
  };
  /// Backward, pushes and pulls.
  void exchange(const Exchange& e) {
    const auto& buckets = t_.buckets();
    BucketOrder turns(e.order, buckets.size());
    std::vector<uint32_t> pushed;  // in their order
    const auto push_made = [&](OpId start) {
      turns.take([&](uint32_t key, OpId gradient) {
        push(e.push, buckets[key], e.bytes[key], start.valid() ? start : gradient);
        pushed.push_back(key);
      });
    };
    OpId last;
    t_.backward([&](const GradientBucket& bucket, OpId gradient) {
      last = compress(bucket, e.rule, gradient);
      turns.made(bucket.key, last);
      if (e.overlap) push_made({});
    });
    push_made(last);
    // Pulls wait for each other: then none that the next forward needs early waits for one that it needs
    // late.
    if (e.owned) std::sort(pushed.begin(), pushed.end(), std::greater<>());
    // Pushes are on the host lane where a node pushes as one: pulls by need must not wait for all of them.
    const Lane lane = e.by_need && local_ > 1 && e.ask < 0 ? Lane::recv : Lane::host;
    if (e.ask >= 0) ask(static_cast<uint32_t>(e.acknowledged), static_cast<uint32_t>(e.ask), pushed, e.asked);
    for (const uint32_t key : pushed) pull(e.pull, buckets[key], lane);
    finish(pushed, e.element, e.whole);
  }

 private:
  /// `whole`: no layer starts before every pull has ended. `order`: in which buckets were pulled.
  void finish(const std::vector<uint32_t>& order, Bytes pulled, bool whole) {
    for (const uint32_t key : order) {
      const GradientBucket& bucket = t_.buckets()[key];
      OpId ready = pulled_[key];
      if (local_ > 1) {
        ready = w_.collective(CollKind::all_gather, kLocalAxis, pulled * bucket.elements, "auto",
                              "all-gather " + bucket.name)
                    .of(Payload::parameters, bucket.key)
                    .after(ready);
      }
      if (whole) {
        t_.next_forward_after(ready);
      } else {
        t_.next_forward_after(bucket, ready);
      }
    }
  }

  static constexpr uint32_t kLocalAxis = 2;  // bit of the mesh's second axis
  RoleBuilder& w_;
  Training& t_;
  int64_t local_;
  std::vector<OpId> pulled_;  ///< [bucket]
};

/// Two requests: the servers' answer to a push is a word, and `reader`, another role, is asked for
/// parameters. Its role.
int32_t add_reader(Builder& b, const RoleBuilder& w, RoleBuilder reader, const std::vector<Bytes>& keys,
                   const std::vector<Bytes>& words, Worker::Exchange& e) {
  const uint32_t ask = b.channel(w, reader, Address::shards, words);
  b.program().channels[ask].owners = b.program().channels[e.push].owners;
  e.acknowledged = std::exchange(e.pull, b.channel(reader, w, Address::reply, keys));
  e.ask = ask;
  e.asked = words.front();
  reader.on(ask);
  reader.reply(e.pull);
  return static_cast<int32_t>(reader.index());
}

/// One synchronous shard on every device: pushing to all shards and pulling from all is an all-reduce in
/// which every pair exchanges its part directly, and no arrival order is left to decide. Said so, it needs no
/// events. Each device updates its part in front of the forward that first uses it, so pulls hide under the
/// forward. `algorithm`: "direct" for shards on the devices, "auto" where a library sums them.
/// Where parameters come back in another format than gradients go, that is a scatter and a gather.
struct OnDevices {
  Bytes pulled;  ///< of one parameter
  const char* algorithm;
  const std::vector<uint32_t>& order;  ///< of buckets, empty where they go as they get ready
};
Program on_devices(const Workload& work, const Cluster& cluster, const BucketRule& rule,
                   const OnDevices& how) {
  Builder b;
  const Mesh mesh = worker_mesh(cluster);
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, rule);
  const auto& buckets = t.buckets();
  std::vector<OpId> updates(buckets.size());
  std::size_t open = buckets.size();  // buckets from here on are updated
  const bool apart = how.pulled.n != rule.element;
  t.forward([&](uint32_t segment) {
    OpId pulled;
    for (; open > 0 && buckets[open - 1].segment == segment; --open) {
      const GradientBucket& bucket = buckets[open - 1];
      const int64_t part = (bucket.elements + cluster.devices - 1) / cluster.devices;
      updates[open - 1] = t.update_shard(bucket, part, "update");
      if (!apart) continue;
      w.op(updates[open - 1]).of(Payload::shard, bucket.key);
      pulled = w.collective(CollKind::all_gather, all_axes(mesh), how.pulled * bucket.elements, how.algorithm,
                            "pull " + bucket.name)
                   .of(Payload::parameters, bucket.key)
                   .after(updates[open - 1]);
    }
    return pulled;
  });
  if (apart) b.shard({1, 1, cluster.devices});
  BucketOrder turns(how.order, buckets.size());
  t.backward([&](const GradientBucket& ready, OpId made) {
    turns.made(ready.key, made);
    turns.take([&](uint32_t key, OpId gradient) {
      const OpId sum = w.collective(apart ? CollKind::reduce_scatter : CollKind::all_reduce, all_axes(mesh),
                                    buckets[key].bytes, how.algorithm,
                                    (apart ? "push " : "push and pull ") + buckets[key].name)
                           .of(Payload::gradients, key)
                           .after(gradient);
      w.op(updates[key]).after_last(sum);
    });
  });
  return b.finish();
}

Program compile_parameter_server(const Workload& work, const Cluster& cluster, const Options& o) {
  const bool by_node = o.text("push") == "node", overlap = o.flag("overlap");
  if (by_node && worker_mesh(cluster).axes.size() != 2) {
    throw InputError(fmt::format(
        "push=node needs the same number of devices on every node; {} devices on {} nodes are not",
        cluster.devices, cluster.nodes));
  }
  // A node's pushes stream through reduce-scatter, wire and all-gather in buckets even when none starts
  // early, and whole buckets have different owners.
  const bool spread = o.text("placement") == "spread", streamed = (by_node && cluster.nodes > 1) || !spread;
  const Bytes limit = overlap || streamed ? o.bytes("bucket") : BucketRule::kEndless;
  const BucketRule rule{limit, limit, gradient_bytes(o, work.precision), 0, o.bytes("partition")};
  const Compression rule_of_pushes = pushed_as(o);
  const bool compresses = rule_of_pushes.kind != Compression::Kind::none;
  const bool by_need = o.flag("priority");
  const std::vector<uint32_t> order = by_need ? work.order : std::vector<uint32_t>{};
  if (cluster.devices == 1) return train_alone(work, cluster, rule);
  const bool everywhere = o.count("shards") == 0 || o.count("shards") == cluster.devices;
  const bool separate = o.text("pull") == "separate";
  const Bytes back{pulled_bytes(o, work.precision)};
  if (o.text("mode") == "sync" && o.text("server") == "gpu" && everywhere && !by_node && !separate &&
      spread) {
    return on_devices(work, cluster, rule, {back, "direct", order});
  }
  // A node's devices that push as one have nobody to push to when they are all there is.
  if (o.text("mode") == "sync" && by_node && cluster.nodes == 1)
    return on_devices(work, cluster, rule, {back, "auto", order});

  const int64_t local = by_node ? cluster.per_node : 1;
  Builder b;
  RoleBuilder w = b.role("worker", worker_mesh(cluster)), s = add_server(b, cluster, o, "server");
  Training t(w, work, rule);
  if (t.buckets().empty()) throw InputError("the model has no parameters to synchronise");
  Worker worker(w, t, local);
  std::vector<Bytes> keys, pushes;
  const int64_t pulled = pulled_bytes(o, work.precision);
  const int64_t shards = b.program().roles[s.index()].mesh.size(), parts = spread ? shards : 1;
  for (const GradientBucket& bucket : t.buckets()) {
    keys.push_back(worker.share(Bytes{pulled} * bucket.elements));
    pushes.push_back(compresses ? Bytes{4} * parts * pushed_words(rule_of_pushes, bucket.elements, parts)
                                : worker.share(bucket.bytes));
  }
  b.program().compression = rule_of_pushes;
  Rules r = rules(cluster, o, local);
  const uint32_t push = b.channel(w, s, Address::shards, pushes);
  b.program().channels[push].owners = owners_of(t.buckets(), o.text("placement"), shards);
  const std::vector<Bytes> words(keys.size(), Bytes{4} * parts);  // of messages that carry nothing else
  const uint32_t answer = b.channel(s, w, Address::reply, separate ? words : keys);
  Worker::Exchange exchange{push,           answer,  pushes,  order,
                            rule_of_pushes, overlap, by_need, o.text("pull") != "layer"};
  exchange.element = Bytes{pulled};
  exchange.owned = !b.program().channels[push].owners.empty();
  if (separate) r.store.reader = add_reader(b, w, add_server(b, cluster, o, "reader"), keys, words, exchange);
  const uint32_t store = b.store(s, r.store);

  t.forward();
  worker.exchange(exchange);

  s.on(push);
  OpId merged = s.apply(store);
  if (r.gated) merged = s.gate(store).after(merged);
  s.reply(answer).after(merged);
  return b.finish();
}

std::string without_gpus(const Options& o, std::string_view device) {
  if (o.text("server") != "gpu") return "";
  return fmt::format("server=gpu keeps the parameters on the devices that train: here {}, no GPU", device);
}

}  // namespace

void register_parameter_server(Registry<Scheme>& registry) {
  using Type = OptionSpec::Type;
  registry.add(
      {"parameter-server",
       "workers push gradients to a server and pull parameters: synchronous, asynchronous or between",
       {{"mode", Type::choice, "sync", "when a pull is answered and what makes a version",
         "sync|async|ssp|softsync|backup"},
        {"server", Type::choice, "cpu",
         "where the parameters live: CPUs of the workers' nodes, the devices, extra nodes", "cpu|gpu|nodes"},
        {"shards", Type::count, "0",
         "servers that share the parameters; 0 = one per node (cpu, nodes) or device (gpu)", "", 0, 100000},
        {"placement", Type::choice, "spread",
         "where a bucket lives: an equal part on every server, or all of it on one: the one with the fewest "
         "bytes so far, largest buckets first or in the order of the layers, or one server after another",
         "spread|largest-first|in-order|round-robin"},
        {"slack", Type::count, "3", "ssp: iterations that the fastest worker may be ahead of the slowest", "",
         0, 1000000},
        {"n", Type::count, "1", "softsync: a version is made of workers/n gradients", "", 1, 100000},
        {"backup", Type::count, "1", "backup: number of slowest gradients that are dropped", "", 1, 100000},
        {"overlap", Type::flag, "on", "push each bucket during backward, pull it under the next forward"},
        {"bucket", Type::bytes, "4MiB",
         "with overlap: gradients pushed together; 0B = every tensor on its own"},
        {"pull", Type::choice, "layer",
         "what a layer's forward waits for: the pull of its own parameters, or every pull; separate: as all, "
         "asked for by a separate request once the servers have answered every push",
         "layer|all|separate"},
        {"compression", Type::choice, "none",
         "pushes are gradients as they are, in 8 bits and a scale, or the largest alone; powersgd is for "
         "allreduce",
         "none|int8|topk|powersgd"},
        kDensityOption,
        {"error-feedback", Type::flag, "on", "int8, topk: what was left out is added to the next gradients"},
        kPartitionOption,
        {"priority", Type::flag, "off", "of what is ready push what the next forward needs first"},
        kCreditOption,
        {"rate", Type::choice, "fixed",
         "learning rate of a stale gradient: as any, divided by its staleness, or less where it is staler "
         "than "
         "there are workers",
         "fixed|by-staleness|delay-adaptive"},
        {"push", Type::choice, "device", "who pushes: every device, or a node's devices as one",
         "device|node"},
        kGradientsOption},
       compile_parameter_server,
       without_gpus});
}

}  // namespace tandem::schemes
