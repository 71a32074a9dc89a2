// SPDX-License-Identifier: Apache-2.0
// Krizhevsky 2014 (arXiv 1404.5997): convolutions are data parallel, fully connected layers model parallel.
// Each device keeps 1/n of the columns of every linear layer and works on the samples of all devices, so its
// multiply-adds are those of data parallelism, but instead of the linear layers' gradients (95 % of
// AlexNet's) their activations travel.
#include <fmt/format.h>

#include "schemes/training.h"

namespace tandem::schemes {

namespace {

bool is_linear(const Workload& work, uint32_t layer) {
  const Layer& l = work.graph->layers()[layer];
  return l.type != nullptr && l.type->name == "linear";
}

/// Elements that enter `layer` for one device's batch.
Bytes input_bytes(const Workload& work, uint32_t layer) {
  const auto& layers = work.graph->layers();
  const int64_t count =
      checked_mul(elements(layers[layers[layer].inputs[0]].output), work.batch, "the activations");
  return Bytes{element_bytes(work.precision)} * count;
}

Program compile_one_weird_trick(const Workload& work, const Cluster& cluster, const Options& o) {
  const Mesh mesh = worker_mesh(cluster);
  const bool parallel = cluster.devices > 1;
  const std::string& algorithm = o.text("algorithm");
  Builder b;
  RoleBuilder w = b.role("worker", mesh);
  Training t(w, work, {Bytes{}, Bytes{}, gradient_bytes(o, work.precision)});
  // Both travel for all devices' samples: every device gathers what the others computed.
  const auto exchange = [&](CollKind kind, uint32_t layer, std::string_view label) {
    return w.collective(kind, all_axes(mesh), input_bytes(work, layer) * cluster.devices, algorithm, label)
        .of(Payload::activations);
  };
  t.forward([&](uint32_t index) {
    const Segment& segment = t.segments()[index];
    for (uint32_t layer = segment.layer; parallel && layer < segment.layer + segment.layers; ++layer) {
      if (!is_linear(work, layer)) continue;
      OpHandle gather = exchange(CollKind::all_gather, layer, "gather input of " + segment.name);
      if (gather.id().index > 0) gather.after(OpId{gather.id().index - 1});
      return gather.id();  // one exchange a segment, also where long models merge several layers into one
    }
    return OpId{};
  });
  // The next compute op must wait for an exchange; it is not written yet when the exchange is.
  std::vector<OpId> waits;
  std::vector<OpId> reduced(t.buckets().size());
  std::size_t i = 0;
  t.backward([&](const GradientBucket& bucket, OpId gradient) {
    if (!parallel) return;
    if (!is_linear(work, bucket.layer)) {
      reduced[i] = w.collective(CollKind::all_reduce, all_axes(mesh), bucket.bytes, algorithm,
                                "all-reduce " + bucket.name)
                       .of(Payload::gradients, bucket.key)
                       .after(gradient);
    } else if (bucket.elements > 1 &&
               (i + 1 == t.buckets().size() || t.buckets()[i + 1].segment != bucket.segment)) {
      waits.push_back(
          exchange(CollKind::reduce_scatter, bucket.layer, "scatter input gradient of " + bucket.name)
              .after(gradient));
    }
    ++i;
  });
  auto& ops = b.program().roles[w.index()].ops;
  for (const OpId wait : waits) {
    for (uint32_t next = wait.index + 1; next < ops.size(); ++next) {
      if (ops[next].kind != OpKind::compute) continue;
      ops[next].deps.push_back({wait.index, 0});
      break;
    }
  }
  for (std::size_t k = 0; k < t.buckets().size(); ++k) {
    const GradientBucket& bucket = t.buckets()[k];
    if (parallel && is_linear(work, bucket.layer)) {
      const int64_t part = (bucket.elements + cluster.devices - 1) / cluster.devices;
      t.update_shard(bucket, part, "update part of");
    } else {
      t.update(bucket).after(reduced[k]);
    }
  }
  return b.finish();
}

}  // namespace

void register_one_weird_trick(Registry<Scheme>& registry) {
  registry.add(
      {"one-weird-trick",
       "convolutions data parallel, linear layers split over the devices (Krizhevsky 2014)",
       {{"algorithm", OptionSpec::Type::choice, "auto", "how each exchange is made", "auto|ring|direct"},
        kGradientsOption},
       compile_one_weird_trick,
       "linear layers split over the devices are only simulated"});
}

}  // namespace tandem::schemes
